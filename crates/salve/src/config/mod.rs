//! Settings: files, environment and flags, read into one validated value.
