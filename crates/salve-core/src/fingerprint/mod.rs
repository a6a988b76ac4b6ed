//! A failure's identity: normalised text, signature and class.
