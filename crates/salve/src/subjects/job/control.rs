//! What people order a job to do, whoever carries their word.

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, JobEvent, JobOrder, JobTurn};
use salve_core::job::{Job, QueueState, job_state};
use salve_core::scrub::Scrubbed;

use crate::store::{Store, StoreError};

/// Why a job does not take an order.
#[derive(Debug, thiserror::Error)]
pub enum JobOrderError {
    /// The journal could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job stands so that the order makes no sense.
    #[error("the job does not take `{order}`: {why}")]
    NotTaken {
        /// The order's word.
        order: &'static str,
        why: String,
    },
}

/// Returns the index of the step that is named: by its id, or by its number as people count, from 1.
pub fn step_named(of: &Job, word: &str) -> Option<u32> {
    let steps = &of.terms().steps;
    let by_id = steps.iter().position(|step| step.id.as_str() == word);
    let by_number = || word.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < steps.len());
    by_id.or_else(by_number).and_then(|at| u32::try_from(at).ok())
}

/// Returns the steps of a job as they can be named.
pub fn steps_in_words(of: &Job) -> String {
    let steps = of.terms().steps.iter().enumerate();
    let known: Vec<String> = steps.map(|(at, step)| format!("{} {}", at + 1, step.id)).collect();
    format!("the steps are: {}", known.join(", "))
}

/// What came of an order that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobOrderTaken {
    /// The number of its entry.
    pub seq: u64,
    /// Whether the job waits for a worker now.
    pub is_queued: bool,
}

/// Writes an order to a job if the job takes it, and lets the queue know.
pub fn order_job(
    store: &Store,
    of: &Job,
    order: JobOrder,
    person: Scrubbed,
) -> Result<JobOrderTaken, JobOrderError> {
    expect_taken(of, order, &person)?;
    let event = JobEvent::Advanced { id: of.id(), what: JobTurn::Ordered { order } }.into();
    let (at, by) = (Timestamp::now(), Actor::Person { name: person });
    let seq = store.journal().append(Draft { at, by, incident: None, event })?.seq;
    Ok(JobOrderTaken { seq, is_queued: tell_queue(store, of, order)? })
}

/// Refuses an order that a job does not take as it stands.
pub fn expect_taken(of: &Job, order: JobOrder, by: &Scrubbed) -> Result<(), JobOrderError> {
    of.would_take(order, by).map_err(|_| {
        let why = match order {
            JobOrder::ResumeFromStep { .. } => {
                let done = of.checkpoints().len();
                format!("only {done} steps are done: the first to go on from is at most {done}")
            }
            JobOrder::Pause
            | JobOrder::Resume
            | JobOrder::Cancel
            | JobOrder::RetryStep
            | JobOrder::HardResetStep => {
                format!("it is `{}`", job_state(of).status.as_str())
            }
        };
        JobOrderError::NotTaken { order: order.as_str(), why }
    })
}

/// Lets the queue know what a person wants of a job that no worker has; tells whether it is queued.
pub fn tell_queue(store: &Store, of: &Job, order: JobOrder) -> Result<bool, StoreError> {
    Ok(match order {
        // Whoever claims it sees that it is paused, and lets it wait.
        JobOrder::Pause => false,
        JobOrder::Cancel => {
            store.queue().withdraw(of.id())?;
            false
        }
        JobOrder::Resume
        | JobOrder::RetryStep
        | JobOrder::HardResetStep
        | JobOrder::ResumeFromStep { .. } => {
            // A worker may have it, or be about to.
            store.queue().requeue(of.id())? || is_queued(store, of)?
        }
    })
}

fn is_queued(store: &Store, of: &Job) -> Result<bool, StoreError> {
    let waiting = store.queue().queued(Some(QueueState::Queued))?;
    Ok(waiting.iter().any(|row| row.job == of.id()))
}
