//! Looks, cheaply, for what a failure named as missing.
//!
//! **Invariant:** only what was missing when the server failed is waited for, so what is there all
//! along never starts a server again and again.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use salve_core::server::{AwaitedThing, awaited_things};

use super::LifeNews;
use crate::heal::spawn_thread;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a service may take to accept.
const ACCEPT: Duration = Duration::from_millis(200);

/// How long a service that has begun to accept is left alone: it may not be ready yet.
const SETTLE: Duration = Duration::from_millis(500);

/// What a server that is down waits for; dropping it ends the looking.
#[derive(Debug)]
pub(super) struct AwaitingWatch {
    is_over: Arc<AtomicBool>,
    /// What was missing when it failed.
    missing: Vec<AwaitedThing>,
}

impl Drop for AwaitingWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl AwaitingWatch {
    /// Begins to look for what a failure's output names as missing, if it names something that is.
    ///
    /// Only what is on this machine is asked at once; the rest is taken for missing.
    pub(super) fn begin(
        output: &str,
        dir: &Path,
        news: impl Fn(LifeNews) + Send + 'static,
    ) -> Option<Self> {
        let is_missing = |thing: &AwaitedThing| match thing {
            AwaitedThing::Service { .. } => !thing.is_local_service() || !is_there(thing, dir),
            AwaitedThing::Path(_) | AwaitedThing::Program(_) => !is_there(thing, dir),
        };
        let missing: Vec<_> = awaited_things(output).into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return None;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (things, dir, over) = (missing.clone(), dir.to_path_buf(), is_over.clone());
        spawn_thread("awaiting", move || {
            if let Some(what) = look(&things, &dir, &over) {
                news(LifeNews::Arrived { what });
            }
        });
        Some(Self { is_over, missing })
    }

    /// Tells whether a service on this machine is missing, so that starting the server again
    /// cannot help until it is there.
    pub(super) fn needs_service(&self) -> bool {
        self.missing.iter().any(AwaitedThing::is_local_service)
    }

    /// Returns what is waited for, in words.
    pub(super) fn words(&self) -> String {
        let words: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        words.join(", ")
    }
}

/// Waits until something that was missing is there, and returns what it is.
fn look(things: &[AwaitedThing], dir: &Path, is_over: &AtomicBool) -> Option<String> {
    let mut absent: Vec<&AwaitedThing> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        for thing in things {
            match (is_there(thing, dir), absent.contains(&thing)) {
                (true, true) => {
                    std::thread::sleep(SETTLE);
                    return Some(match thing {
                        AwaitedThing::Service { .. } => format!("{thing} answers"),
                        AwaitedThing::Path(_) | AwaitedThing::Program(_) => {
                            format!("{thing} is there")
                        }
                    });
                }
                (false, false) => absent.push(thing),
                (true, false) | (false, true) => {}
            }
        }
        std::thread::sleep(PAUSE);
    }
    None
}

fn is_there(thing: &AwaitedThing, dir: &Path) -> bool {
    match thing {
        AwaitedThing::Service { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs();
            addresses.is_ok_and(|mut all| {
                all.any(|address| TcpStream::connect_timeout(&address, ACCEPT).is_ok())
            })
        }
        AwaitedThing::Path(path) => dir.join(path).exists(),
        AwaitedThing::Program(program) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let local = ["node_modules/.bin", ".venv/bin", "venv/bin"].map(|bin| dir.join(bin));
            let dirs = std::env::split_paths(&path).chain(local);
            dirs.into_iter().any(|bin| bin.join(program).is_file())
        }
    }
}
