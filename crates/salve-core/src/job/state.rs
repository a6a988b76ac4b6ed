//! What a job's files say: how it stands, and how each attempt went. Their fields are the spec's.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{FailedAttempt, Job, RecoveryRequest};
use crate::event::{Amounts, Digest, FailureClass, HealStrategy, JobOrder, LoopEnd, ProcessExit};
use crate::id::{JobId, Signature};
use crate::scrub::Scrubbed;
use crate::steps::StepsStanding;

/// The version of the files' shapes.
const VERSION: u32 = 1;

/// What a job does, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It goes on, if somebody runs it.
    Running,
    /// It was paused.
    Paused,
    /// It waits until a step can be worked on again.
    Parked,
    /// A person has to say how it goes on.
    AwaitingHuman,
    /// The user stopped or cancelled it.
    Stopped,
    /// All its steps are done.
    Completed,
    /// It could not go on.
    Failed,
}

impl JobStatus {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Parked => "parked",
            Self::AwaitingHuman => "awaiting_human",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// How a job stands: `state.json`, and what `salve show` and `salve jobs` tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// The version of its shape.
    pub version: u32,
    pub run_id: JobId,
    /// What the job is for.
    pub objective: Scrubbed,
    /// What it does.
    pub status: JobStatus,
    /// Which branch of the run it is on, from 1.
    pub branch: u32,
    /// The step that is due or at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<Scrubbed>,
    /// Its number, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<usize>,
    /// How many attempts at it failed.
    pub failed_attempts: usize,
    /// How many steps are done.
    pub steps_done: usize,
    /// How many steps there are.
    pub steps: usize,
    /// How often the controller has set the workspace back.
    pub resets: u32,
    /// Why, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Scrubbed>,
    /// Whether trying it again may help, of one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// Since when it stands so.
    pub since: Timestamp,
    /// What it has cost.
    pub spent: Amounts,
    /// What people ordered.
    pub live_control: LiveControl,
}

/// What people ordered a job to do, as the spec's `liveControl` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveControl {
    /// Who paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Scrubbed>,
    /// What was ordered about a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryObject>,
}

/// The spec's `recovery` object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryObject {
    /// `retry_step`, `hard_reset_step` or `resume_from_step`.
    pub action: String,
    /// The step that it is about.
    pub step_id: Scrubbed,
    /// What is done to the workspace.
    pub strategy: HealStrategy,
    /// When it was given.
    pub updated_at: Timestamp,
    /// By whom.
    pub requested_by: Scrubbed,
    /// Whether whoever runs the job has done so.
    pub honored: bool,
}

/// Returns how a job stands.
pub fn job_state(of: &Job) -> JobState {
    let (mut status, mut reason, mut resumes_at) = (JobStatus::Running, None, None);
    match of.standing() {
        StepsStanding::Running if of.steps().paused_by().is_some() => status = JobStatus::Paused,
        StepsStanding::Running => {}
        StepsStanding::Parked { until, reason: why } => {
            (status, reason, resumes_at) = (JobStatus::Parked, Some(why.clone()), Some(*until));
        }
        StepsStanding::Waits { reason: why } => {
            (status, reason) = (JobStatus::AwaitingHuman, Some(why.clone()));
        }
        StepsStanding::Stopped => status = JobStatus::Stopped,
        StepsStanding::Ended(why) => {
            (status, reason) = match why {
                LoopEnd::Completed => (JobStatus::Completed, None),
                LoopEnd::Failed { reason } => (JobStatus::Failed, Some(reason.clone())),
                LoopEnd::Limit(_) => {
                    (JobStatus::Failed, Some(Scrubbed::literal("a limit of the job was reached")))
                }
                LoopEnd::Stuck => {
                    (JobStatus::Failed, Some(Scrubbed::literal("nothing changed any more")))
                }
            };
        }
    }
    let is_over = matches!(of.standing(), StepsStanding::Ended(_));
    let step = of.at_step();
    JobState {
        version: VERSION,
        run_id: of.id(),
        objective: of.terms().objective.clone(),
        status,
        branch: of.branch(),
        step_id: step.and_then(|step| of.step_id(step)).cloned(),
        step_index: step,
        failed_attempts: of.failures().len(),
        steps_done: of.checkpoints().len(),
        steps: of.terms().steps.len(),
        resets: of.resets(),
        reason,
        retryable: of
            .ending()
            .filter(|_| is_over)
            .map(|ending| ending.retryable && !of.is_cancelled()),
        resumes_at,
        since: of.stamps().since(),
        spent: of.steps().spent(),
        live_control: LiveControl {
            paused_by: of.steps().paused_by().cloned(),
            recovery: of.recovery().map(|request| recovery_object(of, request)),
        },
    }
}

fn recovery_object(of: &Job, request: &RecoveryRequest) -> RecoveryObject {
    let strategy = match request.order {
        JobOrder::RetryStep => HealStrategy::SoftReset,
        JobOrder::HardResetStep | JobOrder::ResumeFromStep { .. } => HealStrategy::HardReset,
        JobOrder::Pause | JobOrder::Resume | JobOrder::Cancel => HealStrategy::None,
    };
    RecoveryObject {
        action: request.order.as_str().to_owned(),
        step_id: of.step_id(request.step).cloned().unwrap_or_default(),
        strategy,
        updated_at: request.at,
        requested_by: request.by.clone(),
        honored: request.honored,
    }
}

/// One attempt at a step: `state/self_heal/attempt-<step>-<attempt>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRecord {
    /// The version of its shape.
    pub version: u32,
    pub run_id: JobId,
    /// Which branch of the run it is on, from 1.
    pub branch: u32,
    pub step_id: Scrubbed,
    /// Its number, from 0.
    pub step_index: usize,
    /// Which attempt at it this is, from 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// How it ended: `running`, `succeeded`, `failed`, `parked`, `needs_person` or `stopped`.
    pub outcome: String,
    /// The last command that was run, if it was one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_command: Option<Scrubbed>,
    /// How its process ended, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    /// The hash of what it changed, if it could be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_hash: Option<Digest>,
    /// The files that it changed, at most some.
    #[serde(default)]
    pub changed_files: Vec<Scrubbed>,
    /// What kind of failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<FailureClass>,
    /// The failure's identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// The line that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Scrubbed>,
    /// What was done about it.
    pub strategy: HealStrategy,
    /// What the attempt was told of the ones before it: their failures, one line each.
    #[serde(default)]
    pub retry_context: Vec<Scrubbed>,
    /// What it cost.
    pub spent: Amounts,
}

impl AttemptRecord {
    /// Returns the record of an attempt at the step that is due, which begins now.
    pub fn begun(of: &Job, attempt: u32, at: Timestamp) -> Self {
        let step = of.at_step().unwrap_or_default();
        Self {
            version: VERSION,
            run_id: of.id(),
            branch: of.branch(),
            step_id: of.step_id(step).cloned().unwrap_or_default(),
            step_index: step,
            attempt,
            started_at: at,
            finished_at: None,
            outcome: "running".to_owned(),
            last_command: None,
            exit: None,
            diff_hash: None,
            changed_files: Vec::new(),
            failure_class: None,
            signature: None,
            summary: None,
            strategy: HealStrategy::None,
            retry_context: of.failed_approaches(),
            spent: Amounts::default(),
        }
    }

    /// Takes in how it failed.
    pub fn fail(&mut self, FailedAttempt { failure, strategy, .. }: &FailedAttempt) {
        "failed".clone_into(&mut self.outcome);
        self.last_command.clone_from(&failure.command);
        self.exit = failure.exit.clone();
        self.diff_hash = failure.diff;
        self.changed_files.clone_from(&failure.changed);
        self.failure_class = Some(failure.class);
        self.signature = Some(failure.signature);
        self.summary = Some(failure.summary.clone());
        self.strategy = *strategy;
    }
}
