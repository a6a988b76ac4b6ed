//! What a run of Salve left behind when it was killed with everything that watched it.
//!
//! A stray is recognised by its pid and start time as they stand in the journal, by the run's
//! brand, or by the run's mark in its environment; and with it goes all that descends from it.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use salve_core::event::Process;
use uuid::Uuid;

use super::launch;
use super::tree::{self, Stat};
use super::{family, tree::RUN_MARK};

/// How long the system may take to carry out a kill.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Ends what lives of runs that are over: asks, waits for `grace`, then kills.
///
/// Returns how many were ended.
pub fn end(runs: &[Uuid], processes: &[Process], grace: Duration) -> usize {
    let asked = look(runs, processes);
    send(&asked, Signal::TERM);
    send(&asked, Signal::CONT);
    let deadline = Instant::now() + grace;
    let is_over = asked.iter().all(|stat| family::wait_for(stat, deadline));
    let mut ended = asked;
    let deadline = Instant::now() + KILL_LIMIT;
    loop {
        let left = look(runs, processes);
        // Children of a stray that ended are nobody's any more but for what they carry; those
        // that were seen before are known by their start.
        let seen = ended.iter().filter(|stat| !is_over && tree::is_still(stat));
        let left: Vec<Stat> = left.iter().chain(seen).copied().collect();
        if left.is_empty() || Instant::now() >= deadline {
            return ended.len();
        }
        send(&left, Signal::STOP);
        let mut all = look(runs, processes);
        all.extend(left);
        send(&all, Signal::KILL);
        for stat in &all {
            family::wait_for(stat, deadline);
            if !ended.iter().any(|old| old.pid == stat.pid && old.started == stat.started) {
                ended.push(*stat);
            }
        }
    }
}

/// Returns what lives of runs that are over; never this process nor what it descends from.
fn look(runs: &[Uuid], processes: &[Process]) -> Vec<Stat> {
    let all = tree::all();
    let untouchable = lineage(&all);
    let host = tree::host();
    let is_known = |stat: &Stat| {
        let is_it = |p: &Process| p.pid == stat.pid && p.started == stat.started && p.host == host;
        processes.iter().any(is_it)
    };
    let carries = |stat: &Stat| {
        let brand = launch::brand_of(stat.pid);
        if brand.is_some_and(|brand| runs.iter().any(|&run| launch::is_of_run(brand, run))) {
            return true;
        }
        let mark = tree::variable(stat.pid, RUN_MARK);
        mark.is_some_and(|mark| runs.iter().any(|run| mark == run.to_string().as_bytes()))
    };
    let mut strays: Vec<Stat> = Vec::new();
    for root in all.iter().filter(|stat| is_known(stat) || carries(stat)) {
        for stat in std::iter::once(*root).chain(tree::below(root.pid, &all)) {
            let is_new = !strays.iter().any(|old| old.pid == stat.pid);
            if is_new && !stat.is_dead && !untouchable.contains(&stat.pid) {
                strays.push(stat);
            }
        }
    }
    strays
}

/// Returns this process and all it descends from.
fn lineage(all: &[Stat]) -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(stat) = all.iter().find(|stat| line.last() == Some(&stat.pid)) {
        if stat.parent == 0 || line.contains(&stat.parent) {
            break;
        }
        line.push(stat.parent);
    }
    line
}

fn send(stats: &[Stat], signal: Signal) {
    for stat in stats {
        if let Some(pidfd) = family::open(stat) {
            // It may end in this very moment.
            let _ = rustix::process::pidfd_send_signal(&pidfd, signal);
        }
    }
}
