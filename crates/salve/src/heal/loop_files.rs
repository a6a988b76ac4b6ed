//! What a loop's directory says about its recoveries, written from the journal.
//!
//! `escalation.json` is written whole. `events.jsonl` and `usage.jsonl` get the lines that they
//! lack, and `state.json` only has its status changed, since others write to them, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use salve_core::event::Proposed;
use salve_core::id::IncidentId;
use salve_core::recovery::{Chronicle, Escalation, to_json};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::atomic::{self, WriteError};
use crate::files::{FileKind, make_directories, read_text};
use crate::store::{Journal, Store, StoreError, Stream};

/// The status of a loop that waits for a person.
const AWAITING: &str = "awaiting_human";

/// Why a loop's files could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The journal could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The files of a loop.
#[derive(Clone, Debug)]
pub struct LoopFiles {
    dir: PathBuf,
    root: PathBuf,
    chronicle: Chronicle,
}

impl LoopFiles {
    /// Takes the files of the loop `loop_id` of the project at `root`, which are in `dir`.
    pub fn new(dir: PathBuf, root: &Path, loop_id: &str) -> Self {
        Self { dir, root: root.to_path_buf(), chronicle: Chronicle::new(loop_id) }
    }

    /// Returns where the proposal is, or would be.
    pub fn proposal(&self) -> PathBuf {
        self.dir.join("recovery.json")
    }

    /// Returns all recoveries of the loop, as the journal has them now.
    pub fn chronicle(&mut self, store: &Store) -> Result<&Chronicle, StoreError> {
        catch_up(&mut self.chronicle, store.journal())?;
        Ok(&self.chronicle)
    }

    /// Writes what the journal says into the files, where they say something else.
    pub fn refresh(&mut self, store: &Store) -> Result<(), FilesError> {
        let before = self.chronicle.last_seq();
        if self.chronicle(store)?.last_seq() == before {
            return Ok(());
        }
        make_directories(&self.dir).map_err(|error| WriteError::new(&self.dir, error))?;
        let chronicle = &self.chronicle;
        add_lines(&self.dir.join("events.jsonl"), chronicle.lines(), &["seq", "event"])?;
        add_lines(&self.dir.join("usage.jsonl"), &chronicle.usage(), &["incident", "type"])?;
        let root = self.root.to_string_lossy();
        if let Some(course) = chronicle.escalated()
            && let Some(escalation) = Escalation::of(course, chronicle.loop_id(), &root)
        {
            write_if_new(&self.dir.join("escalation.json"), &pretty(&escalation))?;
        }
        self.tell_state()
    }

    /// Says in `state.json` whether a person is waited for.
    fn tell_state(&self) -> Result<(), FilesError> {
        let path = self.dir.join("state.json");
        let mut state = read_object(&path);
        let before = state.clone();
        let is_awaiting = state.get("status").and_then(Value::as_str) == Some(AWAITING);
        match self.chronicle.awaiting() {
            Some(course) => {
                if !is_awaiting {
                    let status = state.get("status").cloned().unwrap_or_else(|| json!("running"));
                    state.insert("status_before".into(), status);
                }
                state.insert("status".into(), json!(AWAITING));
                state.insert("loop_id".into(), json!(self.chronicle.loop_id()));
                state.insert("iteration".into(), json!(course.iteration));
                state.insert("incident".into(), json!(course.id()));
                let since = course.pending().map(|asked| asked.at);
                state.insert("since".into(), json!(since));
            }
            None if is_awaiting => {
                let status = state.remove("status_before").unwrap_or_else(|| json!("running"));
                state.insert("status".into(), status);
                state.remove("incident");
            }
            None => {}
        }
        if state != before {
            state.entry("version").or_insert(json!(1));
            write_if_new(&path, &pretty(&state))?;
        }
        Ok(())
    }

    /// Writes Salve's own draft where the tester wrote none.
    pub fn write_draft(&self, draft: &Proposed) -> Result<(), FilesError> {
        make_directories(&self.dir).map_err(|error| WriteError::new(&self.dir, error))?;
        Ok(atomic::write(&self.proposal(), pretty(&to_json(draft)))?)
    }
}

/// Takes in what the journal says about a loop's recoveries since the chronicle's last entry.
///
/// What matters stands in several streams, read one after the other; so only what was on record
/// before the first reading counts, else an entry that is written meanwhile could be passed over.
pub fn catch_up(chronicle: &mut Chronicle, journal: &dyn Journal) -> Result<(), StoreError> {
    let (after, upto) = (chronicle.last_seq(), journal.last_seq()?);
    let read = |stream: Stream| journal.read(after, &stream, usize::MAX);
    let mut entries = read(Stream::Settings)?;
    if let Ok(id) = chronicle.loop_id().parse() {
        entries.extend(read(Stream::Loop(id))?);
    }
    let opened = read(Stream::Incidents)?;
    let begun = opened.iter().filter(|entry| chronicle.is_begun_by(entry));
    let mut incidents: BTreeSet<IncidentId> = begun.filter_map(|entry| entry.incident).collect();
    incidents.extend(chronicle.courses().map(|course| course.id()));
    for id in incidents {
        entries.extend(read(Stream::Incident(id))?);
    }
    entries.retain(|entry| entry.seq <= upto);
    entries.sort_by_key(|entry| entry.seq);
    entries.iter().for_each(|entry| chronicle.take(entry));
    Ok(())
}

fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn write_if_new(path: &Path, text: &str) -> Result<(), WriteError> {
    match read_text(path, FileKind::Bulk) {
        Ok(there) if there == text => Ok(()),
        Ok(_) | Err(_) => atomic::write(path, text),
    }
}

/// Reads an object; what is none is begun anew.
fn read_object(path: &Path) -> Map<String, Value> {
    let text = read_text(path, FileKind::Bulk).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Adds the lines that a file lacks, known by the fields of `key`; what others wrote stays.
fn add_lines<T: Serialize>(path: &Path, lines: &[T], key: &[&str]) -> Result<(), WriteError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut text = read_text(path, FileKind::Bulk).unwrap_or_default();
    let id = |value: &Value| -> Option<String> {
        let parts = key.iter().map(|name| value.get(name).map(Value::to_string));
        Some(parts.collect::<Option<Vec<_>>>()?.join(" "))
    };
    let there: BTreeSet<String> =
        text.lines().filter_map(|line| id(&serde_json::from_str(line).ok()?)).collect();
    let mut is_new = false;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in lines {
        let Ok(value) = serde_json::to_value(line) else { continue };
        if id(&value).is_some_and(|id| !there.contains(&id)) {
            text.push_str(&serde_json::to_string(line).unwrap_or_default());
            text.push('\n');
            is_new = true;
        }
    }
    if is_new { atomic::write(path, text) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
