//! The engine that ships: one SQLite file, `.salve/salve.db`, that any number of processes use.
//!
//! `read_tables` and `write_tables` are the only ways to its tables; they deal with locks, with a
//! file that was replaced under our feet and with damage, so that the parts that keep tables here
//! need not.
//!
//! **Invariant:** the database file is only ever opened through the engine while it is in use.
//! Opening and closing it by hand would drop the locks the engine holds in this process.

mod error;
mod export;
mod follow;
mod items;
mod job_queue;
mod journal;
mod lock;
mod memory;
mod near;
mod open;
mod patience;
mod salvage;
mod schema;
mod words;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tempfile::TempDir;

pub use lock::StoreLockHolder;
pub use salvage::Mended;

use super::{Copying, Engine, StoreError};
use crate::project::Project;
use crate::seal_keys::SealKeys;
use lock::{Guard, Share};
use patience::WorkLimit;

/// How long to wait for other processes before giving up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one transaction may take before the store is suspected of damage and looked at.
const SUSPICIOUS: Duration = Duration::from_secs(20);

/// How often a replaced file is opened anew before something must be badly wrong.
const REOPENINGS: usize = 8;

/// How long a directory that is being emptied is given between two looks, and how often.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 20;

/// What an append must survive once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process, however sudden.
    Process,
    /// A power cut too.
    Power,
}

/// An open database.
#[derive(Debug)]
pub(super) struct Sqlite {
    project: Project,
    live: RefCell<LiveConnection>,
    openings: Cell<u32>,
    mended: RefCell<Vec<Mended>>,
    copying: Cell<Copying>,
    /// How long one transaction may take, as long as the store may be damaged.
    patience: Cell<Option<Duration>>,
    /// The user's keys as they were read last.
    keys: RefCell<Option<SealKeys>>,
    /// From which entry on words bear seals; 0 while it was not looked up.
    sealed_from: Cell<u64>,
}

/// The connection in use and the file it belongs to.
#[derive(Debug)]
struct LiveConnection {
    conn: Connection,
    file: FileId,
    access: Access,
    limit: WorkLimit,
}

/// What can be done with the open file.
#[derive(Debug)]
enum Access {
    /// Reading and writing.
    Full,
    /// Only reading, if need be in a copy of our own.
    Reading(
        #[expect(dead_code, reason = "keeps the copy until the store is closed")] Option<TempDir>,
    ),
}

impl Engine for Sqlite {
    fn mended(&self) -> Vec<Mended> {
        self.mended.take()
    }

    fn set_copying(&self, copying: Copying) {
        self.copying.set(copying);
    }

    fn update_copy(&self) -> Result<(), StoreError> {
        export::update(self)
    }

    fn leave_untidied(&self) {
        let live = self.live.borrow();
        // Where it cannot be set, closing takes its time.
        let _ = live.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

impl Sqlite {
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
            live: RefCell::new(live),
            openings: Cell::new(1),
            mended: RefCell::new(mended),
            copying: Cell::new(Copying::AtOnce),
            patience: Cell::new(Some(SUSPICIOUS)),
            keys: RefCell::new(None),
            sealed_from: Cell::new(0),
        }
    }

    /// Returns the project whose database this is.
    fn project(&self) -> &Project {
        &self.project
    }

    /// Counts how often the file was opened: more than once if it was replaced meanwhile.
    fn openings(&self) -> u32 {
        self.openings.get()
    }

    /// Runs `work` on one consistent view of the store.
    ///
    /// `work` may run twice: when the store proves damaged, it is mended first.
    fn read_tables<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.mending(|| {
            self.refresh()?;
            let live = self.live.borrow();
            live.limit.begin(self.patience.get());
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
    fn write_tables<T>(
        &self,
        durability: Durability,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.mending(|| {
            let guard = self.guard()?;
            let live = self.live.borrow();
            live.limit.begin(self.patience.get());
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
    fn mending<T>(&self, work: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match work() {
            Err(StoreError::Corrupt { .. }) => {
                match salvage::mend(&self.project)? {
                    Some(mended) => self.mended.borrow_mut().push(mended),
                    // It is sound: what took so long is only much.
                    None => self.patience.set(None),
                }
                self.reopen()?;
                work()
            }
            result => result,
        }
    }

    /// Takes the lock for writing, with a connection to the file that is there now.
    fn guard(&self) -> Result<Guard, StoreError> {
        let path = lock_path(&self.project);
        for _ in 0..REOPENINGS {
            self.refresh()?;
            let guard = Guard::take(&path, Share::Together, PATIENCE)?;
            if self.is_current() {
                return Ok(guard);
            }
        }
        Err(StoreError::Locked { path, holder: None, waited: PATIENCE })
    }

    fn is_current(&self) -> bool {
        let live = self.live.borrow();
        match live.access {
            Access::Full => file_id(&self.project.database()) == Some(live.file),
            Access::Reading(_) => true,
        }
    }

    /// Opens the store anew if its file was replaced or removed.
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
        let old = self.live.replace(open::open(&self.project, &mut mended)?);
        self.openings.set(self.openings.get() + 1);
        self.sealed_from.set(0);
        self.mended.borrow_mut().extend(mended);
        // What is left of the old file is not ours to tidy: its name is another file's now.
        let _ = old.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        Ok(())
    }

    /// Puts the store back in its place where it was removed while we have it open, as
    /// `git clean -fdx` does: what is open still holds everything.
    fn give_back(&self) -> Result<(), StoreError> {
        let (live, path) = (self.live.borrow(), self.project.database());
        if !matches!(live.access, Access::Full) || file_id(&path).is_some() {
            return Ok(());
        }
        settle(&self.project.state_dir());
        self.project.make_state_dir()?;
        let _guard = Guard::take(&lock_path(&self.project), Share::Alone, PATIENCE)?;
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

/// Looks at every page and row of a project's database, and mends it if need be.
pub(super) fn examine(project: &Project) -> Result<Option<Mended>, StoreError> {
    salvage::mend(project)
}

/// A file's identity, whatever its name.
type FileId = (u64, u64);

fn lock_path(project: &Project) -> PathBuf {
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

fn file_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests;
