//! What lies in a layer: files that were written, and marks for what was taken away.
//!
//! The kernel marks a removed name by a device of number 0, and a directory that hides what lies below
//! it by an attribute. Directories are not renamed in such an overlay (the kernel refuses, and programs
//! copy), so nothing else has to be understood.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions, ReadDir};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::LayerGround;
use crate::workspace::tree::{Rel, WorkingTree};

/// The attribute of a directory that hides what lies below it.
const OPAQUE: &str = "user.overlay.opaque";

/// The permissions of a directory that had been closed.
const OPENED: u32 = 0o755;

/// What was done in a layer, each path once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpperContent {
    /// Files and links that are there, whether or not they differ from what was there before.
    pub(super) written: BTreeSet<Rel>,
    /// Directories that are there.
    pub(super) dirs: BTreeSet<Rel>,
    /// Names that were taken away, each for all below it.
    pub(super) gone: BTreeSet<Rel>,
    /// Directories that hide all that was in them.
    pub(super) opaque: BTreeSet<Rel>,
    /// Pipes, sockets and devices, which no change can carry.
    pub(super) special: BTreeSet<Rel>,
}

/// Lists a directory, which its maker may have closed.
fn entries(dir: &Path) -> io::Result<ReadDir> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(dir, Permissions::from_mode(OPENED))?;
            fs::read_dir(dir)
        }
        other => other,
    }
}

/// Opens the directories among paths below `root` that could not be read; tells whether there were any.
pub(super) fn open_closed<'p>(root: &Path, unread: impl Iterator<Item = &'p Rel>) -> bool {
    let open = |path: &Rel| {
        let full = root.join(path);
        let is_dir = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir());
        is_dir && fs::set_permissions(full, Permissions::from_mode(OPENED)).is_ok()
    };
    unread.filter(|path| open(path)).count() > 0
}

impl UpperContent {
    /// Looks at an upper directory.
    pub(super) fn of_upper(upper: &Path) -> io::Result<Self> {
        let mut content = Self::default();
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            for entry in entries(&upper.join(&dir))? {
                let entry = entry?;
                let path = dir.join(entry.file_name());
                content.take(upper, &path, &entry.metadata()?);
                if content.dirs.contains(path.as_os_str()) {
                    todo.push(path);
                }
            }
        }
        Ok(content)
    }

    fn take(&mut self, upper: &Path, path: &Path, meta: &Metadata) {
        let name = path.as_os_str().to_owned();
        if meta.is_dir() {
            let mut value = [0; 4];
            let full = upper.join(path);
            if rustix::fs::lgetxattr(full, OPAQUE, &mut value[..]).is_ok_and(|len| len > 0) {
                self.opaque.insert(name.clone());
            }
            self.dirs.insert(name);
        } else if meta.is_file() || meta.is_symlink() {
            self.written.insert(name);
        } else if meta.file_type().is_char_device() && meta.rdev() == 0 {
            self.gone.insert(name);
        } else {
            self.special.insert(name);
        }
    }

    /// Compares a copy with what was in it at first.
    pub(super) fn of_copy(first: &WorkingTree, now: &WorkingTree) -> Self {
        let mut content = Self::default();
        for path in first.differing(now) {
            let is_there = now.items.contains_key(&path) || now.gaps.contains_key(&path);
            if is_there {
                content.written.insert(path)
            } else {
                content.gone.insert(path)
            };
        }
        content.dirs = now.dirs.difference(&first.dirs).cloned().collect();
        content.gone.extend(first.dirs.difference(&now.dirs).cloned());
        content
    }

    /// Returns every path that something was done to.
    pub(super) fn touched(&self) -> impl Iterator<Item = &Rel> {
        self.written.iter().chain(&self.gone).chain(&self.special)
    }

    /// Returns whether a path that was there before is there no more.
    pub(super) fn takes_away(&self, path: &OsStr) -> bool {
        let above = || Path::new(path).ancestors().skip(1).map(Path::as_os_str);
        let is_hidden = || {
            let is_there = self.written.contains(path) || self.dirs.contains(path);
            !is_there && above().any(|dir| self.opaque.contains(dir))
        };
        // A file took the place of a directory above it, or a directory its own place.
        let is_replaced =
            || above().any(|dir| self.written.contains(dir)) || self.dirs.contains(path);
        self.gone.contains(path)
            || above().any(|dir| self.gone.contains(dir))
            || is_replaced()
            || is_hidden()
    }

    /// Returns where the files that were written lie.
    pub(super) fn place(ground: &LayerGround) -> &Path {
        match ground {
            LayerGround::Overlay { upper, .. } => upper,
            LayerGround::Copy { shadow, .. } => shadow.root(),
        }
    }
}
