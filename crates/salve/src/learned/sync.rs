//! Keeping files and store in step.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::Digest;
use salve_core::memory::usage::{UsageRecord, Warned};
use salve_core::prevention::mistake::LearnedMistake;
use salve_core::prevention::session::UsageLesson;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::failures::FailedCalls;
use super::file::LearnedFile;
use super::healing::to_pattern;
use super::items::{HealingPattern, LearnedPattern, ToolFailure, ToolFixItem, UsagePattern, When};
use super::text::{OldText, RewrittenText, write};
use super::yaml::{Document, parse};
use super::{Learned, LearnedError, Malformed, SyncReport};
use crate::atomic::{self, FileMade, WriteError};
use crate::files::{self, FileError, FileKind};
use crate::scrub::scrub_value;
use crate::store::{
    FileBase, FileEdit, ItemChange, KeyedItem, LearnedItem, StoreError, UnknownItem,
};

/// A pattern that expired this long after it was last seen is no longer even shown.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(180 * 24);
/// What is counted of a usage pattern.
const USAGE_COUNTS: [&str; 4] =
    ["observations", "warnings", "success_after_prevention", "false_positives"];

/// What a file was found to hold.
enum FoundFile {
    Nothing,
    Text(String, Document),
    Malformed,
}

impl Learned<'_> {
    /// Takes in what people changed in the files.
    pub fn pull(&self) -> Result<SyncReport, LearnedError> {
        let mut report = SyncReport::default();
        if self.store.project().learned().is_dir() || FailedCalls::of(self).has_new()? {
            let _lock = self.lock()?;
            FailedCalls::of(self).take_in()?;
            for file in LearnedFile::ALL {
                // Whoever asks before each call does not read files that are in step.
                if !is_in_step(self, file)? {
                    self.pull_file(file, &mut report)?;
                }
            }
        }
        Ok(report)
    }

    /// Takes in what people changed in the files, then writes what the store has.
    pub fn sync(&self) -> Result<SyncReport, LearnedError> {
        let mut report = SyncReport::default();
        let _lock = self.lock()?;
        FailedCalls::of(self).take_in()?;
        for file in LearnedFile::ALL {
            let found = self.pull_file(file, &mut report)?;
            self.push_file(file, found, &mut report)?;
        }
        Ok(report)
    }

    /// Makes sure that no other process keeps the same files in step at the same time.
    fn lock(&self) -> Result<fs::File, LearnedError> {
        let dir = self.store.project().make_state_dir().map_err(StoreError::from)?;
        let path = dir.join("learned.lock");
        let open = || {
            let file = files::open_lock(&path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(file)
        };
        open().map_err(|error| WriteError::new(&path, error).into())
    }

    fn path(&self, file: LearnedFile) -> PathBuf {
        self.store.project().learned().join(file.name())
    }

    fn pull_file(
        &self,
        file: LearnedFile,
        report: &mut SyncReport,
    ) -> Result<FoundFile, LearnedError> {
        let path = self.path(file);
        let text = match read(&path) {
            None => return Ok(FoundFile::Nothing),
            Some(Ok(text)) => text,
            Some(Err(malformed)) => {
                report.malformed.push(malformed);
                return Ok(FoundFile::Malformed);
            }
        };
        let document = match parse(file, &path, &text) {
            Ok(document) => document,
            Err(malformed) => {
                report.malformed.push(malformed);
                return Ok(FoundFile::Malformed);
            }
        };
        let digest = digest_of(&text);
        let base = self.store.memory().file_base(file.name())?;
        if base.as_ref().is_none_or(|base| base.digest != digest) {
            let old = base.map(|base| base.items).unwrap_or_default();
            let items = self.keyed(file, document.items.iter().map(|item| self.clean(item)));
            let mut edit = self.difference(file, &old, &items);
            edit.base = Some(FileBase { digest, items });
            self.store.memory().edit_file(&edit)?;
            report.taken_in.push(file);
        }
        Ok(FoundFile::Text(text, document))
    }

    /// Returns what has to change in the store for the difference between what a file said and
    /// what it says.
    fn difference(&self, file: LearnedFile, old: &[KeyedItem], new: &[KeyedItem]) -> FileEdit {
        let find = |items: &[KeyedItem], key: &str| {
            items.iter().find(|known| known.key == key).map(|known| known.item.clone())
        };
        let mut edit = FileEdit::of(file.name());
        let mut by = None;
        for KeyedItem { key, item } in old {
            if find(new, key).is_none() {
                edit.withdrawn.extend(healing(file, item).map(|gone| self.signature_of(&gone)));
                edit.items.push(ItemChange::Drop { key: key.clone() });
            }
        }
        for KeyedItem { key, item } in new {
            let before = find(old, key);
            if before.as_ref() == Some(item) {
                continue;
            }
            let keyed = match healing(file, item) {
                Some(pattern) => {
                    let before = before.and_then(|before| healing(file, &before));
                    let by = by.get_or_insert_with(|| self.file_word());
                    edit.knowledge.push(self.pattern_edit(before.as_ref(), &pattern, by));
                    let key = self.signature_of(&pattern).to_string();
                    KeyedItem { key, item: own_keys(file, item) }
                }
                None => KeyedItem { key: key.clone(), item: item.clone() },
            };
            edit.items.push(ItemChange::Put(keyed));
        }
        edit
    }

    fn push_file(
        &self,
        file: LearnedFile,
        found: FoundFile,
        report: &mut SyncReport,
    ) -> Result<(), LearnedError> {
        let old = match &found {
            FoundFile::Malformed => return Ok(()),
            FoundFile::Nothing => None,
            FoundFile::Text(text, document) => Some(OldText { text, document }),
        };
        let (items, stats) = self.current(file)?;
        if old.is_none() && items.is_empty() {
            return Ok(());
        }
        let RewrittenText { text, lost_comments } = write(file, &items, stats.as_ref(), old);
        let path = self.path(file);
        if old.is_none_or(|old| old.text != text) {
            self.make_dir()?;
            if let Some(OldText { text: old, .. }) = old.filter(|_| lost_comments) {
                report.kept_aside.push(keep_aside(&path, old)?);
            }
            atomic::write(&path, &text)?;
        }
        let base = FileBase { digest: digest_of(&text), items: self.keyed(file, items) };
        if self.store.memory().file_base(file.name())?.as_ref() != Some(&base) {
            self.store
                .memory()
                .edit_file(&FileEdit { base: Some(base), ..FileEdit::of(file.name()) })?;
        }
        Ok(())
    }

    fn make_dir(&self) -> Result<(), LearnedError> {
        let dir = self.store.project().learned();
        files::make_directories(&dir).map_err(|error| WriteError::new(&dir, error).into())
    }

    /// Returns the items a file should show, and what is computed from all there are.
    fn current(
        &self,
        file: LearnedFile,
    ) -> Result<(Vec<LearnedItem>, Option<Value>), LearnedError> {
        let most = file.most();
        match file {
            LearnedFile::HealingPatterns => Ok((self.healing_items(most)?, None)),
            LearnedFile::ToolFixes | LearnedFile::Patterns => {
                Ok((self.items_of(file, most)?, None))
            }
            LearnedFile::UsagePatterns => {
                let mut items = self.items_of(file, most)?;
                items.iter_mut().for_each(set_confidence);
                Ok((items, None))
            }
            LearnedFile::ToolFailures => {
                let items = self.items_of(file, most)?;
                let stats =
                    serde_json::to_value(FailedCalls::of(self).statistics()?).unwrap_or_default();
                Ok((items, Some(stats)))
            }
        }
    }

    /// Returns the healing patterns, with what a person added to them.
    fn healing_items(&self, most: u64) -> Result<Vec<LearnedItem>, StoreError> {
        let own = self.store.memory().file_items(LearnedFile::HealingPatterns.name(), u64::MAX)?;
        let mut own: BTreeMap<String, LearnedItem> =
            own.into_iter().map(|keyed| (keyed.key, keyed.item)).collect();
        let mut items = Vec::new();
        for known in self.store.memory().with_remedies(most)? {
            let pattern = to_pattern(&known);
            if let Ok(Value::Object(mut item)) = serde_json::to_value(&pattern) {
                item.extend(own.remove(&pattern.error_signature).unwrap_or_default());
                items.push(item);
            }
        }
        Ok(items)
    }

    /// Returns the latest items of a file, oldest first.
    fn items_of(&self, file: LearnedFile, most: u64) -> Result<Vec<LearnedItem>, StoreError> {
        let items = self.store.memory().file_items(file.name(), most)?;
        Ok(items.into_iter().map(|keyed| keyed.item).collect())
    }

    /// Returns the taught fixes for tool errors.
    pub fn fixes(&self) -> Result<Vec<ToolFixItem>, StoreError> {
        self.typed(LearnedFile::ToolFixes)
    }

    /// Returns the tool failures on record, oldest first.
    pub fn failures(&self) -> Result<Vec<ToolFailure>, StoreError> {
        self.typed(LearnedFile::ToolFailures)
    }

    /// Adds a tool failure that is in nobody's journal here, or replaces the same one.
    pub fn put_failure(&self, failure: &ToolFailure) -> Result<(), StoreError> {
        self.put(LearnedFile::ToolFailures, failure)
    }

    /// Returns the error patterns.
    pub fn patterns(&self) -> Result<Vec<LearnedPattern>, StoreError> {
        self.typed(LearnedFile::Patterns)
    }

    pub fn usage_patterns(&self) -> Result<Vec<UsagePattern>, StoreError> {
        self.typed(LearnedFile::UsagePatterns)
    }

    /// Adds a taught fix, or replaces the one for the same tool and text.
    pub fn put_fix(&self, fix: &ToolFixItem) -> Result<(), StoreError> {
        self.put(LearnedFile::ToolFixes, fix)
    }

    /// Adds an error pattern, or replaces the same one.
    pub fn put_pattern(&self, pattern: &LearnedPattern) -> Result<(), StoreError> {
        self.put(LearnedFile::Patterns, pattern)
    }

    /// Adds a usage pattern, or replaces the one of that name.
    pub fn put_usage_pattern(&self, pattern: &UsagePattern) -> Result<(), StoreError> {
        self.put(LearnedFile::UsagePatterns, pattern)
    }

    /// Takes in lessons about how tools are called, all or none of them.
    pub fn take_in_lessons(
        &self,
        lessons: &[UsageLesson],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let file = LearnedFile::UsagePatterns;
        let add = |value: Value, unknown: UnknownItem| {
            let item = self.clean(value.as_object()?);
            let keyed = KeyedItem { key: file.key_of(&item), item };
            Some(ItemChange::Add { keyed, counts: &USAGE_COUNTS, latest: &["last_seen"], unknown })
        };
        let change = |lesson: &UsageLesson| match lesson {
            UsageLesson::Observed(learned) => add(observed(learned, at), UnknownItem::Put),
            UsageLesson::Settled { id, warned } => add(settled(id, *warned, at), UnknownItem::Skip),
        };
        let mut items: Vec<ItemChange> = lessons.iter().filter_map(change).collect();
        let is_forgotten =
            |pattern: &UsagePattern| at.duration_since(pattern.last_seen.0) > FORGOTTEN;
        let old = self.usage_patterns()?.into_iter().filter(is_forgotten);
        items.extend(old.map(|pattern| ItemChange::Drop { key: pattern.id }));
        self.store.memory().edit_file(&FileEdit { items, ..FileEdit::of(file.name()) })
    }

    /// Drops a usage pattern.
    pub fn forget_usage_pattern(&self, id: &str) -> Result<(), StoreError> {
        let file = LearnedFile::UsagePatterns.name();
        let items = vec![ItemChange::Drop { key: id.to_owned() }];
        self.store.memory().edit_file(&FileEdit { items, ..FileEdit::of(file) })
    }

    fn typed<T: DeserializeOwned>(&self, file: LearnedFile) -> Result<Vec<T>, StoreError> {
        let items = self.items_of(file, u64::MAX)?;
        // What was stored had the shape when it was stored.
        Ok(items.into_iter().filter_map(|item| from_item(&item)).collect())
    }

    pub(super) fn put(&self, file: LearnedFile, value: &impl Serialize) -> Result<(), StoreError> {
        let items: Vec<ItemChange> = self.update(file, value).into_iter().collect();
        self.store.memory().edit_file(&FileEdit { items, ..FileEdit::of(file.name()) })
    }

    /// Returns the change that puts a value into a file, without its secrets.
    pub(super) fn update(&self, file: LearnedFile, value: &impl Serialize) -> Option<ItemChange> {
        let Ok(Value::Object(item)) = serde_json::to_value(value) else { return None };
        let item = self.clean(&item);
        let keyed = KeyedItem { key: file.key_of(&item), item };
        Some(ItemChange::Update { keyed, own_keys: file.keys() })
    }

    /// Returns an item without secrets.
    fn clean(&self, item: &LearnedItem) -> LearnedItem {
        let clean =
            |(key, value): (&String, &Value)| (key.clone(), scrub_value(self.scrubber, value));
        item.iter().map(clean).collect()
    }

    /// Gives each item what tells it from the others; a second one of a kind gets a number.
    fn keyed(
        &self,
        file: LearnedFile,
        items: impl IntoIterator<Item = LearnedItem>,
    ) -> Vec<KeyedItem> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let key = |item: &LearnedItem| match healing(file, item) {
            Some(pattern) => self.signature_of(&pattern).to_string(),
            None => file.key_of(item),
        };
        let number = |item: LearnedItem| {
            let key = key(&item);
            let count = seen.entry(key.clone()).or_default();
            *count += 1;
            let key = if *count == 1 { key } else { format!("{key}\n#{count}") };
            KeyedItem { key, item }
        };
        items.into_iter().map(number).collect()
    }
}

/// Tells whether a file says what it said when it and the store were last in step.
fn is_in_step(learned: &Learned<'_>, file: LearnedFile) -> Result<bool, StoreError> {
    let Some(known) = learned.store.memory().file_digest(file.name())? else { return Ok(false) };
    Ok(matches!(read(&learned.path(file)), Some(Ok(text)) if digest_of(&text) == known))
}

/// Reads a file; one that is no readable text is malformed, and no reason to stop.
fn read(path: &Path) -> Option<Result<String, Malformed>> {
    let malformed = |line, column, reason: String| {
        Some(Err(Malformed { path: path.to_path_buf(), line, column, reason }))
    };
    let unreadable = |error: io::Error| malformed(1, 1, format!("cannot be read: {error}"));
    let bytes = match files::read_bytes(path, FileKind::Document) {
        Ok(bytes) => bytes,
        Err(error) if error.is_absent() => return None,
        Err(FileError::NotRegular(_) | FileError::Outside) => {
            return malformed(1, 1, "not a file".into());
        }
        Err(FileError::TooLarge(_)) => return malformed(1, 1, "too large".into()),
        Err(error) => return unreadable(error.into()),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(Ok(text)),
        Err(error) => {
            let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = good.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            let column = good.iter().rev().take_while(|&&byte| byte != b'\n').count() as u64 + 1;
            malformed(line, column, "not UTF-8 text".into())
        }
    }
}

/// Keeps a copy of a file under the first free name.
fn keep_aside(path: &Path, text: &str) -> Result<PathBuf, LearnedError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 1_u32.. {
        let copy = path.with_file_name(format!("{name}.kept-{number}"));
        if atomic::write_new(&copy, text)? == FileMade::New {
            return Ok(copy);
        }
    }
    Ok(path.to_path_buf())
}

fn digest_of(text: &str) -> String {
    Digest::of(&[text.as_bytes()]).to_string()
}

fn healing(file: LearnedFile, item: &LearnedItem) -> Option<HealingPattern> {
    (file == LearnedFile::HealingPatterns).then(|| from_item(item)).flatten()
}

fn from_item<T: DeserializeOwned>(item: &LearnedItem) -> Option<T> {
    serde_json::from_value(Value::Object(item.clone())).ok()
}

/// Returns the keys of an item that are not the spec's.
fn own_keys(file: LearnedFile, item: &LearnedItem) -> LearnedItem {
    let own = item.iter().filter(|(key, _)| !file.keys().contains(&key.as_str()));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn set_confidence(item: &mut LearnedItem) {
    let Some(pattern) = from_item::<UsagePattern>(item) else { return };
    let usage = UsageRecord::from(&pattern);
    let sure = usage.confidence(usage.last_seen).share();
    item.insert("confidence".into(), sure.into());
}

fn observed(learned: &LearnedMistake, at: Timestamp) -> Value {
    json!({
        "id": learned.id,
        "tool": learned.tool,
        "error_category": learned.category.as_str(),
        "mistake_pattern": learned.mistake.to_value(),
        "root_cause": learned.error,
        "prevention_steps": [learned.mistake.advice()],
        "observations": 1,
        "warnings": 0,
        "success_after_prevention": 0,
        "false_positives": 0,
        "first_seen": When(at).to_string(),
        "last_seen": When(at).to_string(),
    })
}

/// Returns what one warning's outcome adds; a wrong warning is no sign of life.
fn settled(id: &str, warned: Warned, at: Timestamp) -> Value {
    let at = When(at).to_string();
    match warned {
        Warned::Prevented => {
            json!({ "id": id, "warnings": 1, "success_after_prevention": 1, "last_seen": at })
        }
        Warned::FalsePositive => json!({ "id": id, "warnings": 1, "false_positives": 1 }),
        Warned::FailedAnyway => {
            json!({ "id": id, "warnings": 1, "observations": 1, "last_seen": at })
        }
    }
}

impl From<&UsagePattern> for UsageRecord {
    fn from(pattern: &UsagePattern) -> Self {
        let preventions = pattern.success_after_prevention;
        // The older shape does not count warnings: then every failure counts as warned about,
        // once anything was prevented.
        let all = if preventions > 0 { pattern.observations } else { 0 };
        let warned = pattern.warnings.unwrap_or(all);
        Self {
            observations: pattern.observations,
            warned: warned.max(preventions.saturating_add(pattern.false_positives)),
            preventions,
            false_positives: pattern.false_positives,
            last_seen: pattern.last_seen.0,
        }
    }
}
