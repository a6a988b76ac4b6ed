//! Notices that a command which should end has done its work and waits for edits instead.
//!
//! What it prints when it waits is the plainest sign. Where it prints nothing, the kernel tells:
//! it holds watches on files, and nothing of it computes, reads or writes any more. A suite that
//! merely waits for something is not ended: it has told no results yet.

use std::time::{Duration, Instant};

use salve_core::check::{self, watching};

use super::run::CommandRun;
use crate::agent::vitals::Vitals;
use crate::process::{Capture, Running, Supervisor};

/// How often a run is looked at.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// How long a command is still that says that it waits for edits.
const STILL: Duration = Duration::from_millis(1_500);
/// How long a command is still that only its file watches give away.
const LONG_STILL: Duration = Duration::from_secs(4);

/// What is looked at to tell whether a run watches.
pub(super) struct WatchSense {
    vitals: Vitals,
    is_named: bool,
}

impl WatchSense {
    /// Begins with a run that was just started.
    pub(super) fn new(errand: &CommandRun, running: &Running) -> Self {
        let words: Vec<_> = errand.argv.iter().map(|word| word.to_string_lossy()).collect();
        let is_named = watching::is_watching(&words.join(" "));
        Self { vitals: Vitals::new(running.process().pid, Instant::now()), is_named }
    }

    /// Returns whether the run has done its work and waits for edits.
    pub(super) fn watches(
        &mut self,
        care: &Supervisor,
        running: &Running,
        output: &Capture,
    ) -> bool {
        let still = self.vitals.look(Instant::now());
        if still < STILL {
            return false;
        }
        let told = output.tail();
        if watching::waits_for_edits(&told) {
            return true;
        }
        let has_results = || check::read(&told).counts.ran() > Some(0);
        still >= LONG_STILL && (self.is_named || has_results()) && holds_watches(care, running)
    }
}

/// Returns whether anything of a run has asked the kernel to tell it of changed files.
fn holds_watches(care: &Supervisor, running: &Running) -> bool {
    let families = care.families(std::slice::from_ref(running));
    families.iter().flatten().any(|pid| {
        let handles = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = handles.filter_map(|handle| std::fs::read_link(handle.path()).ok());
        targets.any(|target| target.as_os_str() == "anon_inode:inotify")
    })
}
