//! Notices that a command which should end has done its work and waits for edits instead.
//!
//! Words alone prove nothing: a check may print what its tools say and go on. So the kernel is asked
//! too. Each process at an end of the run's tree holds watches on files, or serves a parent that does
//! (a bundler, a test worker), none of them talks to anybody over the network, and nothing computes,
//! reads or writes any more. A `sleep`, or a request that takes long, keeps the run alive.

use std::time::{Duration, Instant};

use salve_core::check::{self, watching};

use super::run::CommandRun;
use crate::agent::vitals::Vitals;
use crate::probe::is_connected;
use crate::process::{Capture, Running, Supervisor, tree};

/// How often a run is looked at.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// How long a command is still that watches and says that it waits for edits.
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
        let has_results = || check::read(&told).counts.ran() > Some(0);
        let is_likely = watching::waits_for_edits(&told)
            || still >= LONG_STILL && (self.is_named || has_results());
        is_likely && is_all_watching(care, running)
    }
}

/// Returns whether nothing of a run may end by itself: it waits for changed files, and for nobody.
fn is_all_watching(care: &Supervisor, running: &Running) -> bool {
    let families = care.families(std::slice::from_ref(running));
    let living = |pid: &u32| tree::stat(*pid).filter(|stat| !stat.is_dead);
    let stats: Vec<_> = families.iter().flatten().filter_map(living).collect();
    let is_leaf = |pid: u32| stats.iter().all(|stat| stat.parent != pid);
    let mut leaves = stats.iter().filter(|stat| is_leaf(stat.pid));
    // Salve itself, their first parent, watches files too.
    let is_ours = |pid: u32| stats.iter().any(|stat| stat.pid == pid);
    let is_watching = |stat: &tree::Stat| {
        holds_watches(stat.pid) || is_ours(stat.parent) && holds_watches(stat.parent)
    };
    !stats.is_empty() && leaves.all(is_watching) && !families.iter().any(|all| is_connected(all))
}

/// Returns whether a process has asked the kernel to tell it of changed files.
fn holds_watches(pid: u32) -> bool {
    let handles = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = handles.filter_map(|handle| std::fs::read_link(handle.path()).ok());
    targets.any(|target| target.as_os_str() == "anon_inode:inotify")
}
