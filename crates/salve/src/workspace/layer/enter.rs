//! The processes between Salve and a command in a layer.
//!
//! The *outer* one leaves the namespaces, makes the mounts and waits. The *inner* one is the first
//! process of its own process namespace: it shows that namespace in `/proc`, gives up every right,
//! starts the command and reaps whoever is left without a parent. When the inner one ends, the kernel
//! ends everything in the namespace; when the outer one is killed, the kernel kills the inner one.
//!
//! **Invariant:** the command runs in its layer with every bound, or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use landlock::{ABI, Access as _, Ruleset, RulesetAttr as _, Scope};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_child_subreaper,
};
use rustix::thread::CapabilitySet;

use super::plan::{LayerPlan, PlanKind};
use super::{hidden, launcher, mounts};
use crate::process::keeper;
use crate::sandbox::{Writes, bound_capabilities, deny_keys, pass_on_mounting};

/// The word by which this program knows that it is the outer process of a layer.
pub(super) const OUTER: &str = "layered";
/// The word by which it knows that it is the inner one.
const INNER: &str = "layered-inside";
/// The exit code of a command that was not run.
const REFUSED: u8 = 126;
/// What is added to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

/// What is done when the command has to end with Salve.
const ENDING: &str = "ending with Salve";
/// What is done while the command runs.
const WAITING: &str = "waiting for the command";

/// Why a command was not run in its layer.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub(super) struct LayerRefusal {
    what: &'static str,
    why: String,
}

impl LayerRefusal {
    pub(super) fn of<E: ToString>(what: &'static str) -> impl FnOnce(E) -> LayerRefusal {
        move |why| LayerRefusal { what, why: why.to_string() }
    }
}

/// Becomes one of the processes of a layer, if the arguments say so; returns the exit code then.
pub fn enter_layer(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let part = args.next()?;
    let run = match part.to_str()? {
        OUTER => run_outer,
        INNER => run_inner,
        _ => return None,
    };
    let what = args.next()?;
    Some(run(Path::new(&what)).unwrap_or_else(|refusal| {
        // The command's own complaints are read from there; so is this.
        let _ = writeln!(io::stderr(), "salve: the private layer could not be made: {refusal}");
        ExitCode::from(REFUSED)
    }))
}

fn read_plan(mut file: &File) -> io::Result<LayerPlan> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

fn run_outer(file: &Path) -> Result<ExitCode, LayerRefusal> {
    let told = File::open(file).map_err(LayerRefusal::of("reading what to do"))?;
    let plan = read_plan(&told).map_err(LayerRefusal::of("reading what to do"))?;
    // Whoever wrote it removes the directory; the command needs not see it.
    let _ = fs::remove_file(file);
    let owner = owner(&plan)?;
    // Ending it is asked of the command itself: ended first, this process would take it along.
    let noted = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&noted))
            .map_err(LayerRefusal::of("waiting for signals"))?;
    }
    match &plan.kind {
        PlanKind::Mounts(mounts) => {
            leave_namespaces()?;
            mounts::mount_all(&plan, mounts)?;
            pass_on_mounting().map_err(LayerRefusal::of("starting inside"))?;
        }
        // Without a namespace that ends as one, what it leaves behind falls to this process.
        PlanKind::Landlock => {
            set_child_subreaper(Some(getpid())).map_err(LayerRefusal::of(ENDING))?
        }
    }
    let (alive, _our_end) = io::pipe().map_err(LayerRefusal::of("starting inside"))?;
    let mut inner =
        inner_command(&told, &alive)?.spawn().map_err(LayerRefusal::of("starting inside"))?;
    wait_with(&owner, &inner)?;
    // It has ended, or its owner has; with it goes all that is in its namespace.
    let _ = inner.kill();
    let status = inner.wait().map_err(LayerRefusal::of(WAITING))?;
    if plan.kind == PlanKind::Landlock {
        keeper::end_descendants();
    }
    Ok(exit_code(status.code().or(status.signal().map(|signal| SIGNALLED + signal))))
}

/// Returns a handle on the process that started this one, if it is still that.
fn owner(plan: &LayerPlan) -> Result<OwnedFd, LayerRefusal> {
    let parent = || rustix::process::getppid().filter(|pid| is_number(*pid, plan.owner));
    let pid = parent().ok_or("Salve has ended").map_err(LayerRefusal::of(ENDING))?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(LayerRefusal::of(ENDING))?;
    // Only now it is sure that the handle is not of another with its number.
    parent().map(|_| handle).ok_or("Salve has ended").map_err(LayerRefusal::of(ENDING))
}

fn is_number(pid: Pid, number: u32) -> bool {
    pid.as_raw_nonzero().get().unsigned_abs() == number
}

/// Waits until the inner process has ended, or the owner of the layer.
///
/// The kernel's signal on a parent's death comes when the *thread* ends that had started the process,
/// so it is no use to the outer one: threads of Salve come and go.
fn wait_with(owner: &OwnedFd, inner: &Child) -> Result<(), LayerRefusal> {
    let pid = i32::try_from(inner.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("it has no number").map_err(LayerRefusal::of(WAITING))?;
    let inner = pidfd_open(pid, PidfdFlags::empty()).map_err(LayerRefusal::of(WAITING))?;
    loop {
        let mut ends = [PollFd::new(owner, PollFlags::IN), PollFd::new(&inner, PollFlags::IN)];
        match poll(&mut ends, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LayerRefusal::of(WAITING)(error)),
        }
    }
}

/// Returns the command that goes on inside.
fn inner_command(told: &File, alive: &PipeReader) -> Result<Command, LayerRefusal> {
    let refusal = || LayerRefusal::of("starting inside");
    rustix::fs::seek(told, rustix::fs::SeekFrom::Start(0)).map_err(refusal())?;
    // By the handle: where the file lay, nothing is to be seen any more.
    rustix::io::fcntl_setfd(told, rustix::io::FdFlags::empty()).map_err(refusal())?;
    rustix::io::fcntl_setfd(alive, rustix::io::FdFlags::empty()).map_err(refusal())?;
    let number = format!("{}/{}", told.as_raw_fd(), alive.as_raw_fd());
    let (argv, env) = launcher(INNER, OsStr::new(&number));
    let mut words = argv.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words).envs(env);
    Ok(command)
}

/// Leaves the mounts, processes and shared memory of the others; root needs no user namespace.
fn leave_namespaces() -> Result<(), LayerRefusal> {
    let spaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if !(uid.is_root() && unshare(spaces).is_ok()) {
        unshare(spaces | CloneFlags::CLONE_NEWUSER)
            .map_err(LayerRefusal::of("leaving the namespaces"))?;
        let (uid, gid) = (uid.as_raw(), gid.as_raw());
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{uid} {uid} 1")),
            ("gid_map", format!("{gid} {gid} 1")),
        ] {
            fs::write(Path::new("/proc/self").join(file), text)
                .map_err(LayerRefusal::of("staying the same user"))?;
        }
    }
    // Else what is mounted here would show up elsewhere.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(LayerRefusal::of("separating the mounts"))
}

fn run_inner(numbers: &Path) -> Result<ExitCode, LayerRefusal> {
    let numbers: Vec<i32> =
        numbers.iter().filter_map(|number| number.to_str()?.parse().ok()).collect();
    let [told, alive] = numbers[..] else {
        return Err(LayerRefusal::of("reading what to do")("no handle on it"));
    };
    let open = |number: i32| File::open(format!("/proc/self/fd/{number}"));
    let plan = open(told).and_then(|told| read_plan(&told));
    let plan = plan.map_err(LayerRefusal::of("reading what to do"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(LayerRefusal::of(ENDING))?;
    // The signal tells of a death from here on only; the pipe tells of an earlier one.
    let pipe = open(alive).map_err(LayerRefusal::of(ENDING))?;
    let mut ends = [PollFd::new(&pipe, PollFlags::IN)];
    if poll(&mut ends, Some(&Timespec::default())).map_err(LayerRefusal::of(ENDING))? > 0 {
        return Err(LayerRefusal::of(ENDING)("Salve has ended"));
    }
    // The command has no use for either.
    for number in [told, alive] {
        let _ = nix::unistd::close::<i32>(number);
    }
    drop(pipe);
    if plan.kind == PlanKind::Landlock {
        return Err(become_confined(&plan));
    }
    mounts::mount_processes();
    give_up_rights()?;
    let child = command(&plan).spawn().map_err(LayerRefusal::of("starting the command"))?;
    wait_for(child.id())
}

/// Waits for the command, and for every other process that has nobody else to wait for it.
fn wait_for(child: u32) -> Result<ExitCode, LayerRefusal> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status)))
                if pid.as_raw_nonzero().get().unsigned_abs() == child
                    && (status.exited() || status.signaled()) =>
            {
                let signal = status.terminating_signal().map(|signal| SIGNALLED + signal);
                return Ok(exit_code(status.exit_status().or(signal)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LayerRefusal::of(WAITING)(error)),
        }
    }
}

fn exit_code(code: Option<i32>) -> ExitCode {
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(REFUSED))
}

fn command(plan: &LayerPlan) -> Command {
    let mut words = plan.argv.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words).current_dir(&plan.dir);
    hidden::variables().for_each(|name| _ = command.env_remove(name));
    command
}

/// Gives up what would let the command out of its layer.
///
/// Landlock is asked for no rule on files: such rules forbid mounting, and agents have sandboxes of
/// their own for what they run, which mount.
fn give_up_rights() -> Result<(), LayerRefusal> {
    let refusal = || LayerRefusal::of("giving up rights");
    rustix::thread::clear_ambient_capability_set().map_err(refusal())?;
    // For a sandbox of its own inside: the kernel lets nobody without it name root in a user namespace.
    bound_capabilities(CapabilitySet::SETFCAP).map_err(refusal())?;
    rustix::thread::set_no_new_privs(true).map_err(refusal())?;
    // A kernel that filters no calls mostly has no such keys either.
    let _ = deny_keys();
    // Signals and abstract sockets of others, where the kernel knows such rules.
    let alone = Ruleset::default().scope(Scope::from_all(ABI::V6));
    let alone = alone.and_then(Ruleset::create).and_then(landlock::RulesetCreated::restrict_self);
    alone.map(drop).map_err(LayerRefusal::of("giving up rights"))
}

/// Becomes a command that Landlock alone keeps to its places; returns only if it cannot.
fn become_confined(plan: &LayerPlan) -> LayerRefusal {
    let allowed = plan.writable.iter().fold(Writes::default(), Writes::allow);
    let devices = ["null", "zero", "full", "tty", "ptmx", "pts", "shm"];
    let allowed =
        devices.iter().map(|name| Path::new("/dev").join(name)).fold(allowed, Writes::allow);
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        return LayerRefusal::of("giving up rights")(error);
    }
    let _ = deny_keys();
    match allowed.restrict() {
        Ok(true) => {}
        Ok(false) => return LayerRefusal::of("restricting writes")("not enforced"),
        Err(error) => return LayerRefusal::of("restricting writes")(error),
    }
    LayerRefusal::of("starting the command")(command(plan).exec())
}
