//! Two processes instead of one, so that no sudden death leaves anything behind.
//!
//! The *keeper* is what the user started: it starts the *worker*, waits for it, and passes its exit
//! code on. Both are sub-reapers. If the worker is killed, all it had started falls to the keeper,
//! which ends it; if the keeper is killed, the worker sees that and ends in order.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use super::page_trimmer;
use super::tree::{self, Stat};

/// The variable by which a worker knows its keeper.
const MARK: &str = "SALVE_KEEPER";

/// How long a worker takes that is worth waiting for with little.
const LONG: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Returns whether this process is a worker.
pub fn is_worker() -> bool {
    let keeper = std::env::var(MARK).ok().and_then(|pid| pid.parse::<u32>().ok());
    keeper.is_some() && keeper == tree::own().map(|me| me.parent)
}

/// Returns whether a process is a worker of some Salve, under whatever name that runs.
pub fn is_a_worker(process: &Stat) -> bool {
    let keeper = tree::variable(process.pid, MARK).and_then(|pid| String::from_utf8(pid).ok());
    keeper.and_then(|pid| pid.parse().ok()) == Some(process.parent)
}

/// Returns the keeper that a process was told it has, when it was started or before that; nothing if
/// none, and an error where that cannot be seen.
pub(super) fn told_keeper(pid: u32) -> io::Result<Option<u32>> {
    // What a process was started with cannot be changed by others.
    let environment = std::fs::read(format!("/proc/{pid}/environ"))?;
    let mut variables = environment.split(|&byte| byte == 0);
    let mark = variables.find_map(|one| one.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let Some(mark) = mark else { return Ok(None) };
    let keeper = std::str::from_utf8(mark).ok().and_then(|mark| mark.parse().ok());
    keeper.map(Some).ok_or_else(|| io::Error::other("its keeper has no number"))
}

/// Returns whether a process holds another one by a handle, as a keeper does its worker.
///
/// Only whoever started or opened it has such a handle, and nobody else can give it to them.
pub(super) fn holds(keeper: u32, worker: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{keeper}/fdinfo")).into_iter().flatten().flatten();
    let names = |text: String| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Pid:"));
        lines.any(|pid| pid.trim().parse() == Ok(worker))
    };
    files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).any(names)
}

/// Returns whether a process is a worker whose keeper has ended.
pub(super) fn has_lost_keeper(process: &Stat) -> bool {
    let keeper = tree::variable(process.pid, MARK).and_then(|pid| String::from_utf8(pid).ok());
    let keeper = keeper.and_then(|pid| pid.parse::<u32>().ok());
    keeper.is_some_and(|keeper| keeper != process.parent)
}

/// Starts the worker with the same arguments and returns how it ended, with nothing of it left.
///
/// # Errors
///
/// When there can be no worker.
pub fn keep<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> io::Result<ExitCode> {
    keep_telling(args, None)
}

/// A variable by which the keeper tells its worker something.
#[derive(Clone, Debug)]
pub struct WorkerVariable<'n> {
    /// Its name.
    pub name: &'n str,
    /// What it says.
    pub value: String,
}

/// Like [`keep`], and tells the worker something by a variable: its words have to be the keeper's.
///
/// # Errors
///
/// When there can be no worker.
pub fn keep_telling<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    told: Option<WorkerVariable<'_>>,
) -> io::Result<ExitCode> {
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))?;
    let mut heard = vec![SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT];
    if !super::outlives_terminal() {
        heard.push(SIGHUP);
    }
    let mut signals = SignalsInfo::<WithOrigin>::new(heard)?;
    let terminal = rustix::termios::tcgetattr(rustix::stdio::stdin()).ok();
    let listening = signals.handle();
    let mut worker =
        worker_command(args)?.envs(told.map(|told| (told.name, told.value))).spawn()?;
    let pid = i32::try_from(worker.id()).ok().and_then(Pid::from_raw);
    // Held until the worker has ended: by it others know whose keeper this is.
    let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let forward = std::thread::spawn(move || {
        for origin in signals.forever() {
            // What the terminal sends, it sends to both.
            let by_kill = origin.process.is_some();
            if let (Some(pid), true) = (pid, by_kill) {
                let signal = match origin.signal {
                    SIGINT => Signal::INT,
                    SIGHUP => Signal::HUP,
                    SIGQUIT => Signal::QUIT,
                    SIGUSR1 => Signal::USR1,
                    SIGUSR2 => Signal::USR2,
                    SIGCONT => Signal::CONT,
                    _ => Signal::TERM,
                };
                // It may have ended just now.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    });
    shed_if_long(handle.as_ref());
    let status = worker.wait()?;
    drop(handle);
    listening.close();
    // It ends with its signals.
    let _ = forward.join();
    end_descendants();
    if let Some(before) = terminal {
        give_back(&before);
    }
    Ok(code_of(status))
}

/// Returns the command of a worker of which this process is the keeper.
pub fn worker_command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> io::Result<Command> {
    let mut worker = Command::new(std::env::current_exe()?);
    worker.args(args).env(MARK, std::process::id().to_string());
    Ok(worker)
}

/// Waits a little for the worker, and for one that takes its time lets go of what only starting it
/// needed.
fn shed_if_long(worker: Option<&OwnedFd>) {
    let Some(worker) = worker else { return };
    let ends = poll(&mut [PollFd::new(worker, PollFlags::IN)], Some(&LONG));
    if ends == Ok(0) {
        page_trimmer::shed();
    }
}

/// Puts the terminal back as it was: a worker that was killed could not.
fn give_back(before: &rustix::termios::Termios) {
    use rustix::termios::{OptionalActions, tcgetpgrp, tcsetattr};
    let stdin = rustix::stdio::stdin();
    // From the background, it would stop us.
    if tcgetpgrp(stdin).is_ok_and(|group| group == rustix::process::getpgrp()) {
        let _ = tcsetattr(stdin, OptionalActions::Now, before);
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Ends whatever descends from this process or fell to it.
pub fn end_descendants() {
    let Some(me) = tree::own() else { return };
    loop {
        let all: Vec<Stat> = tree::descendants(me.pid);
        for stat in all.iter().filter(|stat| !stat.is_dead) {
            if let Some(pid) = i32::try_from(stat.pid).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        // Whoever is killed falls to us and is waited for; without children it is done.
        match rustix::process::wait(rustix::process::WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Ends this worker a while after its keeper has ended, with all that it started, whatever it is
/// doing then.
///
/// Whoever listens for the keeper's end has that long to end in order; one that hangs or spins does
/// not listen. It is called once, when a worker begins.
pub fn end_with_keeper(grace: Duration) -> io::Result<()> {
    // A worker that is stopped watches nobody: the kernel wakes it.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    // Taken before the thread begins: the keeper may have ended by then.
    let keeper = KeeperHandle::of_this_worker()?;
    let watch = move || {
        if keeper.wait().is_ok() {
            std::thread::sleep(grace);
            end_descendants();
            std::process::exit(128 + SIGTERM);
        }
    };
    let builder = std::thread::Builder::new().name("keeper's end".to_owned());
    builder.stack_size(256 << 10).spawn(watch).map(drop)
}

/// A handle on this worker's keeper, which stays good when the keeper's number goes to another process.
pub struct KeeperHandle(OwnedFd);

impl KeeperHandle {
    /// Opens the handle. Whoever waits on a thread of its own opens it before that thread begins: a
    /// keeper that ends in between would leave the thread waiting for whoever adopts this process.
    ///
    /// # Errors
    ///
    /// When this process has no keeper, or it cannot be waited for.
    pub fn of_this_worker() -> io::Result<KeeperHandle> {
        let parent = tree::own().map(|me| me.parent);
        let pid = parent.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no parent"))?;
        Ok(KeeperHandle(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Waits until the keeper has ended.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
