//! The queue of jobs of a fleet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use salve_core::id::JobId;
use salve_core::job::{
    ClaimEnd, ClaimGrant, JobTrace, QueueState, QueuedJob, RetryTerms, WakeUpMove,
};
use salve_core::scrub::Scrubbed;

use super::blobs::Blobs;
use super::link::NatsLink;
use super::record::{FoundRecord, JobRecord};
use super::records::{JobRecords, RecordChange};
use super::streams::{FleetStream, write};
use super::wake_ups::{WakeUp, WakeUps};
use crate::store::fleet::{FleetError, FleetFile, FleetJob};
use crate::store::{ClaimStanding, ClaimToken, JobArtifact, JobClaim, JobQueue, StoreError};

/// How long a job waits for a worker that offers what it needs before one is looked for again.
const UNFIT_MS: u64 = 1_000;

/// How many jobs a worker turns down at once.
const MOST_UNFIT: u32 = 64;

/// The queue of a fleet, as one process sees it.
#[derive(Debug)]
pub(super) struct NatsQueue {
    pub(super) link: Arc<NatsLink>,
    pub(super) jobs: FleetJobs,
}

/// What the queue is made of; it goes with every question to the connection's thread.
#[derive(Clone, Debug)]
pub(super) struct FleetJobs {
    pub(super) records: JobRecords,
    wake_ups: WakeUps,
    pub(super) blobs: Blobs,
    /// What this worker offers.
    pub(super) labels: Arc<Mutex<Vec<String>>>,
    /// The wake-ups by which this process got what it holds, to be settled when a job is over.
    held: Arc<Mutex<HashMap<JobId, WakeUp>>>,
}

impl NatsQueue {
    pub(super) fn new(link: Arc<NatsLink>) -> Result<Self, FleetError> {
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
        Ok(Self { link, jobs })
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
            let RecordChange::To(record) = changed else { return Ok(false) };
            jobs.settle_as(&record).await?;
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
    fn held(&self) -> MutexGuard<'_, HashMap<JobId, WakeUp>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offers(&self, needs: &[String]) -> bool {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        needs.iter().all(|need| labels.contains(need))
    }

    async fn submit(&self, record: JobRecord, payload: String) -> Result<(), FleetError> {
        let job = record.job.job;
        let payload = self.blobs.keep(job, payload.into_bytes()).await?;
        loop {
            let revision = match self.records.find(job).await? {
                Some(found) if found.record.is_gone => found.revision,
                Some(_) => return Ok(()),
                None => 0,
            };
            let now = self.records.now().await?;
            let mut record = record.submitted_at(now, payload.clone());
            if self.records.replace(&mut record, revision).await? {
                return self.wake_ups.wake(job).await;
            }
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
        let Some(found) = found else {
            woken.settle().await;
            return Ok(None);
        };
        let now = self.records.now().await?;
        match found.record.job.on_wake_up(now) {
            WakeUpMove::Forget => woken.settle().await,
            WakeUpMove::After(ms) => woken.come_again(ms).await,
            WakeUpMove::Claim => {
                let mut record = found.record;
                let grant = record.job.claim(worker.clone(), millis(lease), now);
                let is_written = self.records.replace(&mut record, found.revision).await?;
                let end = grant.wake_up_end(is_written, millis(lease));
                if !is_written {
                    woken.end(end).await;
                    return Ok(None);
                }
                match grant {
                    ClaimGrant::Dead => {
                        self.settle_as(&record).await?;
                        woken.end(end).await;
                    }
                    ClaimGrant::Granted(epoch) => {
                        woken.end(end).await;
                        let bytes = self.payload(&record).await?;
                        self.held().insert(job, woken);
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
            None => Ok(Vec::new()),
        }
    }

    /// Changes a record if the claim still counts.
    async fn while_held(
        &self,
        claim: ClaimToken,
        change: impl Fn(&mut JobRecord, i64),
    ) -> Result<RecordChange, FleetError> {
        let held = |record: &mut JobRecord, now| {
            let is_held = record.job.is_held_by(claim.epoch);
            if is_held {
                change(record, now);
            }
            is_held
        };
        self.records.change(claim.job, held).await
    }

    /// Keeps files of a job; they are there once this returns.
    async fn keep_all(
        &self,
        job: JobId,
        artifacts: Vec<JobArtifact>,
    ) -> Result<Vec<(String, FleetFile)>, FleetError> {
        let mut kept = Vec::new();
        for JobArtifact { name, bytes } in artifacts {
            kept.push((name, self.blobs.keep(job, bytes).await?));
        }
        Ok(kept)
    }

    async fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: Vec<JobArtifact>,
    ) -> Result<ClaimStanding, FleetError> {
        let found = self.records.present(claim.job).await?;
        if !found.is_some_and(|found| found.record.job.is_held_by(claim.epoch)) {
            return Ok(ClaimStanding::Fenced);
        }
        let kept = self.keep_all(claim.job, artifacts).await?;
        let changed = self.while_held(claim, |record, _| record.artifacts.extend(kept.clone()));
        Ok(standing(&changed.await?))
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
        if let RecordChange::To(record) = &changed {
            self.settle_as(record).await?;
        }
        Ok(standing(&changed))
    }

    /// Does what follows for the wake-ups and dead letters from how a job stands. Whoever dies before
    /// it leaves that to the reconciler.
    pub(super) async fn settle_as(&self, record: &JobRecord) -> Result<(), FleetError> {
        let job = record.job.job;
        let woken = self.held().remove(&job);
        match record.job.trace() {
            JobTrace::WakeUp => return self.wake_ups.wake(job).await,
            JobTrace::DeadLetter => {
                let (context, names) = (&self.records.context, &self.records.names);
                let subject = names.subject(FleetStream::DeadLetter, job);
                write(context, "writing a dead letter", subject, record.encode()?).await?;
            }
            JobTrace::None => {}
        }
        if let Some(woken) = woken {
            woken.settle().await;
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
