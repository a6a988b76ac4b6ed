//! The records of jobs: how they are read, and replaced at the revision that was read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use salve_core::id::JobId;
use salve_core::job::{RecordWrite, WriteLook, WriteNext};

use super::clock::ServerClock;
use super::record::{FoundRecord, JobRecord};
use super::streams::{FleetStream, StreamNames, is_no_message, read_all, refused, write_at};
use crate::store::fleet::FleetError;

/// How long to wait before a write of which nothing was heard is looked for, longer each time: a new
/// leader may have to be found.
const PAUSE: Duration = Duration::from_millis(250);

/// The records of a fleet's jobs.
#[derive(Clone, Debug)]
pub(super) struct JobRecords {
    pub(super) context: Context,
    pub(super) names: StreamNames,
    pub(super) clock: Arc<ServerClock>,
    stream: Stream<()>,
}

/// What came of a change.
#[derive(Clone, Debug)]
pub(super) enum RecordChange {
    /// The record is as the change made it.
    To(Box<FoundRecord>),
    /// The change did not want it, or there is no such record.
    Not,
}

impl JobRecords {
    /// Prepares to read and write records.
    pub(super) async fn open(context: Context, names: StreamNames) -> Result<Self, FleetError> {
        let stream = context.get_stream_no_info(names.stream(FleetStream::Record)).await;
        let stream = stream.map_err(|error| refused("looking for the records", &error))?;
        Ok(Self { context, names, clock: Arc::default(), stream })
    }

    /// Returns the server's time.
    pub(super) async fn now(&self) -> Result<i64, FleetError> {
        self.clock.now(&self.context, &self.names.stream(FleetStream::Record)).await
    }

    /// Returns the record of a job, even of one that was removed.
    pub(super) async fn find(&self, job: JobId) -> Result<Option<FoundRecord>, FleetError> {
        let subject = self.names.subject(FleetStream::Record, job);
        let found = match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(found) => found,
            Err(error) => {
                return match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(None),
                    LastRawMessageErrorKind::JetStream(said) if is_no_message(&said) => Ok(None),
                    LastRawMessageErrorKind::JetStream(_)
                    | LastRawMessageErrorKind::InvalidSubject
                    | LastRawMessageErrorKind::Other => Err(refused("reading a record", &error)),
                };
            }
        };
        let record = JobRecord::decode(&found.payload)?;
        Ok(Some(FoundRecord { record, revision: found.sequence }))
    }

    /// Returns the record of a job that is there.
    pub(super) async fn present(&self, job: JobId) -> Result<Option<FoundRecord>, FleetError> {
        Ok(self.find(job).await?.filter(|found| !found.record.is_gone))
    }

    /// Replaces a record at a revision; returns the revision that it is now, if it counts.
    pub(super) async fn replace(
        &self,
        record: &mut JobRecord,
        revision: u64,
    ) -> Result<Option<u64>, FleetError> {
        let mut of = RecordWrite::new(record.mark_for(revision));
        let (job, bytes) = (record.job.job, record.encode()?);
        loop {
            let subject = self.names.subject(FleetStream::Record, job);
            let written = write_at(&self.context, subject, revision, bytes.clone()).await?;
            let (mut kept, mut next) = (written.revision, of.on_answer(written.answer));
            if next == WriteNext::Look {
                tokio::time::sleep(PAUSE * of.sends()).await;
                let look = self.look(job).await?;
                if let WriteLook::Found(found) = look {
                    kept = found.revision;
                }
                next = of.on_look(look);
            }
            match next {
                WriteNext::Counts => return Ok(Some(kept)),
                WriteNext::Lost => return Ok(None),
                WriteNext::Send | WriteNext::Look => {}
                WriteNext::Unknown => return Err(FleetError::Late { what: "writing a record" }),
            }
        }
    }

    /// Sees what is there of a write of which nothing was heard.
    async fn look(&self, job: JobId) -> Result<WriteLook, FleetError> {
        match self.find(job).await {
            Ok(Some(found)) => Ok(WriteLook::Found(found.last_write())),
            Ok(None) => Ok(WriteLook::Missing),
            // Nothing is known yet.
            Err(FleetError::Late { .. } | FleetError::Refused { .. }) => Ok(WriteLook::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Changes a record as it is, however often others write meanwhile; `change` tells whether it
    /// wants to. A record that was known before is tried first: its revision says whether it is the
    /// last one still.
    pub(super) async fn change_known(
        &self,
        job: JobId,
        mut known: Option<FoundRecord>,
        change: impl Fn(&mut JobRecord, i64) -> bool,
    ) -> Result<RecordChange, FleetError> {
        loop {
            let is_known = known.is_some();
            let found = match known.take() {
                Some(known) => Some(known),
                None => self.present(job).await?,
            };
            let Some(mut found) = found else { return Ok(RecordChange::Not) };
            if change(&mut found.record, self.now().await?) {
                if let Some(revision) = self.replace(&mut found.record, found.revision).await? {
                    found.revision = revision;
                    return Ok(RecordChange::To(Box::new(found)));
                }
            } else if !is_known {
                return Ok(RecordChange::Not);
            }
        }
    }

    /// Changes a record as it is, however often others write meanwhile.
    pub(super) async fn change(
        &self,
        job: JobId,
        change: impl Fn(&mut JobRecord, i64) -> bool,
    ) -> Result<RecordChange, FleetError> {
        self.change_known(job, None, change).await
    }

    /// Removes what is kept of a job besides its record and its files.
    pub(super) async fn forget_rest(&self, job: JobId) -> Result<(), FleetError> {
        let failed = |error: &(dyn std::error::Error + 'static)| refused("removing a job", error);
        for (what, end) in [
            (FleetStream::DeadLetter, ""),
            (FleetStream::WakeUp, ""),
            (FleetStream::Event, ""),
            (FleetStream::Order, ".>"),
            (FleetStream::Answer, ".>"),
        ] {
            let stream = self.context.get_stream_no_info(self.names.stream(what)).await;
            let stream = stream.map_err(|error| failed(&error))?;
            let subjects = format!("{}{end}", self.names.subject(what, job));
            stream.purge().filter(subjects).await.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Returns all records, oldest first.
    pub(super) async fn all(&self) -> Result<Vec<JobRecord>, FleetError> {
        let (stream, filter) =
            (self.names.stream(FleetStream::Record), self.names.all(FleetStream::Record));
        let mut by_job = BTreeMap::new();
        for message in read_all(&self.context, stream, filter, 1).await? {
            let record = JobRecord::decode(&message.bytes)?;
            // What comes later is newer.
            by_job.insert(record.job.job, record);
        }
        let mut found: Vec<JobRecord> =
            by_job.into_values().filter(|record| !record.is_gone).collect();
        found.sort_by_key(|record| (record.submitted_ms, record.job.job));
        Ok(found)
    }
}
