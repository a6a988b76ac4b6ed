//! One illness of one subject, from the first symptom to its outcome.
