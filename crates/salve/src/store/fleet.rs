//! A fleet: the queue of many machines, on an engine that they all reach.
//!
//! What stands here is free of the engine, and built even where the engine is not: how a fleet is
//! reached ([`FleetTerms`]), and why it could not do what was asked ([`FleetError`]).

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::Receiver;

use jiff::Timestamp;
use salve_core::event::JobOrder;
use salve_core::id::JobId;
use salve_core::job::RetryTerms;
use salve_core::scrub::Scrubbed;
use serde::{Deserialize, Serialize};

use super::{FleetAnswers, FleetFixes, FleetFlights, FleetNewsSource, JobArtifact, StoreError};

/// The oldest server that keeps what it acknowledged; Salve is tested with later ones.
const OLDEST: (u32, u32) = (2, 14);
const OLDEST_TEXT: &str = "2.14";

/// How a fleet is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetTerms {
    /// The addresses of its servers, with commas between them.
    pub url: String,
    /// Which of the fleets on those servers it is.
    pub name: FleetName,
    /// The file with what the servers want to know of whoever connects.
    pub credentials: Option<PathBuf>,
    /// Whether a connection without TLS is refused.
    pub requires_tls: bool,
    /// The file of the authority that the servers' certificates are of, if it is not a known one.
    pub tls_ca: Option<PathBuf>,
    /// On how many servers everything is kept.
    pub replicas: u8,
    /// How many megabytes all that is kept may take.
    pub storage_mb: u32,
}

/// The name of a fleet: it stands in the names of everything that is kept for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetName(String);

/// A name that no fleet can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fleet's name is 1 to 32 small letters, digits and hyphens")]
pub struct BadFleetName;

impl FromStr for FleetName {
    type Err = BadFleetName;

    fn from_str(text: &str) -> Result<Self, BadFleetName> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=32).contains(&text.len()) && text.bytes().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadFleetName)
        }
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a fleet can besides keeping a queue.
pub trait Fleet: FleetNewsSource + FleetAnswers + fmt::Debug {
    /// Puts a job into the queue that only a worker may take which offers all that it needs.
    fn submit(&self, job: FleetJob<'_>) -> Result<(), StoreError>;

    /// Says what this worker offers, from now on.
    fn offer(&self, labels: Vec<String>);

    /// Keeps a file of a job, which need not be queued yet.
    fn keep_file(&self, job: JobId, bytes: Vec<u8>) -> Result<FleetFile, StoreError>;

    /// Returns the content of a file of a job.
    fn file(&self, job: JobId, file: &FleetFile) -> Result<Vec<u8>, StoreError>;

    /// Gives an order to a job, for whoever works on it now or will.
    fn order(&self, order: &FleetOrder) -> Result<(), StoreError>;

    /// Returns the orders to a job that were given after this one, in order.
    fn orders(&self, job: JobId, after: u64) -> Result<Vec<PlacedOrder>, StoreError>;

    /// Returns where every order to any job is heard from now on.
    fn hear_orders(&self) -> Result<Receiver<PlacedOrder>, StoreError>;

    /// Says that a worker is there; it is forgotten when it says so no more.
    fn be_seen(&self, worker: &WorkerSeen) -> Result<(), StoreError>;

    /// Says that a worker has left.
    fn leave(&self, worker: &str) -> Result<(), StoreError>;

    /// Returns the workers that are there, by name.
    fn workers(&self) -> Result<Vec<WorkerSeen>, StoreError>;

    /// Makes up for what a process that was killed left undone, unless another one does; returns for
    /// how many jobs.
    fn reconcile(&self) -> Result<usize, StoreError>;

    /// Returns what its machines tell one another about remedies.
    fn fixes(&self) -> &dyn FleetFixes;

    /// Returns what is fixed once for all of its machines.
    fn flights(&self) -> &dyn FleetFlights;
}

/// A job that is put into a fleet's queue.
#[derive(Clone, Copy, Debug)]
pub struct FleetJob<'j> {
    pub job: JobId,
    pub payload: &'j str,
    pub terms: RetryTerms,
    /// The labels that a worker has to offer.
    pub needs: &'j [String],
    /// What is kept of it from the beginning.
    pub artifacts: &'j [JobArtifact],
}

/// Where the content of a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFile {
    /// The SHA-256 of its content.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
}

/// What a person orders a job of a fleet to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOrder {
    pub version: u32,
    pub job: JobId,
    pub order: JobOrder,
    pub by: Scrubbed,
    pub at: Timestamp,
}

/// An order with its place among all orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedOrder {
    pub place: u64,
    pub order: FleetOrder,
}

/// A worker of a fleet, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSeen {
    pub version: u32,
    /// What no other worker is called.
    pub id: String,
    pub name: Scrubbed,
    /// Since when it is there.
    pub since: Timestamp,
    /// What it offers.
    pub labels: Vec<String>,
    /// How many jobs it runs at most.
    pub slots: usize,
    /// What it runs.
    pub jobs: Vec<JobSeen>,
}

/// A job that a worker runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSeen {
    pub job: JobId,
    /// Since when it has it.
    pub since: Timestamp,
}

/// What a fleet's servers say of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetStanding {
    /// The version of the server that answers.
    pub version: String,
    /// The names of those that keep something for the fleet, and of the one that answers.
    pub servers: BTreeSet<String>,
    pub streams: Vec<StreamStanding>,
    /// What is not there yet.
    pub missing: Vec<String>,
}

/// One of the places in which something is kept for a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStanding {
    pub name: String,
    /// On how many servers it is to be.
    pub replicas: usize,
    /// On how many servers it is as it should be.
    pub current: usize,
    /// How much it may hold; nothing means that it has no limit.
    pub max_bytes: Option<u64>,
    /// How much it holds.
    pub bytes: u64,
    /// Whether it refuses what is new when it is full.
    pub refuses_new: bool,
    /// Whether it drops what is old, other than what goes unless it is written again.
    pub forgets: bool,
    /// Whether what it acknowledges is in its file.
    pub is_on_disk: bool,
}

/// Why a fleet could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// This program was built without the engine.
    #[error("this salve was built without the feature `fleet`")]
    NotBuilt,
    /// None of its servers answers.
    #[error("no server of the fleet answers at {url}: {said}")]
    Unreachable { url: String, said: String },
    /// The servers do not let us in.
    #[error("the fleet's server at {url} does not let us in: {said}")]
    Denied { url: String, said: String },
    /// The file with the credentials, or that of the authority, cannot be used.
    #[error("cannot read {}: {said}", path.display())]
    File { path: PathBuf, said: String },
    /// The server is older than the oldest that keeps what was acknowledged.
    #[error("the fleet's server is version {found}; it has to be {wanted} or later")]
    TooOld { found: String, wanted: &'static str },
    /// There is no room left for what was to be kept; nothing was changed.
    #[error("the fleet has no room left in {place}")]
    Full { place: String },
    /// The server did not answer in time; what was asked may have happened.
    #[error("the fleet did not answer in time ({what})")]
    Late { what: &'static str },
    /// The server refused.
    #[error("the fleet refused ({what}): {said}")]
    Refused { what: &'static str, said: String },
    /// What is kept makes no sense to this program.
    #[error("the fleet has something that this salve does not understand ({what})")]
    Malformed { what: String },
}

impl FleetError {
    /// Returns what is to be said of a server of this version, if it is too old.
    pub fn too_old(version: &str) -> Option<Self> {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let of = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let found = version.to_owned();
        (of < OLDEST).then_some(Self::TooOld { found, wanted: OLDEST_TEXT })
    }

    /// Tells whether it may pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Late { .. } => true,
            Self::NotBuilt
            | Self::Denied { .. }
            | Self::File { .. }
            | Self::TooOld { .. }
            | Self::Full { .. }
            | Self::Refused { .. }
            | Self::Malformed { .. } => false,
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::NotBuilt => "cargo install salve --features fleet".into(),
            Self::Unreachable { .. } | Self::Late { .. } => {
                "see whether the server runs and `fleet.url` is its address".into()
            }
            Self::Denied { .. } => "set `fleet.credentials` to the file you were given".into(),
            Self::File { .. } => "see whether the file is there and yours to read".into(),
            Self::TooOld { .. } => "update nats-server".into(),
            Self::Full { .. } => {
                "salve jobs remove RUN --fleet …, or give the fleet more room".into()
            }
            Self::Refused { .. } => "the server's own log says more".into(),
            Self::Malformed { .. } => "update Salve on every machine of the fleet".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lost_what_it_acknowledged_is_too_old() {
        for version in ["2.14.0", "2.15.1", "2.14.0-RC.1", "3.0.0"] {
            assert!(FleetError::too_old(version).is_none(), "{version}");
        }
        for version in ["2.9.10", "2.13.99", "1.20.0", "", "unknown"] {
            assert!(FleetError::too_old(version).is_some(), "{version}");
        }
    }

    #[test]
    fn a_fleets_name_can_stand_in_the_name_of_a_stream() {
        for name in ["a", "team-7", &"x".repeat(32)] {
            assert_eq!(name.parse::<FleetName>().unwrap().to_string(), name);
        }
        for name in ["", "A", "a.b", "a b", "a>", "ä", &"x".repeat(33)] {
            assert_eq!(name.parse::<FleetName>(), Err(BadFleetName), "{name}");
        }
    }
}
