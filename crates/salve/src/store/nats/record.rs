//! What a fleet keeps of one job.

use std::collections::BTreeMap;

use salve_core::id::JobId;
use salve_core::job::{QueuedJob, RetryTerms, SentWrite};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::store::fleet::{FleetError, FleetFile};

/// The version of a record's shape.
const VERSION: u32 = 1;

/// The record of a job: the one truth about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobRecord {
    /// The version of its shape.
    version: u32,
    /// What no other write of it bears.
    mark: Uuid,
    /// When it was submitted, in milliseconds of the server's clock.
    pub(super) submitted_ms: i64,
    /// How it stands. A large payload is kept as a file of its own, since this is written often.
    pub(super) job: QueuedJob,
    /// The file with its payload, unless that is small.
    pub(super) payload: Option<FleetFile>,
    /// What a worker has to offer to get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) needs: Vec<String>,
    /// What its steps left, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) artifacts: BTreeMap<String, FleetFile>,
    /// Whether it was removed with all that was kept of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_gone: bool,
}

/// A record as it was found.
#[derive(Clone, Debug)]
pub(super) struct FoundRecord {
    pub(super) record: JobRecord,
    /// The revision at which it may be replaced.
    pub(super) revision: u64,
}

impl JobRecord {
    /// Makes the first record of a job.
    pub(super) fn submitted(job: JobId, terms: RetryTerms, now_ms: i64) -> Self {
        Self {
            version: VERSION,
            mark: Uuid::nil(),
            submitted_ms: now_ms,
            job: QueuedJob::submitted(job, String::new(), terms, now_ms),
            payload: None,
            needs: Vec::new(),
            artifacts: BTreeMap::new(),
            is_gone: false,
        }
    }

    /// Returns it as it is written by the server's time.
    pub(super) fn submitted_at(&self, now_ms: i64) -> Self {
        let Self { job: QueuedJob { job, payload, terms, .. }, .. } = self.clone();
        let job = QueuedJob::submitted(job, payload, terms, now_ms);
        Self { submitted_ms: now_ms, job, ..self.clone() }
    }

    /// Gives it a mark for a write at a revision.
    pub(super) fn mark_for(&mut self, revision: u64) -> SentWrite {
        self.mark = Uuid::new_v4();
        SentWrite { mark: self.mark, revision }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, FleetError> {
        let malformed =
            |error: serde_json::Error| FleetError::Malformed { what: error.to_string() };
        serde_json::to_vec(self).map_err(malformed)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FleetError> {
        let malformed = |error: serde_json::Error| FleetError::Malformed {
            what: format!("the record of a job: {error}"),
        };
        let record: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        if record.version > VERSION {
            let what = format!("the record of a job, version {}", record.version);
            return Err(FleetError::Malformed { what });
        }
        Ok(record)
    }
}

impl FoundRecord {
    pub(super) fn last_write(&self) -> SentWrite {
        SentWrite { mark: self.record.mark, revision: self.revision }
    }
}
