//! One open database file: locks, a file that is replaced under our feet, and damage.
//!
//! [`Database::read_tables`] and [`Database::write_tables`] are the only ways to the tables, so that
//! the parts that keep tables here need not know of any of this. Those parts share one database; the
//! locks in it are never waited for, since a store is for one thread.
//!
//! **Invariant:** the database file is only ever opened through the engine while it is in use.
//! Opening and closing it by hand would drop the locks the engine holds in this process.

use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tempfile::TempDir;

use super::lock::{HeldLock, Share};
use super::patience::WorkLimit;
use super::salvage::{self, Mended};
use super::{Durability, open};
use crate::project::Project;
use crate::store::StoreError;

/// How long to wait for other processes before giving up.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long one transaction may take before the store is suspected of damage and looked at.
pub(super) const SUSPICIOUS: Duration = Duration::from_secs(20);

/// How often a replaced file is reopened before something must be badly wrong.
const REOPENINGS: usize = 8;

/// How long a directory that is being emptied is given between two looks, and how often.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 20;

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    project: Project,
    live: Mutex<LiveConnection>,
    /// How often the file was opened: more than once if it was replaced meanwhile.
    openings: AtomicU32,
    mended: Mutex<Vec<Mended>>,
    /// How long one transaction may take, as long as the store may be damaged.
    patience: Mutex<Option<Duration>>,
}

/// The connection in use and the file it belongs to.
#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) conn: Connection,
    pub(super) file: FileId,
    pub(super) access: Access,
    pub(super) limit: WorkLimit,
}

/// What can be done with the open file.
#[derive(Debug)]
pub(super) enum Access {
    /// Reading and writing.
    Full,
    /// Only reading, if need be in a copy of our own.
    Reading(
        #[expect(dead_code, reason = "keeps the copy until the store is closed")] Option<TempDir>,
    ),
}

impl Database {
    /// Opens the project's database, making it if there is none, mending it if it is damaged.
    pub(super) fn open(project: &Project) -> Result<Self, StoreError> {
        project.make_state_dir()?;
        let mut mended = Vec::new();
        let live = open::open(project, &mut mended)?;
        Ok(Self::new(project, live, mended))
    }

    /// Opens the project's database where nothing can be written.
    pub(super) fn open_to_read(project: &Project) -> Result<Self, StoreError> {
        let live = open::open_to_read(&project.database())?;
        Ok(Self::new(project, live, Vec::new()))
    }

    fn new(project: &Project, live: LiveConnection, mended: Vec<Mended>) -> Self {
        Self {
            project: project.clone(),
            live: Mutex::new(live),
            openings: AtomicU32::new(1),
            mended: Mutex::new(mended),
            patience: Mutex::new(Some(SUSPICIOUS)),
        }
    }

    /// Returns, once, what the database had to be saved from.
    pub(super) fn mended(&self) -> Vec<Mended> {
        mem::take(&mut *locked(&self.mended))
    }

    /// Leaves it to whoever opens the database next to tidy up, which takes time.
    pub(super) fn leave_untidied(&self) {
        // Where it cannot be set, closing takes its time.
        let untidied = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let _ = locked(&self.live).conn.set_db_config(untidied, true);
    }

    /// Returns the project whose database this is.
    pub(super) fn project(&self) -> &Project {
        &self.project
    }

    /// Counts how often the file was opened: more than once if it was replaced meanwhile.
    pub(super) fn openings(&self) -> u32 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Runs `work` on one consistent view of the store.
    ///
    /// `work` may run twice: when the store proves damaged, it is mended first.
    pub(super) fn read_tables<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.mending(|| {
            self.refresh()?;
            let live = locked(&self.live);
            live.limit.begin(*locked(&self.patience));
            let run = || {
                let tx = Transaction::new_unchecked(&live.conn, TransactionBehavior::Deferred)?;
                work(&tx)
            };
            run().map_err(|error| self.sort(error))
        })
    }

    /// Runs `work` as one transaction: all of it is written, or nothing.
    ///
    /// `work` may run twice: when the store proves damaged, it is mended first.
    pub(super) fn write_tables<T>(
        &self,
        durability: Durability,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.mending(|| {
            let guard = self.guard()?;
            let live = locked(&self.live);
            live.limit.begin(*locked(&self.patience));
            let run = || {
                // The setting cannot change inside a transaction, and must hold when it ends.
                let level = match durability {
                    Durability::Process => "NORMAL",
                    Durability::Power => "FULL",
                };
                live.conn.pragma_update(None, "synchronous", level)?;
                let tx = Transaction::new_unchecked(&live.conn, TransactionBehavior::Immediate)?;
                let value = work(&tx)?;
                tx.commit()?;
                Ok(value)
            };
            let value = run().map_err(|error| self.sort(error))?;
            guard.ring();
            Ok(value)
        })
    }

    /// Does as told, and once more when the store was damaged and could be mended.
    pub(super) fn mending<T>(
        &self,
        work: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match work() {
            Err(StoreError::Corrupt { .. }) => {
                match salvage::mend(&self.project)? {
                    Some(mended) => locked(&self.mended).push(mended),
                    // It is sound: what took so long is only much.
                    None => *locked(&self.patience) = None,
                }
                self.reopen()?;
                work()
            }
            result => result,
        }
    }

    /// Takes the lock for writing, with a connection to the file that is there now.
    fn guard(&self) -> Result<HeldLock, StoreError> {
        let path = lock_path(&self.project);
        for _ in 0..REOPENINGS {
            self.refresh()?;
            let guard = HeldLock::take(&path, Share::Together, PATIENCE)?;
            if self.is_current() {
                return Ok(guard);
            }
        }
        Err(StoreError::Locked { path, holder: None, waited: PATIENCE })
    }

    fn is_current(&self) -> bool {
        let live = locked(&self.live);
        match live.access {
            Access::Full => file_id(&self.project.database()) == Some(live.file),
            Access::Reading(_) => true,
        }
    }

    /// Reopens the store if its file was replaced or removed.
    fn refresh(&self) -> Result<(), StoreError> {
        if self.is_current() {
            return Ok(());
        }
        self.give_back()?;
        self.reopen()
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.project.make_state_dir()?;
        let mut mended = Vec::new();
        let opened = open::open(&self.project, &mut mended)?;
        let old = mem::replace(&mut *locked(&self.live), opened);
        self.openings.fetch_add(1, Ordering::Relaxed);
        locked(&self.mended).extend(mended);
        // What is left of the old file is not ours to tidy: its name is another file's now.
        let _ = old.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        Ok(())
    }

    /// Puts the store back in its place where it was removed while we have it open, as
    /// `git clean -fdx` does: what is open still holds everything.
    fn give_back(&self) -> Result<(), StoreError> {
        let (live, path) = (locked(&self.live), self.project.database());
        if !matches!(live.access, Access::Full) || file_id(&path).is_some() {
            return Ok(());
        }
        settle(&self.project.state_dir());
        self.project.make_state_dir()?;
        let _guard = HeldLock::take(&lock_path(&self.project), Share::Alone, PATIENCE)?;
        if file_id(&path).is_some() {
            // Somebody else was faster, with the same content.
            return Ok(());
        }
        let aside = path.with_extension("db.back");
        let system = |error| StoreError::system(&aside, error);
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(error)),
            Ok(()) | Err(_) => {}
        }
        match salvage::write_out(&live.conn, &aside) {
            Ok(()) => fs::rename(&aside, &path).map_err(system),
            // Without it a new one is made, from the copy if there is one.
            Err(_) => Ok(()),
        }
    }

    fn sort(&self, error: rusqlite::Error) -> StoreError {
        StoreError::engine(&self.project.database(), error)
    }
}

/// A file's identity, whatever its name.
pub(super) type FileId = (u64, u64);

pub(super) fn lock_path(project: &Project) -> PathBuf {
    project.state_dir().join("salve.lock")
}

/// Waits until a directory is no longer being emptied, so that what is put there stays.
fn settle(dir: &Path) {
    let look = || -> Vec<std::ffi::OsString> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let mut seen = look();
    for _ in 0..LOOKS {
        thread::sleep(LOOK);
        let now = look();
        if now == seen {
            return;
        }
        seen = now;
    }
}

pub(super) fn file_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
