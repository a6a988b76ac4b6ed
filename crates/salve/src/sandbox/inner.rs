//! The two processes between Salve and a command that gets a process namespace of its own.
//!
//! The *outer* one has left the namespaces and made the mounts; it starts the inner one and waits.
//! The *inner* one is the first process of its namespace: it shows only that namespace in `/proc`,
//! takes all other bounds on itself, starts the command in a session of its own and reaps whoever is
//! left without a parent. When the inner one ends, the kernel ends everything in the namespace; when
//! the outer one is killed, the kernel kills the inner one. So nothing outlives a command, whoever
//! of Salve is killed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::libc;
use nix::mount::{MsFlags, mount};
use process_wrap::std::{CommandWrap, ProcessSession};
use rustix::process::{Signal, WaitOptions};

use super::enter::{self, PROCESSES, REFUSED, SandboxRefusal};
use super::plan::SandboxPlan;
use super::{launcher, rights};
use crate::process::tree::{RUN_MARK, SERVER_MARK};

/// What begins the word by which this program knows that it is the inner process; the number of the
/// open plan follows.
const INNER: &str = "inside:";
/// What is added to the number of the signal that ended a command.
pub(super) const SIGNALLED: i32 = 128;
/// The kernel's bound on process ids, which each process namespace has for itself since Linux 6.14.
const MOST_IDS: &str = "/proc/sys/kernel/pid_max";

/// Returns the number of the open plan, if `what` tells this program to be an inner process.
pub(super) fn plan_number(what: &OsStr) -> Option<i32> {
    what.to_str()?.strip_prefix(INNER)?.parse().ok()
}

/// Reads a plan to its end.
pub(super) fn read_plan(mut file: &File) -> io::Result<SandboxPlan> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// Goes on inside the namespaces that this process has left for, and returns how that ended.
pub(super) fn run_inside(told: &File) -> Result<ExitCode, SandboxRefusal> {
    // Ending it is asked of the command itself: ended first, this process would take it along.
    let noted = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&noted))
            .map_err(SandboxRefusal::of("waiting for signals"))?;
    }
    let refusal = || SandboxRefusal::of("starting inside");
    rustix::fs::seek(told, rustix::fs::SeekFrom::Start(0)).map_err(refusal())?;
    // By the handle: the file is gone.
    rustix::io::fcntl_setfd(told, rustix::io::FdFlags::empty()).map_err(refusal())?;
    let what = OsString::from(format!("{INNER}{}", told.as_raw_fd()));
    let status = starter(&what)?.status().map_err(SandboxRefusal::of("starting inside"))?;
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal));
    Ok(exit_code(code))
}

/// Returns the command that starts this program as the first process of its namespace, with the
/// right to mount and without the user's variables, which the command could read from it.
pub(super) fn starter(what: &OsStr) -> Result<Command, SandboxRefusal> {
    rights::pass_on_mounting().map_err(SandboxRefusal::of("starting inside"))?;
    let (argv, env) = launcher(what);
    let mut words = argv.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    let marks = [RUN_MARK, SERVER_MARK];
    let marks = marks.map(|name| (name, std::env::var_os(name).unwrap_or_default()));
    command.args(words).env_clear().envs(env).envs(marks);
    Ok(command)
}

/// Is the inner process of the plan that is open under `number`.
pub(super) fn obey_inside(number: i32) -> ExitCode {
    let handle = Path::new("/proc/self/fd").join(number.to_string());
    let Ok(plan) = File::open(handle).and_then(|told| read_plan(&told)) else {
        return ExitCode::from(REFUSED);
    };
    let done = enter::close_files()
        .map_err(SandboxRefusal::of("closing files"))
        .and_then(|()| begin(&plan))
        .and_then(|()| run(&plan));
    done.unwrap_or_else(|refusal| enter::refuse(&plan, &refusal.to_string()))
}

fn begin(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(SandboxRefusal::of("ending with Salve"))?;
    show_processes()?;
    rustix::thread::clear_ambient_capability_set()
        .map_err(SandboxRefusal::of("giving up capabilities"))?;
    enter::take_on_rules(plan)?;
    // The command could else do by way of this process what it may not do itself.
    enter::lower_capabilities().map_err(SandboxRefusal::of("giving up capabilities"))
}

/// Shows the processes of this namespace and no others, and bounds how many there can be.
pub(super) fn show_processes() -> Result<(), SandboxRefusal> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let place = Path::new("/proc");
    mount(Some("proc"), place, Some("proc"), flags, None::<&str>)
        .map_err(SandboxRefusal::of("showing its own processes only"))?;
    // Older kernels have one bound for all, which is nobody's to change; there they are counted.
    if knows_own_bound() {
        let _ = fs::write(MOST_IDS, PROCESSES.to_string());
    }
    let shut = flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(None::<&str>, place, None::<&str>, shut, None::<&str>)
        .map_err(SandboxRefusal::of("closing the kernel's switches"))
}

/// Returns whether each process namespace has a bound of its own here.
pub(super) fn knows_own_bound() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 14),
        _ => false,
    }
}

/// Runs the command and reaps whoever is left without a parent, until it ends.
fn run(plan: &SandboxPlan) -> Result<ExitCode, SandboxRefusal> {
    let mut command = CommandWrap::from(enter::command(plan));
    let child = match command.wrap(ProcessSession).spawn() {
        Ok(child) => child.id(),
        Err(error) => return Ok(enter::refuse(plan, &enter::not_started(plan, &error))),
    };
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status)))
                if pid.as_raw_nonzero().get().unsigned_abs() == child
                    && (status.exited() || status.signaled()) =>
            {
                let Some(signal) = status.terminating_signal() else {
                    return Ok(exit_code(status.exit_status()));
                };
                // The first process of a namespace cannot end by a signal of its own.
                let _ = fs::write(&plan.signal, signal.to_string());
                return Ok(exit_code(Some(SIGNALLED + signal)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SandboxRefusal::of("waiting for the command")(error)),
        }
    }
}

fn exit_code(code: Option<i32>) -> ExitCode {
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(REFUSED))
}
