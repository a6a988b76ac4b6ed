//! What a run stands on: everything that the driver and all subjects of one run share.

use std::time::Duration;

use salve_core::event::{
    Actor, Amounts, AtALoss, IncidentPolicy, OnFailure, RepairMode, ResourceLimits, Scope,
};
use salve_core::fingerprint::FingerprintRules;
use salve_core::scrub::Scrubbed;

use super::agents::Agents;
use super::inbox::Inbox;
use super::remedies::Remedies;
use super::reporter::{Remark, Reporter};
use super::{IncidentWriter, Presence, millis};
use crate::config::{Breakers, Tiers};
use crate::process::Supervisor;
use crate::project::Project;
use crate::workspace::Name;

/// Everything that the driver and all subjects of one run share.
pub struct RunBase<'a> {
    pub project: Project,
    /// Where incidents meet the journal.
    pub writer: IncidentWriter<'a>,
    /// What starts and ends processes.
    pub care: Supervisor,
    /// What recognises failures.
    pub rules: &'a FingerprintRules,
    /// Where remedies are taken from.
    pub remedies: Remedies<'a>,
    /// How repairs go.
    pub terms: RepairTerms,
    /// What it takes to start agents, where they are.
    pub agents: Option<Agents<'a>>,
    /// Where everything arrives.
    pub inbox: Inbox,
    /// Who is shown what happens.
    pub reporter: &'a mut dyn Reporter,
    /// Whether somebody is there.
    pub presence: Presence,
    /// The person who wants this run, if a person does.
    pub by: Option<Actor>,
    /// What all incidents of this run have cost so far, as far as they are over.
    pub spent: Amounts,
    /// Processes that subjects and agents of this run left behind.
    pub orphans: usize,
    /// Whether remedies are tried or only told.
    pub intent: RunIntent,
}

/// Whether remedies are tried or only told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIntent {
    /// They are tried.
    Heal,
    /// It is told what would be tried and by which rule, and nothing is done.
    Observe,
}

impl RunIntent {
    /// Returns what `--observe` asks for, if it is given.
    pub fn observing(is_given: bool) -> Self {
        if is_given { RunIntent::Observe } else { RunIntent::Heal }
    }
}

/// How repairs go, the same for all subjects of a run.
#[derive(Clone, Debug)]
pub struct RepairTerms {
    /// Who is asked when a person has to decide.
    pub person: Scrubbed,
    /// Whether an agent repairs.
    pub mode: RepairMode,
    /// How long an agent may take to begin.
    pub engage: Duration,
    /// How long an agent may take to finish.
    pub write: Duration,
    /// The most files a repair may change without a person.
    pub max_files: u32,
    /// The most lines a repair may change without a person.
    pub max_lines: u32,
    /// What becomes of a change that did not help.
    pub on_failure: OnFailure,
    /// When healing stops by itself.
    pub breakers: Breakers,
    /// What each attempt by an agent may take.
    pub tiers: Tiers,
    /// How long proposals of attached agents are waited for before an agent is started.
    pub broadcast: Duration,
    /// How long snapshots and records are kept.
    pub kept: Duration,
}

impl RepairTerms {
    /// Returns the terms of an incident that may spend this much and waits for nothing.
    ///
    /// What one kind of subject wants otherwise it changes.
    pub fn policy(&self, limits: ResourceLimits) -> IncidentPolicy {
        IncidentPolicy {
            person: self.person.clone(),
            mode: self.mode,
            listener: None,
            starts: None,
            limits,
            backoff_ms: 0,
            engage_ms: millis(self.engage),
            write_ms: millis(self.write),
            quiet_ms: 0,
            watch_ms: 0,
            cooldown_ms: 0,
            max_files: self.max_files,
            max_lines: self.max_lines,
            no_progress_limit: None,
            catastrophe_after: None,
            on_failure: self.on_failure,
            at_a_loss: AtALoss::Ask,
        }
    }
}

impl RunBase<'_> {
    /// Tells a person something about a subject.
    pub fn note(&mut self, subject: &str, text: &str) {
        let text = self.writer.scrubber.scrub(text);
        self.reporter.remark(subject, &Remark::Note(text));
    }

    /// Returns what is left of limits that hold for the whole run.
    pub fn left_of(&self, run: ResourceLimits) -> ResourceLimits {
        let left = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
        ResourceLimits {
            attempts: left(run.attempts, self.spent.attempts),
            tokens: left(run.tokens, self.spent.tokens),
            money_micros: left(run.money_micros, self.spent.money_micros),
            wall_ms: left(run.wall_ms, self.spent.wall_ms),
            resets: left(run.resets, self.spent.resets),
        }
    }
}

/// Returns the name of the snapshot that is taken before an attempt.
pub(crate) fn snapshot_name(incident: &salve_core::incident::Incident, scope: Scope) -> Name {
    let attempt = match scope {
        Scope::Attempt => incident.attempt(),
        Scope::Incident => 1,
    };
    Name::before(incident.id(), attempt)
}
