//! Failed tool calls: the journal has them, a file shows them and what they add up to.
//!
//! A call that fails waits for one entry in the journal and for nothing else. The list that people
//! read and edit, and the statistics, follow from the journal whenever the files are kept in step;
//! so fifty calls that fail at once cost fifty entries, and whoever is killed loses none.

use std::collections::HashMap;

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Entry, Event, MemoryEvent};
use salve_core::memory::tool::{FailedToolCall, ToolStatistics, failure_type};
use serde_json::{Value, json};

use super::Learned;
use super::file::LearnedFile;
use super::items::{ToolFailure, When};
use crate::process;
use crate::scrub::scrub_value;
use crate::store::{FileEdit, ItemChange, KeyedItem, StoreError, Stream};

/// Under which name it is kept how far the list has followed the journal.
const FOLLOWED: &str = "tool_failures.followed";
/// How much is kept of what a call was about.
const LONGEST_CONTEXT: usize = 2_000;
/// How many entries are taken in at once.
const PORTION: usize = 500;

/// The failed calls of a project.
#[derive(Clone, Copy, Debug)]
pub struct FailedCalls<'a>(Learned<'a>);

impl<'a> FailedCalls<'a> {
    /// Returns the calls whose list is one of these files.
    pub fn of(learned: &Learned<'a>) -> Self {
        Self(*learned)
    }

    /// Writes to the journal that a tool call failed, and what came of it.
    pub fn note(&self, failure: &ToolFailure) -> Result<(), StoreError> {
        let clean = |text: &str| self.0.scrubber.scrub(text);
        // Scrubbed key by key, it stays what it is: JSON.
        let context = scrub_value(self.0.scrubber, &failure.context).to_string();
        let says_nothing = matches!(&*context, "null" | "{}");
        let is_kept = !says_nothing && context.len() <= LONGEST_CONTEXT;
        let event = Event::Memory(MemoryEvent::ToolFailed {
            tool: clean(&failure.tool),
            error: clean(&failure.error),
            context: is_kept.then(|| clean(&context)),
            resolution: failure.resolution.as_deref().map(clean),
            healed: failure.auto_healed,
        });
        let by = Actor::Salve(process::this(self.0.scrubber));
        let draft = Draft { at: failure.timestamp.0, by, incident: None, event };
        self.0.store.journal().append(draft).map(drop)
    }

    /// Tells whether calls failed that are not in the list yet.
    pub(super) fn has_new(&self) -> Result<bool, StoreError> {
        Ok(!self.after(self.followed()?, 1)?.is_empty())
    }

    /// Puts the calls into the list that failed since it last followed the journal.
    pub(super) fn take_in(&self) -> Result<(), StoreError> {
        let memory = self.0.store.memory();
        loop {
            let entries = self.after(self.followed()?, PORTION)?;
            let Some(last) = entries.last() else { return Ok(()) };
            let file = LearnedFile::ToolFailures;
            let items = entries.iter().filter_map(failure_of);
            let items = items.filter_map(|failure| self.0.update(file, &failure)).collect();
            // Whoever dies in between takes them in once more, which changes nothing.
            memory.edit_file(&FileEdit { items, ..FileEdit::of(file.name()) })?;
            let item = json!({ "seq": last.seq }).as_object().cloned().unwrap_or_default();
            let items = vec![ItemChange::Put(KeyedItem { key: "seq".to_owned(), item })];
            memory.edit_file(&FileEdit { items, ..FileEdit::of(FOLLOWED) })?;
        }
    }

    fn followed(&self) -> Result<u64, StoreError> {
        let items = self.0.store.memory().file_items(FOLLOWED, 1)?;
        let seq = items.first().and_then(|keyed| keyed.item.get("seq")).and_then(Value::as_u64);
        Ok(seq.unwrap_or_default())
    }

    fn after(&self, seq: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.store.journal().read(seq, &Stream::ToolFailures, most)
    }

    /// Returns the statistics of all tool failures on record.
    pub fn statistics(&self) -> Result<ToolStatistics, StoreError> {
        let failures = self.0.failures()?;
        // The same error comes again and again.
        let mut kinds: HashMap<&str, &'static str> = HashMap::new();
        let calls: Vec<FailedToolCall<'_>> = failures
            .iter()
            .map(|failure| {
                let kind = kinds.entry(&failure.error).or_insert_with(|| {
                    let print = self.0.rules.fingerprint(&failure.error, &Default::default());
                    failure_type(print.class, &failure.error)
                });
                let at: Timestamp = failure.timestamp.0;
                FailedToolCall { at, kind, auto_healed: failure.auto_healed }
            })
            .collect();
        Ok(ToolStatistics::of(calls))
    }
}

fn failure_of(entry: &Entry) -> Option<ToolFailure> {
    let Event::Memory(MemoryEvent::ToolFailed { tool, error, context, resolution, healed }) =
        &entry.event
    else {
        return None;
    };
    let context = context.as_ref().and_then(|text| serde_json::from_str(text.as_str()).ok());
    Some(ToolFailure {
        timestamp: When(entry.at),
        tool: tool.as_str().to_owned(),
        error: error.as_str().to_owned(),
        context: context.unwrap_or_default(),
        resolution: resolution.as_ref().map(|text| text.as_str().to_owned()),
        auto_healed: *healed,
    })
}
