//! Opening the database: made, upgraded, mended or only read, as need be.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::database::{Access, LiveConnection, PATIENCE, SUSPICIOUS, file_id, lock_path};
use super::lock::{HeldLock, Share};
use super::patience::WorkLimit;
use super::salvage::{self, Mended};
use super::{export, own, schema};
use crate::project::Project;
use crate::store::error::{StoreError, expect_file};

/// Opens the project's database and adds to `mended` what had to be done for it.
pub(super) fn open(
    project: &Project,
    mended: &mut Vec<Mended>,
) -> Result<LiveConnection, StoreError> {
    expect_files(&project.database())?;
    match open_sound(project, mended) {
        Err(StoreError::Corrupt { .. }) => {
            mended.extend(salvage::mend(project)?);
            open_sound(project, mended)
        }
        opened => opened,
    }
}

fn open_sound(project: &Project, mended: &mut Vec<Mended>) -> Result<LiveConnection, StoreError> {
    let path = project.database();
    if file_id(&path).is_some() {
        let _guard = HeldLock::take(&lock_path(project), Share::Together, PATIENCE)?;
        if let Some(live) = open_ready(project)? {
            return Ok(live);
        }
    }
    let _guard = HeldLock::take(&lock_path(project), Share::Alone, PATIENCE)?;
    make_ready(project, mended)
}

/// Opens the database if it can be used as it is.
fn open_ready(project: &Project) -> Result<Option<LiveConnection>, StoreError> {
    let path = project.database();
    // The file may be gone by now; only who is alone makes a new one.
    if file_id(&path).is_none() {
        return Ok(None);
    }
    let live = connect(&path)?;
    Ok((live.is_ready(project)? && own::is_own(&live.conn, project)?).then_some(live))
}

/// Makes the database usable; nobody else may have it open.
pub(super) fn make_ready(
    project: &Project,
    mended: &mut Vec<Mended>,
) -> Result<LiveConnection, StoreError> {
    // Whoever was alone before may have done it, and then others write and copy already.
    if let Some(live) = open_ready(project)? {
        return Ok(live);
    }
    let path = project.database();
    if project.is_projects() {
        // Before anything of it is read into the store.
        mended.extend(project.put_brought_aside()?.map(Mended::PutAside));
    }
    let live = connect(&path)?;
    let state = schema::inspect(&live.conn, &path)?;
    salvage::expect_copy_to_end(project)?;
    // A long journal takes long to be looked at, upgraded or restored.
    live.limit.begin(None);
    let upgrade = || {
        if state != schema::SchemaState::Empty {
            live.expect_sound()?;
        }
        live.conn.pragma_update(None, "journal_mode", "WAL")?;
        schema::migrate(&live.conn)?;
        own::mark(&live.conn, project)?;
        salvage::restore(&live.conn, project)
    };
    mended.extend(upgrade().map_err(|error| StoreError::engine(&path, error))?);
    export::forget_copy(project);
    let dir = project.state_dir();
    crate::atomic::sync_dir(&dir).map_err(|error| StoreError::system(&dir, error))?;
    Ok(live)
}

impl LiveConnection {
    /// Returns whether the database can be used as it is.
    fn is_ready(&self, project: &Project) -> Result<bool, StoreError> {
        let path = project.database();
        let engine = |error| StoreError::opening(&path, error);
        if schema::inspect(&self.conn, &path)? != schema::SchemaState::Current {
            return Ok(false);
        }
        let mode = self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0));
        let mode: String = mode.map_err(engine)?;
        if mode != "wal" {
            return Ok(false);
        }
        // First how far the copy goes, then how far the journal goes: the copy is never ahead,
        // unless the database has lost its end.
        let copied = export::copied_to(project);
        let sql = "SELECT coalesce(max(seq), 0) FROM entry";
        let last: u64 = self.conn.query_row(sql, [], |row| row.get(0)).map_err(engine)?;
        if copied > last {
            // A damaged page may look like a lost end.
            self.expect_sound().map_err(engine)?;
        }
        Ok(copied <= last)
    }

    /// Refuses a damaged file, into which nothing is written.
    fn expect_sound(&self) -> rusqlite::Result<()> {
        let answer = self.conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        let answer: String = answer?;
        if answer == "ok" {
            return Ok(());
        }
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        Err(rusqlite::Error::SqliteFailure(code, Some(answer)))
    }
}

/// Opens a database file for reading and writing.
pub(super) fn connect(path: &Path) -> Result<LiveConnection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let (conn, limit) = connect_with(path, flags)?;
    match file_id(path) {
        Some(file) => Ok(LiveConnection { conn, file, access: Access::Full, limit }),
        None => Err(StoreError::system(path, io::ErrorKind::NotFound.into())),
    }
}

/// Opens a database in a place where nothing can be written.
///
/// The engine wants to write even for reading; where it may not, it gets a copy of its own.
pub(super) fn open_to_read(path: &Path) -> Result<LiveConnection, StoreError> {
    expect_files(path)?;
    let ((conn, limit), copy) = match connect_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Ok((conn, limit)) if schema::inspect(&conn, path).is_ok() => ((conn, limit), None),
        Ok(_) | Err(_) => {
            let system = |error| StoreError::system(path, error);
            let dir = tempfile::tempdir().map_err(system)?;
            let copy = salvage::copy_of(path, dir.path()).map_err(system)?;
            (connect_with(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?, Some(dir))
        }
    };
    match schema::inspect(&conn, path)? {
        schema::SchemaState::Current => {}
        // It cannot be upgraded here, and an older one may lack what we look for.
        schema::SchemaState::Empty | schema::SchemaState::Old(_) => {
            return Err(StoreError::system(path, io::ErrorKind::ReadOnlyFilesystem.into()));
        }
    }
    let file = file_id(path).unwrap_or_default();
    Ok(LiveConnection { conn, file, access: Access::Reading(copy), limit })
}

fn connect_with(path: &Path, access: OpenFlags) -> Result<(Connection, WorkLimit), StoreError> {
    let open = || {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut conn = Connection::open_with_flags(path, flags)?;
        let limit = WorkLimit::set(&mut conn, SUSPICIOUS)?;
        conn.busy_handler(Some(wait_a_little))?;
        distrust(&conn)?;
        conn.pragma_update(None, "cell_size_check", true)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        Ok((conn, limit))
    };
    open().map_err(|error| StoreError::opening(path, error))
}

/// Switches off what somebody may have added to a database file: they could have us compute for ever,
/// or lose what we write.
pub(super) fn distrust(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).map(drop)
}

/// Refuses anything but plain files of one name in the places that the engine writes to.
fn expect_files(path: &Path) -> Result<(), StoreError> {
    let beside = ["", "-wal", "-shm", "-journal"].map(|end| salvage::beside(path, end));
    beside.iter().try_for_each(|path| expect_file(path))
}

/// Paces the waiting for another process's transaction; about [`PATIENCE`] in all.
fn wait_a_little(tries: i32) -> bool {
    const LONGEST: u64 = 5;
    let pause = u64::from(tries.unsigned_abs() / 4 + 1).min(LONGEST);
    thread::sleep(Duration::from_millis(pause));
    u128::from(LONGEST) * u128::from(tries.unsigned_abs()) < PATIENCE.as_millis()
}
