//! A proxy in front of any server of the Model Context Protocol.
//!
//! Messages pass byte for byte, both ways at once; only their envelopes are read. Two threads pump,
//! each from one wire straight to the other, because every thread in between would cost each call
//! a wake-up. A third supervises the server. Nothing on the way of a call that works opens a file.

pub mod bridge;
mod crash;
mod from_client;
mod from_server;
mod healing;
mod link;
pub mod several;
mod supervisor;
mod watching;
mod wire;
mod words;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use salve_core::scrub::Scrubber;
use salve_core::tool::rule::ToolPattern;
use salve_core::tool::session::{ToolHints, ToolTimeLimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::healing::CallHealing;
use self::link::{Happened, Link};
use self::supervisor::{ProxySupervisor, ProxySupervisorParts};
use crate::process::keeper::KeeperHandle;
use crate::process::{Capture, Outlet, OutputStyle, SpawnError, Supervisor, outlives_terminal};
use crate::subjects::tool::CallDesk;
use crate::tools::HealMeans;

/// How much stack a pump gets.
const STACK: usize = 256 << 10;
/// What a store and regular expressions need.
const LEARNING_STACK: usize = 2 << 20;
/// Programs that start what is named after them.
const LAUNCHERS: [&str; 14] = [
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "run",
    "docker", "sh", "env",
];

/// What is put behind a proxy.
pub struct ProxyPlan {
    /// The server's name in errors and logs.
    pub name: String,
    /// The command that starts it.
    pub argv: Vec<OsString>,
    /// Where it starts.
    pub dir: PathBuf,
    /// What is asked for once the server has been started, so that reading settings costs no time.
    pub on_need: Box<dyn Fn() -> OnNeed + Send>,
}

/// Gathers the means to heal and to learn.
pub type HealMeansSource = Box<dyn Fn() -> Option<HealMeans> + Send + Sync>;

/// What takes care of the calls behind a proxy.
pub struct CallCare {
    /// Where failed calls are healed.
    pub desk: Arc<CallDesk>,
    /// What gathers the means to learn from calls, with the settings in force.
    pub means: HealMeansSource,
}

/// What a proxy needs only when something takes long or fails.
#[derive(Clone, Debug)]
pub struct OnNeed {
    /// How long things may take.
    pub timing: ProxyTiming,
    /// What takes secrets out of what a server wrote.
    pub scrubber: Scrubber,
    /// Which tools may be called twice, by the settings.
    pub tools: Vec<(ToolPattern, ToolHints)>,
    /// How long calls of which tools may take.
    pub limits: Vec<ToolTimeLimit>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyTiming {
    /// A server that owes an answer for so long, says nothing, answers no ping and does nothing hangs.
    pub hang: Duration,
    /// The pause before the first restart in a row; each next one is twice as long.
    pub first_delay: Duration,
    /// The longest such pause.
    pub longest_delay: Duration,
    /// A server that lived so long starts over with the shortest pause.
    pub settled: Duration,
    /// How long a request may wait for a server that is being started.
    pub hold: Duration,
    /// How long a server may go on with its work when its client sends no more.
    pub finish: Duration,
}

impl ProxyTiming {
    /// Returns the timing of a proxy that has no settings at all: it waits and does not restart.
    pub fn longest() -> Self {
        let day = Duration::from_secs(86_400);
        Self {
            hang: day,
            first_delay: Duration::from_secs(1),
            longest_delay: day,
            settled: day,
            hold: Duration::from_secs(60),
            finish: Duration::from_secs(60),
        }
    }

    /// Returns the pause after so many failures in a row.
    fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay)
    }
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The server cannot be started at all.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The system is short of something.
    #[error("cannot set up the proxy")]
    System(#[from] io::Error),
}

/// Stands between our own standard input and output and a server until the client has gone.
pub fn run(plan: ProxyPlan, care: Supervisor, calls: CallCare) -> Result<ExitCode, ProxyError> {
    let (post, inbox) = mpsc::channel();
    let client = rustix::stdio::stdout().try_clone_to_owned()?;
    let input = rustix::stdio::stdin().try_clone_to_owned()?;
    let errors = rustix::stdio::stderr().try_clone_to_owned()?;
    let outlet = Outlet::new(None, Some(errors));
    let capture = Arc::new(Capture::new(Arc::new(outlet), OutputStyle::Plain));
    let link = Arc::new(Link::new(client, post));
    let healing = Arc::new(CallHealing::new(Arc::clone(&link), calls.desk));
    let parts = ProxySupervisorParts {
        plan,
        care,
        link: Arc::clone(&link),
        capture,
        inbox,
        healing: Arc::clone(&healing),
    };
    let mut supervisor = ProxySupervisor::new(parts);
    supervisor.start_first()?;
    let to = Arc::clone(&link);
    thread("salve-from-client", move || from_client::pump(&to, input))?;
    listen(&link)?;
    let watch = Arc::clone(link.watch());
    thread_of("salve-patterns", LEARNING_STACK, move || watch.load((calls.means)()))?;
    let code = supervisor.run();
    healing.finish();
    link.watch().end();
    Ok(code)
}

/// Hands on signals, and the keeper's end.
fn listen(link: &Arc<Link>) -> io::Result<()> {
    let hangup = (!outlives_terminal()).then_some(SIGHUP);
    let ending = [SIGINT, SIGTERM].into_iter().chain(hangup);
    let mut signals = signal_hook::iterator::Signals::new(ending)?;
    let to = Arc::clone(link);
    thread("salve-signals", move || {
        for signal in signals.forever() {
            to.tell(Happened::Stop(signal));
        }
    })?;
    let to = Arc::clone(link);
    let keeper = KeeperHandle::of_this_worker();
    thread("salve-keeper", move || {
        if keeper.is_ok_and(|keeper| keeper.wait().is_ok()) {
            to.tell(Happened::Stop(SIGTERM));
        }
    })
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread_of(name, STACK, run)
}

fn thread_of(name: &str, stack: usize, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run).map(drop)
}

/// Returns what a server is called after its command: `npx -y @acme/server-files` is `server-files`.
pub fn server_name(argv: &[OsString]) -> String {
    let words = argv.iter().map(|word| word.to_string_lossy());
    let is_name = |word: &str| !word.starts_with('-') && !LAUNCHERS.contains(&stem(word).as_str());
    let mut names = words.filter(|word| is_name(word));
    let name = names.next().map(|word| stem(&word)).unwrap_or_default();
    let named: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let named = named.trim_matches('-');
    if named.is_empty() { "server".to_owned() } else { named.to_owned() }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn stem(word: &str) -> String {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let name = name.split('@').next().unwrap_or_default();
    [".js", ".mjs", ".cjs", ".ts", ".py"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name)
        .to_owned()
}

impl fmt::Debug for CallCare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallCare").finish_non_exhaustive()
    }
}

impl fmt::Debug for ProxyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyPlan").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_after_its_command() {
        for (argv, want) in [
            (&["npx", "-y", "@acme/server-files@1.2.3", "/data"][..], "server-files"),
            (&["uvx", "mcp-server-git"], "mcp-server-git"),
            (&["python3", "tools/weather.py"], "weather"),
            (&["/opt/bin/my server"], "my-server"),
            (&["node"], "server"),
            (&["uv", "run", "server.py"], "server"),
        ] {
            let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
            assert_eq!(server_name(&argv), want, "{argv:?}");
        }
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let ms = Duration::from_millis;
        let timing = ProxyTiming {
            hang: ms(1),
            first_delay: ms(100),
            longest_delay: ms(30_000),
            settled: ms(1),
            hold: ms(1),
            finish: ms(1),
        };
        let delays: Vec<u128> = [1, 2, 3, 9, 10, 1000].map(|n| timing.delay(n).as_millis()).into();
        assert_eq!(delays, [100, 200, 400, 25_600, 30_000, 30_000]);
    }
}
