//! The one sandbox for every command that Salve runs as a remedy.
//!
//! Whoever wants a command run says what, where and for how long ([`Job`]); what it may reach is the
//! settings' business ([`Sandbox`]).

#[cfg(test)]
pub(crate) mod tests;
mod writes;

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use salve_core::event::Exit;

use crate::config::{Network, SandboxSettings};
use crate::gate::WorkingDir;
use crate::process::{Capture, Care, Look, Outlet, SpawnError, Spec, Terminal, run_command};
pub(crate) use writes::Writes;

/// The shell that commands are given to.
const SHELL: &str = "/bin/sh";

/// The name of the processes that carry out a remedy.
pub(crate) const REMEDY: &str = "remedy";

/// How commands are kept within bounds, as the settings say.
#[derive(Clone, Debug)]
pub struct Sandbox {
    settings: Arc<SandboxSettings>,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The project's root, absolute: what lies below it may be written to.
    pub root: &'a Path,
    /// Where it runs, held open since it was judged.
    pub dir: &'a WorkingDir,
    /// What its environment should have beside our own.
    pub env: Vec<(OsString, OsString)>,
    /// The name of its processes.
    pub name: String,
    /// How long it may take.
    pub limit: Duration,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// By which code or signal, or that it outlived its limit.
    pub exit: Exit,
    /// How long it ran.
    pub took: Duration,
    /// The last lines it wrote, not scrubbed.
    pub output: String,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The thread for it could not be had.
    #[error("no thread for the command")]
    Thread,
}

impl Sandbox {
    /// Returns the sandbox that the settings describe.
    pub fn new(settings: &SandboxSettings) -> Self {
        Self { settings: Arc::new(settings.clone()) }
    }

    /// Returns what a command reaches by network.
    pub fn network(&self, command: &str) -> Network {
        self.settings.network(command)
    }

    /// Runs a command until it ends, at most for its limit, and ends whatever it leaves behind.
    ///
    /// # Errors
    ///
    /// When it could not even be started.
    pub fn run(&self, care: &Care, job: &Job<'_>) -> Result<Ran, SandboxError> {
        // The handle, not the path: whatever stands there by now, this is what was judged.
        let dir = PathBuf::from(format!("/proc/self/fd/{}", job.dir.handle().as_raw_fd()));
        let spec = Spec {
            argv: job.argv.clone(),
            dir,
            env: job.env.clone(),
            server: job.name.clone(),
            terminal: Terminal::Pipes,
            output: Arc::new(Capture::new(Arc::new(Outlet::none()), Look::Plain)),
        };
        let end = std::thread::scope(|scope| {
            let work = || {
                writes::confine(job.root);
                run_command(care, &spec, job.limit)
            };
            scope.spawn(work).join().map_err(|_| SandboxError::Thread)
        })??;
        Ok(Ran { exit: end.exit, took: end.took, output: end.output })
    }
}

/// Returns the words that give a command to the shell.
pub fn shell(command: &str) -> Vec<OsString> {
    [SHELL, "-c", command].map(|word| OsStr::new(word).to_owned()).to_vec()
}
