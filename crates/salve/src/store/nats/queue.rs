//! The queue of jobs of a fleet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use salve_core::id::JobId;
use salve_core::job::{
    ClaimEnd, ClaimGrant, JobTrace, QueueState, QueuedJob, RetryTerms, WakeUpMove,
};
use salve_core::scrub::Scrubbed;

use super::blobs::Blobs;
use super::link::NatsLink;
use super::record::{FoundRecord, JobRecord};
use super::records::{JobRecords, RecordChange};
use super::signer::FixSigner;
use super::streams::{FleetStream, write};
use super::wake_ups::{WakeUp, WakeUps};
use crate::store::fleet::{FleetError, FleetFile, FleetJob};
use crate::store::{ClaimStanding, ClaimToken, JobArtifact, JobClaim, JobQueue, StoreError};

/// How long a job waits for a worker that offers what it needs before one is looked for again.
const UNFIT_MS: u64 = 1_000;

/// The largest payload that is kept in the record itself, which is written often.
const INLINE: usize = 2 * 1024;

/// How many jobs a worker turns down at once.
const MOST_UNFIT: u32 = 64;

/// The queue of a fleet, as one process sees it.
#[derive(Debug)]
pub(super) struct NatsQueue {
    pub(super) link: Arc<NatsLink>,
    pub(super) jobs: FleetJobs,
    pub(super) signer: FixSigner,
}

/// What the queue is made of; it goes with every question to the connection's thread.
#[derive(Clone, Debug)]
pub(super) struct FleetJobs {
    pub(super) records: JobRecords,
    wake_ups: WakeUps,
    pub(super) blobs: Blobs,
    /// What this worker offers.
    pub(super) labels: Arc<Mutex<Vec<String>>>,
    /// What this process holds.
    held: Arc<Mutex<HashMap<JobId, HeldRecord>>>,
}

/// A job that this process holds.
#[derive(Debug)]
struct HeldRecord {
    /// The wake-up by which it got it, to be settled when the job is over.
    woken: WakeUp,
    /// The record as it was when it was last seen.
    found: FoundRecord,
}

impl NatsQueue {
    pub(super) fn new(link: Arc<NatsLink>, signer: FixSigner) -> Result<Self, FleetError> {
        let (context, names) = (link.context.clone(), link.names.clone());
        let jobs = link.wait("opening the queue", async move {
            Ok(FleetJobs {
                records: JobRecords::open(context.clone(), names.clone()).await?,
                wake_ups: WakeUps::open(context.clone(), names.clone()).await?,
                blobs: Blobs::open(context, names).await?,
                labels: Arc::default(),
                held: Arc::default(),
            })
        })?;
        Ok(Self { link, jobs, signer })
    }

    /// Puts a job into the queue; one that is there already stays as it is.
    pub(super) fn submit_with(&self, job: FleetJob<'_>) -> Result<(), StoreError> {
        let (jobs, payload) = (self.jobs.clone(), job.payload.to_owned());
        let artifacts = job.artifacts.to_vec();
        let mut record = JobRecord::submitted(job.job, job.terms, 0);
        record.needs = job.needs.to_vec();
        let done = self.link.wait("submitting a job", async move {
            record.artifacts.extend(jobs.keep_all(record.job.job, artifacts).await?);
            jobs.submit(record, payload).await
        });
        Ok(done?)
    }
}

impl JobQueue for NatsQueue {
    fn submit(&self, job: JobId, payload: &str, terms: RetryTerms) -> Result<(), StoreError> {
        self.submit_with(FleetJob { job, payload, terms, needs: &[], artifacts: &[] })
    }

    fn claim(&self, worker: &Scrubbed, lease: Duration) -> Result<Option<JobClaim>, StoreError> {
        let (jobs, worker) = (self.jobs.clone(), worker.clone());
        let done = self.link.wait("claiming a job", async move { jobs.claim(worker, lease).await });
        Ok(done?)
    }

    fn heartbeat(&self, claim: ClaimToken, lease: Duration) -> Result<ClaimStanding, StoreError> {
        let (jobs, lease_ms) = (self.jobs.clone(), millis(lease));
        let done = self.link.wait("prolonging a claim", async move {
            jobs.while_held(claim, |record, now| record.job.extend_lease(lease_ms, now)).await
        });
        Ok(standing(&done?))
    }

    fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: &[JobArtifact],
    ) -> Result<ClaimStanding, StoreError> {
        let (jobs, artifacts) = (self.jobs.clone(), artifacts.to_vec());
        let done = self
            .link
            .wait("keeping a checkpoint", async move { jobs.checkpoint(claim, artifacts).await });
        Ok(done?)
    }

    fn artifact(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (jobs, name) = (self.jobs.clone(), name.to_owned());
        let done = self.link.wait("reading a file", async move { jobs.artifact(job, &name).await });
        Ok(done?)
    }

    fn finish(&self, claim: ClaimToken, end: ClaimEnd) -> Result<ClaimStanding, StoreError> {
        let jobs = self.jobs.clone();
        let done =
            self.link.wait("letting go of a job", async move { jobs.finish(claim, end).await });
        Ok(done?)
    }

    fn queued(&self, state: Option<QueueState>) -> Result<Vec<QueuedJob>, StoreError> {
        let jobs = self.jobs.clone();
        let all = self.link.wait("listing the jobs", async move { jobs.records.all().await })?;
        let rows = all.into_iter().map(|record| record.job);
        Ok(rows.filter(|row| state.is_none_or(|state| state == row.state)).collect())
    }

    fn requeue(&self, job: JobId) -> Result<bool, StoreError> {
        let jobs = self.jobs.clone();
        let done = self.link.wait("queueing a job again", async move {
            let changed = jobs.records.change(job, |record, now| record.job.requeue(now)).await?;
            let RecordChange::To(found) = changed else { return Ok(false) };
            jobs.settle_as(&found.record).await?;
            Ok(true)
        });
        Ok(done?)
    }

    fn withdraw(&self, job: JobId) -> Result<bool, StoreError> {
        let jobs = self.jobs.clone();
        let done = self.link.wait("calling a job off", async move {
            let changed = jobs.records.change(job, |record, _| record.job.withdraw()).await?;
            Ok(matches!(changed, RecordChange::To(_)))
        });
        Ok(done?)
    }

    fn forget(&self, job: JobId) -> Result<bool, StoreError> {
        let jobs = self.jobs.clone();
        let done = self.link.wait("removing a job", async move { jobs.forget(job).await });
        Ok(done?)
    }
}

impl FleetJobs {
    fn held(&self) -> MutexGuard<'_, HashMap<JobId, HeldRecord>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offers(&self, needs: &[String]) -> bool {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        needs.iter().all(|need| labels.contains(need))
    }

    async fn submit(&self, record: JobRecord, payload: String) -> Result<(), FleetError> {
        let job = record.job.job;
        let mut record = record;
        if payload.len() <= INLINE {
            record.job.payload = payload;
        } else {
            record.payload = Some(self.blobs.keep(job, payload.into_bytes()).await?);
        }
        // Hardly ever is it there already, so that is only looked for where it turns out so.
        let mut revision = 0;
        loop {
            let mut record = record.submitted_at(self.records.now().await?);
            if self.records.replace(&mut record, revision).await?.is_some() {
                return self.wake_ups.wake(job).await;
            }
            revision = match self.records.find(job).await? {
                Some(found) if found.record.is_gone => found.revision,
                Some(_) => return Ok(()),
                None => 0,
            };
        }
    }

    async fn claim(
        &self,
        worker: Scrubbed,
        lease: Duration,
    ) -> Result<Option<JobClaim>, FleetError> {
        let mut refused = 0;
        while let Some(woken) = self.wake_ups.next().await? {
            let found = self.records.present(woken.job).await?;
            if found.as_ref().is_some_and(|found| !self.offers(&found.record.needs)) {
                // Another worker may offer it, or come by later.
                woken.come_again(UNFIT_MS).await;
                refused += 1;
                if refused == MOST_UNFIT {
                    break;
                }
                continue;
            }
            if let Some(claim) = self.claim_one(woken, found, &worker, lease).await? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// Tries to get the job that a wake-up is about.
    async fn claim_one(
        &self,
        woken: WakeUp,
        found: Option<FoundRecord>,
        worker: &Scrubbed,
        lease: Duration,
    ) -> Result<Option<JobClaim>, FleetError> {
        let job = woken.job;
        let Some(mut found) = found else {
            woken.settle().await;
            return Ok(None);
        };
        let now = self.records.now().await?;
        match found.record.job.on_wake_up(now) {
            WakeUpMove::Forget => woken.settle().await,
            WakeUpMove::After(ms) => woken.come_again(ms).await,
            WakeUpMove::Claim => {
                let grant = found.record.job.claim(worker.clone(), millis(lease), now);
                let written = self.records.replace(&mut found.record, found.revision).await?;
                let end = grant.wake_up_end(written.is_some(), millis(lease));
                let Some(revision) = written else {
                    woken.end(end).await;
                    return Ok(None);
                };
                found.revision = revision;
                match grant {
                    ClaimGrant::Dead => {
                        self.settle_as(&found.record).await?;
                        woken.end(end).await;
                    }
                    ClaimGrant::Granted(epoch) => {
                        woken.end(end).await;
                        let bytes = self.payload(&found.record).await?;
                        self.held().insert(job, HeldRecord { woken, found });
                        let payload = String::from_utf8_lossy(&bytes).into_owned();
                        let token = ClaimToken { job, epoch };
                        return Ok(Some(JobClaim { token, payload }));
                    }
                }
            }
        }
        Ok(None)
    }

    async fn payload(&self, record: &JobRecord) -> Result<Vec<u8>, FleetError> {
        match &record.payload {
            Some(file) => self.blobs.content(record.job.job, file).await,
            None => Ok(record.job.payload.clone().into_bytes()),
        }
    }

    /// Changes a record if the claim still counts.
    async fn while_held(
        &self,
        claim: ClaimToken,
        change: impl Fn(&mut JobRecord, i64),
    ) -> Result<RecordChange, FleetError> {
        let known = self.held().get(&claim.job).map(|held| held.found.clone());
        self.while_held_since(claim, known, change).await
    }

    /// Changes a record if the claim still counts; what was known of it is tried first.
    async fn while_held_since(
        &self,
        claim: ClaimToken,
        known: Option<FoundRecord>,
        change: impl Fn(&mut JobRecord, i64),
    ) -> Result<RecordChange, FleetError> {
        let held = |record: &mut JobRecord, now| {
            let is_held = record.job.is_held_by(claim.epoch);
            if is_held {
                change(record, now);
            }
            is_held
        };
        let changed = self.records.change_known(claim.job, known, held).await?;
        if let (RecordChange::To(found), Some(held)) = (&changed, self.held().get_mut(&claim.job)) {
            held.found = FoundRecord::clone(found);
        }
        Ok(changed)
    }

    /// Keeps files of a job; they are there once this returns.
    async fn keep_all(
        &self,
        job: JobId,
        artifacts: Vec<JobArtifact>,
    ) -> Result<Vec<(String, FleetFile)>, FleetError> {
        let keep = |JobArtifact { name, bytes }: JobArtifact| async move {
            self.blobs.keep(job, bytes).await.map(|file| (name, file))
        };
        try_join_all(artifacts.into_iter().map(keep)).await
    }

    async fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: Vec<JobArtifact>,
    ) -> Result<ClaimStanding, FleetError> {
        let found = self.records.present(claim.job).await?;
        let is_held = |found: &FoundRecord| found.record.job.is_held_by(claim.epoch);
        let Some(found) = found.filter(is_held) else { return Ok(ClaimStanding::Fenced) };
        let kept = self.keep_all(claim.job, artifacts).await?;
        let named = |record: &mut JobRecord, _| record.artifacts.extend(kept.clone());
        Ok(standing(&self.while_held_since(claim, Some(found), named).await?))
    }

    async fn artifact(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let found = self.records.present(job).await?;
        match found.and_then(|found| found.record.artifacts.get(name).cloned()) {
            Some(file) => self.blobs.content(job, &file).await.map(Some),
            None => Ok(None),
        }
    }

    async fn finish(&self, claim: ClaimToken, end: ClaimEnd) -> Result<ClaimStanding, FleetError> {
        let changed =
            self.while_held(claim, |record, now| record.job.finish(end.clone(), now)).await?;
        if let RecordChange::To(found) = &changed {
            self.settle_as(&found.record).await?;
        }
        Ok(standing(&changed))
    }

    /// Does what follows for the wake-ups and dead letters from how a job stands. Whoever dies before
    /// it leaves that to the reconciler.
    pub(super) async fn settle_as(&self, record: &JobRecord) -> Result<(), FleetError> {
        let job = record.job.job;
        let held = self.held().remove(&job);
        match record.job.trace() {
            JobTrace::WakeUp => return self.wake_ups.wake(job).await,
            JobTrace::DeadLetter => {
                let (context, names) = (&self.records.context, &self.records.names);
                let subject = names.subject(FleetStream::DeadLetter, job);
                write(context, "writing a dead letter", subject, record.encode()?).await?;
            }
            JobTrace::None => {}
        }
        if let Some(held) = held {
            held.woken.settle().await;
        }
        Ok(())
    }

    async fn forget(&self, job: JobId) -> Result<bool, FleetError> {
        let is_free = |record: &mut JobRecord, _| {
            let is_free = record.job.state != QueueState::Claimed;
            record.is_gone = is_free;
            is_free
        };
        if let RecordChange::Not = self.records.change(job, is_free).await? {
            return Ok(self.records.present(job).await?.is_none());
        }
        self.blobs.forget(job).await?;
        self.records.forget_rest(job).await?;
        Ok(true)
    }
}

fn standing(changed: &RecordChange) -> ClaimStanding {
    match changed {
        RecordChange::To(_) => ClaimStanding::Held,
        RecordChange::Not => ClaimStanding::Fenced,
    }
}

fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}
