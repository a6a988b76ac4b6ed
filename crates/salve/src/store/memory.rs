//! What is known about failures, and what people taught, as an interface.
//!
//! A project's store holds the project's memory; the user's own store, opened with
//! [`Project::of_user`](crate::project::Project::of_user), holds what is remembered across
//! projects. Both have the same shape.
//!
//! Changes are told, not made: a caller hands over [`KnowledgeEdit`]s and [`ItemChange`]s, and the
//! engine applies all of one call or nothing, on what is stored at that moment. So nothing that
//! another process learned meanwhile is lost, and no caller needs to know what a transaction is.

use std::fmt::Debug;

use jiff::Timestamp;
use salve_core::id::Signature;
use salve_core::memory::{
    Knowledge, KnowledgeChange, KnowledgeEdit, Rekeying, RemedyTrial, RememberedFailure,
    RememberedRemedy,
};
use salve_core::near::{Match, NearIndex};
use salve_core::scrub::Scrubbed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::StoreError;

/// How many failures are visited at once.
const PORTION: u64 = 500;

/// A part of all that is known, most recently seen first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// How many to pass over.
    pub skip: u64,
    /// How many to return at most.
    pub limit: u64,
}

/// A part of all that is known, in the order in which it became known.
#[derive(Clone, Debug, Default)]
pub struct Portion {
    pub known: Vec<Knowledge>,
    /// Where the next portion begins; `None` behind the last one.
    pub next: Option<u64>,
}

/// A part of all failures, in the order in which they became known.
#[derive(Clone, Debug, Default)]
pub struct FailurePortion {
    pub failures: Vec<RememberedFailure>,
    /// Where the next portion begins; `None` behind the last one.
    pub next: Option<u64>,
}

/// How much a memory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemorySize {
    /// Failures known.
    pub failures: u64,
    /// Remedies known for them.
    pub remedies: u64,
    /// Remedies that have healed.
    pub proven: u64,
    /// Remedies that failed and never healed.
    pub failed: u64,
}

/// One item of a learned file with all its keys, a person's own included.
pub type LearnedItem = Map<String, Value>;

/// An item of a learned file and what tells it from the file's other items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(String, LearnedItem)", into = "(String, LearnedItem)")]
pub struct KeyedItem {
    /// What tells it from the others.
    pub key: String,
    pub item: LearnedItem,
}

impl From<(String, LearnedItem)> for KeyedItem {
    fn from(pair: (String, LearnedItem)) -> Self {
        Self { key: pair.0, item: pair.1 }
    }
}

impl From<KeyedItem> for (String, LearnedItem) {
    fn from(keyed: KeyedItem) -> Self {
        (keyed.key, keyed.item)
    }
}

/// What a learned file said when it and the store were last in step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileBase {
    /// The digest of the file's text.
    pub digest: String,
    pub items: Vec<KeyedItem>,
}

/// A change of one item of a learned file.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemChange {
    /// The item is this; a new one goes to the end, a known one stays in its place.
    Put(KeyedItem),
    /// The item's own keys are these, and keys that a person added to it stay.
    Update {
        /// The item.
        keyed: KeyedItem,
        /// The keys that are not a person's.
        own_keys: &'static [&'static str],
    },
    /// The item's numbers grow by these; everything else of a known item stays.
    Add {
        /// The item, with what is added in the place of its numbers.
        keyed: KeyedItem,
        /// The keys that are added up.
        counts: &'static [&'static str],
        /// The keys of which the later text holds.
        latest: &'static [&'static str],
        /// What becomes of an item that is not known.
        unknown: UnknownItem,
    },
    /// The item is gone.
    Drop {
        /// What tells it from the others.
        key: String,
    },
}

/// What becomes of an item that is added to and not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownItem {
    /// It becomes known.
    Put,
    /// Nothing.
    Skip,
}

/// Returns an item after something was added to it; nothing where there is nothing to keep.
pub(super) fn item_added_to(
    stored: Option<LearnedItem>,
    added: &LearnedItem,
    counts: &[&str],
    latest: &[&str],
    unknown: UnknownItem,
) -> Option<LearnedItem> {
    let Some(mut stored) = stored else {
        return (unknown == UnknownItem::Put).then(|| added.clone());
    };
    for (name, value) in added {
        if counts.contains(&name.as_str()) {
            let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
            let sum = number(stored.get(name)).saturating_add(number(Some(value)));
            stored.insert(name.clone(), sum.into());
        } else if latest.contains(&name.as_str()) {
            let is_later = stored.get(name).and_then(Value::as_str) < value.as_str();
            if is_later {
                stored.insert(name.clone(), value.clone());
            }
        }
    }
    Some(stored)
}

/// All that one reading or writing of a learned file changes.
#[derive(Clone, Debug)]
pub struct FileEdit {
    /// The file's name.
    pub file: &'static str,
    /// Failures that a person took out of the file: out of force, with their history kept.
    pub withdrawn: Vec<Signature>,
    /// What a person changed about failures.
    pub knowledge: Vec<KnowledgeEdit>,
    /// What changed in the items.
    pub items: Vec<ItemChange>,
    /// What the file says now, if it and the store are in step by this.
    pub base: Option<FileBase>,
}

impl FileEdit {
    /// Makes an edit of a file that changes nothing yet.
    pub fn of(file: &'static str) -> Self {
        let (withdrawn, knowledge, items) = (Vec::new(), Vec::new(), Vec::new());
        Self { file, withdrawn, knowledge, items, base: None }
    }
}

/// The memory of a store.
pub trait Memory: Debug {
    /// Returns all that is known about a failure.
    fn recall(&self, signature: Signature) -> Result<Option<Knowledge>, StoreError>;

    /// Takes all edits in or none, to survive a power cut.
    fn edit(&self, edits: &[KnowledgeEdit]) -> Result<(), StoreError>;

    /// Takes in what another memory knows; the same knowledge twice changes nothing.
    ///
    /// Returns how many of them brought something new.
    fn merge(&self, others: &[Knowledge]) -> Result<u64, StoreError>;

    /// Drops all that is known about a failure and returns whether anything was.
    fn forget(&self, signature: Signature) -> Result<bool, StoreError>;

    /// Returns a part of all that is known, most recently seen first.
    fn list(&self, page: Page) -> Result<Vec<Knowledge>, StoreError>;

    /// Returns up to `limit` failures behind `after`, in the order in which they became known.
    fn portion(&self, after: u64, limit: u64) -> Result<Portion, StoreError>;

    /// Returns the failures last seen of those that have a remedy, `most` at most, oldest first.
    fn with_remedies(&self, most: u64) -> Result<Vec<Knowledge>, StoreError>;

    /// Returns how much the memory holds.
    fn counts(&self) -> Result<MemorySize, StoreError>;

    /// Returns the failures whose signature starts with these hex digits, at most ten.
    fn signatures_like(&self, prefix: &str) -> Result<Vec<Signature>, StoreError>;

    /// Returns the index of near matches; it may name failures that were forgotten since.
    fn near_index(&self) -> Result<NearIndex, StoreError>;

    /// Returns which tables gave the failures their signatures, if anything says so.
    fn tables_digest(&self) -> Result<Option<String>, StoreError>;

    /// Returns up to `limit` failures behind `after`, withdrawn ones too, without their remedies.
    fn failures(&self, after: u64, limit: u64) -> Result<FailurePortion, StoreError>;

    /// Moves all that is known about failures to their new signatures, where it is joined to what
    /// is known there, and keeps which tables gave them; all of it or nothing.
    fn rekey(&self, tables_digest: &str, rekeyings: &[Rekeying]) -> Result<(), StoreError>;

    /// Returns the latest items of a learned file, oldest first.
    fn file_items(&self, file: &str, most: u64) -> Result<Vec<KeyedItem>, StoreError>;

    /// Returns what a learned file said when it was last in step.
    fn file_base(&self, file: &str) -> Result<Option<FileBase>, StoreError>;

    /// Returns the digest of what a file said when it and the store were last in step.
    fn file_digest(&self, file: &str) -> Result<Option<String>, StoreError> {
        Ok(self.file_base(file)?.map(|base| base.digest))
    }

    /// Takes a whole edit of a learned file in, or nothing of it.
    fn edit_file(&self, edit: &FileEdit) -> Result<(), StoreError>;

    /// Takes in that a failure was seen.
    fn see(&self, failure: &RememberedFailure, at: Timestamp) -> Result<(), StoreError> {
        self.edit(&[KnowledgeEdit::of(failure, at, KnowledgeChange::Seen)])
    }

    /// Takes in how a remedy came out, to survive a power cut.
    fn learn(
        &self,
        failure: &RememberedFailure,
        remedy: &RememberedRemedy,
        outcome: &RemedyTrial,
    ) -> Result<(), StoreError> {
        let change = KnowledgeChange::Learned { remedy: remedy.clone(), outcome: outcome.clone() };
        self.edit(&[KnowledgeEdit::of(failure, outcome.at, change)])
    }

    /// Takes in a remedy that somebody teaches.
    fn teach(
        &self,
        failure: &RememberedFailure,
        remedy: &RememberedRemedy,
        at: Timestamp,
        by: &Scrubbed,
    ) -> Result<(), StoreError> {
        let change = KnowledgeChange::Taught { remedy: remedy.clone(), at, by: by.clone() };
        self.edit(&[KnowledgeEdit::of(failure, at, change)])
    }
}

impl dyn Memory + '_ {
    /// Calls `take` with everything that is known, in portions, oldest first.
    pub fn each<E: From<StoreError>>(
        &self,
        mut take: impl FnMut(Vec<Knowledge>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut after = Some(0);
        while let Some(from) = after {
            let portion = self.portion(from, PORTION)?;
            after = portion.next;
            take(portion.known)?;
        }
        Ok(())
    }

    /// Returns the near matches, ready for many questions.
    pub fn near(&self) -> Result<Near<'_>, StoreError> {
        Ok(Near { memory: self, index: self.near_index()? })
    }
}

/// The near matches of one memory, ready for many questions.
#[derive(Debug)]
pub struct Near<'m> {
    memory: &'m dyn Memory,
    index: NearIndex,
}

impl Near<'_> {
    /// Returns up to `limit` known failures that resemble the text, the most similar first.
    pub fn find(
        &self,
        normalized: &str,
        limit: usize,
    ) -> Result<Vec<(Match, Knowledge)>, StoreError> {
        // Some of what the index finds may have been forgotten, or be there twice.
        let mut known = Vec::new();
        for spare in [8, 64, 512] {
            let found = self.index.nearest(normalized, limit + spare);
            known = self.look_up(&found, limit)?;
            if known.len() == limit || found.len() < limit + spare {
                break;
            }
        }
        Ok(known)
    }

    fn look_up(
        &self,
        found: &[Match],
        limit: usize,
    ) -> Result<Vec<(Match, Knowledge)>, StoreError> {
        let mut known: Vec<(Match, Knowledge)> = Vec::with_capacity(limit);
        for near in found {
            if known.len() == limit {
                break;
            }
            if known.iter().any(|(seen, _)| seen.signature == near.signature) {
                continue;
            }
            let knowledge = self.memory.recall(near.signature)?;
            known.extend(knowledge.map(|knowledge| (*near, knowledge)));
        }
        Ok(known)
    }

    /// Returns how much memory the index takes, in bytes.
    pub fn memory(&self) -> usize {
        self.index.memory()
    }
}
