//! Changes of what is known, told apart from the memory that they change.
//!
//! An edit says what to do with whatever is known when it is taken in, so that two processes that
//! learn at once lose nothing of each other.

use jiff::Timestamp;

use super::{Knowledge, RemedyTrial, RememberedFailure, RememberedRemedy};
use crate::scrub::Scrubbed;

/// One change of what is known about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnowledgeChange {
    /// The failure was seen (again).
    Seen,
    /// A person says when it was first seen.
    FirstSeen(Timestamp),
    /// A person says when it was last seen.
    LastSeen(Timestamp),
    /// A remedy is no longer known, and what came of it neither.
    Dropped(RememberedRemedy),
    /// A remedy came out so.
    Learned {
        remedy: RememberedRemedy,
        /// How it came out.
        outcome: RemedyTrial,
    },
    /// Somebody taught a remedy; a known one is left as it is.
    Taught {
        remedy: RememberedRemedy,
        /// When.
        at: Timestamp,
        /// Who.
        by: Scrubbed,
    },
}

/// What changes about one failure, known or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnowledgeEdit {
    pub failure: RememberedFailure,
    /// When it became known, if it was not before.
    pub at: Timestamp,
    /// The changes, in their order.
    pub changes: Vec<KnowledgeChange>,
}

impl KnowledgeEdit {
    /// Makes an edit of one change.
    pub fn of(failure: &RememberedFailure, at: Timestamp, change: KnowledgeChange) -> Self {
        Self { failure: failure.clone(), at, changes: vec![change] }
    }

    /// Returns what is known after the edit.
    pub fn apply(&self, known: Option<Knowledge>) -> Knowledge {
        let unseen = || Knowledge { seen: 0, ..Knowledge::new(self.failure.clone(), self.at) };
        let mut known = known.unwrap_or_else(unseen);
        if known.failure.key_line.as_str().is_empty() {
            known.failure.key_line = self.failure.key_line.clone();
        }
        for change in &self.changes {
            match change {
                KnowledgeChange::Seen => {
                    known.last_seen = known.last_seen.max(self.at);
                    known.seen = known.seen.saturating_add(1);
                }
                KnowledgeChange::FirstSeen(at) => known.first_seen = *at,
                KnowledgeChange::LastSeen(at) => known.last_seen = *at,
                KnowledgeChange::Dropped(remedy) => {
                    known.remedies.retain(|tried| tried.remedy != *remedy);
                }
                KnowledgeChange::Learned { remedy, outcome } => {
                    known.learn(remedy.clone(), outcome.clone());
                }
                KnowledgeChange::Taught { remedy, at, by } => {
                    known.teach(remedy.clone(), *at, by.clone());
                }
            }
        }
        known
    }

    /// Returns the remedies that the edit drops and does not bring back.
    pub fn dropped(&self) -> impl Iterator<Item = &RememberedRemedy> {
        self.changes.iter().filter_map(|change| match change {
            KnowledgeChange::Dropped(remedy) => Some(remedy),
            KnowledgeChange::Seen
            | KnowledgeChange::FirstSeen(_)
            | KnowledgeChange::LastSeen(_)
            | KnowledgeChange::Learned { .. }
            | KnowledgeChange::Taught { .. } => None,
        })
    }
}
