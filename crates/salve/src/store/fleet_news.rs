//! What happens in a fleet, as it happens: how its jobs stand, and what their runs add to their
//! histories.
//!
//! A job's record and the history that it names are the truth. What is told of a history goes only to
//! those who follow it, after the record was changed, so nobody hears of what a worker wrote that had
//! lost its job; whoever missed something reads the history.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use salve_core::id::JobId;
use salve_core::job::QueuedJob;
use serde::{Deserialize, Serialize};

use super::{FleetFile, StoreError};

/// What a fleet tells of its jobs.
pub trait FleetNewsSource {
    /// Returns how all jobs stand that are queued or were, oldest first.
    fn job_rows(&self) -> Result<Vec<FleetJobRow>, StoreError>;

    /// Returns how one job stands.
    fn job_row(&self, job: JobId) -> Result<Option<FleetJobRow>, StoreError>;

    /// Tells those who follow a job what its history has more.
    fn tell_events(&self, events: &JobEvents) -> Result<(), StoreError>;

    /// Returns where everything that happens to any job from now on is heard.
    fn hear_jobs(&self) -> Result<Receiver<FleetNews>, StoreError>;
}

/// How a job of a fleet stands, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetJobRow {
    pub row: QueuedJob,
    /// When it was submitted, in milliseconds of the server's clock.
    pub submitted_ms: i64,
    /// The file with what came with it, unless that is small.
    pub payload: Option<FleetFile>,
    /// What its runs left, by name.
    pub files: BTreeMap<String, FleetFile>,
}

/// What a run added to the history of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvents {
    pub version: u32,
    pub job: JobId,
    /// The claim under which it was added.
    pub epoch: u64,
    /// How many entries the history had before.
    pub after: u64,
    /// The entries, as lines of a journal; none, if they are too many to be told.
    pub lines: Vec<String>,
    /// How many entries it has now.
    pub count: u64,
    /// The SHA-256 of the history that has them.
    pub history: String,
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetNews {
    /// Its record was changed.
    Stands(Box<FleetJobRow>),
    /// It was removed.
    Gone(JobId),
    /// Its history has more.
    Events(Box<JobEvents>),
}
