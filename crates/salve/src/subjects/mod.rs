//! What is under care. Subjects do not know one another.

pub mod server;
