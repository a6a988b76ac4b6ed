//! Whether a process and what comes from it still do something.
//!
//! Silence alone is no sign: a model may think for minutes. Computing, reading and writing, and
//! starting or ending processes are work, whether or not anything is printed. Files that it writes
//! count as writing.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::time::{Duration, Instant};

/// Ticks of the processor's clock in a second, the same on every Linux.
const TICKS: u64 = 100;
/// A process that computes less than one part in this many only waits.
const BUSY_PART: u64 = 50;
/// Bytes between two looks that are no work: timers and wake-ups read and write a few.
const HUM: u64 = 512;

/// What has been used up and who is there at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pulse {
    ticks: u64,
    bytes: u64,
    pids: BTreeSet<u32>,
}

/// Watches one family for signs of life.
#[derive(Debug)]
pub(crate) struct Vitals {
    pid: u32,
    last: Pulse,
    looked: Instant,
    alive: Instant,
}

impl Vitals {
    pub(crate) fn new(pid: u32, now: Instant) -> Self {
        Self { pid, last: pulse(pid), looked: now, alive: now }
    }

    /// Notes that it printed something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.alive = now;
    }

    /// Looks at it, and returns how long there has been no sign of life.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        let pulse = pulse(self.pid);
        let passed = now.saturating_duration_since(self.looked).as_millis();
        let busy = u64::try_from(passed).unwrap_or(u64::MAX) * TICKS / 1000 / BUSY_PART;
        let computed = pulse.ticks.saturating_sub(self.last.ticks);
        let moved = pulse.bytes.saturating_sub(self.last.bytes);
        if computed > busy || moved > HUM || pulse.pids != self.last.pids {
            self.alive = now;
        }
        (self.last, self.looked) = (pulse, now);
        now.saturating_duration_since(self.alive)
    }
}

/// One process as `/proc` tells it.
struct ProcessSight {
    parent: u32,
    group: u32,
    ticks: u64,
}

fn seen(pid: u32) -> Option<ProcessSight> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, so the fields count from the parenthesis after it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ProcessSight {
        parent: u32::try_from(number(1)?).ok()?,
        group: u32::try_from(number(2)?).ok()?,
        // Its own time and that of children it has waited for, as user and in the system.
        ticks: (11..15).filter_map(number).sum(),
    })
}

fn bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let counted =
        text.lines().filter(|line| line.starts_with("rchar") || line.starts_with("wchar"));
    counted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Adds up over the process, its descendants and its group.
fn pulse(pid: u32) -> Pulse {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: HashMap<u32, ProcessSight> = pids.filter_map(|pid| Some((pid, seen(pid)?))).collect();
    let belongs = |start: u32| {
        let mut at = start;
        // A chain longer than there are processes is a circle of reused numbers.
        for _ in 0..all.len() {
            match all.get(&at) {
                _ if at == pid => return true,
                Some(seen) if seen.group == pid => return true,
                Some(seen) => at = seen.parent,
                None => return false,
            }
        }
        false
    };
    let mut pulse = Pulse::default();
    for (&pid, seen) in all.iter().filter(|(pid, _)| belongs(**pid)) {
        pulse.ticks += seen.ticks;
        pulse.bytes += bytes(pid);
        pulse.pids.insert(pid);
    }
    pulse
}
