//! The other side: a process takes the bounds on itself and then becomes the command.
//!
//! All of it happens in a process of its own with one thread, since namespaces, limits and open
//! files belong to processes. Nothing is taken back, so the order matters: what needs rights comes
//! before they are given up.
//!
//! **Invariant:** the command runs with every bound of its plan or not at all.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;

use super::calls;
use super::means::{self, Sockets, Spaces};
use super::plan::{Hold, SandboxPlan};
use super::spaces;
use super::writes::{TcpReach, Writes};
use crate::process::tree::{RUN_MARK, SERVER_MARK};

/// The word by which this program knows that it is to become a command.
pub(super) const WORD: &str = "sandboxed";
/// The word that only asks what the machine can do.
pub(super) const PROBE: &str = "probe";
/// The exit code of a command that was not run.
const REFUSED: u8 = 126;

/// How large a file may become.
const FILE_SIZE: u64 = 16 << 30;
/// How many files may be open.
const OPEN_FILES: u64 = 65_536;
/// How many processes and threads there may be, where they can be counted apart from others'.
pub(super) const PROCESSES: u64 = 4_096;

/// What root needs to install packages; without the rest, even root gains nothing.
const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

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
    Some(if what == PROBE { means::tell() } else { obey(Path::new(&what)) })
}

/// Becomes the command of the plan in `file`.
pub(super) fn obey(file: &Path) -> ExitCode {
    let plan = fs::read(file).map_err(|error| error.to_string()).and_then(|bytes| {
        serde_json::from_slice::<SandboxPlan>(&bytes).map_err(|error| error.to_string())
    });
    // Whoever wrote it removes the directory; the command needs not see it.
    let _ = fs::remove_file(file);
    let Ok(plan) = plan else { return ExitCode::from(REFUSED) };
    let refusal = take_on(&plan).map_or_else(
        |refusal| refusal.to_string(),
        |()| {
            let mut words = plan.argv.iter();
            let program = words.next().map_or(OsStr::new(""), OsString::as_os_str);
            let marks = [RUN_MARK, SERVER_MARK];
            let marks = marks.map(|name| (name, std::env::var_os(name).unwrap_or_default()));
            let mut command = Command::new(program);
            command.args(words).env_clear().envs(plan.env.iter().cloned()).envs(marks);
            let error = command.exec();
            format!("cannot start `{}`: {error}", program.to_string_lossy())
        },
    );
    // Without this the exit code has to do.
    let _ = fs::write(&plan.refusal, refusal);
    ExitCode::from(REFUSED)
}

fn take_on(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    close_files().map_err(SandboxRefusal::of("closing files"))?;
    if plan.hold == Hold::Must {
        spaces::separate(plan)?;
    }
    limit(plan).map_err(SandboxRefusal::of("setting limits"))?;
    rustix::thread::set_no_new_privs(true).map_err(SandboxRefusal::of("giving up privileges"))?;
    if plan.hold == Hold::Must {
        let allowed = plan.writes.iter().fold(Writes::default(), Writes::allow);
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
    give_up_capabilities().map_err(SandboxRefusal::of("giving up capabilities"))?;
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
fn close_files() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
    let numbers: Vec<i32> = open.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|&number| number > 2) {
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

/// Gives up what root could do beyond installing packages; nobody else has anything to give up.
fn give_up_capabilities() -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for capability in CapabilitySet::all().difference(CAPABILITIES).iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // An older kernel does not know it, and some root may not even give up.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
