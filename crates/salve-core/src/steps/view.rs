//! What is known of a list of steps.

use super::{ProgressMarks, StepMachine, StepPlace, StepStamps, StepTerms, StepsStanding};
use crate::event::{Amounts, Resource};
use crate::scrub::Scrubbed;

impl StepMachine {
    /// Returns when it was last heard of, and who drives it.
    pub fn stamps(&self) -> &StepStamps {
        &self.stamps
    }

    /// Returns what its passes or attempts left.
    pub(crate) fn progress(&self) -> &ProgressMarks {
        &self.progress
    }

    /// Returns the terms in force.
    pub fn terms(&self) -> &StepTerms {
        &self.terms
    }

    /// Returns how it stands.
    pub fn standing(&self) -> &StepsStanding {
        &self.standing
    }

    /// Returns the last pass over the list that began; 0 before the first.
    pub fn pass(&self) -> u32 {
        self.pass
    }

    /// Returns how many passes this run has begun.
    pub fn passes(&self) -> u32 {
        self.pass.saturating_sub(self.before)
    }

    /// Returns the step that is due or at work, by its number from 0.
    pub fn at_step(&self) -> Option<usize> {
        match self.place {
            StepPlace::At { step, .. } => Some(step),
            StepPlace::Between | StepPlace::AllDone | StepPlace::Kept => None,
        }
    }

    /// Returns whether all steps are done and the promise is to be judged.
    pub(crate) fn is_all_done(&self) -> bool {
        self.place == StepPlace::AllDone
    }

    /// Returns whether the last pass that began is over.
    pub fn is_between(&self) -> bool {
        self.place == StepPlace::Between
    }

    /// Returns what was wrong with each attempt at the present step.
    pub fn complaints(&self) -> &[Scrubbed] {
        match &self.place {
            StepPlace::At { short, .. } => short,
            StepPlace::Between | StepPlace::AllDone | StepPlace::Kept => &[],
        }
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
