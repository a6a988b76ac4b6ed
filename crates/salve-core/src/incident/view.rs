//! What others may read of an incident.

use jiff::Timestamp;

use super::{ConsideredRemedy, History, Incident, Ledger, Phase, Tier, Trial, TrialReach};
use crate::event::{IncidentPolicy, Process, Subject, Symptom};
use crate::id::IncidentId;
use crate::playbook::PlaybookFinding;

impl Incident {
    /// Returns the incident's id.
    pub fn id(&self) -> IncidentId {
        self.id
    }

    /// Returns what is under care.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the terms it was opened under.
    pub fn policy(&self) -> &IncidentPolicy {
        &self.policy
    }

    /// Returns the latest failure seen.
    pub fn symptom(&self) -> &Symptom {
        &self.symptom
    }

    /// Returns the process that drives it, if one does.
    pub fn owner(&self) -> Option<&Process> {
        self.owner.as_ref()
    }

    /// Returns where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the remedy in question.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    /// Returns the remedies that were considered and did not help.
    pub fn tried(&self) -> &[ConsideredRemedy] {
        &self.tried
    }

    /// Returns the budget.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns what was found out about the latest failure, for a person.
    pub fn findings(&self) -> &[PlaybookFinding] {
        &self.findings
    }

    /// Returns the failures seen so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the number of the present attempt, from 1.
    pub fn attempt(&self) -> u32 {
        let begun = u32::try_from(self.ledger.spent().attempts).unwrap_or(u32::MAX);
        let untouched =
            self.trial.as_ref().is_some_and(|trial| trial.reach == TrialReach::Untouched);
        match untouched || self.phase == Phase::Choosing {
            true => begun.saturating_add(1),
            false => begun,
        }
    }

    /// Returns how much thought the present attempt deserves.
    pub fn tier(&self) -> Tier {
        Tier::of_attempt(self.attempt())
    }

    /// Tells whether somebody wants the running effect to end and something else to follow.
    pub fn is_called_off(&self) -> bool {
        self.wish.is_some()
    }

    /// Tells whether the same failure kept coming back in the same tree.
    pub fn is_stuck(&self) -> bool {
        let limit = self.policy.no_progress_limit;
        limit.is_some_and(|limit| self.history.repeats() >= limit)
    }

    /// Returns the time of the latest entry; time does not run backwards from it.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Returns the number of the incident's last entry, for compare-and-append.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}
