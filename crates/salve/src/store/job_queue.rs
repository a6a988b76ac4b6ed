//! What Salve needs of a queue of jobs.
//!
//! Workers claim jobs for a lease and prolong it while they work. What follows from each call is said
//! by [`QueuedJob`]; an engine makes each of them one step that no other worker can come between, by
//! its own clock. Nothing here is about one machine: a worker is a name, a job is its payload and its
//! artifacts. What people order a job to do travels by the journal, which every engine has, too.

use std::time::Duration;

use salve_core::id::JobId;
use salve_core::job::{ClaimEnd, QueueState, QueuedJob, RetryTerms};
use salve_core::scrub::Scrubbed;

use super::StoreError;

pub trait JobQueue {
    /// Puts a job into the queue; one that is there already stays as it is.
    fn submit(&self, job: JobId, payload: &str, terms: RetryTerms) -> Result<(), StoreError>;

    /// Gives the job that has been free for longest to a worker, if there is one.
    fn claim(&self, worker: &Scrubbed, lease: Duration) -> Result<Option<JobClaim>, StoreError>;

    /// Prolongs a claim.
    fn heartbeat(&self, claim: ClaimToken, lease: Duration) -> Result<ClaimStanding, StoreError>;

    /// Keeps what a step that is done left, all of it or nothing.
    fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: &[JobArtifact],
    ) -> Result<ClaimStanding, StoreError>;

    /// Returns what was kept of a job under a name.
    fn artifact(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Lets go of a job.
    fn finish(&self, claim: ClaimToken, end: ClaimEnd) -> Result<ClaimStanding, StoreError>;

    /// Returns all jobs in this state, oldest first; all there are, if none is named.
    fn queued(&self, state: Option<QueueState>) -> Result<Vec<QueuedJob>, StoreError>;

    /// Lets a job that nobody works on be tried afresh and at once, whatever it waits for; tells
    /// whether there was one.
    fn requeue(&self, job: JobId) -> Result<bool, StoreError>;

    /// Calls a job off that no worker has; tells whether there was one.
    fn withdraw(&self, job: JobId) -> Result<bool, StoreError>;

    /// Removes a job with all that was kept of it, unless a worker has it; tells whether it is gone.
    fn forget(&self, job: JobId) -> Result<bool, StoreError>;
}

/// The right to a job: the last claim of it counts, all others are fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimToken {
    pub job: JobId,
    /// The number of the claim.
    pub epoch: u64,
}

/// A job that a worker got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobClaim {
    /// The right to it.
    pub token: ClaimToken,
    /// What is needed to run it.
    pub payload: String,
}

/// Whether a claim still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStanding {
    /// It does.
    Held,
    /// Another worker has the job by now, or nobody may have it; nothing was done.
    Fenced,
}

/// Something that a job left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobArtifact {
    /// What it is called within the job.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
