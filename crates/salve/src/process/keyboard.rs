//! Who waits for somebody: for keys at a terminal, or under a debugger.
//!
//! The kernel tells by which call a thread sleeps and which files an event loop watches, without
//! disturbing either.

use std::fs;
use std::path::Path;

use nix::libc;

/// Returns whether a process waits for what is typed into `terminal`: in a read, or in its event
/// loop.
pub(super) fn waits_for_input(pid: u32, terminal: &Path) -> bool {
    let is_terminal =
        |file: u64| fs::read_link(format!("/proc/{pid}/fd/{file}")).is_ok_and(|to| to == terminal);
    asleep_for(pid).any(|sleep| match sleep {
        Sleep::Read(file) => is_terminal(file),
        // It waits for one file only, and does not say which.
        Sleep::OneFile => is_terminal(0),
    }) || watched(pid).any(is_terminal)
}

/// Returns whether Ctrl-C in a terminal reaches this process.
pub(crate) fn hears_ctrl_c() -> bool {
    use rustix::process::getpgrp;
    let terminal = fs::File::open("/dev/tty");
    let group = terminal.ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(getpgrp())
}

/// Returns whether a process of a server stands still for somebody: a debugger traces it, or it waits
/// for what is typed for the server, as at a debugger's prompt.
///
/// Many tools feed helpers of their own through pipes, and those always wait.
pub(crate) fn is_debugged(pid: u32, server: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    let input = |pid: u32| fs::read_link(format!("/proc/{pid}/fd/0")).ok();
    let waits = || asleep_for(pid).any(|sleep| sleep == Sleep::Read(0));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
        || input(pid).is_some_and(|file| input(server) == Some(file)) && waits()
}

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    /// For something to read from this file.
    Read(u64),
    /// For one file among those it has.
    OneFile,
}

/// Returns what the threads of a process sleep for, as far as that is a file.
fn asleep_for(pid: u32) -> impl Iterator<Item = Sleep> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads.filter_map(|thread| {
        let call = fs::read_to_string(thread.ok()?.path().join("syscall")).ok()?;
        sleep_of(&call)
    })
}

/// Reads what the kernel tells of a call: its number, then its arguments in hexadecimal.
fn sleep_of(call: &str) -> Option<Sleep> {
    let mut words = call.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let mut argument = |at: usize| {
        let word = words.nth(at)?.strip_prefix("0x")?;
        u64::from_str_radix(word, 16).ok()
    };
    if number == libc::SYS_read {
        return argument(0).map(Sleep::Read);
    }
    let is_one = if POLLS.contains(&number) {
        argument(1) == Some(1)
    } else {
        // Of a select, the first argument is one more than the highest file.
        SELECTS.contains(&number) && argument(0) == Some(1)
    };
    is_one.then_some(Sleep::OneFile)
}

#[cfg(target_arch = "x86_64")]
const POLLS: [i64; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLS: [i64; 1] = [libc::SYS_ppoll];
#[cfg(target_arch = "x86_64")]
const SELECTS: [i64; 2] = [libc::SYS_select, libc::SYS_pselect6];
#[cfg(not(target_arch = "x86_64"))]
const SELECTS: [i64; 1] = [libc::SYS_pselect6];

/// Returns the files that the event loops of a process watch.
fn watched(pid: u32) -> impl Iterator<Item = u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten();
    files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok()).flat_map(|info| {
        let watched = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let numbers = watched.filter_map(|line| line.split_ascii_whitespace().next()?.parse().ok());
        numbers.collect::<Vec<u64>>()
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// **Invariant:** What waits for a pipe of its own is not taken for a debugger's prompt.
    #[test]
    fn a_helper_that_is_fed_through_a_pipe_is_not_debugged() {
        let mut helper = Command::new("cat");
        let mut helper = helper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        while !asleep_for(helper.id()).any(|sleep| sleep == Sleep::Read(0)) {
            std::thread::yield_now();
        }
        assert!(is_debugged(helper.id(), helper.id()));
        assert!(!is_debugged(helper.id(), std::process::id()));
        drop(helper.stdin.take());
        helper.wait().unwrap();
    }

    #[test]
    fn what_a_thread_sleeps_for_is_read_from_its_call() {
        let rows = [
            (
                format!("{} 0x0 0x7f 0x1000 0x0 0x0 0x0 0x7ffc 0x7f3a\n", libc::SYS_read),
                Some(Sleep::Read(0)),
            ),
            (
                format!("{} 0x1f 0x7f 0x1000 0x0 0x0 0x0 0x7ffc 0x7f3a\n", libc::SYS_read),
                Some(Sleep::Read(31)),
            ),
            (
                format!("{} 0x7ffc 0x1 0xffffffff 0x0 0x0 0x0 0x1 0x2\n", libc::SYS_ppoll),
                Some(Sleep::OneFile),
            ),
            (format!("{} 0x7ffc 0x2 0xffffffff 0x0 0x0 0x0 0x1 0x2\n", libc::SYS_ppoll), None),
            (
                format!("{} 0x1 0x7f 0x0 0x0 0x0 0x0 0x1 0x2\n", libc::SYS_pselect6),
                Some(Sleep::OneFile),
            ),
            (format!("{} 0x5 0x7f 0x0 0x0 0x0 0x0 0x1 0x2\n", libc::SYS_pselect6), None),
            ("running\n".to_owned(), None),
            ("-1 0x7ffc 0x7f3a\n".to_owned(), None),
        ];
        for (call, want) in rows {
            assert_eq!(sleep_of(&call), want, "{call}");
        }
    }
}
