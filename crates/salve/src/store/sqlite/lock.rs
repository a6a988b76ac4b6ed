//! The lock beside the database, which also rings when something was written.
//!
//! Whoever writes holds it shared; whoever makes, upgrades or mends the database holds it alone.
//! So nobody writes to a file that is being set aside. The database engine orders the writers
//! among themselves.
//!
//! Ringing sets the lock file's time stamp: one system call that wakes every process waiting for
//! it and works on a full disk too.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::files;
use crate::store::error::{StoreError, expect_file};

/// How a process wants to share the store with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Others may write too.
    Together,
    /// Nobody else may write or open.
    Alone,
}

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub(super) struct HeldLock {
    file: File,
}

impl HeldLock {
    /// Takes the lock at `path`, waiting for up to `patience`.
    pub(super) fn take(path: &Path, share: Share, patience: Duration) -> Result<Self, StoreError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            let file = files::open_lock(path).map_err(|error| {
                expect_file(path).err().unwrap_or_else(|| StoreError::system(path, error))
            })?;
            let taken = match share {
                Share::Together => file.try_lock_shared(),
                Share::Alone => file.try_lock(),
            };
            match taken {
                // Someone may have removed the file in between; then others lock another one.
                Ok(()) if is_at(&file, path) => return Ok(Self { file }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    let (path, holder) = (path.to_path_buf(), StoreLockHolder::of_file(path));
                    return Err(StoreError::Locked { path, holder, waited: patience });
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::system(path, error)),
            }
        }
    }

    /// Returns the locked file itself.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Wakes everyone who waits for news.
    pub(super) fn ring(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // Nothing is lost when it fails: who waits also looks by himself now and then.
        let _ = rustix::fs::futimens(&self.file, &times);
    }
}

impl Drop for HeldLock {
    /// Lets go at once.
    ///
    /// To close the file is not enough: a process that another thread is just starting has it too,
    /// until it becomes another program.
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked when the file is closed.
        let _ = self.file.unlock();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLockHolder {
    /// Its id.
    pub pid: u32,
    /// Its program and arguments, shortened.
    pub command: String,
}

impl fmt::Display for StoreLockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.command)
    }
}

impl StoreLockHolder {
    /// Finds who writes to the database at `path`.
    pub(super) fn of_database(path: &Path) -> Option<Self> {
        let mut shm = path.as_os_str().to_owned();
        shm.push("-shm");
        Self::of_file(&PathBuf::from(shm)).or_else(|| Self::of_file(path))
    }

    /// Finds another process that holds a lock on the file at `path`.
    fn of_file(path: &Path) -> Option<Self> {
        let inode = fs::metadata(path).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = pid_of_lock(&locks, inode, std::process::id())?;
        Some(Self { pid, command: command_of(pid) })
    }
}

/// Reads the system's table of locks: the first writer of `inode`, else its first reader.
fn pid_of_lock(locks: &str, inode: u64, own_pid: u32) -> Option<u32> {
    let mut reader = None;
    for line in locks.lines() {
        // "1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120"; a waiting one has "->" after "1:".
        let mut words = line.split_whitespace().skip(1).skip_while(|word| *word == "->");
        let (Some(_), Some(_), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let (Some(pid), Some(file)) = (words.next(), words.next()) else { continue };
        let waits = line.contains("->");
        let same = file.rsplit(':').next().and_then(|n| n.parse().ok()) == Some(inode);
        let Some(pid) = pid.parse().ok().filter(|pid| same && !waits && *pid != own_pid) else {
            continue;
        };
        if kind == "WRITE" {
            return Some(pid);
        }
        reader = reader.or(Some(pid));
    }
    reader
}

fn command_of(pid: u32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = raw.split(|b| *b == 0).filter(|word| !word.is_empty()).take(2).collect();
    let name = |word: &&[u8]| String::from_utf8_lossy(word).rsplit('/').next().map(str::to_owned);
    // Only the program and its first word: arguments may hold what must not be shown.
    match words.iter().filter_map(name).collect::<Vec<_>>() {
        words if words.is_empty() => "unknown program".to_owned(),
        words => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_free_once_it_was_let_go_whoever_still_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut guard = HeldLock::take(&path, Share::Alone, Duration::ZERO).unwrap();
        // As a process has it that is just being started.
        let inherited = guard.file().try_clone().unwrap();
        drop(guard);
        HeldLock::take(&path, Share::Alone, Duration::ZERO).unwrap();
        drop(inherited);
    }

    #[test]
    fn the_table_of_locks_names_the_writer_first() {
        let locks = "1: POSIX  ADVISORY  READ 10 fe:00:77 123 123\n\
                     2: POSIX  ADVISORY  WRITE 11 fe:00:77 120 120\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
                     garbage\n";
        assert_eq!(pid_of_lock(locks, 77, 1), Some(11));
        assert_eq!(pid_of_lock(locks, 77, 11), Some(10));
        assert_eq!(pid_of_lock(locks, 78, 1), Some(13));
        assert_eq!(pid_of_lock(locks, 79, 1), None);
    }

    #[test]
    fn alone_means_alone_and_the_wait_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let short = Duration::from_millis(5);
        let first = HeldLock::take(&path, Share::Together, short).unwrap();
        let second = HeldLock::take(&path, Share::Together, short).unwrap();
        let error = HeldLock::take(&path, Share::Alone, short).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        drop((first, second));
        let alone = HeldLock::take(&path, Share::Alone, short).unwrap();
        assert!(HeldLock::take(&path, Share::Together, short).is_err());
        drop(alone);
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _old = HeldLock::take(&path, Share::Alone, Duration::ZERO).unwrap();
        fs::remove_file(&path).unwrap();
        let _new = HeldLock::take(&path, Share::Alone, Duration::ZERO).unwrap();
        assert!(HeldLock::take(&path, Share::Alone, Duration::ZERO).is_err());
    }
}
