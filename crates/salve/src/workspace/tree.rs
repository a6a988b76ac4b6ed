//! What is in a working tree: files by path, with the directories that would else be forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use salve_core::event::Digest;
use serde::{Deserialize, Serialize};

use super::oid::Oid;
use super::packages::Packages;

/// A path below the project's root, never empty, never leaving it.
pub(super) type Rel = OsString;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Executable,
    Link,
}

impl Kind {
    /// Returns the mode that git writes for it.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::Plain => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }

    /// Reads git's mode back.
    pub(super) fn of_mode(mode: &[u8]) -> Option<Self> {
        match mode {
            b"100644" => Some(Self::Plain),
            b"100755" => Some(Self::Executable),
            b"120000" => Some(Self::Link),
            _ => None,
        }
    }

    /// Returns what a file with these permissions is.
    pub(super) fn of_permissions(permissions: u16) -> Self {
        if permissions & 0o100 == 0 { Self::Plain } else { Self::Executable }
    }
}

/// One file or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeItem {
    pub(super) kind: Kind,
    /// The permission bits; of no meaning, and 0, for a link.
    pub(super) permissions: u16,
    pub(super) oid: Oid,
}

/// Why a file's content is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is larger than the limit for one file.
    TooLarge,
    /// Together with the others it is larger than the limit for one snapshot.
    TooMuch,
    /// It cannot be read.
    Unreadable,
    /// Git ignores it, and a tool or program makes it.
    Derived,
}

/// What is known about a file whose content is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) why: Why,
    pub(super) size: u64,
    /// When it was last written, in nanoseconds.
    pub(super) written: i128,
}

/// All that is in a working tree, but for what git ignores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkingTree {
    pub(super) items: BTreeMap<Rel, TreeItem>,
    /// Every directory that was walked.
    pub(super) dirs: BTreeSet<Rel>,
    /// What git ignored, each directory for all that is in it.
    pub(super) hidden: BTreeSet<Rel>,
    pub(super) gaps: BTreeMap<Rel, Gap>,
    /// The state of the installed packages, which are not kept.
    pub(super) packages: Packages,
}

impl WorkingTree {
    /// Returns the hash of all content: the same files with the same content have the same hash.
    pub(super) fn digest(&self) -> Digest {
        let mut flat = Vec::with_capacity(self.items.len() * 64);
        let mut part = |bytes: &[u8]| {
            flat.extend((bytes.len() as u64).to_le_bytes());
            flat.extend(bytes);
        };
        for (path, item) in &self.items {
            part(path.as_bytes());
            part(item.kind.mode().as_bytes());
            part(item.oid.as_bytes());
        }
        for (path, gap) in &self.gaps {
            part(path.as_bytes());
            part(&gap.size.to_le_bytes());
            part(&gap.written.to_le_bytes());
        }
        Digest::of(&[b"tree", &flat])
    }

    /// Returns whether `path`, or a directory it is in, was ignored.
    pub(super) fn hides(&self, path: &OsStr) -> bool {
        Path::new(path).ancestors().any(|part| self.hidden.contains(part.as_os_str()))
    }

    /// Returns the paths that are not the same in both.
    pub(super) fn differing(&self, other: &Self) -> BTreeSet<Rel> {
        let paths = self.items.keys().chain(other.items.keys());
        let gaps = self.gaps.keys().chain(other.gaps.keys());
        let differs = |path: &&Rel| {
            self.items.get(*path) != other.items.get(*path)
                || self.gaps.get(*path) != other.gaps.get(*path)
        };
        paths.chain(gaps).filter(differs).cloned().collect()
    }

    /// Returns the directories that no file's path tells of.
    pub(super) fn empty_dirs(&self) -> impl Iterator<Item = &Rel> {
        let told: BTreeSet<&OsStr> = self
            .items
            .keys()
            .chain(&self.dirs)
            .flat_map(|path| Path::new(path).ancestors().skip(1).map(Path::as_os_str))
            .collect();
        self.dirs.iter().filter(move |dir| !told.contains(dir.as_os_str()))
    }

    /// Adds the directories that the files' paths tell of.
    pub(super) fn add_parents(&mut self) {
        let parents = |path: &Rel| -> Vec<Rel> {
            let above = Path::new(path).ancestors().skip(1).map(|dir| dir.as_os_str().to_owned());
            above.filter(|dir| !dir.is_empty()).collect()
        };
        let told: Vec<Rel> = self.items.keys().chain(&self.dirs).flat_map(parents).collect();
        self.dirs.extend(told);
    }
}

/// Shows a path to people.
pub(super) fn show(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}
