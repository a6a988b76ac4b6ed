//! What people answer to the questions of a fleet's jobs: kept until the job is removed, with what a
//! worker said to each.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use async_nats::jetstream::Context;
use salve_core::id::JobId;
use salve_core::job::WriteAnswer;
use serde::Serialize;
use uuid::Uuid;

use super::queue::NatsQueue;
use super::streams::{
    FleetStream, Hearing, HearingPlace, KeptMessage, StreamNames, hear, read_all, write_at,
};
use crate::store::StoreError;
use crate::store::fleet::FleetError;
use crate::store::fleet_answers::{
    AnswerId, AnswerVerdict, FleetAnswer, FleetAnswers, PlacedAnswer,
};

/// The version of the shapes.
const VERSION: u32 = 1;

/// What the subject of a verdict ends with.
const VERDICT: &str = "verdict";

/// How long to wait before a write of which nothing was heard is tried again.
const PAUSE: Duration = Duration::from_millis(500);

impl FleetAnswers for NatsQueue {
    fn now_ms(&self) -> Result<i64, StoreError> {
        let jobs = self.jobs.clone();
        Ok(self.link.wait("asking for the time", async move { jobs.records.now().await })?)
    }

    fn answer(&self, answer: &FleetAnswer) -> Result<AnswerId, StoreError> {
        let of = AnswerId { job: answer.question.job, id: Uuid::new_v4() };
        let (context, names, bytes) =
            (self.link.context.clone(), self.link.names.clone(), encode(answer)?);
        let subject = subject(&names, of);
        let done = self
            .link
            .wait("answering", async move { keep_once(&context, subject, bytes).await.map(drop) });
        done?;
        Ok(of)
    }

    fn answers(&self, job: JobId) -> Result<Vec<PlacedAnswer>, StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let kept = self.link.wait("reading answers", async move {
            let filter = format!("{}.*", names.subject(FleetStream::Answer, job));
            let kept = read_all(&context, names.stream(FleetStream::Answer), filter, 1).await?;
            Ok(kept.iter().filter_map(|message| read(&names, message)).collect())
        });
        Ok(kept?)
    }

    fn hear_answers(&self) -> Result<Receiver<PlacedAnswer>, StoreError> {
        let (tell, told) = mpsc::channel();
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let place = HearingPlace { stream: names.stream(FleetStream::Answer), next: 1 };
        self.link.begin(hear(context, place, move |message| {
            let Some(answer) = read(&names, &message) else { return Hearing::GoesOn };
            if tell.send(answer).is_ok() { Hearing::GoesOn } else { Hearing::Over }
        }));
        Ok(told)
    }

    fn say_verdict(&self, of: AnswerId, verdict: &AnswerVerdict) -> Result<bool, StoreError> {
        let (context, bytes) = (self.link.context.clone(), encode(verdict)?);
        let subject = format!("{}.{VERDICT}", subject(&self.link.names, of));
        let done = self.link.wait("saying what comes of an answer", async move {
            keep_once(&context, subject, bytes).await
        });
        Ok(done?)
    }

    fn verdict(&self, of: AnswerId) -> Result<Option<AnswerVerdict>, StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let filter = format!("{}.{VERDICT}", subject(&names, of));
        let found = self.link.wait("reading what came of an answer", async move {
            read_all(&context, names.stream(FleetStream::Answer), filter, 1).await
        })?;
        let malformed = |error: serde_json::Error| FleetError::Malformed {
            what: format!("what came of an answer: {error}"),
        };
        let found = found.last().map(|message| serde_json::from_slice(&message.bytes));
        Ok(found.transpose().map_err(malformed)?)
    }
}

/// Keeps what nobody may replace; tells whether nothing was there before.
async fn keep_once(context: &Context, subject: String, bytes: Vec<u8>) -> Result<bool, FleetError> {
    let mut is_again = false;
    for _ in 0..3 {
        match write_at(context, subject.clone(), 0, bytes.clone()).await?.answer {
            WriteAnswer::Kept => return Ok(true),
            // The first of two that were sent refuses the second.
            WriteAnswer::Refused => return Ok(is_again),
            WriteAnswer::Nothing => tokio::time::sleep(PAUSE).await,
        }
        is_again = true;
    }
    Err(FleetError::Late { what: "answering" })
}

fn encode(what: &impl Serialize) -> Result<Vec<u8>, FleetError> {
    serde_json::to_vec(what).map_err(|error| FleetError::Malformed { what: error.to_string() })
}

fn subject(names: &StreamNames, of: AnswerId) -> String {
    format!("{}.{}", names.subject(FleetStream::Answer, of.job), of.id.simple())
}

/// Reads an answer; what a later Salve writes, and what is no answer, is none.
fn read(names: &StreamNames, message: &KeptMessage) -> Option<PlacedAnswer> {
    let job = names.job(FleetStream::Answer, &message.subject)?;
    let id = message.subject.rsplit('.').next()?.parse().ok()?;
    let answer: FleetAnswer = serde_json::from_slice(&message.bytes).ok()?;
    let is_known = answer.version <= VERSION && answer.question.job == job;
    is_known.then_some(PlacedAnswer { id: AnswerId { job, id }, at_ms: message.at_ms, answer })
}
