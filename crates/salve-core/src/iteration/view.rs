//! What is known of a loop.

use jiff::Timestamp;

use super::{Loop, Place, Refusal, Standing};
use crate::event::{Amounts, LoopId, LoopStep, LoopTerms, Process, Resource, TestsSeen};
use crate::scrub::Scrubbed;

impl Loop {
    /// Returns the loop's name.
    pub fn id(&self) -> &LoopId {
        &self.id
    }

    /// Returns what is to be done.
    pub fn task(&self) -> &Scrubbed {
        &self.task
    }

    /// Returns the terms in force.
    pub fn terms(&self) -> &LoopTerms {
        &self.terms
    }

    /// Returns how it stands.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Returns the last iteration that began; 0 before the first.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Returns the role whose turn it is, or that is at work.
    pub fn role(&self) -> Option<&Scrubbed> {
        match (&self.place, &self.role) {
            (_, Some(role)) => Some(&role.name),
            (Place::At { step, .. }, None) => match self.terms.steps.get(*step) {
                Some(LoopStep::Role(role)) => Some(role),
                Some(LoopStep::Tests | LoopStep::Recovery) | None => None,
            },
            (Place::Between | Place::Confirming | Place::Kept, None) => None,
        }
    }

    /// Returns whether the last iteration that began is over.
    pub fn is_between(&self) -> bool {
        self.place == Place::Between
    }

    /// Returns whether the recovery of this iteration has begun and is not over.
    pub fn is_recovering(&self) -> bool {
        matches!(self.place, Place::At { recovering: true, .. })
    }

    /// Returns what was wrong with the last attempt at the present step.
    pub fn complaint(&self) -> Option<&Scrubbed> {
        match &self.place {
            Place::At { short, .. } => short.last(),
            Place::Between | Place::Confirming | Place::Kept => None,
        }
    }

    /// Returns whether the role whose turn it is was cut off at its work before.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns the last run of the tests in this iteration.
    pub fn tests(&self) -> Option<&TestsSeen> {
        self.tests.as_ref()
    }

    /// Returns the last run of the tests in the iteration before.
    pub fn earlier_tests(&self) -> Option<&TestsSeen> {
        self.earlier.as_ref()
    }

    /// Returns why the promise of the last iteration did not count, if one was made.
    pub fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// Returns what this run of the loop has cost so far.
    pub fn spent(&self) -> Amounts {
        self.role.as_ref().map_or(self.spent, |role| self.spent.plus(role.spent))
    }

    /// Returns how much of a resource is left to this run; nothing where there is no limit.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        let spent = self.spent().get(resource);
        self.terms.limits.get(resource).map(|limit| limit.saturating_sub(spent))
    }

    /// Returns how often in a row it was parked.
    pub fn parks(&self) -> u32 {
        self.parks
    }

    /// Returns the journal's last entry before this run of the loop began.
    pub fn run_since(&self) -> u64 {
        self.run_since
    }

    /// Returns when the last iteration began, or the loop, before the first.
    pub fn began(&self) -> Timestamp {
        self.began
    }

    /// Returns when it last came to stand as it does.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the latest time that it has seen; time goes on from there.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Returns the process that drives it, or did last, if one has said anything.
    pub fn driver(&self) -> Option<&Process> {
        self.driver.as_ref()
    }

    /// Returns who paused it, if somebody did.
    pub fn paused_by(&self) -> Option<&Scrubbed> {
        self.paused.as_ref()
    }

    /// Returns whether what runs for it now is to be ended: somebody ordered otherwise.
    pub fn is_called_off(&self) -> bool {
        match self.standing {
            Standing::Stopped | Standing::Waits { .. } | Standing::Ended(_) => true,
            Standing::Running | Standing::Parked { .. } => self.wish.is_some(),
        }
    }

    /// Returns whether a role is at work, as far as the journal says.
    pub fn is_at_work(&self) -> bool {
        self.role.is_some()
    }

    /// Returns the last entry that it was made of.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}
