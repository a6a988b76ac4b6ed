//! All that one memory holds about one failure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Record, RemedyTrial, RememberedRemedy};
use crate::class::Class;
use crate::event::Proof;
use crate::fingerprint::Fingerprint;
use crate::id::Signature;
use crate::scrub::{Scrubbed, Scrubber};

/// The failure itself, as memory keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedFailure {
    pub signature: Signature,
    pub class: Class,
    /// What a person calls it.
    #[serde(default)]
    pub error_type: Scrubbed,
    /// What the signature is of.
    pub normalized: Scrubbed,
    /// Its identity, if an anchor named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Scrubbed>,
    /// The line that named it, from which other tables find its key; empty where it is not known.
    #[serde(default, skip_serializing_if = "super::record::is_empty")]
    pub key_line: Scrubbed,
}

impl RememberedFailure {
    /// Takes from a fingerprint what memory keeps.
    pub fn new(fingerprint: &Fingerprint, scrubber: &Scrubber) -> Self {
        Self {
            signature: fingerprint.signature,
            class: fingerprint.class,
            error_type: scrubber.scrub(&fingerprint.error_type),
            normalized: scrubber.scrub(&fingerprint.normalized),
            identity: fingerprint.identity.as_deref().map(|name| scrubber.scrub(name)),
            key_line: scrubber.scrub(&fingerprint.key_line),
        }
    }
}

/// A remedy and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriedRemedy {
    pub remedy: RememberedRemedy,
    /// When it became known.
    pub since: Timestamp,
    /// Who brought it.
    pub by: Scrubbed,
    /// How it did over all times.
    pub record: Record,
    /// Its latest outcomes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<RemedyTrial>,
}

/// On whose word a remedy is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyWord {
    /// Salve saw it heal.
    Seen,
    /// Somebody taught it.
    Taught,
    /// Nobody's but that of a file in the project, which any program may have written.
    File,
    /// Nobody's but that of a file that came with the repository, whoever wrote it there.
    Repository,
}

impl TriedRemedy {
    /// Who brought what only a file of the project says.
    pub const BY_FILE: &str = "healing-patterns.json";
    /// Who brought what only a file of the project says that came with the repository; it stays so
    /// when the repository no longer has the file.
    pub const BY_REPOSITORY: &str = "the repository's healing-patterns.json";

    /// Returns on whose word it is known. What a file says of outcomes names no incident.
    pub fn word(&self) -> RemedyWord {
        let is_seen =
            |outcome: &RemedyTrial| outcome.incident.is_some() && outcome.proof == Proof::Proven;
        if self.outcomes.iter().any(is_seen) {
            RemedyWord::Seen
        } else if self.by.as_str() == Self::BY_FILE {
            RemedyWord::File
        } else if self.by.as_str() == Self::BY_REPOSITORY {
            RemedyWord::Repository
        } else {
            RemedyWord::Taught
        }
    }

    /// The most outcomes kept in full; the record counts the rest.
    pub const KEPT: usize = 32;

    /// Makes a remedy that somebody taught and nobody has tried.
    pub fn taught(remedy: RememberedRemedy, since: Timestamp, by: Scrubbed) -> Self {
        Self { remedy, since, by, record: Record::default(), outcomes: Vec::new() }
    }

    /// Takes in one more outcome.
    pub fn add(&mut self, outcome: RemedyTrial) {
        self.record.add(outcome.proof, outcome.at);
        self.outcomes.push(outcome);
        let over = self.outcomes.len().saturating_sub(Self::KEPT);
        self.outcomes.drain(..over);
    }
}

/// All that one memory holds about one failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knowledge {
    pub failure: RememberedFailure,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// How often it was seen.
    pub seen: u64,
    /// The remedies known for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<TriedRemedy>,
}

impl Knowledge {
    /// Makes the knowledge of a failure seen for the first time.
    pub fn new(failure: RememberedFailure, at: Timestamp) -> Self {
        Self { failure, first_seen: at, last_seen: at, seen: 1, remedies: Vec::new() }
    }

    /// Returns the remedy equal to `remedy`, if it is known.
    pub fn find(&self, remedy: &RememberedRemedy) -> Option<&TriedRemedy> {
        self.remedies.iter().find(|tried| tried.remedy == *remedy)
    }

    /// Takes in that `remedy` came out so.
    pub fn learn(&mut self, remedy: RememberedRemedy, outcome: RemedyTrial) {
        match self.remedies.iter_mut().find(|tried| tried.remedy == remedy) {
            Some(tried) => tried.add(outcome),
            None => {
                let mut tried = TriedRemedy::taught(remedy, outcome.at, outcome.by.clone());
                tried.add(outcome);
                self.remedies.push(tried);
            }
        }
    }

    /// Takes in a remedy that nobody has tried; of a known one only who answers for it may change,
    /// from a file of the project to somebody, and never from the repository's to another file.
    pub fn teach(&mut self, remedy: RememberedRemedy, at: Timestamp, by: Scrubbed) {
        match self.remedies.iter_mut().find(|tried| tried.remedy == remedy) {
            Some(tried) => match (tried.word(), by.as_str()) {
                (RemedyWord::Repository, TriedRemedy::BY_FILE) => {}
                (RemedyWord::File | RemedyWord::Repository, _) => tried.by = by,
                (RemedyWord::Seen | RemedyWord::Taught, _) => {}
            },
            None => self.remedies.push(TriedRemedy::taught(remedy, at, by)),
        }
    }
}
