//! Mending a damaged store: set aside whole, never deleted, and saved from what can be.
//!
//! A new database is built beside the damaged one, from every row that can still be read and from
//! `events.jsonl`; only when it is complete does it take the damaged one's place. Whoever finds
//! the damage does this alone, under the lock; who comes second finds a sound store.

mod rows;

use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior};
use rustix::fs::{CWD, RenameFlags, SeekFrom, renameat_with, seek};
use salve_core::event::{Actor, Draft, Entry, Event, NoteEvent};
use salve_core::scrub::Scrubbed;

use super::database::{PATIENCE, lock_path};
use super::journal::{RawEntry, last_seq};
use super::lock::{HeldLock, Share};
use super::open::{connect, distrust};
use super::patience::WorkLimit;
use super::{export, schema};
use crate::files::{Links, open_regular};
use crate::process;
use crate::project::{Project, PutAside};
use crate::scrub::scrubber;
use crate::store::{StoreError, parse_line};

/// How the names of the directories begin in which a new database is built.
const WORK: &str = ".mending-";

/// How much of the disk a copy leaves free.
const ROOM: u64 = 64 << 20;
/// How long rows are read from a damaged database at most.
const RESCUE: Duration = Duration::from_secs(30);
/// How long one mark is looked for in it at most.
const MARK: Duration = Duration::from_secs(5);

/// What had to be done for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// It was damaged or had lost its end.
    Saved(SavedEntries),
    /// Something that came with the repository stood in its place.
    PutAside(PutAside),
}

/// What was saved from a damaged store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedEntries {
    /// Journal entries that are there again.
    pub kept: u64,
    /// Journal entries that are known to be lost.
    pub lost: u64,
    /// Where the damaged file is kept, if there was one.
    pub aside: Option<PathBuf>,
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saved(SavedEntries { kept, lost, aside: Some(aside) }) => {
                write!(f, "the store was damaged and has been mended: {kept} events saved, ")?;
                write!(f, "{lost} lost; the damaged file is kept as {}", aside.display())
            }
            Self::Saved(SavedEntries { kept, lost: _, aside: None }) => {
                write!(f, "{kept} events were restored to the store from events.jsonl")
            }
            Self::PutAside(PutAside { files, dir }) => {
                let files =
                    if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
                write!(
                    f,
                    "{files} of .salve came with the repository, so Salve does not believe "
                )?;
                write!(f, "what is in there; it is kept in {}", dir.display())
            }
        }
    }
}

/// Mends the project's store if it is damaged; `None` means that it is sound.
pub(super) fn mend(project: &Project) -> Result<Option<Mended>, StoreError> {
    let path = project.database();
    let _guard = HeldLock::take(&lock_path(project), Share::Alone, PATIENCE)?;
    if is_sound(project)? {
        return Ok(None);
    }
    let system = |error| StoreError::system(&path, error);
    sweep(&project.state_dir());
    let dir =
        tempfile::Builder::new().prefix(WORK).tempdir_in(project.state_dir()).map_err(system)?;
    let damaged = copy_of(&path, dir.path()).map_err(system)?;
    let fresh = dir.path().join("fresh.db");
    let aside = free_name(&path);
    let mended = build(project, &fresh, &damaged, &aside)?;
    swap(&path, &fresh, &aside).map_err(system)?;
    Ok(Some(mended))
}

/// Removes what mendings left that were cut short: only copies of what is still in its place.
fn sweep(dir: &Path) {
    for file in fs::read_dir(dir).into_iter().flatten().flatten() {
        if file.file_name().as_encoded_bytes().starts_with(WORK.as_bytes()) {
            // It does no harm where it is.
            let _ = fs::remove_dir_all(file.path());
        }
    }
}

/// Returns whether the whole database can be read and agrees with itself.
fn is_sound(project: &Project) -> Result<bool, StoreError> {
    let path = &project.database();
    let check = || {
        let live = connect(path)?;
        schema::inspect(&live.conn, path)?;
        let look = || {
            // It looks at each page once, so that it ends; a large database takes its time.
            live.limit.begin(None);
            let answer: String =
                live.conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            Ok(answer == "ok"
                && damaged_rows(&live.conn)?.is_empty()
                && disagreeing_rows(&live.conn, project)?.is_empty())
        };
        look().map_err(|error| StoreError::engine(path, error))
    };
    match check() {
        Ok(sound) => Ok(sound),
        Err(StoreError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies the database and its log, so that reading them changes nothing.
pub(super) fn copy_of(path: &Path, dir: &Path) -> io::Result<PathBuf> {
    let copy = dir.join("copy.db");
    copy_data(path, &copy)?;
    match copy_data(&beside(path, "-wal"), &beside(&copy, "-wal")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(copy),
    }
}

/// Copies what a file holds to the same places of another: one may claim a terabyte and hold nothing.
///
/// A file that holds so much that its copy would leave the disk no room is not copied.
fn copy_data(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open_regular(from, Links::Refuse)?;
    let mut copy = fs::File::create_new(to)?;
    let room = rustix::fs::fstatvfs(&copy)?;
    let room = room.f_bavail.saturating_mul(room.f_frsize).saturating_sub(ROOM);
    let held = source.metadata()?.blocks().saturating_mul(512);
    if held > room {
        let what = format!("its {} MiB leave no room for a copy", held >> 20);
        return Err(io::Error::new(io::ErrorKind::StorageFull, what));
    }
    let mut at = 0;
    // Where a file system does not tell what a file holds, it is all one piece.
    while let Ok(begin) = seek(&source, SeekFrom::Data(at)) {
        let end = seek(&source, SeekFrom::Hole(begin))?;
        source.seek(io::SeekFrom::Start(begin))?;
        copy.seek(io::SeekFrom::Start(begin))?;
        if io::copy(&mut (&source).take(end - begin), &mut copy)? == 0 {
            break;
        }
        at = end;
    }
    Ok(())
}

/// How long a line of the copy may be; longer ones are none of Salve's.
const LONGEST_LINE: u64 = 16 << 20;
/// How much of a copy is read at most.
const LONGEST_COPY: u64 = 1 << 30;
/// How many lines of a copy may be none of Salve's before it is not taken for one.
const ODD_LINES: usize = 100_000;

/// Refuses a copy that claims more than one has, when entries are to be restored from it.
pub(super) fn expect_copy_to_end(project: &Project) -> Result<(), StoreError> {
    let path = project.events();
    let Ok(file) = open_regular(&path, Links::Refuse) else { return Ok(()) };
    let claims = file.metadata().map_or(0, |meta| meta.len());
    if claims > LONGEST_COPY {
        return Err(StoreError::NotAFile { path, found: "one of more than 1 GiB" });
    }
    let mut lines = CopiedLines::of(file);
    while let Some(line) = lines.next() {
        lines.odd += usize::from(parse_line(&String::from_utf8_lossy(&line)).is_err());
    }
    if lines.odd > ODD_LINES {
        return Err(StoreError::NotAFile {
            path,
            found: "one full of lines that Salve never wrote",
        });
    }
    Ok(())
}

/// The entries that stand in a copy, line by line.
struct CopiedLines {
    from: BufReader<io::Take<fs::File>>,
    line: Vec<u8>,
    /// How many lines were none.
    odd: usize,
}

impl CopiedLines {
    fn of(file: fs::File) -> Self {
        Self { from: BufReader::new(file.take(LONGEST_COPY)), line: Vec::new(), odd: 0 }
    }
}

impl Iterator for CopiedLines {
    type Item = Vec<u8>;

    /// Returns the next line that may be an entry.
    fn next(&mut self) -> Option<Vec<u8>> {
        while self.odd <= ODD_LINES {
            self.line.clear();
            let read = (&mut self.from).take(LONGEST_LINE).read_until(b'\n', &mut self.line);
            if read.ok()? == 0 {
                return None;
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            // What Salve writes begins so; most of what it does not write need not be read.
            if self.line.starts_with(b"{\"") {
                return Some(std::mem::take(&mut self.line));
            }
            self.odd += 1;
        }
        None
    }
}

/// Builds a complete new database from what can be read.
fn build(
    project: &Project,
    fresh: &Path,
    damaged: &Path,
    aside: &Path,
) -> Result<Mended, StoreError> {
    let live = connect(fresh)?;
    live.limit.begin(None);
    let work = || {
        // Nobody sees this file before it is finished and synced.
        live.conn.pragma_update(None, "synchronous", "OFF")?;
        live.conn.pragma_update(None, "foreign_keys", false)?;
        schema::migrate(&live.conn)?;
        let tx = Transaction::new_unchecked(&live.conn, TransactionBehavior::Immediate)?;
        rows::rescue(damaged, &tx, RESCUE)?;
        let disagreeing = disagreeing_rows(&tx, project)?;
        for seq in damaged_rows(&tx)?.into_iter().chain(disagreeing) {
            // The file set aside still has them.
            tx.execute("DELETE FROM entry WHERE seq = ?1", [seq])?;
        }
        restore_from_copy(&tx, project)?;
        carry_over_sealed_from(&tx, damaged)?;
        let kept: u64 = tx.query_row("SELECT count(*) FROM entry", [], |row| row.get(0))?;
        let last = last_seq(&tx)?;
        let lost = last.saturating_sub(kept);
        let name = aside.file_name().unwrap_or_default().to_string_lossy();
        let event = Event::Note(NoteEvent::StoreSalvaged { kept, aside: scrubber().scrub(&name) });
        sign(&tx, last + 1, event)?;
        tx.commit()?;
        let aside = Some(aside.to_path_buf());
        Ok(Mended::Saved(SavedEntries { kept, lost, aside }))
    };
    let mended = work().map_err(|error| StoreError::engine(fresh, error))?;
    live.conn.close().map_err(|(_, error)| StoreError::engine(fresh, error))?;
    fs::File::open(fresh)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::system(fresh, error))?;
    Ok(mended)
}

/// Keeps from which entry on words bear seals; where that cannot be read any more, the first seal
/// says it.
fn carry_over_sealed_from(tx: &Transaction<'_>, damaged: &Path) -> rusqlite::Result<()> {
    let read = |(conn, _limit): (Connection, WorkLimit)| {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'sealed_from'";
        conn.query_row(sql, [], |row| row.get::<_, u64>(0)).ok()
    };
    let from = match rows::open(damaged, MARK).and_then(read) {
        Some(from) => from,
        None => last_seq(tx)? + 1,
    };
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('sealed_from', ?1)";
    tx.execute(sql, [from.to_string()]).map(drop)
}

/// Restores to a database that lost its end, or is new, what only `events.jsonl` still has.
///
/// The caller is alone with the store.
pub(super) fn restore(conn: &Connection, project: &Project) -> rusqlite::Result<Option<Mended>> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let kept = restore_from_copy(&tx, project)?;
    if kept == 0 {
        return Ok(None);
    }
    let text = Scrubbed::literal("entries missing from the store were restored from events.jsonl");
    let next = last_seq(&tx)? + 1;
    sign(&tx, next, Event::Note(NoteEvent::Noted { text }))?;
    tx.commit()?;
    Ok(Some(Mended::Saved(SavedEntries { kept, lost: 0, aside: None })))
}

/// Writes all that an open database holds, whose file was removed, to a file at `to`.
pub(super) fn write_out(conn: &Connection, to: &Path) -> rusqlite::Result<()> {
    conn.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    let fresh = Connection::open(to)?;
    distrust(&fresh)?;
    let tx = Transaction::new_unchecked(&fresh, TransactionBehavior::Immediate)?;
    let text = Scrubbed::literal("the store was removed while it was in use, and is back");
    let next = last_seq(&tx)? + 1;
    sign(&tx, next, Event::Note(NoteEvent::Noted { text }))?;
    tx.commit()
}

/// Writes the entry that tells of the mending; it is the first of this very file.
fn sign(tx: &Transaction<'_>, seq: u64, event: Event) -> rusqlite::Result<()> {
    let by = Actor::Salve(process::this(&scrubber()));
    let draft = Draft { at: Timestamp::now(), by, incident: None, event };
    RawEntry::of(&draft).insert(tx, seq)?;
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('origin', ?1)";
    tx.execute(sql, [seq.to_string()]).map(drop)
}

/// Lists the rows of the journal that nobody can have written.
fn damaged_rows(conn: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut damaged = Vec::new();
    let sql = "SELECT seq, at, by, incident, kind, version, data, seal FROM entry";
    let mut statement = conn.prepare(sql)?;
    let mut all = statement.query([])?;
    while let Some(row) = all.next()? {
        let fine = RawEntry::from_row(row).is_ok_and(|raw| match raw.decode() {
            Ok(entry) => entry.seq > 0,
            Err(error) => !error.is_damage(),
        });
        if !fine {
            damaged.push(row.get(0)?);
        }
    }
    Ok(damaged)
}

/// Lists the rows of the journal that say something else than the copy, where that is as Salve left
/// it: damage may leave a row that can be read and is another one.
fn disagreeing_rows(conn: &Connection, project: &Project) -> rusqlite::Result<Vec<i64>> {
    let mut found = Vec::new();
    if !export::is_as_left(project) {
        return Ok(found);
    }
    let Ok(file) = open_regular(&project.events(), Links::Refuse) else { return Ok(found) };
    let sql = "SELECT seq, at, by, incident, kind, version, data, seal FROM entry WHERE seq = ?1";
    let mut statement = conn.prepare(sql)?;
    for line in CopiedLines::of(file) {
        let copied = std::str::from_utf8(&line).ok().and_then(|line| parse_line(line).ok());
        let Some(copied) = copied else { continue };
        let row = statement.query_row([copied.seq], RawEntry::from_row).optional()?;
        // A row that is missing or cannot be read is found elsewhere.
        let kept = row.and_then(|row| row.decode().ok());
        if kept.is_some_and(|kept| kept != copied) {
            found.push(i64::try_from(copied.seq).unwrap_or(i64::MAX));
        }
    }
    Ok(found)
}

/// Adds the entries that only the copy still has and counts them.
///
/// Anyone may have edited the copy, so it is scrubbed again.
fn restore_from_copy(tx: &Transaction<'_>, project: &Project) -> rusqlite::Result<u64> {
    let Ok(file) = open_regular(&project.events(), Links::Refuse) else { return Ok(0) };
    let (scrubber, mut restored) = (scrubber(), 0);
    let mut known = tx.prepare("SELECT 1 FROM entry WHERE seq = ?1")?;
    let mut lines = CopiedLines::of(file);
    while let Some(line) = lines.next() {
        let line = scrubber.scrub_lossy(&line);
        let Ok(entry) = parse_line(line.as_str()) else {
            lines.odd += 1;
            continue;
        };
        let Entry { seq, at, by, incident, event, seal } = entry;
        if !known.exists([seq])? {
            let row = RawEntry::of(&Draft { at, by, incident, event });
            row.with_seal(seal.map(String::from)).insert(tx, seq)?;
            restored += 1;
        }
    }
    Ok(restored)
}

/// Puts the new database in the damaged one's place and keeps that under the name `aside`.
///
/// The name of the database never points to nothing, and the log goes first: left beside the new
/// database it would be taken for its own.
fn swap(path: &Path, fresh: &Path, aside: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        match fs::rename(beside(path, suffix), beside(aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    // First under the other name, then both at once: no name is ever that of two files.
    fs::rename(fresh, aside)?;
    match renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // Where files cannot change places, a moment without a database is the best we can do.
        Err(_) => {
            fs::rename(aside, fresh)?;
            fs::rename(path, aside)?;
            fs::rename(fresh, path)?;
        }
    }
    crate::atomic::sync_dir(path.parent().unwrap_or(Path::new(".")))
}

fn free_name(path: &Path) -> PathBuf {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let name = |n: u32| beside(path, &format!(".corrupt-{now}{}", suffix(n)));
    let suffix_free = (1..).map(name).find(|name| fs::symlink_metadata(name).is_err());
    suffix_free.unwrap_or_else(|| name(0))
}

fn suffix(n: u32) -> String {
    if n == 1 { String::new() } else { format!("-{n}") }
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests;
