//! The one way in which Salve reads the files of a project and writes below `.salve`.
//!
//! A project's files are written by people, by package managers and by agents that may be confused
//! or hijacked. What is read here is a regular file, opened without waiting and up to a size that
//! fits its kind; what is written below `.salve` is reached by directory handles, part by part.
//!
//! **Invariant:** below `.salve` no link is followed at any depth, neither for reading nor for
//! writing, and nothing is written through a hard link.

/// The name of the directory in which a project's Salve keeps what it needs.
pub(crate) const STATE_DIR: &str = ".salve";

mod place;
mod read;
mod write;
mod yaml;

pub use place::is_own;
pub(crate) use place::{Parent, sync};
pub use read::{
    FileError, FileKind, Links, open_regular, read_bytes, read_bytes_where, read_start, read_text,
    read_text_where,
};
pub use write::{list, make_directories, open_lock, open_to_append, remove, remove_tree, rename};
pub use yaml::{YamlError, parse_yaml};

#[cfg(test)]
mod tests;
