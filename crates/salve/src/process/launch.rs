//! Starts one process: its own session, its pipes or terminal, its marks.
//!
//! Besides the two variables, every process carries a brand that no environment can wash off: a
//! limit on real-time computing so high that it never bites, whose low bits name the run and the
//! server. Limits pass on to every descendant, through `setsid`, double forks and `env -i`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use process_wrap::std::{CommandWrap, ProcessSession};
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit};
use uuid::Uuid;

use super::capture::{Capture, OutputPipe, OutputSide};
use super::session::{self, Program};
use super::{lock, tree};

/// How much a pipe holds, if the system lets it.
const PIPE: usize = 256 << 10;
/// Makes a brand higher than any limit one would set.
const BRAND: u64 = 1 << 62;
/// Tells the brand of an agent from that of a server or a check.
const AGENTS: u64 = 1 << 15;

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The directory it starts in.
    pub dir: PathBuf,
    /// Variables added to our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// The server's name.
    pub server: String,
    /// What it is connected to.
    pub terminal: Terminal,
    /// What takes its output.
    pub output: Arc<Capture>,
}

/// What a process's standard files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// Pipes; its input stays open and empty.
    Pipes,
    /// Pipes for what it writes, and for what it reads a terminal of its own with this size, so
    /// that it may ask for keys.
    Keyboard {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
    /// A terminal of its own with this size.
    Pty {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
}

/// What a process reads, and where what it writes goes.
#[derive(Debug)]
pub(crate) enum ProcessInput {
    /// Nothing comes, and it does not end: many watchers stop when their input does.
    Open,
    /// The end, at once.
    Ended,
    /// What this file holds.
    File(OwnedFd),
    /// Pipes of the caller's own for input and output; only its standard error is captured.
    Wired {
        /// What it reads from.
        stdin: OwnedFd,
        /// What it writes to.
        stdout: OwnedFd,
    },
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Everything ends, so nothing new begins.
    #[error("salve is ending")]
    Ending,
    /// There is no command at all.
    #[error("no command is given")]
    Empty,
    /// The program is not there.
    #[error("`{program}` was not found")]
    NotFound {
        /// The program as it was named.
        program: String,
    },
    /// The program is there and must not or cannot be run.
    #[error("`{program}` cannot be run")]
    NotExecutable {
        /// The program as it was named.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The directory to start in is not there.
    #[error("cannot start in {}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system is short of something.
    #[error("cannot start `{program}`")]
    System {
        /// The program as it was named.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A process that has just been started.
pub(super) struct LaunchedProcess {
    pub(super) pid: Pid,
    pub(super) since: Instant,
    pub(super) streams: Vec<Arc<OutputPipe>>,
    /// What keeps its input open: the pipe's other end, or the terminal's.
    pub(super) input: Option<OwnedFd>,
    /// The terminal that it only reads from.
    pub(super) keyboard: Option<PathBuf>,
}

/// Starts `spec` for `run`, branded with `brand`.
pub(super) fn launch(
    spec: &Spec,
    input: ProcessInput,
    run: Uuid,
    brand: u64,
) -> Result<LaunchedProcess, SpawnError> {
    let program = spec.argv.first().ok_or(SpawnError::Empty)?;
    let run = run.to_string();
    let mut env: Vec<(&OsStr, &OsStr)> =
        spec.env.iter().map(|(name, value)| (&**name, &**value)).collect();
    env.push((OsStr::new(tree::RUN_MARK), OsStr::new(&run)));
    env.push((OsStr::new(tree::SERVER_MARK), OsStr::new(&spec.server)));
    let started = match spec.terminal {
        Terminal::Pipes => with_pipes(spec, env, input, brand),
        Terminal::Keyboard { rows, cols } => with_keyboard(spec, env, rows, cols, brand),
        Terminal::Pty { rows, cols } => {
            with_terminal(command(spec, &env), rows, cols, brand, &spec.output)
        }
    };
    started.map_err(|source| explain(source, program.to_string_lossy().into_owned(), &spec.dir))
}

/// Says which part of the command an error is about; the system's own word is the same for all.
fn explain(source: io::Error, program: String, dir: &Path) -> SpawnError {
    if let Err(source) = std::fs::read_dir(dir).map(drop)
        && source.kind() != io::ErrorKind::PermissionDenied
    {
        return SpawnError::Directory { dir: dir.to_owned(), source };
    }
    match source.kind() {
        // A script whose interpreter is missing is there itself.
        io::ErrorKind::NotFound if dir.join(&program).is_file() => {
            SpawnError::NotExecutable { program, source }
        }
        io::ErrorKind::NotFound => SpawnError::NotFound { program },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ExecutableFileBusy => {
            SpawnError::NotExecutable { program, source }
        }
        _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            SpawnError::NotExecutable { program, source }
        }
        _ => SpawnError::System { program, source },
    }
}

/// Returns what the standard library starts.
fn command(spec: &Spec, env: &[(&OsStr, &OsStr)]) -> Command {
    let mut words = spec.argv.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words).current_dir(&spec.dir).envs(env.iter().copied());
    command
}

fn with_pipes(
    spec: &Spec,
    env: Vec<(&OsStr, &OsStr)>,
    input: ProcessInput,
    brand: u64,
) -> io::Result<LaunchedProcess> {
    let is_one = spec.output.keeps_order() && !matches!(input, ProcessInput::Wired { .. });
    let mut streams = Vec::new();
    let mut captured = |side: OutputSide| -> io::Result<OwnedFd> {
        let (reader, writer) = pipe()?;
        streams.push(OutputPipe::new(reader, side, Arc::clone(&spec.output)));
        Ok(writer)
    };
    let (reader, out_writer, held) = match input {
        ProcessInput::Open => {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            (reader, captured(OutputSide::Out)?, Some(writer))
        }
        ProcessInput::Ended => (File::open("/dev/null")?.into(), captured(OutputSide::Out)?, None),
        ProcessInput::File(stdin) => (stdin, captured(OutputSide::Out)?, None),
        ProcessInput::Wired { stdin, stdout } => (stdin, stdout, None),
    };
    let err_writer = if is_one {
        // Through two pipes, what was written first could come out last.
        out_writer.try_clone()?
    } else {
        captured(OutputSide::Err)?
    };
    let since = Instant::now();
    let pid = branded(brand, || {
        let files = [reader.as_fd(), out_writer.as_fd(), err_writer.as_fd()];
        let program = Program { argv: &spec.argv, dir: &spec.dir, env: env.clone(), files };
        if let Some(started) = session::spawn(&program) {
            return started;
        }
        let mut command = command(spec, &env);
        command.stdin(Stdio::from(reader)).stdout(Stdio::from(out_writer));
        command.stderr(Stdio::from(err_writer));
        let mut command = CommandWrap::from(command);
        pid_of(command.wrap(ProcessSession).spawn()?.id())
    })?;
    Ok(LaunchedProcess { pid, since, streams, input: held, keyboard: None })
}

/// Starts what reads from a terminal and writes to pipes; what the terminal echoes is shown.
fn with_keyboard(
    spec: &Spec,
    env: Vec<(&OsStr, &OsStr)>,
    rows: u16,
    cols: u16,
    brand: u64,
) -> io::Result<LaunchedProcess> {
    let (master, slave) = pty_process::blocking::open().map_err(io::Error::other)?;
    master.resize(pty_process::Size::new(rows, cols)).map_err(io::Error::other)?;
    let stdin = slave.as_fd().try_clone_to_owned()?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", stdin.as_raw_fd())).ok();
    let mut launched = with_pipes(spec, env, ProcessInput::File(stdin), brand)?;
    let master = OwnedFd::from(master);
    let echo = master.try_clone()?;
    unblock(&echo)?;
    launched.streams.push(OutputPipe::new(echo, OutputSide::Out, Arc::clone(&spec.output)));
    launched.input = Some(master);
    launched.keyboard = name;
    Ok(launched)
}

fn with_terminal(
    command: Command,
    rows: u16,
    cols: u16,
    brand: u64,
    output: &Arc<Capture>,
) -> io::Result<LaunchedProcess> {
    let (master, slave) = pty_process::blocking::open().map_err(io::Error::other)?;
    master.resize(pty_process::Size::new(rows, cols)).map_err(io::Error::other)?;
    let mut command = pty_process::blocking::Command::from(command);
    let since = Instant::now();
    let child = branded(brand, || match command.spawn_borrowed(&slave) {
        Ok(child) => Ok(child),
        Err(pty_process::Error::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    })?;
    let master = OwnedFd::from(master);
    let reader = master.try_clone()?;
    unblock(&reader)?;
    let stream = OutputPipe::new(reader, OutputSide::Out, Arc::clone(output));
    Ok(LaunchedProcess {
        pid: pid_of(child.id())?,
        since,
        streams: vec![stream],
        input: Some(master),
        keyboard: None,
    })
}

fn pid_of(id: u32) -> io::Result<Pid> {
    let raw = i32::try_from(id).map_err(io::Error::other)?;
    Pid::from_raw(raw).ok_or_else(|| io::Error::other("a process without an id"))
}

/// Returns a pipe whose read end never blocks.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // A smaller pipe does as well, only slower.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
    unblock(&reader)?;
    Ok((reader, writer))
}

fn unblock(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Returns the brand of what `spec` starts, which is the `index`th of `run`.
pub(super) fn brand(run: Uuid, spec: &Spec, index: usize) -> u64 {
    let agents = if starts_agent(spec) { AGENTS } else { 0 };
    BRAND | run_brand(run) | agents | (index as u64).min(AGENTS - 1)
}

/// Returns whether `brand` is an agent's.
pub(super) fn is_agents(brand: u64) -> bool {
    brand & AGENTS != 0
}

/// Returns whether `spec` starts an agent.
pub(super) fn starts_agent(spec: &Spec) -> bool {
    spec.env.iter().any(|(name, _)| name == super::AGENT_MARK)
}

/// Returns what the brands of one run have in common.
fn run_brand(run: Uuid) -> u64 {
    // The last bits of any uuid are random; the first of some are the time.
    (run.as_u128() as u64 & 0x3fff_ffff_ffff) << 16
}

/// Runs `spawn` while this process carries `brand`, so that the child inherits it.
fn branded<T>(brand: u64, spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = lock(&ONE_AT_A_TIME);
    let before = rustix::process::getrlimit(Resource::Rttime);
    if before.current.is_some() || before.maximum.is_some_and(|maximum| maximum < brand) {
        // Someone limits it already: the other marks have to do.
        return spawn();
    }
    let limit = Rlimit { current: Some(brand), maximum: before.maximum };
    let is_set = rustix::process::setrlimit(Resource::Rttime, limit).is_ok();
    let result = spawn();
    if is_set {
        // Lifting a soft limit to its hard one is always allowed.
        let _ = rustix::process::setrlimit(Resource::Rttime, before);
    }
    result
}

/// Returns the brand of `pid`, if it carries one.
pub(super) fn brand_of(pid: u32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    let soft: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    (soft & BRAND != 0).then_some(soft)
}

/// Returns whether `brand` is one of `run`'s.
pub(super) fn is_of_run(brand: u64, run: Uuid) -> bool {
    brand & !0xffff == BRAND | run_brand(run)
}
