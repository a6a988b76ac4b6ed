//! The playbook: what is known to help against failures of the infrastructure around a subject.
//!
//! Rules are data (`data/playbook/*.toml`). A rule says which text names the failure, what must be
//! true of the project's state for its cure to fit, which cures to try in which order, and what to
//! tell a person. The same text may want another cure, so nothing follows from text alone:
//! [`Playbook::clues`] tells which things the text speaks of, the caller looks at those things and
//! returns [`ProjectFacts`], and [`Playbook::diagnose`] decides.
//!
//! **Invariants:** a clean exit is never given a remedy; a remedy marked [`Gate::Safe`] only
//! rebuilds derived files from the project's own manifest, removes what is provably stale, ends
//! the project's own orphans, or runs the subject again.

mod action;
mod advice;
mod catch;
mod condition;
mod cure;
mod facts;
mod fill;
mod know;
mod manager;
mod pattern;
mod place;
mod rule;
mod set_variable;
mod table;
#[cfg(test)]
mod tests;

pub use action::{Action, ActionStep, Edits, Right, quoted};
pub use advice::{Harm, harm_of};
pub use catch::{CatchKind, Clues};
pub use condition::Condition;
pub use cure::Cure;
pub use facts::{
    Agreement, Compose, Disk, Drift, HeapRoom, LivingProcess, LockHold, LockfileState, Manifest,
    NodeProject, PackageState, PathKind, PathState, PortState, ProjectFacts, PythonManager,
    PythonProject, SalveMark, UnfitScript, User, Venv,
};
pub use know::build_script;
pub use manager::{ManagerCommands, NodeManager};
pub use rule::{Gate, PatternPlace, PlaybookRuleError, RuleExample, RuleRow, RuleTouch, RuleTurn};
pub use set_variable::SetVariable;
pub use table::Playbook;

use serde::{Deserialize, Serialize};

use crate::event::{Digest, ProcessExit, Remedy, RemedyKind, RemedyOrigin, Repeat, Undo};
use crate::fingerprint::Fingerprint;
use crate::scrub::Scrubbed;

/// One observed failure, as the playbook sees it.
#[derive(Clone, Copy, Debug)]
pub struct ObservedFailure<'a> {
    /// The failure's identity.
    pub fingerprint: &'a Fingerprint,
    /// How the process ended.
    pub exit: &'a ProcessExit,
    /// The last lines it wrote, as they came.
    pub output: &'a str,
}

/// What sort of trouble it is, and so who can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// Something around the code is not as it should be. If there is no remedy, running the subject
    /// again does not help either: a person is needed, and the findings say for what.
    Infrastructure,
    /// It may pass by itself: run it again after a while, and change nothing.
    Transient,
    /// The source has to change: for an agent or a person.
    Code,
    /// The playbook does not know this failure.
    Unknown,
}

/// What the playbook makes of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What sort of trouble it is.
    pub nature: Nature,
    /// The rule that recognised it.
    pub rule: Option<String>,
    /// What may help, the smallest first.
    pub remedies: Vec<Prescription>,
    /// What was found out, for a person.
    pub findings: Vec<PlaybookFinding>,
}

impl Diagnosis {
    /// Returns the diagnosis of a failure that no rule knows.
    pub fn unknown() -> Self {
        Self { nature: Nature::Unknown, rule: None, remedies: Vec::new(), findings: Vec::new() }
    }
}

/// A remedy, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prescription {
    /// The rule that proposes it.
    pub rule: String,
    /// What is to be done.
    pub action: Action,
    /// Whether it may run unattended under `playbook.auto = "safe"`.
    pub gate: Gate,
    /// The remedy as the journal knows it.
    pub remedy: Remedy,
    /// Why it should help.
    pub why: Scrubbed,
}

impl Prescription {
    /// Returns whether it may run unattended under `playbook.auto = "safe"`.
    pub fn is_safe(&self) -> bool {
        match self.gate {
            Gate::Safe => true,
            Gate::Ask => false,
        }
    }
}

/// Something a person should know, and what they can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaybookFinding {
    /// What was found.
    pub what: Scrubbed,
    /// What to do next.
    pub next: Scrubbed,
}

/// Returns the journal's view of an action.
fn remedy(action: &Action, text: Scrubbed) -> Remedy {
    let kind = if action.is_restart() { RemedyKind::Retry } else { RemedyKind::Command };
    let undo = if action.edits_tracked() { Undo::Snapshot } else { Undo::Nothing };
    let parts: Vec<String> = action.steps.iter().map(|step| format!("{step:?}")).collect();
    let bytes: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    let digest = Digest::of(&bytes);
    Remedy { kind, origin: RemedyOrigin::Playbook, text, digest, undo, repeat: Repeat::Safe }
}
