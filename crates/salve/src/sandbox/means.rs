//! What this machine can enforce, found out by trying it in a process of its own.

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope,
};
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use serde::{Deserialize, Serialize};

use super::sockets::Kinds;
use super::writes::Writes;
use super::{inner, launcher, spaces};

/// The word that asks for what only the first process of a namespace can try.
pub(super) const PROBE_INSIDE: &str = "probe-inside";
/// The exit code that says so; a test program that does not know the word ends with another.
const SHOWN: u8 = 93;

/// What this machine can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Means {
    /// What Landlock holds.
    pub landlock: Landlock,
    /// The namespaces a command can get.
    pub spaces: Spaces,
    /// Whether it can have a process namespace too.
    pub processes: Processes,
    /// Whether it can be said which sockets a command can make.
    pub sockets: Sockets,
}

/// What the kernel's Landlock holds; the later, the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Landlock {
    /// Nothing: it is not there, or cannot be used.
    None,
    /// Writes.
    Files,
    /// TCP ports too (ABI 4).
    Ports,
    /// Devices too (ABI 5).
    Devices,
    /// Signals and abstract sockets too (ABI 6).
    Signals,
}

/// The namespaces a command can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spaces {
    None,
    /// Root makes them.
    Root,
    /// A user namespace makes them.
    User,
}

/// Whose processes a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Processes {
    /// Those of the whole machine.
    Shared,
    /// Its own, which end with it.
    Own,
}

/// Whether it can be said which sockets a command can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sockets {
    /// It cannot.
    Any,
    /// The kernel filters its system calls.
    Filtered,
}

impl Means {
    /// Returns what a machine without any means can do.
    pub const NOTHING: Means = Means {
        landlock: Landlock::None,
        spaces: Spaces::None,
        processes: Processes::Shared,
        sockets: Sockets::Any,
    };

    /// Finds out what this machine can enforce, once.
    pub fn here() -> Means {
        static HERE: OnceLock<Means> = OnceLock::new();
        *HERE.get_or_init(|| ask().unwrap_or(Means::NOTHING))
    }
}

/// Asks a process of our own; one that does not answer can do nothing.
fn ask() -> Option<Means> {
    let (argv, env) = launcher(super::enter::PROBE.as_ref());
    let (program, args) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(args).envs(env).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| serde_json::from_str(line).ok())
}

/// Tries everything on this very process and prints what worked.
pub(super) fn tell() -> ExitCode {
    let spaces = [Spaces::Root, Spaces::User].into_iter().find(|&spaces| {
        let left = spaces::leave(spaces, CloneFlags::CLONE_NEWNET);
        left.is_ok() && spaces::bind("/proc".as_ref(), MsFlags::MS_RDONLY).is_ok()
    });
    // The filter of calls comes last: it binds what is started from here on.
    let is_own = spaces.is_some() && shows_own_processes();
    let processes = if is_own { Processes::Own } else { Processes::Shared };
    let landlock = landlock();
    let sockets = match Kinds::Local.restrict() {
        Ok(()) => Sockets::Filtered,
        Err(_) => Sockets::Any,
    };
    let spaces = spaces.unwrap_or(Spaces::None);
    let means = Means { landlock, spaces, processes, sockets };
    let told = serde_json::to_string(&means).map(|text| format!("\n{text}\n"));
    let told = told.is_ok_and(|text| std::io::stdout().write_all(text.as_bytes()).is_ok());
    if told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns whether a process namespace can be made and shown in `/proc`, which a container that masks
/// parts of it refuses.
fn shows_own_processes() -> bool {
    if spaces::leave_processes().is_err() {
        return false;
    }
    let inside = inner::starter(PROBE_INSIDE.as_ref());
    let ended = inside.ok().and_then(|mut command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()
    });
    ended.and_then(|status| status.code()) == Some(i32::from(SHOWN))
}

/// Tries the part of it that only the first process of a namespace can do.
pub(super) fn tell_inside() -> ExitCode {
    match inner::show_processes() {
        Ok(()) => ExitCode::from(SHOWN),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Finds out what Landlock holds, and whether it does so for this process.
fn landlock() -> Landlock {
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = |abi| hard().handle_access(AccessFs::from_write(abi)).and_then(Ruleset::create);
    let ports = || hard().handle_access(AccessNet::from_all(ABI::V4)).and_then(Ruleset::create);
    let signals = || hard().scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create);
    let known = [
        (signals().is_ok(), Landlock::Signals),
        (files(ABI::V5).is_ok(), Landlock::Devices),
        (ports().is_ok(), Landlock::Ports),
        (files(ABI::V1).is_ok(), Landlock::Files),
    ];
    let most = known.into_iter().find_map(|(is_known, what)| is_known.then_some(what));
    // Known is not yet allowed: rules can be nested only so deep.
    let works = Writes::default().restrict().unwrap_or(false);
    most.filter(|_| works).unwrap_or(Landlock::None)
}
