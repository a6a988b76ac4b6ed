//! What only one run of Salve may do at a time.
//!
//! A [`RunLock`] is held on an open file, so it goes with its process however that ends.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use salve_core::event::Process;
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubber;
use serde::{Deserialize, Serialize};

use crate::project::Project;

/// The version of the lock's shape.
const VERSION: u32 = 1;

/// What a lock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    version: u32,
    /// The incident that is being repaired, if the lock is a repair's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_id: Option<IncidentId>,
    /// The process that holds it.
    pub pid: u32,
    /// When the system says that process started.
    pub started: u64,
    /// The host it runs on.
    pub host: String,
}

impl Holder {
    /// Returns what a lock of `process` says.
    pub(crate) fn of(process: &Process, repair_id: Option<IncidentId>) -> Self {
        Self {
            version: VERSION,
            repair_id,
            pid: process.pid,
            started: process.started,
            host: process.host.to_string(),
        }
    }

    /// Returns the process.
    pub(crate) fn process(&self, scrubber: &Scrubber) -> Process {
        Process { pid: self.pid, started: self.started, host: scrubber.scrub(&self.host) }
    }
}

/// What one run of Salve may have for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'n> {
    /// To care for the server of this name.
    Server(&'n str),
    /// To heal the project's checks, which changes its files.
    Checks,
}

impl Right<'_> {
    fn path(self, project: &Project) -> PathBuf {
        match self {
            Right::Server(name) => project.state_dir().join("run").join(format!("{name}.lock")),
            Right::Checks => project.state_dir().join("heal.lock"),
        }
    }
}

impl fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Right::Server(name) => write!(f, "cares for `{name}`"),
            Right::Checks => f.write_str("heals the checks of this project"),
        }
    }
}

/// A right, held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Why a right was not given.
#[derive(Debug, thiserror::Error)]
pub enum NotGiven {
    /// Another run of Salve has it.
    #[error("another salve {right}{}", .holder.as_ref().map(|h| format!(": process {} on {}", h.pid, h.host)).unwrap_or_default())]
    Held {
        /// What it does.
        right: String,
        /// The other process, if it said who it is.
        holder: Option<Holder>,
    },
    /// The lock could not be made.
    #[error("cannot lock {}", path.display())]
    System {
        /// The lock's file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RunLock {
    /// Takes a right; of several who try at once, one gets it.
    pub fn take(project: &Project, right: Right<'_>, me: &Process) -> Result<Self, NotGiven> {
        let path = right.path(project);
        let system = |source| NotGiven::System { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(system)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(system)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let holder = file.read_to_string(&mut text).ok();
                let holder = holder.and_then(|_| serde_json::from_str(&text).ok());
                return Err(NotGiven::Held { right: right.to_string(), holder });
            }
            Err(error) => return Err(system(error.into())),
        }
        let text = serde_json::to_vec(&Holder::of(me, None)).unwrap_or_default();
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        written.map_err(system)?;
        Ok(Self { _file: file })
    }
}
