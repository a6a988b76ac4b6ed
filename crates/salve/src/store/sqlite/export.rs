//! `events.jsonl`: the journal's copy for people and scripts.
//!
//! Whoever appends brings the copy up to date, one process at a time. A small file beside it,
//! `events.state`, says what the copy looked like when we left it; if it looks different now,
//! someone edited, damaged or removed it and it is rewritten from the journal.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::journal::SqliteJournal;
use super::lock::{HeldLock, Share};
use crate::atomic::{self, WriteError};
use crate::files::{self, FileKind};
use crate::project::Project;
use crate::store::error::expect_file;
use crate::store::{Journal, StoreError, to_line};

/// How many entries are copied at once.
const BATCH: usize = 1000;

/// How often one process copies what others wrote meanwhile before it leaves the rest to them.
const ROUNDS: usize = 1000;

const VERSION: u32 = 1;

/// What the copy looked like when it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    version: u32,
    /// The last entry in it.
    seq: u64,
    /// The database it was made from.
    origin: u64,
    len: u64,
    inode: u64,
    /// When it was last changed, in seconds and nanoseconds.
    changed: (i64, i64),
}

/// Brings the copy up to date.
///
/// Nobody waits here: a process that finds another at work may go, because that one looks for new
/// entries once more after it has let go of the lock.
pub(super) fn update(journal: &SqliteJournal) -> Result<(), StoreError> {
    let project = journal.project();
    for _ in 0..ROUNDS {
        let seq = match HeldLock::take(&state_path(project), Share::Alone, Duration::ZERO) {
            Ok(mut guard) => Copy { journal, path: project.events() }.update(guard.file())?,
            Err(StoreError::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if journal.last_seq()? == seq {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns how far the copy goes, as far as is known.
pub(super) fn copied_to(project: &Project) -> u64 {
    let state = files::read_bytes(&state_path(project), FileKind::Note).ok();
    let left = state.and_then(|text| serde_json::from_slice::<Left>(&text).ok());
    left.map_or(0, |left| left.seq)
}

/// Returns whether the copy is as Salve left it, so that its word counts against the database's.
pub(in crate::store) fn is_as_left(project: &Project) -> bool {
    let state = files::read_bytes(&state_path(project), FileKind::Note).ok();
    let left = state.and_then(|text| serde_json::from_slice::<Left>(&text).ok());
    left.is_some_and(|left| left.still_holds(&project.events()))
}

/// Makes the next append write the copy again.
///
/// The state is emptied and stays: it is also the lock of those who copy. If it were removed, a
/// process that is copying just now and the next one would write to two files and note one of them.
pub(super) fn forget_copy(project: &Project) {
    // A state that cannot be emptied does not fit the new copy either.
    if let Ok(state) = files::open_lock(&state_path(project)) {
        let _ = state.set_len(0);
    }
}

fn state_path(project: &Project) -> PathBuf {
    project.state_dir().join("events.state")
}

struct Copy<'e> {
    journal: &'e SqliteJournal,
    path: PathBuf,
}

impl Copy<'_> {
    /// Returns the last entry the copy now has.
    fn update(&self, state: &mut File) -> Result<u64, StoreError> {
        expect_file(&self.path)?;
        let (origin, last) = self.journal.bounds()?;
        let left = read_state(state).filter(|left| left.origin == origin && left.seq <= last);
        let (seq, meta) = match left.filter(|left| left.still_holds(&self.path)) {
            Some(left) if left.seq == last => return Ok(last),
            Some(left) => self.extend(left.seq)?,
            None => self.rebuild()?,
        };
        let left = Left::of(&meta, seq, origin);
        write_state(state, &left).map_err(|error| self.sort(error))?;
        Ok(seq)
    }

    /// Returns the last entry the copy now has, and what is known of the file that has it: another
    /// one may stand at its path by now, and that one does not have it.
    fn extend(&self, after: u64) -> Result<(u64, fs::Metadata), StoreError> {
        let file = files::open_to_append(&self.path, 0o666);
        let mut file = file.map_err(|error| self.sort(error))?;
        let seq = self.copy(after, &mut file)?;
        Ok((seq, file.metadata().map_err(|error| self.sort(error))?))
    }

    fn rebuild(&self) -> Result<(u64, fs::Metadata), StoreError> {
        let mut copied = Ok(0);
        let written = atomic::write_with(&self.path, |file| {
            copied = self.copy(0, file);
            // The journal's own trouble is told below; here it only stops the writing.
            if copied.is_ok() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        });
        let seq = copied?;
        written.map_err(|error| match error {
            WriteError::Full { path, source }
            | WriteError::ReadOnly { path, source }
            | WriteError::Denied { path, source }
            | WriteError::Other { path, source } => StoreError::system(&path, source),
        })?;
        Ok((seq, fs::symlink_metadata(&self.path).map_err(|error| self.sort(error))?))
    }

    fn copy(&self, mut after: u64, to: &mut dyn Write) -> Result<u64, StoreError> {
        loop {
            let entries = self.journal.read_as_stored(after, BATCH)?;
            let Some(last) = entries.last().map(|entry| entry.seq) else { return Ok(after) };
            let mut text = String::new();
            for entry in &entries {
                text.push_str(&to_line(entry));
                text.push('\n');
            }
            to.write_all(text.as_bytes()).map_err(|error| self.sort(error))?;
            after = last;
            if entries.len() < BATCH {
                return Ok(after);
            }
        }
    }

    fn sort(&self, error: io::Error) -> StoreError {
        StoreError::system(&self.path, error)
    }
}

impl Left {
    fn of(meta: &fs::Metadata, seq: u64, origin: u64) -> Self {
        let changed = (meta.mtime(), meta.mtime_nsec());
        Self { version: VERSION, seq, origin, len: meta.len(), inode: meta.ino(), changed }
    }

    fn still_holds(&self, path: &Path) -> bool {
        fs::symlink_metadata(path)
            .is_ok_and(|meta| meta.is_file() && Self::of(&meta, self.seq, self.origin) == *self)
    }
}

fn read_state(file: &mut File) -> Option<Left> {
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_state(file: &mut File, left: &Left) -> io::Result<()> {
    let text = serde_json::to_string(left)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}
