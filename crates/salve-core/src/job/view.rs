//! What is known of a job.

use super::{FailedAttempt, Job, JobEnding, PendingReset, RecoveryRequest};
use crate::event::{Checkpoint, HealStrategy, JobTerms};
use crate::id::JobId;
use crate::scrub::Scrubbed;
use crate::steps::{StepMachine, StepStamps, StepsStanding};

impl Job {
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Returns the terms in force.
    pub fn terms(&self) -> &JobTerms {
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

    /// Returns which branch of the run it is on, from 1; going back to a step that is done makes a
    /// new one.
    pub fn branch(&self) -> u32 {
        self.steps.position.pass()
    }

    /// Returns the step that is due or at work, by its number from 0.
    pub fn at_step(&self) -> Option<usize> {
        self.steps.position.at_step()
    }

    /// Returns the name of a step.
    pub fn step_id(&self, step: usize) -> Option<&Scrubbed> {
        self.terms.steps.get(step).map(|step| &step.id)
    }

    /// Returns how the attempts at the present step failed.
    pub fn failures(&self) -> &[FailedAttempt] {
        &self.failures
    }

    /// Returns what the steps that are done left, from the first on.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Returns how often the controller has set the workspace back.
    pub fn resets(&self) -> u32 {
        self.resets
    }

    /// Returns the reset that has to be done before the next attempt, if one has.
    pub fn pending(&self) -> Option<PendingReset> {
        self.pending
    }

    /// Returns what is done about the last failed attempt.
    pub fn strategy(&self) -> HealStrategy {
        self.strategy
    }

    /// Returns how it ended or is to end, if that is settled.
    pub fn ending(&self) -> Option<&JobEnding> {
        self.ending.as_ref()
    }

    /// Returns what a person last ordered about a step.
    pub fn recovery(&self) -> Option<&RecoveryRequest> {
        self.recovery.as_ref()
    }

    /// Returns whether what runs for it now is to be ended: somebody ordered otherwise.
    pub fn is_called_off(&self) -> bool {
        self.called_off || self.steps.is_called_off()
    }

    /// Returns whether a person called it off and nobody has taken that back since.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Returns whether a person ordered something about a step that is still to be done.
    pub fn is_ordered(&self) -> bool {
        self.recovery.as_ref().is_some_and(|request| !request.honored)
    }

    /// Returns whether a step is at work, as far as the journal says.
    pub fn is_at_work(&self) -> bool {
        self.steps.is_at_work()
    }

    /// Returns its list of steps: what it has cost, what is left to it, and who holds it.
    pub fn steps(&self) -> &StepMachine {
        &self.steps
    }
}
