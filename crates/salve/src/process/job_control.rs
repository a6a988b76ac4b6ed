//! Ctrl-Z and `fg`: what Salve runs stops and goes on with it, as one job of the shell.
//!
//! What Salve starts leads a session of its own, so the terminal does not stop it; nor could it, since
//! the kernel lets nobody stop a group that no shell could continue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::SIGSTOP;

use super::supervisor::shared;
use super::{family, lock, tree};

/// How long the keeper, which the shell sees, may take to stop with us.
const TOGETHER: Duration = Duration::from_millis(500);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// How many milliseconds this process has been stopped by the shell so far.
static STOOD: AtomicU64 = AtomicU64::new(0);

/// Stops all that this process takes care of, and this process, until the shell continues them.
///
/// It is called when the terminal stops the job. Where the shell cannot stop the keeper, nobody
/// could continue us either: then nothing stops.
pub(crate) fn stand_still() {
    if !is_keeper_stopped() {
        return;
    }
    signal_all(Signal::STOP);
    let since = Instant::now();
    // On this very thread, so that it goes on only when everything does.
    let _ = signal_hook::low_level::raise(SIGSTOP);
    STOOD.fetch_add(super::millis(since.elapsed()), Ordering::Relaxed);
    signal_all(Signal::CONT);
}

/// Returns how long this process has been stopped by the shell so far: no work was done meanwhile.
pub(crate) fn stood_still() -> Duration {
    Duration::from_millis(STOOD.load(Ordering::Relaxed))
}

/// Waits a moment for the keeper to stop, and returns whether it has.
fn is_keeper_stopped() -> bool {
    let Some(keeper) = tree::own().map(|me| me.parent) else { return false };
    let deadline = Instant::now() + TOGETHER;
    while Instant::now() < deadline {
        if tree::is_stopped(keeper) {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

fn signal_all(signal: Signal) {
    let Some(shared) = shared() else { return };
    let lives: Vec<_> = lock(&shared.table).alive.values().map(|one| one.life.clone()).collect();
    for life in lives {
        family::signal_members(&shared, &life, signal);
    }
}
