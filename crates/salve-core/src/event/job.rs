//! What happens to a job, and the nouns of it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Amounts, Digest, LoopEnd, ProcessExit, ResourceLimits};
use crate::class::FailureClass;
use crate::id::{JobId, Signature};
use crate::scrub::Scrubbed;

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum JobEvent {
    /// A job went on.
    #[serde(rename = "job")]
    Advanced {
        /// The run of the job.
        id: JobId,
        /// What happened.
        what: JobTurn,
    },
}

/// The terms under which a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobTerms {
    /// What the whole job is for.
    pub objective: Scrubbed,
    /// The hash of the file that says what the steps do; it lies with the job.
    pub spec: Digest,
    /// What the steps may take, in order.
    pub steps: Vec<JobStepTerms>,
    /// How often the whole job may be set back to its checkpoints (`job_self_heal_max_resets`).
    pub resets: u32,
    /// How often in a row it may be parked.
    pub parks: u32,
    /// What the whole job may take.
    pub limits: ResourceLimits,
}

/// What one step of a job may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobStepTerms {
    /// Its name within the job.
    pub id: Scrubbed,
    /// How often it is tried at most (`step_max_attempts`).
    pub attempts: u32,
    /// How often the same failure may leave the same tree (`step_no_progress_limit`).
    pub no_progress: u32,
}

/// What the self-heal controller does about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealStrategy {
    /// Nothing: trying again cannot help.
    None,
    /// The step is run again in the same workspace.
    SoftReset,
    /// The workspace is rebuilt from its checkpoints, then the step is run again.
    HardReset,
    /// The job fails, and whoever queues jobs may try it again.
    QueueRetry,
    /// A person has to say how it goes on.
    OperatorRequest,
}

impl HealStrategy {
    /// Returns the word of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SoftReset => "soft_reset",
            Self::HardReset => "hard_reset",
            Self::QueueRetry => "queue_retry",
            Self::OperatorRequest => "operator_request",
        }
    }
}

impl fmt::Display for HealStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How an attempt at a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFailure {
    /// What kind of failure it is.
    pub class: FailureClass,
    /// The failure's identity, a hash of its normalised text.
    pub signature: Signature,
    /// The line that names it.
    pub summary: Scrubbed,
    /// The last command that was run, if it was one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Scrubbed>,
    /// How the step's process ended, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    /// The timer that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<StepTimer>,
    /// The hash of the tree that it left, if it could be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Digest>,
    /// The hash of what it changed since the last checkpoint, if it could be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Digest>,
    /// Files that it changed, at most some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Scrubbed>,
}

/// A timer that ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTimer {
    /// The whole time that it may take (`step_timeout_seconds`).
    Wall,
    /// The time that it may show no sign of work (`step_idle_timeout_seconds`).
    Idle,
}

impl StepTimer {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Idle => "idle",
        }
    }
}

/// What a step that succeeded left, kept so that it need not run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The hash of the file `step-XXXX.patch`.
    pub patch: Digest,
    /// The hash of the file `step-XXXX.json`.
    pub state: Digest,
    /// The hash of the whole tree after the step.
    pub tree: Digest,
}

/// How an attempt at a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AttemptEnd {
    /// The step is done and verified, and its checkpoint is kept.
    Done { checkpoint: Checkpoint },
    Failed {
        /// How.
        failure: Box<StepFailure>,
        /// What is done about it.
        strategy: HealStrategy,
    },
    /// It cannot be worked on for now, and can later without anybody doing anything.
    Away {
        /// When to try again.
        until: Timestamp,
        /// Why.
        reason: Scrubbed,
    },
    /// It cannot be worked on until a person has done something.
    Unable {
        /// What a person has to do.
        reason: Scrubbed,
    },
    /// It was told to stop.
    Stopped,
}

/// Why a workspace is set back to its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetCause {
    /// The controller escalated to a hard reset.
    Controller,
    /// A person ordered a hard reset.
    Operator,
    /// A person has the job go on from this step.
    ResumeFrom,
    /// An attempt was cut off, and may have left anything.
    Interrupted,
    /// The job had failed and is tried again from its last checkpoint.
    Retried,
}

/// What came of setting a workspace back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ResetEnd {
    /// It is as the last checkpoint left it.
    Done,
    /// A checkpoint could not be replayed; the old workspace and all files were kept.
    Failed {
        /// Why, with the file that disagreed.
        reason: Scrubbed,
    },
}

/// What a person orders a job to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobOrder {
    /// Begin nothing new.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Stop at once.
    Cancel,
    /// Try the present step again, with its counters at zero.
    RetryStep,
    /// Set the workspace back to the checkpoint before the present step and try it again.
    HardResetStep,
    /// Set the workspace back to before this step, and go on from there.
    ResumeFromStep {
        /// The step's number, from 0.
        step: u32,
    },
}

impl JobOrder {
    /// Returns the word of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::RetryStep => "retry_step",
            Self::HardResetStep => "hard_reset_step",
            Self::ResumeFromStep { .. } => "resume_from_step",
        }
    }
}

/// One thing that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobTurn {
    /// A person started it.
    Started { terms: Box<JobTerms> },
    /// A person or a worker had it go on.
    Resumed {},
    /// An attempt at a step begins.
    StepBegan {
        /// The step's number, from 0.
        step: u32,
        /// How often it was tried, from 1.
        attempt: u32,
        /// What was done about the attempt before.
        strategy: HealStrategy,
    },
    /// A timer will end the attempt soon.
    Warned {
        /// The step's number, from 0.
        step: u32,
        timer: StepTimer,
        /// How long is left.
        left_ms: u64,
    },
    /// What the attempt has cost so far; the larger of two such statements counts.
    Charged {
        /// Its whole cost until now.
        spent: Amounts,
    },
    /// An attempt at a step ended.
    StepEnded {
        /// The step's number, from 0.
        step: u32,
        /// How often it was tried, from 1.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
        /// What it cost in all.
        spent: Amounts,
    },
    /// The workspace is about to be set back to before a step.
    ResetBegan {
        /// The step's number, from 0.
        step: u32,
        /// Why.
        cause: ResetCause,
    },
    /// That is over.
    ResetEnded {
        /// The step's number, from 0.
        step: u32,
        /// What came of it.
        end: ResetEnd,
    },
    /// A remedy was applied to what made the last attempt fail: the step is worth another one.
    Remedied {
        /// The remedy, in words.
        remedy: Scrubbed,
    },
    /// What the last attempt failed of may be remedied, and a person is asked whether it is.
    Asked {
        /// What is asked.
        reason: Scrubbed,
    },
    /// A person gave an order.
    Ordered { order: JobOrder },
    /// Whoever runs the job carried out the order.
    Honored {
        /// The entry of the order.
        order: u64,
    },
    /// The user stopped it; it goes on when it is resumed.
    Stopped {},
    /// It is over.
    Ended {
        why: LoopEnd,
        /// Whether trying it again from its last checkpoint may help.
        retryable: bool,
    },
}
