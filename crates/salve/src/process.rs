//! Which process this is, whether another is still there, and whether an agent is behind it.

use std::fs;

use rustix::process::Pid;
use salve_core::event::Process;
use salve_core::scrub::Scrubber;

/// The variable that marks the processes of an agent that Salve started.
pub const AGENT_MARK: &str = "SALVE_AGENT";

/// Returns what tells this process apart from any other.
pub fn this(scrubber: &Scrubber) -> Process {
    let host = rustix::system::uname();
    Process {
        pid: std::process::id(),
        started: stat("self").map_or(0, |stat| stat.started),
        host: scrubber.scrub(&host.nodename().to_string_lossy()),
    }
}

/// Returns whether that very process has ended; of another machine's nothing is known.
pub fn is_gone(process: &Process, scrubber: &Scrubber) -> bool {
    if process.host != this(scrubber).host {
        return false;
    }
    match stat(&process.pid.to_string()) {
        Some(stat) => stat.started != process.started || stat.is_dead,
        // Without /proc only the pid can be asked for.
        None => i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_none_or(|pid| rustix::process::test_kill_process(pid).is_err()),
    }
}

/// Returns whether an agent that Salve started is behind this process: it, or any process that
/// led to it, carries the mark. Taking the mark out of the environment of a child does not help.
pub fn is_agents() -> bool {
    if std::env::var_os(AGENT_MARK).is_some_and(|mark| !mark.is_empty()) {
        return true;
    }
    let mut pid = stat("self").map(|stat| stat.parent);
    while let Some(ancestor) = pid.filter(|&pid| pid > 1) {
        if carries_mark(ancestor) {
            return true;
        }
        pid = stat(&ancestor.to_string()).map(|stat| stat.parent);
    }
    false
}

fn carries_mark(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| {
        let value = variable.strip_prefix(AGENT_MARK.as_bytes());
        value.and_then(|rest| rest.strip_prefix(b"=")).is_some_and(|value| !value.is_empty())
    })
}

/// What the system says about a process.
struct Stat {
    parent: u32,
    started: u64,
    is_dead: bool,
}

fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, so the fields count from the parenthesis after it.
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        is_dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use salve_core::scrub::Key;

    use super::*;

    #[test]
    fn a_process_is_gone_when_it_ended_or_its_pid_is_anothers() {
        let scrubber = Scrubber::new(Key::new([1; 32]));
        let me = this(&scrubber);
        assert!(!is_gone(&me, &scrubber));
        assert!(is_gone(&Process { started: me.started + 1, ..me.clone() }, &scrubber));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = stat(&child.id().to_string()).unwrap().started;
        let process = Process { pid: child.id(), started, ..me.clone() };
        assert!(!is_gone(&process, &scrubber));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(&process, &scrubber));
    }
}
