//! Where an agent's processes are started and ended.
//!
//! A seam: whoever supervises processes starts the agent too, so that nothing of it survives.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use salve_core::event::Exit;

/// What to start.
#[derive(Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The directory it starts in.
    pub dir: PathBuf,
    /// Variables added to our own environment.
    pub env: Vec<(String, String)>,
    /// What it reads on stdin, which is closed then.
    pub input: String,
}

/// Starts processes.
pub trait Host {
    /// Starts one, apart from our own session or group.
    fn start(&self, launch: Launch) -> io::Result<Started>;
}

/// A process that was started.
pub struct Started {
    /// The process and all that comes from it.
    pub family: Arc<dyn Family>,
    /// Its stdout.
    pub output: Box<dyn Read + Send>,
    /// Its stderr.
    pub errors: Box<dyn Read + Send>,
}

/// A process and all that comes from it.
pub trait Family: Send + Sync {
    /// Returns the process's id.
    fn pid(&self) -> u32;
    /// Waits until the process itself has ended, at most for `limit`.
    fn wait(&self, limit: Duration) -> Option<Exit>;
    /// Asks all of it to end, waits for `grace`, then kills; returns when that is done.
    fn end(&self, grace: Duration);
}

/// Starts each process as the leader of a group, and ends the group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Groups;

impl Host for Groups {
    fn start(&self, launch: Launch) -> io::Result<Started> {
        let (program, args) = launch.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args).current_dir(&launch.dir).envs(launch.env).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group =
            Arc::new(Group { pid: child.id(), exit: Mutex::default(), told: Condvar::new() });
        let waiter = Arc::clone(&group);
        std::thread::Builder::new().name("agent-wait".into()).spawn(move || waiter.watch(child))?;
        let input = launch.input;
        let feed = move || {
            // A program that does not read its task has other ways to fail.
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        };
        std::thread::Builder::new().name("agent-task".into()).spawn(feed)?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        Ok(Started {
            family: group,
            output: Box::new(output.ok_or_else(missing)?),
            errors: Box::new(errors.ok_or_else(missing)?),
        })
    }
}

/// A process and its group.
struct Group {
    pid: u32,
    exit: Mutex<Option<Exit>>,
    told: Condvar,
}

impl Group {
    fn watch(&self, mut child: Child) {
        let exit = match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            },
            // Somebody else has reaped it; all that is known is that it is gone.
            Err(_) => Exit::Code(-1),
        };
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
        self.told.notify_all();
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // A group that is gone needs no signal.
        let _ = pid.map(|pid| rustix::process::kill_process_group(pid, signal));
    }
}

impl Family for Group {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn wait(&self, limit: Duration) -> Option<Exit> {
        let exit = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(exit, limit, |exit| exit.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn end(&self, grace: Duration) {
        self.signal(Signal::TERM);
        self.wait(grace);
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(5));
    }
}
