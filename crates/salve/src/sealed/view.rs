//! The two things that following a path asks of a tree.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands at a path, links not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// Nothing, or nothing that can be looked at.
    Nothing,
    /// A directory.
    Directory,
    /// A link, and where it leads.
    Link(PathBuf),
    /// A file, or something else that leads nowhere.
    File,
}

/// A tree in which paths are followed: files as they are, or as git keeps them.
pub trait TreeView {
    /// Returns what stands at an absolute path.
    fn entry(&self, path: &Path) -> TreeEntry;
    /// Returns the names in a directory; none if it is none.
    fn names(&self, dir: &Path) -> Vec<(OsString, TreeEntry)>;
}

/// The files as they are.
#[derive(Clone, Copy, Debug)]
pub struct FilesView;

impl TreeView for FilesView {
    fn entry(&self, path: &Path) -> TreeEntry {
        let Ok(meta) = path.symlink_metadata() else { return TreeEntry::Nothing };
        of_kind(meta.file_type(), path)
    }

    fn names(&self, dir: &Path) -> Vec<(OsString, TreeEntry)> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let named = |entry: fs::DirEntry| {
            let kind = of_kind(entry.file_type().ok()?, &entry.path());
            Some((entry.file_name(), kind))
        };
        entries.filter_map(named).collect()
    }
}

fn of_kind(kind: fs::FileType, path: &Path) -> TreeEntry {
    if kind.is_dir() {
        TreeEntry::Directory
    } else if kind.is_symlink() {
        fs::read_link(path).map_or(TreeEntry::Nothing, TreeEntry::Link)
    } else {
        TreeEntry::File
    }
}
