//! The agent's processes, in the care of whoever takes care of the servers.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::PipeFlags;
use salve_core::event::{Process, ProcessExit};

use super::{AgentGround, Unstarted};
use crate::process::{
    Capture, Outlet, OutputStyle, ProcessInput, Running, SpawnError, Spec, Supervisor, Terminal,
};
use crate::workspace::LayerLaunch;

/// The name that the agent's processes carry where servers carry theirs.
const NAME: &str = "agent";

/// Gives a program its stdin from the file that comes first, then becomes that program.
const FROM_FILE: &str = "exec \"$@\" < \"$0\"";

/// What to start.
pub(super) struct Launch {
    pub(super) argv: Vec<OsString>,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(String, String)>,
    /// The file it reads on stdin; without one, stdin is at its end at once.
    pub(super) input: Option<PathBuf>,
}

/// How long what an agent started may outlive it.
const MOMENT: Duration = Duration::from_millis(500);

/// A process that was started.
pub(super) struct Started {
    pub(super) family: Family,
    /// Its stdout.
    pub(super) output: File,
    /// Its stderr.
    pub(super) errors: File,
}

/// A process and all that comes from it.
pub(super) struct Family {
    care: Supervisor,
    running: Running,
}

/// Starts a process in a session of its own.
pub(super) fn start(
    care: &Supervisor,
    launch: Launch,
    ground: &AgentGround,
) -> Result<Started, Unstarted> {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
    let no_pipe = |source| SpawnError::System { program: NAME.to_owned(), source };
    let (output, to_output) = pipe().map_err(no_pipe)?;
    let (errors, to_errors) = pipe().map_err(no_pipe)?;
    let outlet = Arc::new(Outlet::new(Some(to_output), Some(to_errors)));
    let is_wrapped = launch.input.is_some() || ground.is_held();
    if is_wrapped {
        check_there(&launch)?;
    }
    let argv = match launch.input {
        None => launch.argv,
        Some(file) => {
            let mut argv: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), FROM_FILE.into()];
            argv.push(file.into());
            argv.extend(launch.argv);
            argv
        }
    };
    let env = launch.env.into_iter().map(|(name, value)| (name.into(), value.into()));
    let mut env: Vec<(OsString, OsString)> = env.collect();
    let LayerLaunch { argv, dir, env: own } = ground.launch(argv, launch.dir)?;
    env.extend(own);
    let spec = Spec {
        argv,
        dir,
        env,
        server: NAME.to_owned(),
        terminal: Terminal::Pipes,
        // The stream is read as it comes; nothing of it is needed afterwards.
        output: Arc::new(Capture::new(outlet, OutputStyle::Plain).with_lines(1)),
    };
    let running = care.spawn_with(&spec, ProcessInput::Ended, Box::new(|_| {}))?;
    let family = Family { care: care.clone(), running };
    Ok(Started { family, output: output.into(), errors: errors.into() })
}

/// Refuses a program that is not there, which the shell would tell too late.
fn check_there(launch: &Launch) -> Result<(), SpawnError> {
    let program = launch.argv.first().ok_or(SpawnError::Empty)?;
    let set = launch.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = set.map(|(_, path)| path.into()).or_else(|| std::env::var_os("PATH"));
    let is_there = if program.as_encoded_bytes().contains(&b'/') {
        launch.dir.join(program).exists()
    } else {
        std::env::split_paths(&path.unwrap_or_default()).any(|dir| dir.join(program).exists())
    };
    if is_there {
        return Ok(());
    }
    Err(SpawnError::NotFound { program: program.to_string_lossy().into_owned() })
}

impl Family {
    pub(super) fn process(&self) -> &Process {
        self.running.process()
    }

    /// Waits until the process itself has ended, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<ProcessExit> {
        self.running.wait(limit).map(|ended| ended.exit)
    }

    /// Returns how many processes it left behind that do not end by themselves.
    pub(super) fn orphans(&self) -> usize {
        self.care.orphans(&self.running, MOMENT).len()
    }

    /// Ends all of it: asks, waits for `grace`, then kills.
    pub(super) fn end(&self, grace: Duration) {
        self.care.end(&self.running, grace);
    }
}
