//! How an agent in a private layer reaches Salve's tools.
//!
//! The journal is out of its reach, so the server of the tools must not run in the layer. What the
//! agent starts there only passes messages on to a socket that is let in; for each that connects, this
//! process starts the server outside, marked as the agent's like everything that it starts itself.

use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::{AgentTask, Mcp};
use crate::process::{
    AGENT_MARK, Capture, Outlet, OutputStyle, ProcessInput, Running, Spec, Supervisor, Terminal,
    spawn_thread,
};

/// The name that the servers' processes carry where servers under care carry theirs; not the agent's,
/// whose end leaves them a moment to say that it is gone.
const NAME: &str = "agent-tools";

/// How long a server may take to end by itself once its agent has ended.
const PARTING: Duration = Duration::from_secs(2);

/// The longest path that a socket may have.
const LONGEST_PATH: usize = 100;

/// A socket that is let into a layer, for as long as this value lives.
pub(super) struct ToolDoor {
    state: Arc<DoorState>,
    dir: TempDir,
}

/// What both the door and the thread behind it know.
struct DoorState {
    care: Supervisor,
    /// How a server is started.
    spec: Spec,
    servers: Mutex<Vec<Running>>,
    is_shut: AtomicBool,
}

impl ToolDoor {
    /// Opens a door for the agent of a task.
    pub(super) fn open(care: &Supervisor, task: &AgentTask) -> io::Result<Self> {
        let usual = std::env::temp_dir();
        let is_long = usual.as_os_str().len() > LONGEST_PATH / 2;
        let base = if is_long { Path::new("/tmp") } else { &usual };
        let dir = tempfile::Builder::new().prefix("salve-tools-").tempdir_in(base)?;
        let listener = UnixListener::bind(socket_in(dir.path()))?;
        let mut env: Vec<(OsString, OsString)> =
            task.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.push((AGENT_MARK.into(), (&task.agent).into()));
        let words = task.mcp.args.iter().map(OsString::from);
        let spec = Spec {
            argv: [task.mcp.command.clone().into_os_string()].into_iter().chain(words).collect(),
            dir: task.dir.clone(),
            env,
            server: NAME.to_owned(),
            terminal: Terminal::Pipes,
            output: Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain)),
        };
        let (servers, is_shut) = (Mutex::default(), AtomicBool::new(false));
        let state = Arc::new(DoorState { care: care.clone(), spec, servers, is_shut });
        let of_thread = Arc::clone(&state);
        spawn_thread("agent tools", move || of_thread.receive(&listener));
        Ok(Self { state, dir })
    }

    /// Returns the directory of the socket, which has to be let into the layer.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns how the agent in the layer starts what passes its messages on.
    pub(super) fn relay(&self, mcp: &Mcp) -> Mcp {
        let socket = socket_in(self.dir()).to_string_lossy().into_owned();
        Mcp { command: mcp.command.clone(), args: vec!["mcp".into(), "--through".into(), socket] }
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("door")
}

impl DoorState {
    /// Lets in whoever connects, until the door is shut.
    fn receive(&self, listener: &UnixListener) {
        for stream in listener.incoming() {
            if self.is_shut.load(Ordering::SeqCst) {
                return;
            }
            // An agent that gets no server has no tools, and is told so by its own client.
            let Ok(stream) = stream else { continue };
            let _ = self.serve(stream);
        }
    }

    fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let (stdin, stdout) = (OwnedFd::from(stream.try_clone()?), OwnedFd::from(stream));
        let mut servers = lock(&self.servers);
        if self.is_shut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let input = ProcessInput::Wired { stdin, stdout };
        let running = self.care.spawn_with(&self.spec, input, Box::new(|_| {}));
        servers.push(running.map_err(io::Error::other)?);
        Ok(())
    }
}

impl Drop for ToolDoor {
    fn drop(&mut self) {
        self.state.is_shut.store(true, Ordering::SeqCst);
        // Whoever waits for the next one is woken by it.
        if let Ok(stream) = UnixStream::connect(socket_in(self.dir())) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for running in std::mem::take(&mut *lock(&self.state.servers)) {
            // Its input is at its end, so it ends by itself.
            running.wait(PARTING);
            self.state.care.end(&running, Duration::ZERO);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
