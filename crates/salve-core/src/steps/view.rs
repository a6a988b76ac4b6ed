//! What is known of a list of steps.

use super::{StepMachine, StepTerms, StepsStanding};
use crate::event::{Amounts, Resource};
use crate::scrub::Scrubbed;

impl StepMachine {
    /// Returns the terms in force.
    pub fn terms(&self) -> &StepTerms {
        &self.terms
    }

    /// Returns how it stands.
    pub fn standing(&self) -> &StepsStanding {
        &self.standing
    }

    /// Returns whether the step that is due was cut off at its work before.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns what this run has cost so far.
    pub fn spent(&self) -> Amounts {
        self.costs.spent()
    }

    /// Returns how much of a resource is left to this run; nothing where there is no limit.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        self.costs.left(resource, &self.terms.limits)
    }

    /// Returns how often in a row it was parked.
    pub fn parks(&self) -> u32 {
        self.parks
    }

    /// Returns who paused it, if somebody did.
    pub fn paused_by(&self) -> Option<&Scrubbed> {
        self.paused.as_ref()
    }

    /// Returns whether what runs for it now is to be ended: somebody ordered otherwise.
    pub fn is_called_off(&self) -> bool {
        match self.standing {
            StepsStanding::Stopped | StepsStanding::Waits { .. } | StepsStanding::Ended(_) => true,
            StepsStanding::Running | StepsStanding::Parked { .. } => self.wish.is_some(),
        }
    }

    /// Returns whether a step is at work, as far as the journal says.
    pub fn is_at_work(&self) -> bool {
        self.costs.at_work.is_some()
    }
}
