//! One fix at a time per cause, for all machines of a fleet.
//!
//! Only what every machine shares is fixed once for all of them: a cache on a common disk, a service
//! that all of them call. A login on one machine is none of another's; whoever writes the rule says
//! which is which.
//!
//! **Invariant:** of all who want a fix at once, one does it, and the others take what came of it.

use std::fmt::Debug;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use salve_core::scrub::Scrubbed;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// How often those who wait look.
const LOOK: Duration = Duration::from_millis(250);

/// What a fleet keeps of fixes that are done once for all of its machines.
pub trait FleetFlights: Debug + Sync {
    /// Takes the right to do a fix, unless somebody has it or has done it since; `began` is how long
    /// ago the need for it arose.
    fn board(&self, cause: &str, began: Duration, lease: Duration) -> Result<Boarding, StoreError>;

    /// Keeps the right for longer; tells whether it is still there.
    fn prolong(&self, seat: &mut FlightSeat, lease: Duration) -> Result<bool, StoreError>;

    /// Says what came of it; tells whether the right was still there.
    fn land(&self, seat: &FlightSeat, end: &FlightEnd) -> Result<bool, StoreError>;
}

/// What became of the wish to do a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boarding {
    /// It is ours to do.
    Ours(FlightSeat),
    /// Somebody is at it.
    Underway,
    /// Somebody did it since it was needed.
    Landed(FlightEnd),
}

/// The right to do a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSeat {
    pub(super) cause: String,
    pub(super) holder: String,
    pub(super) revision: u64,
}

/// What came of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlightEnd {
    Done,
    /// It failed, with this to say.
    Failed(Scrubbed),
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightTerms {
    /// How long whoever does the fix may say nothing before somebody else does it.
    pub lease: Duration,
    /// How long the others wait.
    pub patience: Duration,
}

/// Why nothing came of a fix that is done once for all.
#[derive(Debug, thiserror::Error)]
pub enum FlightError {
    /// The fleet could not say who does it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another machine was not done in time.
    #[error("another machine is at it, and was not done in time")]
    Waited,
}

/// Does a fix once for all machines of a fleet, or waits for whoever does it; `began` is when it was
/// found to be needed.
///
/// # Errors
///
/// When nobody knows what came of it; nothing was done here then.
pub fn fix_once(
    flights: &dyn FleetFlights,
    cause: &str,
    began: Instant,
    terms: FlightTerms,
    act: impl FnOnce() -> FlightEnd,
) -> Result<FlightEnd, FlightError> {
    let waiting_since = Instant::now();
    loop {
        match flights.board(cause, began.elapsed(), terms.lease)? {
            Boarding::Landed(end) => return Ok(end),
            Boarding::Ours(seat) => return Ok(act_on(flights, seat, terms.lease, act)),
            Boarding::Underway if waiting_since.elapsed() >= terms.patience => {
                return Err(FlightError::Waited);
            }
            Boarding::Underway => thread::sleep(LOOK),
        }
    }
}

/// Does the fix, and says while it takes that somebody is at it.
fn act_on(
    flights: &dyn FleetFlights,
    seat: FlightSeat,
    lease: Duration,
    act: impl FnOnce() -> FlightEnd,
) -> FlightEnd {
    let seat = Mutex::new(seat);
    let (done, wait) = mpsc::channel::<()>();
    let end = thread::scope(|scope| {
        scope.spawn(|| {
            let wait = wait;
            while wait.recv_timeout(lease / 3) == Err(RecvTimeoutError::Timeout) {
                let mut seat = seat.lock().unwrap_or_else(PoisonError::into_inner);
                // Whoever lost it meanwhile does no harm by ending what was begun.
                let _lost = flights.prolong(&mut seat, lease);
            }
        });
        let end = act();
        drop(done);
        end
    });
    // What cannot be told is done once more by whoever waits.
    let seat = seat.into_inner().unwrap_or_else(PoisonError::into_inner);
    let _untold = flights.land(&seat, &end);
    end
}
