//! What only one run of Salve may do at a time.
//!
//! A [`RunLock`] is held on an open file, so it goes with its process however that ends.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use salve_core::event::Process;
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubber;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::files::{self, FileKind};
use crate::process;
use crate::project::Project;

/// How long a process that was killed, or whose keeper was, may take until its files are closed.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait before looking again whether they are.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a worker whose claim counts no longer may take to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// The version of the lock's shape.
const VERSION: u32 = 1;

/// What a lock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockHolder {
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
    /// The claim under which a worker holds a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The run of Salve, by which all it started is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
}

impl LockHolder {
    /// Returns what a lock of `process` says.
    pub(crate) fn of(process: &Process, repair_id: Option<IncidentId>) -> Self {
        Self {
            version: VERSION,
            repair_id,
            pid: process.pid,
            started: process.started,
            host: process.host.to_string(),
            epoch: None,
            run: None,
        }
    }

    pub(crate) fn process(&self, scrubber: &Scrubber) -> Process {
        Process { pid: self.pid, started: self.started, host: scrubber.scrub(&self.host) }
    }
}

/// What one run of Salve may have for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRight<'n> {
    /// To care for the server of this name.
    Server(&'n str),
    /// To heal the project's checks, which changes its files.
    Checks,
    /// To run the job of this id.
    Job(&'n str),
}

impl RunRight<'_> {
    fn path(self, project: &Project) -> PathBuf {
        match self {
            RunRight::Server(name) => project.state_dir().join("run").join(format!("{name}.lock")),
            RunRight::Checks => project.state_dir().join("heal.lock"),
            RunRight::Job(id) => project.state_dir().join("jobs").join(id).join("run.lock"),
        }
    }
}

impl fmt::Display for RunRight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunRight::Server(name) => write!(f, "cares for `{name}`"),
            RunRight::Checks => f.write_str("heals the checks of this project"),
            RunRight::Job(id) => write!(f, "runs the job {id}"),
        }
    }
}

/// A right, held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    me: LockHolder,
    before: Option<LockHolder>,
}

/// A worker that claimed a job.
#[derive(Clone, Copy, Debug)]
pub struct JobClaimant<'m> {
    /// Its process.
    pub me: &'m Process,
    /// Its run, by which all it starts is known.
    pub run: Uuid,
    /// The number of its claim.
    pub epoch: u64,
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
        holder: Option<LockHolder>,
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
    pub fn take(project: &Project, right: RunRight<'_>, me: &Process) -> Result<Self, NotGiven> {
        Self::take_as(project, right, &LockHolder::of(me, None))
    }

    /// Takes a right for a run, by which whoever comes next knows what it left if it was killed.
    pub fn take_for(
        project: &Project,
        right: RunRight<'_>,
        me: &Process,
        run: Uuid,
    ) -> Result<Self, NotGiven> {
        Self::take_as(project, right, &LockHolder { run: Some(run), ..LockHolder::of(me, None) })
    }

    /// Takes the right to run a job for a worker that claimed it. A worker whose claim counts no
    /// longer, and which is still there, is ended first, with all that it started.
    pub fn seize_job(
        project: &Project,
        job: &str,
        claimant: &JobClaimant<'_>,
    ) -> Result<Self, NotGiven> {
        let right = RunRight::Job(job);
        let me = LockHolder {
            run: Some(claimant.run),
            epoch: Some(claimant.epoch),
            ..LockHolder::of(claimant.me, None)
        };
        match Self::take_as(project, right, &me) {
            Err(NotGiven::Held { holder: Some(old), .. })
                if old.epoch.is_some_and(|epoch| epoch < claimant.epoch) =>
            {
                let process = old.process(&crate::scrub::scrubber());
                process::strays::end(old.run.as_slice(), &[process], GRACE);
                Self::take_as(project, right, &me)
            }
            taken => taken,
        }
    }

    /// Takes a right that somebody had before and nobody has now.
    pub fn take_abandoned(project: &Project, right: RunRight<'_>) -> Option<Self> {
        let path = right.path(project);
        // One that nobody ever had may be about to be taken for the first time.
        path.metadata().ok().filter(|about| about.len() > 0)?;
        let mut file = files::open_lock(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let before = holder(&mut file)?;
        Some(Self { file, me: before.clone(), before: Some(before) })
    }

    /// Returns the run that had the right before.
    pub fn run_before(&self) -> Option<Uuid> {
        self.before.as_ref()?.run
    }

    /// Gives the right back and says that nothing of this run is left, so that nobody need look.
    pub fn give_back(mut self) {
        let me = LockHolder { run: None, ..self.me };
        // What cannot be written costs the next one a look.
        let _ = write(&mut self.file, &me);
    }

    fn take_as(project: &Project, right: RunRight<'_>, me: &LockHolder) -> Result<Self, NotGiven> {
        let path = right.path(project);
        let system = |source| NotGiven::System { path: path.clone(), source };
        files::make_directories(path.parent().unwrap_or(&path)).map_err(system)?;
        let mut file = files::open_lock(&path).map_err(system)?;
        let since = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = holder(&mut file);
                    // The system closes the files of one that was killed a little after its end.
                    if is_dead(holder.as_ref()) && since.elapsed() < PATIENCE {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    return Err(NotGiven::Held { right: right.to_string(), holder });
                }
                Err(error) => return Err(system(error.into())),
            }
        }
        let before = holder(&mut file);
        write(&mut file, me).map_err(system)?;
        Ok(Self { file, me: me.clone(), before })
    }
}

fn write(file: &mut File, holder: &LockHolder) -> io::Result<()> {
    let text = serde_json::to_vec(holder).unwrap_or_default();
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text))
}

/// Reads who holds a lock.
fn holder(file: &mut File) -> Option<LockHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(FileKind::Note.limit()).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns whether the very process that holds a lock has ended, or is about to.
fn is_dead(holder: Option<&LockHolder>) -> bool {
    let scrubber = crate::scrub::scrubber();
    holder.is_some_and(|holder| {
        process::is_gone(&holder.process(&scrubber), &scrubber) || process::is_ending(holder.pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_the_dead_is_waited_for_until_the_system_lets_go_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        let me = process::this(&crate::scrub::scrubber());
        let dead = Process { started: me.started + 1, ..me.clone() };
        let right = RunRight::Server("web");
        let lock = RunLock::take(&project, right, &dead).unwrap();
        let _mine = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| RunLock::take(&project, right, &me));
            // Whether it waits or comes later, it gets it.
            std::thread::yield_now();
            drop(lock);
            waiting.join().unwrap().unwrap()
        });
        let refused = RunLock::take(&project, right, &dead).unwrap_err();
        assert!(matches!(refused, NotGiven::Held { .. }), "one who lives is not waited for");
    }

    #[test]
    fn whoever_starts_at_once_after_a_kill_waits_for_the_worker_that_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        let me = process::this(&crate::scrub::scrubber());
        // As a worker is whose keeper was killed: the one that it names is not its parent.
        let mut sleep = std::process::Command::new("sleep");
        let mut worker = sleep.arg("600").env("SALVE_KEEPER", "1").spawn().unwrap();
        let pid = worker.id();
        let started = process::tree::stat(pid).unwrap().started;
        let left = Process { pid, started, ..me.clone() };
        let right = RunRight::Server("web");
        let lock = RunLock::take(&project, right, &left).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| RunLock::take(&project, right, &me));
            std::thread::yield_now();
            drop(lock);
            waiting.join().unwrap().unwrap();
        });
        assert!(process::is_ending(pid));
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    #[test]
    fn only_a_run_that_left_nothing_is_not_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        let me = process::this(&crate::scrub::scrubber());
        // A child that another test starts in this very moment holds the lock until it is a program.
        let take = |run| {
            loop {
                match RunLock::take_for(&project, RunRight::Checks, &me, Uuid::from_u128(run)) {
                    Err(NotGiven::Held { .. }) => std::thread::yield_now(),
                    taken => break taken.unwrap(),
                }
            }
        };
        drop(take(1));
        let second = take(2);
        assert_eq!(second.run_before(), Some(Uuid::from_u128(1)));
        second.give_back();
        assert_eq!(take(3).run_before(), None);
    }
}
