//! The machine: git, sandbox, agents, ports, file watchers.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope,
};

use super::Finding;
use super::probe::{ProbeError, ask, find};

/// How long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// File watchers that a dev server and its tools commonly need together.
const WATCHES: u64 = 65_536;
/// Agent programs that Salve knows how to drive.
const AGENTS: [&str; 3] = ["claude", "codex", "gemini"];

/// Runs the machine's checks.
pub(super) fn examine() -> Vec<Finding> {
    vec![git(), landlock(), bubblewrap(), agents(), ports(), watches()]
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

/// Asks the kernel for rulesets it would enforce; making one restricts nobody.
fn landlock() -> Finding {
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = |abi| hard().handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create);
    let net = |abi| hard().handle_access(AccessNet::from_all(abi)).and_then(Ruleset::create);
    if files(ABI::V1).is_err() {
        return Finding::warn(
            "sandbox",
            "Landlock is not available: commands of agents go to a person",
            "use Linux 5.13 or newer with Landlock enabled (boot with lsm=landlock,…)",
        );
    }
    let mut parts = vec!["files"];
    if files(ABI::V3).is_ok() {
        parts.push("truncation");
    }
    if net(ABI::V4).is_ok() {
        parts.push("TCP ports");
    }
    if hard().scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok() {
        parts.push("signals and abstract sockets");
    }
    Finding::ok("sandbox", format!("Landlock enforces {}", parts.join(", ")))
}

fn bubblewrap() -> Finding {
    let args =
        ["--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--die-with-parent", "true"];
    match ask("bwrap", &args, PATIENCE) {
        Ok(_) => Finding::ok("bubblewrap", "works"),
        Err(ProbeError::NotFound) => Finding::warn(
            "bubblewrap",
            "not installed: Landlock alone is used",
            "install bubblewrap",
        ),
        Err(error) => Finding::warn(
            "bubblewrap",
            format!("installed but does not work: {error}"),
            "allow unprivileged user namespaces, or run without it: Landlock alone is used",
        ),
    }
}

fn agents() -> Finding {
    let probes =
        AGENTS.map(|name| thread::spawn(move || (name, ask(name, &["--version"], PATIENCE))));
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
        return Finding::warn("agents", format!("none of {} found", AGENTS.join(", ")), mend);
    }
    Finding::ok("agents", found.join(", "))
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
            "sudo sysctl fs.inotify.max_user_watches=524288",
        ),
    }
}

/// Returns whether a shell is there to run commands by absolute path.
pub(super) fn shell() -> Finding {
    match find("sh") {
        Some(path) => Finding::ok("shell", path.display().to_string()),
        None => Finding::fail("shell", "no sh on the PATH", "put a POSIX shell on the PATH"),
    }
}
