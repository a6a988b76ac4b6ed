//! Private directories that go with their makers.
//!
//! Beside each directory `<id>` lies `<id>.lock`, which its maker holds locked while it lives; the
//! system lets go of it however the maker ends. Whoever can lock such a file removes the directory.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use super::error::WorkspaceError;
use crate::files;

/// A private directory that lasts as long as this value.
#[derive(Debug)]
pub(super) struct ScratchDir {
    dir: PathBuf,
    lock: PathBuf,
    /// Locked; closing it, by whatever end, lets others remove the directory.
    _held: File,
}

impl ScratchDir {
    /// Makes a directory in `base`, and removes what makers that are gone left there.
    pub(super) fn make(base: &Path) -> Result<Self, WorkspaceError> {
        let lair = Self::claim(base)?;
        drop(Self::left(base));
        Ok(lair)
    }

    /// Makes a directory in `base`.
    pub(super) fn claim(base: &Path) -> Result<Self, WorkspaceError> {
        let io = || WorkspaceError::io(base);
        DirBuilder::new().recursive(true).mode(0o700).create(base).map_err(io())?;
        let meta = fs::symlink_metadata(base).map_err(io())?;
        if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(io()(io::ErrorKind::PermissionDenied.into()));
        }
        loop {
            let id = Uuid::now_v7().to_string();
            let lock = base.join(format!("{id}.lock"));
            let held = File::create_new(&lock).map_err(io())?;
            flock(&held, FlockOperation::LockExclusive).map_err(|error| io()(error.into()))?;
            // Somebody may have swept it away before it was locked.
            if held.metadata().map_err(io())?.nlink() == 0 {
                continue;
            }
            let dir = base.join(id);
            DirBuilder::new().mode(0o700).create(&dir).map_err(io())?;
            return Ok(Self { dir, lock, _held: held });
        }
    }

    /// Takes over the directories of makers that are gone.
    pub(super) fn left(base: &Path) -> Vec<Self> {
        // A link below `.salve` leads to directories that nobody here made.
        let locks = files::list(base).unwrap_or_default().into_iter();
        let take = |lock: PathBuf| {
            let held = File::open(&lock).ok()?;
            flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
            let dir = lock.with_extension("");
            Some(Self { dir, lock, _held: held })
        };
        locks
            .filter(|path| path.extension().is_some_and(|end| end == "lock"))
            .filter_map(take)
            .collect()
    }

    /// Returns the directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next.
        if remove(&self.dir).is_ok() {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Removes a directory with all in it, also where its owner may not write; links are not followed.
fn remove(dir: &Path) -> io::Result<()> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match files::remove_tree(dir) {
        Err(error) if gone(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir);
            files::remove_tree(dir)
        }
        other => other,
    }
}

fn open_up(dir: &Path) {
    // What cannot be opened up is told by the removal that follows.
    let _ = fs::set_permissions(dir, Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_maker_that_is_gone_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("shadows");
        let mine = ScratchDir::make(&base).unwrap();
        assert_eq!(mine.dir().metadata().unwrap().mode() & 0o777, 0o700);
        let left = base.join("left");
        fs::create_dir_all(left.join("closed/inner")).unwrap();
        fs::set_permissions(left.join("closed"), Permissions::from_mode(0o500)).unwrap();
        fs::write(base.join("left.lock"), "").unwrap();
        fs::create_dir(base.join("a strangers")).unwrap();
        let second = ScratchDir::make(&base).unwrap();
        assert!(!left.exists() && !base.join("left.lock").exists());
        assert!(mine.dir().exists() && base.join("a strangers").exists());
        drop((mine, second));
        let names = fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["a strangers"]);
    }
}
