//! What happens to a fleet's jobs: told after the record says so, and heard without a loss.

use std::sync::mpsc::{self, Receiver};

use async_nats::jetstream::message::PublishMessage;
use salve_core::id::JobId;
use salve_core::job::WriteAnswer;

use super::queue::NatsQueue;
use super::record::JobRecord;
use super::streams::{FleetStream, Hearing, KeptMessage, StreamNames, end_of, hear, publish};
use crate::store::StoreError;
use crate::store::fleet::FleetError;
use crate::store::fleet_news::{FleetJobRow, FleetNews, FleetNewsSource, JobEvents};

/// The version of the events' shape.
const VERSION: u32 = 1;

impl FleetNewsSource for NatsQueue {
    fn job_rows(&self) -> Result<Vec<FleetJobRow>, StoreError> {
        let jobs = self.jobs.clone();
        let all = self.link.wait("listing the jobs", async move { jobs.records.all().await })?;
        Ok(all.into_iter().map(row).collect())
    }

    fn job_row(&self, job: JobId) -> Result<Option<FleetJobRow>, StoreError> {
        let jobs = self.jobs.clone();
        let found =
            self.link.wait("looking at a job", async move { jobs.records.present(job).await })?;
        Ok(found.map(|found| row(found.record)))
    }

    fn tell_events(&self, events: &JobEvents) -> Result<(), StoreError> {
        let malformed =
            |error: serde_json::Error| FleetError::Malformed { what: error.to_string() };
        let bytes = serde_json::to_vec(events).map_err(malformed)?;
        let JobEvents { job, epoch, count, .. } = *events;
        let id = format!("{}:{epoch}:{count}", job.0.simple());
        let subject = self.link.names.subject(FleetStream::Event, job);
        let context = self.link.context.clone();
        let done = self.link.wait("telling what happened", async move {
            // One that was not heard of again is told a second time, and counts once.
            for _ in 0..2 {
                let message = PublishMessage::build().message_id(&id).payload(bytes.clone().into());
                match publish(&context, subject.clone(), message).await?.answer {
                    WriteAnswer::Kept | WriteAnswer::Refused => return Ok(()),
                    WriteAnswer::Nothing => {}
                }
            }
            Err(FleetError::Late { what: "telling what happened" })
        });
        Ok(done?)
    }

    fn hear_jobs(&self) -> Result<Receiver<FleetNews>, StoreError> {
        let (tell, told) = mpsc::channel();
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let places = self.link.wait("listening", async move {
            let events = end_of(&context, names.stream(FleetStream::Event)).await?;
            Ok((events, end_of(&context, names.stream(FleetStream::Record)).await?))
        });
        let (events, records) = places?;
        for (place, read) in
            [(events, read_events as fn(&StreamNames, &KeptMessage) -> _), (records, read_record)]
        {
            let (context, names, tell) =
                (self.link.context.clone(), self.link.names.clone(), tell.clone());
            self.link.begin(hear(context, place, move |message| {
                // What a later Salve writes is not understood here.
                let Some(news) = read(&names, &message) else { return Hearing::GoesOn };
                if tell.send(news).is_ok() { Hearing::GoesOn } else { Hearing::Over }
            }));
        }
        Ok(told)
    }
}

fn row(record: JobRecord) -> FleetJobRow {
    let JobRecord { job: row, submitted_ms, payload, artifacts: files, .. } = record;
    FleetJobRow { row, submitted_ms, payload, files }
}

fn read_events(_: &StreamNames, message: &KeptMessage) -> Option<FleetNews> {
    let events: JobEvents = serde_json::from_slice(&message.bytes).ok()?;
    (events.version <= VERSION).then(|| FleetNews::Events(Box::new(events)))
}

fn read_record(_: &StreamNames, message: &KeptMessage) -> Option<FleetNews> {
    let record = JobRecord::decode(&message.bytes).ok()?;
    Some(if record.is_gone {
        FleetNews::Gone(record.job.job)
    } else {
        FleetNews::Stands(Box::new(row(record)))
    })
}
