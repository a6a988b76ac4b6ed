//! The other side: a process takes the bounds on itself and then becomes the command.
//!
//! All of it happens in a process of its own with one thread, since namespaces, limits and open
//! files belong to processes. Nothing is taken back, so the order matters: what needs rights comes
//! before they are given up.
//!
//! **Invariant:** the command runs with every bound of its plan or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::calls;
use super::inner;
use super::means::{self, Processes, Sockets, Spaces};
use super::plan::{Hold, SandboxPlan};
use super::rights;
use super::spaces;
use super::writes::{TcpReach, Writes};
use crate::process::tree::{self, RUN_MARK, SERVER_MARK};

/// The word by which this program knows that it is to become a command.
pub(super) const WORD: &str = "sandboxed";
/// The word that only asks what the machine can do.
pub(super) const PROBE: &str = "probe";
/// The exit code of a command that was not run.
pub(super) const REFUSED: u8 = 126;

/// How large a file may become.
const FILE_SIZE: u64 = 16 << 30;
/// How many files may be open.
const OPEN_FILES: u64 = 65_536;
/// How many processes and threads there may be, where they can be counted apart from others'.
pub(super) const PROCESSES: u64 = 4_096;

/// Why the bounds could not be taken on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub(super) struct SandboxRefusal {
    what: &'static str,
    why: String,
}

impl SandboxRefusal {
    pub(super) fn of<E: ToString>(what: &'static str) -> impl FnOnce(E) -> SandboxRefusal {
        move |why| SandboxRefusal { what, why: why.to_string() }
    }
}

/// Becomes the command that the arguments name, if they say so; does not return then unless it
/// cannot be run.
pub fn enter(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.next()? != WORD {
        return None;
    }
    let what = args.next()?;
    if let Some(number) = inner::plan_number(&what) {
        return Some(inner::obey_inside(number));
    }
    Some(match what.to_str() {
        Some(PROBE) => means::tell(),
        Some(means::PROBE_INSIDE) => means::tell_inside(),
        _ => obey(Path::new(&what)),
    })
}

/// Becomes the command of the plan in `file`, or waits for it where it gets processes of its own.
pub(super) fn obey(file: &Path) -> ExitCode {
    let told = File::open(file);
    // Whoever wrote it removes the directory; the command needs not see it.
    let _ = fs::remove_file(file);
    let Ok(told) = told else { return ExitCode::from(REFUSED) };
    let Ok(plan) = inner::read_plan(&told) else { return ExitCode::from(REFUSED) };
    if end_with(plan.parent).is_err() {
        return ExitCode::from(REFUSED);
    }
    let is_held = plan.hold == Hold::Must;
    let done = match plan.processes {
        Processes::Own if is_held => close_files_but(Some(told.as_raw_fd()))
            .map_err(SandboxRefusal::of("closing files"))
            .and_then(|()| spaces::separate(&plan))
            .and_then(|()| inner::run_inside(&told)),
        Processes::Own | Processes::Shared => {
            drop(told);
            take_on(&plan).map(|()| refuse(&plan, &not_started(&plan, &command(&plan).exec())))
        }
    };
    done.unwrap_or_else(|refusal| refuse(&plan, &refusal.to_string()))
}

/// Has this process end with the one that started it, whatever kills that one.
///
/// The thread that started it waits for it, so that thread does not end before.
fn end_with(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have ended before that.
    let is_there = tree::own().is_some_and(|own| own.parent == parent);
    if is_there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Says why the command was not run.
pub(super) fn refuse(plan: &SandboxPlan, why: &str) -> ExitCode {
    // Without this the exit code has to do.
    let _ = fs::write(&plan.refusal, why);
    ExitCode::from(REFUSED)
}

/// Returns the command of a plan, with nothing of our own environment but the marks.
pub(super) fn command(plan: &SandboxPlan) -> Command {
    let mut words = plan.argv.iter();
    let program = words.next().map_or(OsStr::new(""), OsString::as_os_str);
    let marks = [RUN_MARK, SERVER_MARK];
    let marks = marks.map(|name| (name, std::env::var_os(name).unwrap_or_default()));
    let mut command = Command::new(program);
    command.args(words).env_clear().envs(plan.env.iter().cloned()).envs(marks);
    command
}

/// Says that a command could not be started.
pub(super) fn not_started(plan: &SandboxPlan, error: &io::Error) -> String {
    let program = plan.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    format!("cannot start `{}`: {error}", program.to_string_lossy())
}

fn take_on(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    close_files().map_err(SandboxRefusal::of("closing files"))?;
    if plan.hold == Hold::Must {
        spaces::separate(plan)?;
    }
    take_on_rules(plan)
}

/// Takes on all bounds but the namespaces.
pub(super) fn take_on_rules(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    limit(plan).map_err(SandboxRefusal::of("setting limits"))?;
    rustix::thread::set_no_new_privs(true).map_err(SandboxRefusal::of("giving up privileges"))?;
    if plan.hold == Hold::Must {
        let allowed = plan.writes.iter().fold(Writes::default(), Writes::allow);
        let allowed = plan.thrown.iter().map(|one| &one.place).fold(allowed, Writes::allow);
        let reach = match plan.network {
            crate::config::Network::None => TcpReach::Nothing,
            crate::config::Network::Web => TcpReach::Ports(plan.ports.clone()),
            crate::config::Network::Any => TcpReach::Everything,
        };
        let is_enforced = allowed.reach(reach).alone().restrict();
        if !is_enforced.map_err(SandboxRefusal::of("restricting writes"))? {
            return Err(SandboxRefusal {
                what: "restricting writes",
                why: "not enforced".to_owned(),
            });
        }
    }
    rights::bound_capabilities(CapabilitySet::empty())
        .map_err(SandboxRefusal::of("giving up capabilities"))?;
    if plan.hold == Hold::Must && plan.calls == Sockets::Filtered {
        calls::restrict().map_err(SandboxRefusal::of("restricting what changes others"))?;
    }
    // The last, so that nothing above has to pass it.
    match plan.sockets.filter(|_| plan.hold == Hold::Must) {
        Some(kinds) => kinds.restrict().map_err(SandboxRefusal::of("restricting sockets")),
        None => Ok(()),
    }
}

/// Closes all files but the first three, whoever left them open.
pub(super) fn close_files() -> io::Result<()> {
    close_files_but(None)
}

fn close_files_but(kept: Option<i32>) -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
    let numbers: Vec<i32> = open.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|&number| number > 2 && Some(number) != kept) {
        // One of them was the directory itself.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

fn limit(plan: &SandboxPlan) -> rustix::io::Result<()> {
    let mut bounds = vec![
        (Resource::Core, 0),
        (Resource::Fsize, FILE_SIZE),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Cpu, plan.cpu_seconds),
    ];
    if plan.spaces == Spaces::User && plan.hold == Hold::Must {
        bounds.push((Resource::Nproc, PROCESSES));
    }
    for (resource, most) in bounds {
        let now = rustix::process::getrlimit(resource);
        let most = now.maximum.map_or(most, |maximum| maximum.min(most));
        let current = now.current.map_or(most, |current| current.min(most));
        let limit = Rlimit { current: Some(current), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Keeps of its rights what the command may have, in this very process.
pub(super) fn lower_capabilities() -> rustix::io::Result<()> {
    let own = rustix::thread::capabilities(None)?;
    let is_root = rustix::process::geteuid().is_root();
    let most = if is_root { rights::WORKING_ON_FILES } else { CapabilitySet::empty() };
    let kept = most & own.permitted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: kept & own.inheritable };
    rustix::thread::set_capabilities(None, sets)
}
