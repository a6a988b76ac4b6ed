//! The most similar known failures, when no signature is equal.
