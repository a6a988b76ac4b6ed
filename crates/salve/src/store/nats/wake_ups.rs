//! The wake-ups of workers: one message for each job that somebody may have to claim.
//!
//! It is delivered to one worker at a time, and comes back after the lease of whoever got the job, or
//! when the job is due. A wake-up that is lost costs time and no job: the reconciler makes a new one.

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::message::{AckKind, Acker};
use futures_util::StreamExt as _;
use salve_core::id::JobId;
use salve_core::job::WakeUpEnd;

use super::streams::{FleetStream, StreamNames, patiently, refused, write};
use crate::store::fleet::FleetError;

/// What the consumer is called that all workers share.
const CONSUMER: &str = "workers";

/// How long a worker that was woken may say nothing before another one is.
const ACK_WAIT: Duration = Duration::from_secs(4);

/// How long a worker waits for a wake-up.
const PATIENCE: Duration = Duration::from_millis(150);

/// The longest that a wake-up is put off; whoever is woken too early puts it off again.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// The wake-ups of a fleet.
#[derive(Clone, Debug)]
pub(super) struct WakeUps {
    context: Context,
    names: StreamNames,
    consumer: Consumer<pull::Config>,
}

/// A wake-up that came; unless it is settled, it comes again soon.
pub(super) struct WakeUp {
    pub(super) job: JobId,
    acker: Acker,
}

impl fmt::Debug for WakeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeUp").field("job", &self.job).finish_non_exhaustive()
    }
}

impl WakeUp {
    /// Lets it come again, to anybody, after so long.
    pub(super) async fn come_again(&self, after_ms: u64) {
        let after = Duration::from_millis(after_ms).min(LONGEST);
        let kind = AckKind::Nak(Some(after).filter(|after| !after.is_zero()));
        // It comes again anyhow.
        let _sent = self.acker.ack_with(kind).await;
    }

    /// Says that nobody need be woken any more.
    pub(super) async fn settle(&self) {
        // It would come once more and be settled then.
        let _sent = self.acker.ack().await;
    }

    /// Lets become of it what came of the claim that it led to.
    pub(super) async fn end(&self, end: WakeUpEnd) {
        match end {
            WakeUpEnd::Again(ms) => self.come_again(ms).await,
            WakeUpEnd::Settled => self.settle().await,
        }
    }
}

impl WakeUps {
    /// Prepares to be woken.
    pub(super) async fn open(context: Context, names: StreamNames) -> Result<Self, FleetError> {
        let failed = |error: &(dyn std::error::Error + 'static)| refused("waiting for jobs", error);
        let stream = context.get_stream_no_info(names.stream(FleetStream::WakeUp)).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // Every job that is due later waits here.
            max_ack_pending: -1,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(CONSUMER, config).await;
        let consumer = consumer.map_err(|error| failed(&error))?;
        Ok(Self { context, names, consumer })
    }

    /// Wakes somebody for a job, at once; an earlier wake-up for it is replaced.
    pub(super) async fn wake(&self, job: JobId) -> Result<(), FleetError> {
        let subject = self.names.subject(FleetStream::WakeUp, job);
        write(&self.context, "waking a worker", subject, Vec::new()).await
    }

    /// Returns the next wake-up, if there is one.
    pub(super) async fn next(&self) -> Result<Option<WakeUp>, FleetError> {
        patiently(|| self.next_now()).await
    }

    async fn next_now(&self) -> Result<Option<WakeUp>, FleetError> {
        let failed = |error: &(dyn std::error::Error + 'static)| refused("waiting for jobs", error);
        let batch = self.consumer.batch().max_messages(1).expires(PATIENCE);
        let mut batch = batch.messages().await.map_err(|error| failed(&error))?;
        let Some(message) = batch.next().await else { return Ok(None) };
        let (message, acker) = message.map_err(|error| failed(error.as_ref()))?.split();
        match self.names.job(FleetStream::WakeUp, &message.subject) {
            Some(job) => Ok(Some(WakeUp { job, acker })),
            None => {
                Err(FleetError::Malformed { what: format!("a wake-up at {}", message.subject) })
            }
        }
    }
}
