//! The fleet's clock: the server's time, read now and then and carried on by this machine's
//! steady clock.
//!
//! No worker's date has a say: it may be an hour off. Between two looks the estimate lags behind the
//! server by no more than an answer takes to arrive, so a lease that is made by it is a little
//! shorter, and one that is judged by it ends a little later: nobody is robbed of a job.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use jiff::Timestamp;
use serde::Deserialize;

use super::streams::refused;
use crate::store::fleet::FleetError;

/// How long one look counts; a machine that slept has a steady clock that slept, too.
const COUNTS: Duration = Duration::from_secs(10);

/// What the server says of the time beside everything else.
#[derive(Debug, Deserialize)]
struct Stamped {
    ts: Option<Timestamp>,
}

/// The server's time, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    seen: Mutex<Option<SeenTime>>,
}

#[derive(Clone, Copy, Debug)]
struct SeenTime {
    server_ms: i64,
    at: Instant,
}

impl ServerClock {
    /// Returns the server's time in milliseconds.
    pub(super) async fn now(&self, context: &Context, stream: &str) -> Result<i64, FleetError> {
        let known = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = match known.filter(|seen| seen.at.elapsed() < COUNTS) {
            Some(seen) => seen,
            None => self.look(context, stream).await?,
        };
        let since = i64::try_from(seen.at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok(seen.server_ms.saturating_add(since))
    }

    async fn look(&self, context: &Context, stream: &str) -> Result<SeenTime, FleetError> {
        let subject = format!("STREAM.INFO.{stream}");
        let said: Stamped = context
            .request(subject, &())
            .await
            .map_err(|error| refused("asking for the time", &error))?;
        let at = Instant::now();
        let time = said.ts.ok_or(FleetError::Malformed { what: "the server's time".to_owned() })?;
        let seen = SeenTime { server_ms: time.as_millisecond(), at };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(seen)
    }
}
