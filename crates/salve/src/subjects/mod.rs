//! What is under care. Subjects do not know one another.

pub mod check;
pub mod iteration;
pub mod job;
pub mod server;
pub mod tool;
