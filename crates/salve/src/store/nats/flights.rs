//! Fixes that are done once for all machines: one record per cause, replaced at the revision that its
//! writer knew, with a lease by the server's time.

use std::time::Duration;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use salve_core::event::Digest;
use salve_core::job::WriteAnswer;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::queue::{FleetJobs, NatsQueue};
use super::streams::{FleetStream, is_no_message, refused, write_at};
use crate::store::fleet::FleetError;
use crate::store::{Boarding, FleetFlights, FlightEnd, FlightSeat, StoreError};

/// What is kept of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FlightRecord {
    version: u32,
    holder: String,
    state: FlightState,
}

/// How a fix stands; times are the server's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FlightState {
    Underway { until_ms: i64 },
    Landed { at_ms: i64, end: FlightEnd },
}

/// What is to be done about a fix that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FlightMove {
    Take,
    Wait,
    Accept(FlightEnd),
}

impl FlightRecord {
    const VERSION: u32 = 1;

    /// Says what somebody does who has needed the fix since `began_ms`.
    fn meet(found: Option<&Self>, began_ms: i64, now_ms: i64) -> FlightMove {
        match found.map(|record| &record.state) {
            Some(FlightState::Underway { until_ms }) if *until_ms > now_ms => FlightMove::Wait,
            Some(FlightState::Landed { at_ms, end }) if *at_ms >= began_ms => {
                FlightMove::Accept(end.clone())
            }
            Some(FlightState::Underway { .. } | FlightState::Landed { .. }) | None => {
                FlightMove::Take
            }
        }
    }
}

impl FleetFlights for NatsQueue {
    fn board(&self, cause: &str, began: Duration, lease: Duration) -> Result<Boarding, StoreError> {
        let (jobs, key) = (self.jobs.clone(), key(cause));
        let done = self
            .link
            .wait("asking who mends it", async move { board(&jobs, key, began, lease).await });
        Ok(done?)
    }

    fn prolong(&self, seat: &mut FlightSeat, lease: Duration) -> Result<bool, StoreError> {
        let (jobs, mine) = (self.jobs.clone(), seat.clone());
        let revision = self.link.wait("saying that it is being mended", async move {
            let until_ms = jobs.records.now().await?.saturating_add(millis(lease));
            replace(&jobs, &mine, FlightState::Underway { until_ms }).await
        })?;
        seat.revision = revision.unwrap_or(seat.revision);
        Ok(revision.is_some())
    }

    fn land(&self, seat: &FlightSeat, end: &FlightEnd) -> Result<bool, StoreError> {
        let (jobs, mine, end) = (self.jobs.clone(), seat.clone(), end.clone());
        let revision = self.link.wait("saying what came of it", async move {
            let at_ms = jobs.records.now().await?;
            replace(&jobs, &mine, FlightState::Landed { at_ms, end }).await
        })?;
        Ok(revision.is_some())
    }
}

/// Returns what a cause is called there: its text may be a command, which is nobody's to read.
fn key(cause: &str) -> String {
    Digest::of(&[b"flight", cause.as_bytes()]).to_string().chars().take(32).collect()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A record and the revision of its last write; 0 where there is none.
type FoundFlight = (Option<FlightRecord>, u64);

async fn find(jobs: &FleetJobs, key: &str) -> Result<FoundFlight, FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("looking for a fix", error);
    let (context, names) = (&jobs.records.context, &jobs.records.names);
    let stream = context.get_stream_no_info(names.stream(FleetStream::Flight)).await;
    let stream = stream.map_err(|error| failed(&error))?;
    let subject = names.named(FleetStream::Flight, key);
    match stream.get_last_raw_message_by_subject(&subject).await {
        // What a later Salve wrote is replaced: it is of an hour at most.
        Ok(found) => Ok((serde_json::from_slice(&found.payload).ok(), found.sequence)),
        Err(error) => match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok((None, 0)),
            LastRawMessageErrorKind::JetStream(said) if is_no_message(&said) => Ok((None, 0)),
            LastRawMessageErrorKind::JetStream(_)
            | LastRawMessageErrorKind::InvalidSubject
            | LastRawMessageErrorKind::Other => Err(failed(&error)),
        },
    }
}

async fn board(
    jobs: &FleetJobs,
    key: String,
    began: Duration,
    lease: Duration,
) -> Result<Boarding, FleetError> {
    let (found, revision) = find(jobs, &key).await?;
    let now_ms = jobs.records.now().await?;
    let began_ms = now_ms.saturating_sub(millis(began));
    match FlightRecord::meet(found.as_ref(), began_ms, now_ms) {
        FlightMove::Wait => Ok(Boarding::Underway),
        FlightMove::Accept(end) => Ok(Boarding::Landed(end)),
        FlightMove::Take => {
            let holder = Uuid::new_v4().simple().to_string();
            let seat = FlightSeat { cause: key, holder, revision };
            let until_ms = now_ms.saturating_add(millis(lease));
            let taken = replace(jobs, &seat, FlightState::Underway { until_ms }).await?;
            Ok(match taken {
                Some(revision) => Boarding::Ours(FlightSeat { revision, ..seat }),
                None => Boarding::Underway,
            })
        }
    }
}

/// Replaces a record at the revision of a seat; returns its new revision, if it was there.
async fn replace(
    jobs: &FleetJobs,
    seat: &FlightSeat,
    state: FlightState,
) -> Result<Option<u64>, FleetError> {
    let record =
        FlightRecord { version: FlightRecord::VERSION, holder: seat.holder.clone(), state };
    let malformed = |error: serde_json::Error| FleetError::Malformed { what: error.to_string() };
    let bytes = serde_json::to_vec(&record).map_err(malformed)?;
    let subject = jobs.records.names.named(FleetStream::Flight, &seat.cause);
    let written = write_at(&jobs.records.context, subject, seat.revision, bytes).await?;
    match written.answer {
        WriteAnswer::Kept => Ok(Some(written.revision)),
        WriteAnswer::Refused => Ok(None),
        // What stands there says whose it is.
        WriteAnswer::Nothing => {
            let (found, revision) = find(jobs, &seat.cause).await?;
            Ok((found.as_ref() == Some(&record)).then_some(revision))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::super::test_server::TestServers;
    use super::*;
    use crate::project::Project;
    use crate::store::{FleetTerms, FlightTerms, Store, fix_once};

    const TERMS: FlightTerms =
        FlightTerms { lease: Duration::from_secs(5), patience: Duration::from_secs(60) };

    /// Reaches a fleet as another machine does.
    fn machine(fleet: &FleetTerms) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_in_fleet(&Project::at(dir.path()).unwrap(), fleet).unwrap();
        (dir, store)
    }

    #[test]
    fn who_meets_a_fix_takes_waits_or_accepts_it_by_the_servers_time() {
        let record = |state| {
            let version = FlightRecord::VERSION;
            Some(FlightRecord { version, holder: "x".to_owned(), state })
        };
        let underway = |until_ms| record(FlightState::Underway { until_ms });
        let landed = |at_ms| record(FlightState::Landed { at_ms, end: FlightEnd::Done });
        let rows = [
            (None, FlightMove::Take),
            (underway(11), FlightMove::Wait),
            (underway(10), FlightMove::Take),
            (landed(5), FlightMove::Accept(FlightEnd::Done)),
            (landed(4), FlightMove::Take),
        ];
        for (found, want) in rows {
            assert_eq!(FlightRecord::meet(found.as_ref(), 5, 10), want, "{found:?}");
        }
    }

    /// **Invariant:** Of all machines that need a fix at once, one does it.
    #[test]
    fn machines_that_need_the_same_fix_at_once_have_it_done_once() {
        let Some(servers) = TestServers::one() else { return };
        let (fleet, times, began) = (servers.new_fleet(), AtomicU32::new(0), Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (_dir, store) = machine(&fleet);
                    let act = || {
                        times.fetch_add(1, Ordering::SeqCst);
                        FlightEnd::Done
                    };
                    let flights = store.fleet().unwrap().flights();
                    let end = fix_once(flights, "cache", began, TERMS, act).unwrap();
                    assert_eq!(end, FlightEnd::Done);
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
        let (_dir, store) = machine(&fleet);
        let flights = store.fleet().unwrap().flights();
        let fails = || FlightEnd::Failed(salve_core::scrub::Scrubbed::literal("no"));
        let later = fix_once(flights, "cache", Instant::now(), TERMS, fails).unwrap();
        assert_eq!(later, fails(), "what is needed anew is done anew");
        let other = fix_once(flights, "other", began, TERMS, || FlightEnd::Done).unwrap();
        assert_eq!(other, FlightEnd::Done, "another cause is another matter");
    }

    #[test]
    fn whoever_dies_while_mending_is_replaced_and_changes_nothing_any_more() {
        let Some(servers) = TestServers::one() else { return };
        let fleet = servers.new_fleet();
        let ((_one, dead), (_two, heir)) = (machine(&fleet), machine(&fleet));
        let (dead, heir) = (dead.fleet().unwrap().flights(), heir.fleet().unwrap().flights());
        let (began, lease) = (Instant::now(), Duration::from_millis(400));
        let Boarding::Ours(mut seat) = dead.board("cache", began.elapsed(), lease).unwrap() else {
            panic!("nobody had it")
        };
        assert_eq!(heir.board("cache", began.elapsed(), lease).unwrap(), Boarding::Underway);
        let end = fix_once(heir, "cache", began, TERMS, || FlightEnd::Done).unwrap();
        assert_eq!(end, FlightEnd::Done);
        assert!(!dead.prolong(&mut seat, lease).unwrap());
        let late = FlightEnd::Failed(salve_core::scrub::Scrubbed::literal("late"));
        assert!(!dead.land(&seat, &late).unwrap());
        let landed = dead.board("cache", began.elapsed(), lease).unwrap();
        assert_eq!(landed, Boarding::Landed(FlightEnd::Done));
    }
}
