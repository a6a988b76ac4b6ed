//! The tables of known failures as they are written, and the index that finds their rows.
//!
//! This folder is compiled twice: into the crate, and into its build script, which parses the
//! built-in tables (see `tables.rs`), refuses a row that makes no sense, and writes the rows and
//! their index into the program. A process that starts therefore parses nothing and builds
//! nothing; a row is compiled when a line may match it. Nothing here knows the rest of the
//! fingerprint.

pub(crate) mod classes;
pub(crate) mod flat;
pub(crate) mod grams;
pub(crate) mod index;
pub(crate) mod kept;
pub(crate) mod pattern;
pub(crate) mod row;
pub(crate) mod vocabulary;
