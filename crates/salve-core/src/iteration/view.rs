//! What is known of a loop.

use super::{Loop, PromiseRefusal, StepsStanding};
use crate::event::{Amounts, LoopId, LoopStep, LoopTerms, Resource, TestsSeen};
use crate::scrub::Scrubbed;
use crate::steps::StepStamps;

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

    /// Returns when it was last heard of, and who drives it.
    pub fn stamps(&self) -> &StepStamps {
        &self.steps.stamps
    }

    /// Returns how it stands.
    pub fn standing(&self) -> &StepsStanding {
        self.steps.standing()
    }

    /// Returns the last iteration that began; 0 before the first.
    pub fn iteration(&self) -> u32 {
        self.steps.position.pass()
    }

    /// Returns the kind of the step that is due or at work.
    pub(super) fn step_kind(&self) -> Option<&LoopStep> {
        self.terms.steps.get(self.steps.position.at_step()?)
    }

    /// Returns the role whose turn it is, or that is at work.
    pub fn role(&self) -> Option<&Scrubbed> {
        match self.step_kind()? {
            LoopStep::Role(role) => Some(role),
            LoopStep::Tests | LoopStep::Recovery => None,
        }
    }

    /// Returns whether the last iteration that began is over.
    pub fn is_between(&self) -> bool {
        self.steps.position.is_between()
    }

    /// Returns whether the recovery of this iteration has begun and is not over.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Returns what was wrong with the last attempt at the present step.
    pub fn complaint(&self) -> Option<&Scrubbed> {
        self.steps.position.complaints().last()
    }

    /// Returns whether the role whose turn it is was cut off at its work before.
    pub fn was_interrupted(&self) -> bool {
        self.steps.was_interrupted()
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
    pub fn refused(&self) -> Option<PromiseRefusal> {
        self.refused
    }

    /// Returns how many iterations of this run left what the last one left, itself included.
    pub fn unchanged(&self) -> u32 {
        self.steps.progress.unchanged()
    }

    /// Returns what this run of the loop has cost so far.
    pub fn spent(&self) -> Amounts {
        self.steps.spent()
    }

    /// Returns how much of a resource is left to this run; nothing where there is no limit.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        self.steps.left(resource)
    }

    /// Returns how often in a row it was parked.
    pub fn parks(&self) -> u32 {
        self.steps.parks()
    }

    /// Returns who paused it, if somebody did.
    pub fn paused_by(&self) -> Option<&Scrubbed> {
        self.steps.paused_by()
    }

    /// Returns whether what runs for it now is to be ended: somebody ordered otherwise.
    pub fn is_called_off(&self) -> bool {
        self.steps.is_called_off()
    }

    /// Returns whether a role is at work, as far as the journal says.
    pub fn is_at_work(&self) -> bool {
        self.steps.is_at_work()
    }
}
