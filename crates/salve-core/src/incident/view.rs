//! What others may read of an incident.

use jiff::Timestamp;

use super::{ConsideredRemedy, History, Incident, Ledger, Phase, Tier, Trial};
use crate::event::{IncidentPolicy, Process, Remedy, Subject, Symptom};
use crate::id::IncidentId;
use crate::playbook::PlaybookFinding;

impl Incident {
    /// Returns the incident's id.
    pub fn id(&self) -> IncidentId {
        self.repair.id
    }

    /// Returns what is under care.
    pub fn subject(&self) -> &Subject {
        &self.repair.subject
    }

    /// Returns the terms it was opened under.
    pub fn policy(&self) -> &IncidentPolicy {
        &self.repair.policy
    }

    /// Returns the latest failure seen.
    pub fn symptom(&self) -> &Symptom {
        &self.repair.symptom
    }

    /// Returns the process that drives it, if one does.
    pub fn owner(&self) -> Option<&Process> {
        self.owner.as_ref()
    }

    /// Returns where it stands.
    pub fn phase(&self) -> Phase {
        self.repair.phase
    }

    /// Returns the remedy in question.
    pub fn trial(&self) -> Option<&Trial> {
        self.repair.trials.current.as_ref()
    }

    /// Returns the remedies that were considered and did not help.
    pub fn tried(&self) -> &[ConsideredRemedy] {
        &self.repair.trials.tried
    }

    /// Returns the budget.
    pub fn ledger(&self) -> &Ledger {
        &self.repair.ledger
    }

    /// Returns what was found out about the latest failure, for a person.
    pub fn findings(&self) -> &[PlaybookFinding] {
        &self.repair.findings
    }

    /// Returns the failures seen so far.
    pub fn history(&self) -> &History {
        &self.repair.history
    }

    /// Returns the number of the present attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.repair.attempt()
    }

    /// Returns how much thought the present attempt deserves.
    pub fn tier(&self) -> Tier {
        Tier::of_attempt(self.attempt())
    }

    /// Tells whether somebody wants the running effect to end and something else to follow.
    pub fn is_called_off(&self) -> bool {
        self.repair.wish.is_some()
    }

    /// Tells whether the same failure kept coming back in the same tree.
    pub fn is_stuck(&self) -> bool {
        self.repair.is_stuck()
    }

    /// Tells whether a remedy may be tried: nothing that happened before rules it out, and the
    /// budget has a reset left if it is one.
    pub(super) fn may_try(&self, remedy: &Remedy) -> bool {
        self.repair.trials.may_try(remedy) && self.repair.ledger.has_resets_for(remedy.kind)
    }

    /// Tells whether only a person may have a remedy run, since a kill cut it short.
    pub(super) fn needs_word(&self, remedy: &Remedy) -> bool {
        self.repair.trials.needs_word(remedy)
    }

    /// Returns when to stop waiting for an agent, if one is waited for.
    pub fn agent_deadline(&self) -> Option<Timestamp> {
        self.repair.agent_deadline()
    }

    /// Tells whether an agent that listens has taken the present attempt up.
    pub fn is_taken_up(&self) -> bool {
        self.repair.agent.is_engaged(self.attempt())
    }

    /// Returns the time of the latest entry; time does not run backwards from it.
    pub fn clock(&self) -> Timestamp {
        self.repair.clock
    }

    /// Returns the number of the incident's last entry, for compare-and-append.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}
