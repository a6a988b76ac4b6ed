//! Resolves what the gate needs to know from the file system.
