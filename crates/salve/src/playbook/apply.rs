//! Does what a remedy says, step by step, and puts back what was set aside if a step fails.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use salve_core::event::{Authority, Process, ProcessExit};
use salve_core::playbook::{Action, ActionStep, LivingProcess, LockHold, Right};

use super::FailedSubject;
use super::aside::{self, Aside, remove};
use super::look::{is_tracked, procs, sqlite};
use crate::gate::DirError;
use crate::process::Supervisor;
use crate::sandbox::{Breach, REMEDY, SandboxEnd, SandboxError, SandboxedCommand};

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);

/// What an applied action has to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The last lines that its commands wrote, not scrubbed.
    pub output: String,
}

/// Why an action could not be carried out; what it had set aside is back in place.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file could not be moved or deleted.
    #[error("cannot {what} {path}")]
    File {
        /// What was tried.
        what: &'static str,
        /// With which path.
        path: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A path is not what the action took it for: outside the project, or tracked by git.
    #[error("{path} is not the project's to rebuild")]
    NotDerived { path: String },
    /// A lock or a process is not what it was when the remedy was chosen.
    #[error("{what} has changed meanwhile")]
    Changed {
        /// What has changed.
        what: String,
    },
    /// A process did not end.
    #[error("process {pid} did not end")]
    Lives {
        /// The process.
        pid: u32,
    },
    /// A program has no directory to run in.
    #[error("cannot run `{command}` there")]
    Place {
        command: String,
        /// Why it has none.
        #[source]
        source: DirError,
    },
    /// A program could not be run.
    #[error("cannot run `{command}`")]
    Run {
        command: String,
        /// Why it could not.
        #[source]
        source: SandboxError,
    },
    /// A program did what none may do.
    #[error("`{command}` was not good")]
    Breach {
        command: String,
        /// What it did.
        #[source]
        source: Breach,
    },
    /// A program failed or took too long.
    #[error("`{command}` failed ({exit:?})")]
    Failed {
        command: String,
        /// How it ended.
        exit: ProcessExit,
        /// The last lines it wrote, not scrubbed.
        output: String,
    },
}

/// Carries out the action, on somebody's word.
///
/// # Errors
/// When a step fails, nothing of what was set aside is lost: it is back in place.
pub fn apply(
    action: &Action,
    on: Authority,
    ask: &FailedSubject<'_>,
    care: &Supervisor,
) -> Result<Applied, ApplyError> {
    let mut applied = Applied::default();
    let mut aside: Vec<Aside> = Vec::new();
    for step in &action.steps {
        let done = match step {
            ActionStep::SetAside { path } => {
                set_aside(ask.root, path).map(|moved| aside.extend(moved))
            }
            ActionStep::CopyAside { path } => {
                copy_aside(ask.root, path).map(|copies| aside.extend(copies))
            }
            ActionStep::Clear { path } => clear(ask.root, path),
            ActionStep::Unlock { path, hold } => unlock(ask, path, hold),
            ActionStep::End { holder, family, port, right } => {
                let found = found(ask, holder, *port, *right);
                found.and_then(|()| end(ask, family))
            }
            // Whoever starts the subject the next time sets them.
            ActionStep::Environment { .. } => Ok(()),
            ActionStep::Run { argv, dir, limit, .. } => {
                let ran = run(ask, care, &RemedyRun { argv, dir, limit: *limit, on });
                ran.map(|ran| applied.output.push_str(&ran.output))
            }
        };
        if let Err(error) = done {
            // What cannot be put back now is put back when Salve starts the next time.
            aside.into_iter().rev().for_each(|one| drop(one.give_back()));
            return Err(error);
        }
    }
    aside.into_iter().for_each(|one| one.drop_old(ask.root));
    Ok(applied)
}

/// Returns the path within the root, refusing what is elsewhere or tracked.
fn derived(root: &Path, path: &str) -> Result<PathBuf, ApplyError> {
    let refuse = || ApplyError::NotDerived { path: path.to_owned() };
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let place = root.join(path);
    let parent = place.parent().and_then(|parent| parent.canonicalize().ok());
    let root_real = root.canonicalize().map_err(|_| refuse())?;
    let inside = parent.is_none_or(|parent| parent.starts_with(&root_real));
    if path.is_empty() || !plain || !inside || is_tracked(root, path) {
        return Err(refuse());
    }
    Ok(place)
}

fn set_aside(root: &Path, path: &str) -> Result<Option<Aside>, ApplyError> {
    derived(root, path)?;
    let failed = |source| ApplyError::File { what: "move", path: path.to_owned(), source };
    aside::set(root, path, &crate::scrub::scrubber()).map_err(failed)
}

/// Copies a database with the files beside it; the copies stay in `.salve/copies`.
fn copy_aside(root: &Path, path: &str) -> Result<Vec<Aside>, ApplyError> {
    let place = derived(root, path)?;
    let failed = |source| ApplyError::File { what: "copy", path: path.to_owned(), source };
    aside::copy(root, sqlite::files(&place)).map_err(failed)
}

fn clear(root: &Path, path: &str) -> Result<(), ApplyError> {
    let place = derived(root, path)?;
    let failed = |source| ApplyError::File { what: "delete", path: path.to_owned(), source };
    remove(&place).map_err(failed)
}

/// Removes a lock if it is still the very one that was judged, and nobody holds it.
fn unlock(ask: &FailedSubject<'_>, path: &str, judged: &LockHold) -> Result<(), ApplyError> {
    let place = derived(ask.root, path)?;
    let now = procs::hold(ask, &place);
    let same = now.written == judged.written && now.pid == judged.pid;
    if !same || !now.holders.is_empty() || now.busy {
        return Err(ApplyError::Changed { what: path.to_owned() });
    }
    let failed = |source| ApplyError::File { what: "delete", path: path.to_owned(), source };
    remove(&place).map_err(failed)
}

/// Proves again that the holder is the one that was judged, and that it may be ended.
fn found(
    ask: &FailedSubject<'_>,
    holder: &Process,
    port: Option<u16>,
    right: Right,
) -> Result<(), ApplyError> {
    let changed = || ApplyError::Changed { what: format!("process {}", holder.pid) };
    let held = port.and_then(crate::probe::holder);
    if held.is_some_and(|held| (held.pid, held.started) != (holder.pid, holder.started)) {
        return Err(ApplyError::Changed { what: "the holder of the port".to_owned() });
    }
    let now = procs::holder(ask, holder.pid).filter(|now| now.process == *holder);
    // One that has ended meanwhile is no longer in the way.
    let Some(now) = now.filter(|_| procs::is_there(holder)) else {
        return if procs::is_there(holder) { Err(changed()) } else { Ok(()) };
    };
    let may = match right {
        Right::Orphan => LivingProcess::is_orphan(&now),
        Right::Consent => now.inside && now.same_user,
    };
    if may { Ok(()) } else { Err(changed()) }
}

/// Ends processes by handle, so that no other one is hit: asks, waits, kills.
fn end(ask: &FailedSubject<'_>, family: &[Process]) -> Result<(), ApplyError> {
    let mut handles = Vec::new();
    for process in family {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The handle is of whoever has the pid now; only then is it told who that is.
        let Some(handle) = handle.filter(|_| procs::is_there(process)) else { continue };
        if procs::holder(ask, process.pid).is_some_and(|now| now.same_user) {
            handles.push((process, handle));
        }
    }
    for signal in [Signal::TERM, Signal::KILL] {
        for (_, handle) in &handles {
            // One that has ended needs no signal.
            let _ = pidfd_send_signal(handle, signal);
        }
        handles.retain(|(_, handle)| {
            let limit = Timespec::try_from(GRACE).ok();
            let ready = poll(&mut [PollFd::new(handle, PollFlags::IN)], limit.as_ref());
            !ready.is_ok_and(|ready| ready > 0)
        });
    }
    handles.first().map_or(Ok(()), |(process, _)| Err(ApplyError::Lives { pid: process.pid }))
}

/// A command of an action.
struct RemedyRun<'a> {
    argv: &'a [String],
    /// Where it runs, below the root.
    dir: &'a str,
    limit: Duration,
    /// On whose word.
    on: Authority,
}

/// Runs a command in the sandbox.
fn run(
    ask: &FailedSubject<'_>,
    care: &Supervisor,
    &RemedyRun { argv, dir, limit, on }: &RemedyRun<'_>,
) -> Result<SandboxEnd, ApplyError> {
    let command = argv.join(" ");
    let dir = crate::gate::resolve(ask.root, dir)
        .map_err(|source| ApplyError::Place { command: command.clone(), source })?;
    let passed = ask.env.iter().filter(|(name, _)| ask.sandbox.passes(name));
    let job = SandboxedCommand {
        command: &command,
        argv: argv.iter().map(OsString::from).collect(),
        root: ask.root,
        dir: &dir,
        env: passed.cloned().collect(),
        name: REMEDY.to_owned(),
        limit,
        on,
    };
    let ran = ask.sandbox.run(care, &job);
    let ran = ran.map_err(|source| ApplyError::Run { command: command.clone(), source })?;
    if let Some(source) = ran.breach {
        return Err(ApplyError::Breach { command, source });
    }
    if ran.exit == ProcessExit::Code(0) {
        return Ok(ran);
    }
    Err(ApplyError::Failed { command, exit: ran.exit, output: ran.output })
}
