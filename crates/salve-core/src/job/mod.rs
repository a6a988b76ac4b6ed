//! One run of a job: a list of steps that is gone through once, each wrapped in self-healing.
//!
//! A [`Job`] is made of its journal entries alone and says what is next ([`Job::next`]); it never
//! acts. Its list is the same machine as a loop's ([`crate::steps`]), with the last step as its
//! end. What a failed attempt leads to ([`Job::decide`]) is decided here: the step is run again in
//! the same workspace, or in one that is rebuilt from its checkpoints, or the job fails, or a
//! person is asked.
//!
//! **Invariants:** a step that is done is not run again, unless a person has the job go on from
//! before it. Nothing is set back more often than the job may be. What fails for a reason that
//! cannot pass is tried once.

mod dealing;
mod follow;
mod heal;
mod prompt;
mod queue;
mod review;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod state;
mod task_events;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use jiff::Timestamp;

use crate::event::{
    Checkpoint, Entry, HealStrategy, JobOrder, JobTerms, LoopEnd, ResetCause, StepFailure,
};
use crate::id::JobId;
use crate::scrub::Scrubbed;
use crate::steps::{EndRule, Skipping, StepMachine, StepMove, StepRule, StepTerms};

pub use dealing::{
    ClaimCare, JobTrace, ProlongAnswer, RecordWrite, WakeUpEnd, WriteAnswer, WriteLook, WriteNext,
    care_for_claim, is_to_be_prolonged,
};
pub use heal::{AttemptOutcome, FailureRule, class_of};
pub use prompt::{StepPrompt, step_prompt};
pub use queue::{
    ClaimEnd, ClaimGrant, QueueState, QueuedJob, RetryTerms, SentWrite, UnheardWrite, WakeUpMove,
    WorkEnd, claim_end, judge_unheard,
};
pub use review::{ReviewPrompt, ReviewVerdict, review_prompt, review_verdict};
pub use state::{AttemptRecord, JobState, JobStatus, LiveControl, RecoveryObject, job_state};
pub use task_events::{TaskEvent, cause_word, task_events};

/// A run of a job as its entries made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    id: JobId,
    terms: Arc<JobTerms>,
    steps: StepMachine,
    /// How the attempts at the present step failed.
    failures: Vec<FailedAttempt>,
    /// What each step that is done left, from the first on.
    checkpoints: Vec<Checkpoint>,
    /// How often the controller has set the workspace back.
    resets: u32,
    /// The reset that has to be done before the next attempt.
    pending: Option<PendingReset>,
    /// The reset that failed: what was to be set back is still there when the job goes on.
    undone: Option<PendingReset>,
    /// How it is to end, once that is settled.
    ending: Option<JobEnding>,
    /// What is done about the last failed attempt.
    strategy: HealStrategy,
    /// Whether the attempt at work is to be given up for another.
    called_off: bool,
    /// What a person last ordered about a step.
    recovery: Option<RecoveryRequest>,
    /// Whether a person called it off and nobody has taken that back: no worker goes on with it.
    cancelled: bool,
}

/// An attempt at a step that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Which it was, from 1.
    pub attempt: u32,
    /// How it failed.
    pub failure: StepFailure,
    /// What was done about it.
    pub strategy: HealStrategy,
}

/// A reset that has to be done before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingReset {
    /// The step before which the workspace is set back, from 0.
    pub step: usize,
    /// Why.
    pub cause: ResetCause,
}

/// How a job is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnding {
    pub why: LoopEnd,
    /// Whether trying it again from its last checkpoint may help.
    pub retryable: bool,
}

/// What a person ordered about a step: the spec's `recovery` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryRequest {
    /// The entry of the order.
    pub seq: u64,
    pub order: JobOrder,
    /// The step that it is about, from 0.
    pub step: usize,
    /// When it was given.
    pub at: Timestamp,
    /// By whom.
    pub by: Scrubbed,
    /// Whether whoever runs the job has done as it was ordered.
    pub honored: bool,
}

/// What is to be done next with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobMove {
    /// Try a step.
    Attempt {
        /// Its number, from 0.
        step: usize,
        /// How often it will have been tried, from 1.
        attempt: u32,
        /// What was done about the attempt before.
        strategy: HealStrategy,
    },
    /// Set the workspace back to before a step.
    Reset(PendingReset),
    /// Wait until then.
    Wait(Timestamp),
    /// Nothing, until whoever is named or somebody else lets it go on.
    Hold(Scrubbed),
    /// Write that it is over.
    End(JobEnding),
    /// Nothing: a person has to say how it goes on.
    Person(Scrubbed),
    /// Nothing: it is over, or was stopped.
    Over,
}

impl Job {
    /// Makes a job of its entries, those of others being passed over; nothing if it was not started.
    pub fn replay<'e>(id: JobId, entries: impl IntoIterator<Item = &'e Entry>) -> Option<Self> {
        let mut made: Option<Self> = None;
        for entry in entries {
            match &mut made {
                // What is refused stands in the journal and changes nothing.
                Some(known) => drop(known.step(entry)),
                None => made = Self::start(id, entry),
            }
        }
        made
    }

    /// Returns what is to be done next.
    pub fn next(&self, now: Timestamp) -> JobMove {
        match self.steps.next(now) {
            StepMove::Step { step, attempt } => match (&self.ending, self.pending) {
                (Some(ending), _) => JobMove::End(ending.clone()),
                (None, Some(pending)) => JobMove::Reset(pending),
                (None, None) => JobMove::Attempt { step, attempt, strategy: self.strategy },
            },
            StepMove::End(why) => JobMove::End(self.ending.clone().unwrap_or_else(|| {
                // Whoever ran out of patience with a quota may have more later.
                let retryable = matches!(why, LoopEnd::Failed { .. });
                JobEnding { why, retryable }
            })),
            StepMove::Wait(until) => JobMove::Wait(until),
            StepMove::Hold(by) => JobMove::Hold(by),
            StepMove::Person(reason) => JobMove::Person(reason),
            // A job has one pass, which begins with it, and no promise.
            StepMove::BeginPass(_) | StepMove::Judge | StepMove::Over => JobMove::Over,
        }
    }
}

/// Returns what a job's terms mean for its list of steps.
fn step_terms(terms: &JobTerms) -> StepTerms {
    let rules = terms.steps.iter();
    let rule = |attempts: u32| StepRule { attempts, skipping: Skipping::Refused };
    StepTerms {
        steps: rules.map(|step| rule(step.attempts)).collect(),
        limits: terms.limits,
        stuck_after: u32::MAX,
        parks: terms.parks,
        end: EndRule::LastStep,
    }
}
