//! The project's database: the journal and the memory.
