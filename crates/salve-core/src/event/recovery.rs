//! What is proposed to recover a loop's tests.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Digest;
use crate::gate::{Category, Confidence, Severity};
use crate::scrub::Scrubbed;

/// Who proposes a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalSource {
    /// The loop's tester, by `recovery.json`.
    Tester,
    /// Salve itself, from the failure and its playbook.
    Salve,
}

/// A proposal as the journal keeps it: the recovery format's fields, scrubbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposed {
    /// Who proposes it.
    pub source: ProposalSource,
    /// When the diagnosis was made.
    pub timestamp: Timestamp,
    /// What kind of infrastructure is broken.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// The pattern that matched the failure.
    pub error_pattern: Scrubbed,
    /// The cause in words.
    pub root_cause: Scrubbed,
    /// Where it shows, as `file:line` references.
    pub evidence: Vec<Scrubbed>,
    /// What is to run.
    pub recovery: Attempted,
    /// What success looks like.
    pub expected_outcome: Scrubbed,
    /// The alternative if that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Attempted>,
}

impl Proposed {
    /// Tells whether two proposals want the very same done.
    pub fn wants_the_same(&self, other: &Self) -> bool {
        let wants = |one: &Self| {
            let of = |one: &Attempted| {
                (one.command.clone(), one.working_dir.clone(), one.timeout_seconds)
            };
            (of(&one.recovery), one.fallback.as_ref().map(of))
        };
        wants(self) == wants(other)
    }
}

/// One command of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempted {
    pub command: Scrubbed,
    /// Where it is to run, from the project's root.
    pub working_dir: Scrubbed,
    /// How long it may take.
    pub timeout_seconds: u64,
    /// How sure the proposer says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
}

/// A manifest, lockfile or setting of a package manager, as it was once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    /// Its path below the project's root.
    pub path: Scrubbed,
    /// The hash of what it held.
    pub digest: Digest,
}
