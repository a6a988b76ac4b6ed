//! The machine: git, sandbox, agents, ports, file watchers.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::Finding;
use super::probe::{ProbeError, ask};
use crate::sandbox::{Landlock, Means, Names, Processes, SHELL, Sockets, Spaces};
use crate::workspace::LayerMeans;
use salve_core::agent::known_agents;

/// How long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// Prints the version of a Python that has what skills need, and fails in any other.
const PYTHON_PROBE: &str = "import sys, ctypes, json, resource; assert sys.version_info >= (3, 8); print(sys.version.split()[0])";
/// File watchers that a dev server and its tools commonly need together.
const WATCHES: u64 = 65_536;

/// Runs the machine's checks, for the project at `root` where there is one.
pub(super) fn examine(root: Option<&Path>) -> Vec<Finding> {
    let over = root.map(LayerMeans::over);
    let (held, layers) = (sandbox(Means::here()), layer(LayerMeans::here(), over.as_ref()));
    vec![git(), held, layers, agents(), python(), ports(), watches()]
}

fn git() -> Finding {
    let mend = "install git 2.30 or newer";
    match ask("git", &["--version"], PATIENCE) {
        Ok(line) => {
            let number = line.strip_prefix("git version ").unwrap_or(&line).to_owned();
            let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
            let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
            if version >= (2, 30) {
                Finding::ok("git", number)
            } else {
                Finding::warn("git", format!("{number} is too old for snapshots"), mend)
            }
        }
        Err(error) => Finding::fail("git", error.to_string(), mend),
    }
}

/// Says what holds the commands that heal.
fn sandbox(means: Means) -> Finding {
    let enforced = match means.landlock {
        Landlock::None => {
            return Finding::warn(
                "sandbox",
                "Landlock is not available: commands that heal wait for a person",
                "use Linux 5.13 or newer with Landlock enabled (boot with lsm=landlock,…), or set \
                 recovery.sandbox.mode = \"off\"",
            );
        }
        Landlock::Files => "writes",
        Landlock::Ports | Landlock::Devices => "writes, TCP ports",
        Landlock::Signals => "writes, TCP ports, signals",
    };
    let limits = "limits on files, processor time and processes";
    let spaces = match (means.spaces, means.processes) {
        (Spaces::Root | Spaces::User, Processes::Own) => {
            "namespaces seal .salve and git's hooks and hide other processes"
        }
        (Spaces::Root | Spaces::User, Processes::Shared) => {
            "namespaces seal .salve and git's hooks, but other processes can be seen"
        }
        (Spaces::None, _) => "nothing seals .salve",
    };
    let detail = format!("Landlock holds {enforced}; {spaces}; {limits}; {}", network(means));
    match (means.spaces, means.landlock >= Landlock::Ports, means.sockets) {
        (Spaces::None, _, _) => Finding::warn(
            "sandbox",
            detail,
            "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 \
             on Ubuntu; in a container, a seccomp profile that allows unshare and mount)",
        ),
        (Spaces::Root | Spaces::User, false, _) => {
            Finding::warn("sandbox", detail, "use Linux 6.7 or newer to hold the network")
        }
        (Spaces::Root | Spaces::User, true, Sockets::Any) => {
            Finding::warn("sandbox", detail, "use a kernel with seccomp filters to hold UDP")
        }
        (Spaces::Root | Spaces::User, true, Sockets::Filtered) => Finding::ok("sandbox", detail),
    }
}

/// Says what the private layer of an agent stands on here, and over the project where that differs.
fn layer(means: &LayerMeans, over: Option<&LayerMeans>) -> Finding {
    let mend = "allow unprivileged user namespaces (sysctl \
        kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; in a container, a seccomp profile \
        that allows unshare and mount, and a tmpfs at /dev/shm)";
    match means {
        LayerMeans::Overlay { .. } if over == Some(&LayerMeans::Copy) => Finding::ok(
            "private layer",
            "agents work on a copy of the files, which takes longer to make than an overlay: these \
             belong to several users or groups, or hold a mount or Salve's caches, or are in /dev",
        ),
        LayerMeans::Overlay { base } => {
            let detail =
                format!("agents work on an overlay over the files, kept in {}", base.display());
            Finding::ok("private layer", detail)
        }
        LayerMeans::Copy => {
            let detail = "overlays are not allowed here: agents work on a copy of the files, which takes \
                longer to make";
            Finding::warn("private layer", detail, mend)
        }
        LayerMeans::None => {
            let detail = "neither an overlay nor Landlock is available, so Salve asks before an agent works on the files themselves";
            Finding::warn("private layer", detail, mend)
        }
    }
}

/// Says what is held of the network that commands usually get.
fn network(means: Means) -> &'static str {
    match (means.landlock >= Landlock::Ports, means.sockets) {
        (true, Sockets::Filtered) => match Names::here() {
            Names::ByTcp => "network \"web\" is TCP to its ports and no UDP",
            Names::ByUdp => {
                "network \"web\" is TCP to its ports, and any UDP, since names are looked up by \
                 nothing else here"
            }
        },
        (true, Sockets::Any) => "network \"web\" is TCP to its ports and any UDP",
        (false, _) => "network \"web\" is not held",
    }
}

fn agents() -> Finding {
    let names: Vec<&str> = known_agents().iter().map(|known| known.name.as_str()).collect();
    let probe = |name| thread::spawn(move || (name, ask(name, &["--version"], PATIENCE)));
    let probes: Vec<_> = names.iter().copied().map(probe).collect();
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    for (name, answer) in probes.into_iter().filter_map(|probe| probe.join().ok()) {
        match answer {
            Ok(version) => found.push(format!("{name} {version}")),
            Err(ProbeError::NotFound) => {}
            Err(error) => broken.push(format!("{name}: {error}")),
        }
    }
    if !broken.is_empty() {
        let mend = "run it with --version by hand, and install it again if that fails";
        return Finding::warn("agents", broken.join("; "), mend);
    }
    if found.is_empty() {
        let mend = "install one if code should be repaired by an agent; all else works without";
        return Finding::warn("agents", format!("none of {} found", names.join(", ")), mend);
    }
    Finding::ok("agents", found.join(", "))
}

/// Looks for what skills compute with.
fn python() -> Finding {
    let mend = "install Python 3.8 or newer if you run skills; all else works without";
    let what = "conditions and computations of skills";
    match ask("python3", &["-I", "-c", PYTHON_PROBE], PATIENCE) {
        Ok(version) => Finding::ok("python3", format!("{version}, for {what}")),
        Err(ProbeError::NotFound) => {
            Finding::warn("python3", format!("not found: {what} do not work"), mend)
        }
        Err(error) => Finding::warn("python3", format!("{error}: {what} do not work"), mend),
    }
}

/// Checks that a loopback port can be opened, and that its owner can be looked up.
fn ports() -> Finding {
    if let Err(error) = TcpListener::bind("127.0.0.1:0") {
        let mend = "allow this user to listen on the loopback interface";
        return Finding::fail("ports", format!("cannot listen on 127.0.0.1: {error}"), mend);
    }
    if fs::read_to_string("/proc/net/tcp").is_err() {
        let mend = "mount /proc, so that the holder of a port can be named";
        return Finding::warn("ports", "/proc/net/tcp cannot be read", mend);
    }
    Finding::ok("ports", "loopback ports can be opened and their owners seen")
}

fn watches() -> Finding {
    let file = "/proc/sys/fs/inotify/max_user_watches";
    let limit = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match limit {
        None => Finding::ok("file watchers", "no limit known on this system"),
        Some(limit) if limit >= WATCHES => Finding::ok("file watchers", format!("limit {limit}")),
        Some(limit) => Finding::warn(
            "file watchers",
            format!("the limit of {limit} is low for dev servers"),
            "have an administrator raise fs.inotify.max_user_watches (524288 is usual)",
        ),
    }
}

/// Returns whether the shell is there that commands are given to.
pub(super) fn shell() -> Finding {
    match fs::metadata(SHELL) {
        Ok(meta) if meta.is_file() => Finding::ok("shell", SHELL),
        Ok(_) | Err(_) => {
            Finding::fail("shell", format!("no {SHELL}"), format!("put a POSIX shell at {SHELL}"))
        }
    }
}
