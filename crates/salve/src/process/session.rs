//! Starts a program in a session of its own without copying this process.
//!
//! The standard library calls `setsid` only between a fork and the program's start, and a fork
//! copies the page tables of the whole process. The C library's `posix_spawn` lends them to the
//! child instead, and can open a session; but it starts the child where this process is.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::libc::POSIX_SPAWN_SETSID;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;

/// What is started.
pub(super) struct Program<'a> {
    /// The program and its arguments.
    pub(super) argv: &'a [OsString],
    /// The directory it starts in.
    pub(super) dir: &'a Path,
    /// Variables added to our own environment; the last of a name holds.
    pub(super) env: Vec<(&'a OsStr, &'a OsStr)>,
    /// What it reads, writes and complains to.
    pub(super) files: [BorrowedFd<'a>; 3],
}

/// Starts `program`; returns nothing where only a fork can.
pub(super) fn spawn(program: &Program<'_>) -> Option<io::Result<Pid>> {
    // The program is looked for on our own path, not on the one it is given.
    let own_path = program.env.iter().all(|(name, _)| *name != "PATH");
    if !own_path || !is_here(program.dir) {
        return None;
    }
    let argv: Vec<CString> = program.argv.iter().map(|word| c(word)).collect::<Option<_>>()?;
    let env = environment(&program.env)?;
    let name = argv.first()?.clone();
    Some(start(&name, &argv, &env, program.files).map_err(io::Error::from))
}

fn start(
    name: &CString,
    argv: &[CString],
    env: &[CString],
    files: [BorrowedFd<'_>; 3],
) -> nix::Result<Pid> {
    let mut actions = PosixSpawnFileActions::init()?;
    for (file, at) in files.iter().zip(0..) {
        actions.add_dup2(file.as_raw_fd(), at)?;
    }
    let mut attributes = PosixSpawnAttr::init()?;
    let session = PosixSpawnFlags::from_bits_retain(POSIX_SPAWN_SETSID.into());
    let signals = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    attributes.set_flags(session | signals)?;
    // Rust ignores it for itself, and what is ignored stays so in the program.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    attributes.set_sigmask(&SigSet::empty())?;
    let pid = posix_spawnp(name, &actions, &attributes, argv, env)?;
    Pid::from_raw(pid.as_raw()).ok_or(nix::errno::Errno::ESRCH)
}

/// Returns whether this process is in `dir`.
fn is_here(dir: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let here = id(Path::new("."));
    here.is_some() && here == id(dir)
}

/// Returns our own environment with `added`.
fn environment(added: &[(&OsStr, &OsStr)]) -> Option<Vec<CString>> {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    all.extend(added.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let variable = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        c(&name)
    };
    all.into_iter().map(variable).collect()
}

fn c(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;
    use crate::process::{tests, tree};

    /// Runs a shell script and returns what it wrote, and whether it could be started.
    fn run(script: &str, dir: &Path, env: &[(&str, &str)]) -> Option<io::Result<String>> {
        let _alone = tests::alone();
        let (mut reader, writer) = io::pipe().unwrap();
        let null = fs::File::open("/dev/null").unwrap();
        let argv = ["sh", "-c", script].map(OsString::from);
        let env = env.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))).collect();
        let files = [null.as_fd(), writer.as_fd(), writer.as_fd()];
        let started = spawn(&Program { argv: &argv, dir, env, files })?;
        drop(writer);
        Some(started.map(|pid| {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            // A reaper of another test may have been faster.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            text
        }))
    }

    #[test]
    fn it_leads_a_session_with_our_environment_and_what_is_added() {
        let here = std::env::current_dir().unwrap();
        let script = "echo $PATH; echo $ADDED; cat /proc/$$/stat; grep SigIgn /proc/$$/status";
        let said = run(script, &here, &[("ADDED", "yes")]).unwrap().unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], [&*std::env::var("PATH").unwrap(), "yes"], "{said}");
        let fields: Vec<&str> = lines[2].rsplit(") ").next().unwrap().split(' ').collect();
        let pid = lines[2].split(' ').next().unwrap();
        assert_eq!((fields[2], fields[3]), (pid, pid), "it leads its group and its session");
        assert_eq!(fields[1], tree::own().unwrap().pid.to_string(), "and is our child");
        let ignored = u64::from_str_radix(lines[3].split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(ignored & (1 << 12), 0, "a broken pipe ends it: {said}");
    }

    #[test]
    fn what_only_a_fork_can_do_is_left_to_it() {
        let here = std::env::current_dir().unwrap();
        assert!(run("true", Path::new("/"), &[]).is_none());
        assert!(run("true", &here, &[("PATH", "/nowhere")]).is_none());
    }
}
