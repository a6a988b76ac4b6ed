//! Remedies that are known for a fingerprint, and how far to trust them.
