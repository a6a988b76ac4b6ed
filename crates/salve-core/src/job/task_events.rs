//! What a job's entries are called by the spec: `task.step.…`, `task.self_heal.…`,
//! `task.control.recovery.…`.

use serde_json::{Map, Value, json};

use super::Job;
use crate::event::{
    AttemptEnd, Entry, Event, FailureClass, HealStrategy, JobEvent, JobOrder, JobTurn, LoopEnd,
    ResetCause, ResetEnd, StepFailure,
};

/// The most characters of a failure's text that leave the journal.
const LONGEST_SUMMARY: usize = 200;

/// One event by its name in the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    pub name: &'static str,
    /// What is told with it; every text in it is scrubbed.
    pub payload: Map<String, Value>,
}

impl TaskEvent {
    fn new(name: &'static str, of: &Job, entry: &Entry) -> Self {
        let mut payload = Map::new();
        payload.insert("runId".to_owned(), json!(of.id()));
        payload.insert("at".to_owned(), json!(entry.at));
        Self { name, payload }
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.payload.insert(field.to_owned(), value.into());
        self
    }

    fn step(self, of: &Job, step: u32) -> Self {
        let id = usize::try_from(step).ok().and_then(|step| of.step_id(step));
        let id = id.map(|id| id.as_str().to_owned()).unwrap_or_default();
        self.with("stepId", id).with("stepIndex", step)
    }

    fn failure(self, failure: &StepFailure, strategy: HealStrategy) -> Self {
        let changed: Vec<&str> = failure.changed.iter().map(|file| file.as_str()).collect();
        self.class(failure.class, strategy)
            .with("signature", failure.signature.to_string())
            .with("summary", failure.summary.head(LONGEST_SUMMARY).as_str())
            .with("diffHash", failure.diff.map(|diff| diff.to_string()))
            .with("changedFiles", changed)
    }

    fn class(self, class: FailureClass, strategy: HealStrategy) -> Self {
        self.with("class", class.as_str()).with("strategy", strategy.as_str())
    }
}

/// Returns what the spec calls an entry; `of` is the job right after it.
pub fn task_events(of: &Job, entry: &Entry) -> Vec<TaskEvent> {
    let Event::Job(JobEvent::Advanced { what, .. }) = &entry.event else { return Vec::new() };
    let new = |name| TaskEvent::new(name, of, entry);
    match what {
        JobTurn::Started { .. } => vec![new("task.started")],
        JobTurn::Resumed {} => vec![new("task.resumed")],
        JobTurn::StepBegan { step, attempt, strategy } => {
            let event = new("task.step.attempt.started").step(of, *step);
            vec![event.with("attempt", *attempt).with("strategy", strategy.as_str())]
        }
        JobTurn::Warned { step, timer, left_ms } => {
            let event = new("task.step.timeout.warning").step(of, *step);
            vec![event.with("timer", timer.as_str()).with("leftMs", *left_ms)]
        }
        JobTurn::Charged { .. } => Vec::new(),
        JobTurn::StepEnded { step, attempt, end, spent } => {
            let name = |name| {
                let event = new(name).step(of, *step).with("attempt", *attempt);
                event.with("durationMs", spent.wall_ms).with("tokens", spent.tokens)
            };
            attempt_ended(name, end)
        }
        JobTurn::ResetBegan { .. } => Vec::new(),
        JobTurn::ResetEnded { step, end } => reset_ended(of, *step, end, &new),
        JobTurn::Remedied { remedy } => {
            vec![
                new("task.self_heal.remedied")
                    .with("remedy", remedy.head(LONGEST_SUMMARY).as_str()),
            ]
        }
        JobTurn::Asked { reason } => {
            vec![new("task.step.needs_person").with("reason", reason.as_str())]
        }
        JobTurn::Ordered { order } => match order {
            JobOrder::Pause | JobOrder::Resume | JobOrder::Cancel => {
                vec![new("task.control.requested").with("action", order.as_str())]
            }
            JobOrder::RetryStep | JobOrder::HardResetStep | JobOrder::ResumeFromStep { .. } => {
                vec![recovery(of, new("task.control.recovery.requested"))]
            }
        },
        JobTurn::Honored { .. } => vec![recovery(of, new("task.control.recovery.honored"))],
        JobTurn::Stopped {} => vec![new("task.stopped")],
        JobTurn::Ended { why, retryable } => ended(of, why, *retryable, &new),
    }
}

/// Says how an attempt ended, and what the controller makes of it.
fn attempt_ended(name: impl Fn(&'static str) -> TaskEvent, end: &AttemptEnd) -> Vec<TaskEvent> {
    match end {
        AttemptEnd::Done { checkpoint } => {
            vec![name("task.step.attempt.finished").with("diffHash", checkpoint.patch.to_string())]
        }
        AttemptEnd::Failed { failure, strategy } => {
            let told = |event: TaskEvent| event.failure(failure, *strategy);
            let mut events = vec![told(name("task.step.attempt.failed"))];
            match strategy {
                HealStrategy::None => {}
                HealStrategy::SoftReset => events.push(told(name("task.self_heal.triggered"))),
                HealStrategy::HardReset
                | HealStrategy::QueueRetry
                | HealStrategy::OperatorRequest => {
                    events.push(told(name("task.self_heal.triggered")));
                    events.push(told(name("task.self_heal.escalated")));
                }
            }
            events
        }
        AttemptEnd::Away { until, reason } => {
            let event = name("task.step.parked").with("until", until.to_string());
            vec![event.with("reason", reason.head(LONGEST_SUMMARY).as_str())]
        }
        AttemptEnd::Unable { reason } => {
            vec![name("task.step.needs_person").with("reason", reason.as_str())]
        }
        AttemptEnd::Stopped => vec![name("task.step.attempt.stopped")],
    }
}

fn reset_ended(
    of: &Job,
    step: u32,
    end: &ResetEnd,
    new: &dyn Fn(&'static str) -> TaskEvent,
) -> Vec<TaskEvent> {
    match end {
        ResetEnd::Done => vec![new("task.resume.from_step").step(of, step)],
        // The end that follows says that it is exhausted.
        ResetEnd::Failed { reason } => {
            vec![new("task.self_heal.replay_failed").step(of, step).with("reason", reason.as_str())]
        }
    }
}

fn recovery(of: &Job, event: TaskEvent) -> TaskEvent {
    let Some(request) = of.recovery() else { return event };
    let step = u32::try_from(request.step).unwrap_or(u32::MAX);
    let event = event.step(of, step).with("action", request.order.as_str());
    event.with("requestedBy", request.by.as_str())
}

fn ended(
    of: &Job,
    why: &LoopEnd,
    retryable: bool,
    new: &dyn Fn(&'static str) -> TaskEvent,
) -> Vec<TaskEvent> {
    match why {
        LoopEnd::Completed => vec![new("task.finished")],
        LoopEnd::Failed { reason } => {
            let told = |event: TaskEvent| {
                let event = event.with("retryable", retryable);
                event.with("reason", reason.head(LONGEST_SUMMARY).as_str())
            };
            let last = of.failures().last();
            let classed = |event: TaskEvent| match last {
                Some(last) => event.class(last.failure.class, last.strategy),
                None => event,
            };
            vec![told(classed(new("task.self_heal.exhausted"))), told(new("task.failed"))]
        }
        LoopEnd::Limit(_) | LoopEnd::Stuck => {
            vec![new("task.failed").with("retryable", retryable)]
        }
    }
}

/// Returns the word for why a workspace is set back.
pub fn cause_word(cause: ResetCause) -> &'static str {
    match cause {
        ResetCause::Controller => "the same failure left the same files again",
        ResetCause::Operator => "a person ordered it",
        ResetCause::ResumeFrom => "a person has it go on from there",
        ResetCause::Interrupted => "the last attempt was cut off",
        ResetCause::Retried => "the job is tried again from its last checkpoint",
    }
}
