//! The queue of jobs in SQLite: every call is one transaction, and this machine's clock counts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Transaction, params};
use salve_core::id::JobId;
use salve_core::job::{ClaimEnd, ClaimGrant, QueueState, QueuedJob, RetryTerms};
use salve_core::scrub::Scrubbed;

use super::Durability;
use super::database::Database;
use crate::store::{ClaimStanding, ClaimToken, JobArtifact, JobClaim, JobQueue, StoreError};

/// How far the clock may be set back before the times of jobs mean nothing any more.
const SET_BACK_MS: i64 = 60_000;

/// The tables of the queue.
#[derive(Debug)]
pub(super) struct SqliteQueue {
    database: Arc<Database>,
}

impl JobQueue for SqliteQueue {
    fn submit(&self, job: JobId, payload: &str, terms: RetryTerms) -> Result<(), StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            let now = now_ms();
            let row = QueuedJob::submitted(job, payload.to_owned(), terms, now);
            let sql = "INSERT OR IGNORE INTO job_queue (job, stamped_at, free_at, data)
                       VALUES (?1, ?2, ?3, ?4)";
            let values = params![job_key(job), now, row.free_at_ms, to_json(&row)?];
            tx.prepare_cached(sql)?.execute(values).map(drop)
        })
    }

    fn claim(&self, worker: &Scrubbed, lease: Duration) -> Result<Option<JobClaim>, StoreError> {
        self.database.write_tables(Durability::Process, |tx| {
            let now = now_ms();
            while let Some(mut row) = find_free_job(tx, now)? {
                let grant = row.claim(worker.clone(), millis(lease), now);
                save_job(tx, &row, now)?;
                if let ClaimGrant::Granted(epoch) = grant {
                    let token = ClaimToken { job: row.job, epoch };
                    return Ok(Some(JobClaim { token, payload: row.payload }));
                }
            }
            Ok(None)
        })
    }

    fn heartbeat(&self, claim: ClaimToken, lease: Duration) -> Result<ClaimStanding, StoreError> {
        self.database.write_tables(Durability::Process, |tx| {
            while_held(tx, claim, |row, now| row.extend_lease(millis(lease), now))
        })
    }

    fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: &[JobArtifact],
    ) -> Result<ClaimStanding, StoreError> {
        self.database.write_tables(Durability::Process, |tx| {
            let standing = while_held(tx, claim, |_, _| {})?;
            if standing == ClaimStanding::Held {
                let sql = "INSERT OR REPLACE INTO job_artifact (job, name, bytes)
                           VALUES (?1, ?2, ?3)";
                let mut put = tx.prepare_cached(sql)?;
                for artifact in artifacts {
                    put.execute(params![job_key(claim.job), artifact.name, artifact.bytes])?;
                }
            }
            Ok(standing)
        })
    }

    fn artifact(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.read_tables(|tx| {
            let sql = "SELECT bytes FROM job_artifact WHERE job = ?1 AND name = ?2";
            tx.prepare_cached(sql)?
                .query_row(params![job_key(job), name], |row| row.get(0))
                .optional()
        })
    }

    fn finish(&self, claim: ClaimToken, end: ClaimEnd) -> Result<ClaimStanding, StoreError> {
        self.database.write_tables(Durability::Process, |tx| {
            while_held(tx, claim, |row, now| row.finish(end.clone(), now))
        })
    }

    fn queued(&self, state: Option<QueueState>) -> Result<Vec<QueuedJob>, StoreError> {
        self.database.read_tables(|tx| {
            let mut statement = tx.prepare_cached("SELECT data FROM job_queue ORDER BY number")?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let job = from_json(&row.get::<_, String>(0)?)?;
                if state.is_none_or(|state| state == job.state) {
                    found.push(job);
                }
            }
            Ok(found)
        })
    }

    fn requeue(&self, job: JobId) -> Result<bool, StoreError> {
        self.change(job, QueuedJob::requeue)
    }

    fn withdraw(&self, job: JobId) -> Result<bool, StoreError> {
        self.change(job, |row, _| row.withdraw())
    }

    fn forget(&self, job: JobId) -> Result<bool, StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            if load_job(tx, job)?.is_some_and(|row| row.state == QueueState::Claimed) {
                return Ok(false);
            }
            for sql in
                ["DELETE FROM job_artifact WHERE job = ?1", "DELETE FROM job_queue WHERE job = ?1"]
            {
                tx.prepare_cached(sql)?.execute([job_key(job)])?;
            }
            Ok(true)
        })
    }
}

impl SqliteQueue {
    /// Keeps the queue's tables in a database.
    pub(super) fn new(database: &Arc<Database>) -> Self {
        Self { database: Arc::clone(database) }
    }

    fn change(
        &self,
        job: JobId,
        change: impl Fn(&mut QueuedJob, i64) -> bool,
    ) -> Result<bool, StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            let now = now_ms();
            let Some(mut row) = load_job(tx, job)? else { return Ok(false) };
            let is_changed = change(&mut row, now);
            save_job(tx, &row, now)?;
            Ok(is_changed)
        })
    }
}

/// Changes a job if the claim still counts.
fn while_held(
    tx: &Transaction<'_>,
    claim: ClaimToken,
    change: impl Fn(&mut QueuedJob, i64),
) -> rusqlite::Result<ClaimStanding> {
    let now = now_ms();
    match load_job(tx, claim.job)?.filter(|row| row.is_held_by(claim.epoch)) {
        Some(mut row) => {
            change(&mut row, now);
            save_job(tx, &row, now)?;
            Ok(ClaimStanding::Held)
        }
        None => Ok(ClaimStanding::Fenced),
    }
}

/// Returns the job that has been free for longest.
///
/// Where the clock was set back since, times from before mean nothing: taking such a job over early
/// does no harm, since whoever had it is fenced.
fn find_free_job(tx: &Transaction<'_>, now: i64) -> rusqlite::Result<Option<QueuedJob>> {
    let sql = "SELECT data FROM job_queue WHERE free_at IS NOT NULL
               AND (free_at <= ?1 OR stamped_at > ?1 + ?2) ORDER BY free_at, number LIMIT 1";
    let mut statement = tx.prepare_cached(sql)?;
    let found =
        statement.query_row([now, SET_BACK_MS], |row| row.get::<_, String>(0)).optional()?;
    found.map(|text| from_json(&text)).transpose()
}

fn load_job(tx: &Transaction<'_>, job: JobId) -> rusqlite::Result<Option<QueuedJob>> {
    let sql = "SELECT data FROM job_queue WHERE job = ?1";
    let mut statement = tx.prepare_cached(sql)?;
    let found = statement.query_row([job_key(job)], |row| row.get::<_, String>(0)).optional()?;
    found.map(|text| from_json(&text)).transpose()
}

fn save_job(tx: &Transaction<'_>, row: &QueuedJob, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE job_queue SET stamped_at = ?2, free_at = ?3, data = ?4 WHERE job = ?1";
    let values = params![job_key(row.job), now, row.free_at_ms, to_json(row)?];
    tx.prepare_cached(sql)?.execute(values).map(drop)
}

fn job_key(job: JobId) -> String {
    job.0.simple().to_string()
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

fn to_json(row: &QueuedJob) -> rusqlite::Result<String> {
    serde_json::to_string(row)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn from_json(text: &str) -> rusqlite::Result<QueuedJob> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}
