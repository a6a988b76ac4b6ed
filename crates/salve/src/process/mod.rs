//! Processes: which one this is, which others are there, and the care of those Salve starts.
//!
//! [`Supervisor`] starts servers and remedies, hands out how they ended, and ends whole families. It
//! runs in the worker, which is a sub-reaper: whatever a server leaves behind falls to us, and
//! nothing of it survives, whether it left its session, its parents or its environment.

pub mod answerer;
mod attached;
mod capture;
mod command;
mod family;
mod job_control;
pub mod keeper;
mod keyboard;
mod launch;
mod machine;
pub mod page_trimmer;
pub mod peer;
mod quiet_git;
mod reaper;
mod repeatable_input;
mod session;
pub mod strays;
mod supervisor;
#[cfg(test)]
pub(crate) mod tests;
pub mod tree;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use capture::{
    AgentWords, Capture, LINES, Logs, OLDER, Outlet, OutputSide, OutputStyle, WorkOutput, older,
};
pub(crate) use command::{Bounded, CommandBounds, run_bounded};
pub use command::{CommandEnd, run_command};
pub(crate) use job_control::{stand_still, stood_still};
pub(crate) use keyboard::{hears_ctrl_c, is_debugged};
pub(crate) use launch::ProcessInput;
pub use launch::{SpawnError, Spec, Terminal};
pub use machine::{asking_command, find_program, machine_program, program_outside};
pub use quiet_git::{is_tracked, quiet_git, what_keeps_git_waiting};
pub use repeatable_input::RepeatableInput;
use rustix::process::Pid;
use salve_core::event::Process;
use salve_core::scrub::Scrubber;
pub use supervisor::{EndReport, ProcessEnd, Running, Supervisor, SupervisorError};
pub use tree::FoundProcess;

/// Returns whether a process was killed and has not ended yet, or is a worker that lost its keeper and
/// ends therefore.
pub fn is_ending(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let is_killed = status.lines().any(|line| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & KILL != 0)
    });
    let lost = || tree::stat(pid).is_some_and(|stat| keeper::has_lost_keeper(&stat));
    is_killed || lost()
}

/// The bit of the signal that kills, in the kernel's masks.
const KILL: u64 = 1 << 8;

/// The variable that marks the processes of an agent that Salve started.
pub const AGENT_MARK: &str = "SALVE_AGENT";
/// How much stack our own threads get.
const STACK: usize = 256 << 10;

/// Runs something that takes time on a thread of its own.
pub(crate) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10);
    // Without threads there is nothing left that could be done.
    let _ = builder.spawn(work);
}

/// Returns what tells this process apart from any other.
pub fn this(scrubber: &Scrubber) -> Process {
    let host = rustix::system::uname();
    Process {
        pid: std::process::id(),
        started: tree::own().map_or(0, |stat| stat.started),
        host: scrubber.scrub(&host.nodename().to_string_lossy()),
    }
}

/// Returns whether that very process has ended; of another machine's nothing is known.
pub fn is_gone(process: &Process, scrubber: &Scrubber) -> bool {
    if process.host != this(scrubber).host {
        return false;
    }
    match tree::stat(process.pid) {
        Some(stat) => stat.started != process.started || stat.is_dead,
        // Without /proc only the pid can be asked for.
        None => i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_none_or(|pid| rustix::process::test_kill_process(pid).is_err()),
    }
}

/// Returns the processes that led to this one, from its parent on, but for the system's first.
pub fn lineage() -> Vec<u32> {
    let parent = |stat: tree::Stat| Some(stat.parent).filter(|&pid| pid > 1);
    let first = tree::own().and_then(parent);
    std::iter::successors(first, |&pid| tree::stat(pid).and_then(parent)).collect()
}

/// Returns whether an agent that Salve started is behind this process: it carries an agent's
/// brand, or it or any process that led to it carries the mark. Taking the mark out of the
/// environment does not help, nor does leaving the family by a double fork.
pub fn is_agents() -> bool {
    if std::env::var_os(AGENT_MARK).is_some_and(|mark| !mark.is_empty())
        || launch::brand_of(std::process::id()).is_some_and(launch::is_agents)
    {
        return true;
    }
    lineage().into_iter().any(carries_mark)
}

fn carries_mark(pid: u32) -> bool {
    tree::variable(pid, AGENT_MARK).is_some_and(|mark| !mark.is_empty())
}

/// Returns whether this process was started to outlive its terminal, as by `nohup`; it is asked before
/// anybody listens for signals, and what is ignored stays so in all that is started.
pub(crate) fn outlives_terminal() -> bool {
    tree::ignores(std::process::id(), rustix::process::Signal::HUP)
}

/// Returns a time in whole milliseconds.
fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Locks `mutex`; a thread that died while holding it left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread with a small stack; it ends with the process.
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run).map(drop)
}
