//! The project's database: the journal and the memory.
//!
//! One SQLite file, `.salve/salve.db`, that any number of processes use at once. [`Store::read`]
//! and [`Store::write`] are the only ways in; they deal with locks, with a file that was replaced
//! under our feet and with damage, so that the parts that keep tables here need not.
//!
//! **Invariant:** the database file is only ever opened through the engine while it is in use.
//! Opening and closing it by hand would drop the locks the engine holds in this process.

mod error;
mod journal;
mod lock;
mod schema;

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use error::{Cause, StoreError};
pub use journal::{
    Appended, Filter, Follower, Journal, LineError, RawError, Unless, parse_line, to_line,
};
pub use lock::Holder;

use crate::project::Project;
use error::expect_file;
use lock::{Guard, Share};

/// How long to wait for other processes before giving up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a replaced file is opened anew before something must be badly wrong.
const REOPENINGS: usize = 8;

/// What an append must survive once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, however sudden.
    Process,
    /// A power cut too.
    Power,
}

/// An open store.
///
/// It is for one thread; another thread opens its own.
#[derive(Debug)]
pub struct Store {
    project: Project,
    live: RefCell<Live>,
    openings: Cell<u32>,
}

/// The connection in use and the file it belongs to.
#[derive(Debug)]
struct Live {
    conn: Connection,
    file: FileId,
}

impl Live {
    /// Returns whether readers and a writer can work side by side.
    fn is_wal(&self, path: &Path) -> Result<bool, StoreError> {
        let mode = self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0));
        let mode: String = mode.map_err(|error| StoreError::engine(path, error))?;
        Ok(mode == "wal")
    }
}

/// A file's identity, whatever its name.
type FileId = (u64, u64);

impl Store {
    /// Opens the project's store, making it if there is none.
    pub fn open(project: &Project) -> Result<Self, StoreError> {
        project.make_state_dir()?;
        let live = RefCell::new(open_live(project)?);
        Ok(Self { project: project.clone(), live, openings: Cell::new(1) })
    }

    /// Returns the project whose store this is.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Returns the journal.
    pub fn journal(&self) -> Journal<'_> {
        Journal::new(self)
    }

    /// Counts how often the file was opened: more than once if it was replaced meanwhile.
    fn openings(&self) -> u32 {
        self.openings.get()
    }

    /// Runs `work` on one consistent view of the store.
    ///
    /// `work` may run twice: when the store proves damaged, it is mended first.
    pub(crate) fn read<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.refresh()?;
        let live = self.live.borrow();
        let run = || {
            let tx = Transaction::new_unchecked(&live.conn, TransactionBehavior::Deferred)?;
            work(&tx)
        };
        run().map_err(|error| self.sort(error))
    }

    /// Runs `work` as one transaction: all of it is written, or nothing.
    ///
    /// `work` may run twice: when the store proves damaged, it is mended first.
    pub(crate) fn write<T>(
        &self,
        durability: Durability,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let guard = self.guard()?;
        let live = self.live.borrow();
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
        file_id(&self.project.database()) == Some(self.live.borrow().file)
    }

    /// Opens the store anew if its file was replaced or removed.
    fn refresh(&self) -> Result<(), StoreError> {
        if self.is_current() {
            return Ok(());
        }
        self.project.make_state_dir()?;
        let old = self.live.replace(open_live(&self.project)?);
        self.openings.set(self.openings.get() + 1);
        // What is left of the old file is not ours to tidy: its name is another file's now.
        let _ = old.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        Ok(())
    }

    fn sort(&self, error: rusqlite::Error) -> StoreError {
        StoreError::engine(&self.project.database(), error)
    }
}

fn lock_path(project: &Project) -> PathBuf {
    project.state_dir().join("salve.lock")
}

fn file_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Opens the database, making or upgrading it alone if that is needed.
fn open_live(project: &Project) -> Result<Live, StoreError> {
    let path = project.database();
    expect_file(&path)?;
    if file_id(&path).is_some() {
        let _guard = Guard::take(&lock_path(project), Share::Together, PATIENCE)?;
        if file_id(&path).is_some() {
            let live = connect(&path)?;
            if schema::inspect(&live.conn, &path)? == schema::State::Current
                && live.is_wal(&path)?
            {
                return Ok(live);
            }
        }
    }
    let _guard = Guard::take(&lock_path(project), Share::Alone, PATIENCE)?;
    let live = connect(&path)?;
    schema::inspect(&live.conn, &path)?;
    let upgrade = || {
        live.conn.pragma_update(None, "journal_mode", "WAL")?;
        schema::migrate(&live.conn)
    };
    upgrade().map_err(|error| StoreError::engine(&path, error))?;
    let dir = project.state_dir();
    crate::atomic::sync_dir(&dir).map_err(|error| StoreError::system(&dir, error))?;
    Ok(live)
}

fn connect(path: &Path) -> Result<Live, StoreError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut conn = Connection::open_with_flags(path, flags)?;
        prepare(&mut conn)?;
        Ok(conn)
    };
    let conn = open().map_err(|error| StoreError::engine(path, error))?;
    match file_id(path) {
        Some(file) => Ok(Live { conn, file }),
        None => Err(StoreError::system(path, std::io::ErrorKind::NotFound.into())),
    }
}

fn prepare(conn: &mut Connection) -> rusqlite::Result<()> {
    conn.busy_handler(Some(wait_a_little))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "synchronous", "NORMAL")
}

/// Paces the waiting for another process's transaction; about [`PATIENCE`] in all.
fn wait_a_little(tries: i32) -> bool {
    const LONGEST: u64 = 5;
    let pause = u64::from(tries.unsigned_abs() / 4 + 1).min(LONGEST);
    thread::sleep(Duration::from_millis(pause));
    u128::from(LONGEST) * u128::from(tries.unsigned_abs()) < PATIENCE.as_millis()
}

#[cfg(test)]
mod tests;
