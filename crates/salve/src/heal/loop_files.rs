//! What a loop's directory says about its recoveries, written from the journal.
//!
//! `escalation.json` is written whole. `events.jsonl` and `usage.jsonl` get the lines that they
//! lack, and `state.json` only has its status changed, since others write to them, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use salve_core::event::Proposed;
use salve_core::recovery::{Escalation, to_json};
use salve_core::view::LoopView;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::atomic::{self, WriteError};
use crate::files::{FileKind, make_directories, read_text};
use crate::reading::catch_up;
use crate::store::{Store, StoreError};

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

#[derive(Clone, Debug)]
pub struct LoopFiles {
    dir: PathBuf,
    root: PathBuf,
    view: LoopView,
}

impl LoopFiles {
    /// Takes the files of the loop `loop_id` of the project at `root`, which are in `dir`.
    pub fn new(dir: PathBuf, root: &Path, loop_id: &str) -> Self {
        Self { dir, root: root.to_path_buf(), view: LoopView::new(loop_id) }
    }

    /// Returns where the proposal is, or would be.
    pub fn proposal(&self) -> PathBuf {
        self.dir.join("recovery.json")
    }

    /// Returns the loop as the journal has it now.
    pub fn view(&mut self, store: &Store) -> Result<&LoopView, StoreError> {
        catch_up(&mut self.view, store.journal())?;
        Ok(&self.view)
    }

    /// Writes what the journal says into the files, where they say something else.
    pub fn refresh(&mut self, store: &Store) -> Result<(), FilesError> {
        let before = self.view.last_seq();
        if self.view(store)?.last_seq() == before {
            return Ok(());
        }
        make_directories(&self.dir).map_err(|error| WriteError::new(&self.dir, error))?;
        let view = &self.view;
        add_lines(&self.dir.join("events.jsonl"), view.log(), &["seq", "event"])?;
        add_lines(&self.dir.join("usage.jsonl"), &view.usage(), &["incident", "type"])?;
        let root = self.root.to_string_lossy();
        if let Some(recovery) = view.escalated()
            && let Some(escalation) = Escalation::of(recovery, view.name(), &root)
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
        match self.view.awaiting() {
            Some(recovery) => {
                if !is_awaiting {
                    let status = state.get("status").cloned().unwrap_or_else(|| json!("running"));
                    state.insert("status_before".into(), status);
                }
                state.insert("status".into(), json!(AWAITING));
                state.insert("loop_id".into(), json!(self.view.name()));
                state.insert("iteration".into(), json!(recovery.iteration()));
                state.insert("incident".into(), json!(recovery.id()));
                let since = recovery.open_question().map(|asked| asked.at);
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

/// Reads an object; anything else gives an empty one.
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
