//! Whether a process and what comes from it still do something.
//!
//! Silence alone is no sign: a model may think for minutes. Computing, reading and writing, and
//! starting or ending processes are work, whether or not anything is printed. Files that it writes
//! count as writing, and so does every byte that comes over the network: a model that is being asked sends
//! signs of life. What only wakes up reads and writes a few bytes at a time; they are left out.
//!
//! Who said that it sleeps until its service takes it again is idle whatever it shuffles, until more comes
//! over the network than a refusal.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::time::{Duration, Instant};

use super::received::bytes_received;

/// Ticks of the processor's clock in a second, the same on every Linux.
const TICKS: u64 = 100;
/// A process that computes less than one part in this many only waits.
const BUSY_PART: u64 = 50;
/// Bytes between two looks that are no work: timers and wake-ups read and write a few.
const HUM: u64 = 512;
/// The most bytes that one call of a timer or a wake-up reads or writes.
const WAKE: u64 = 32;
/// More bytes than a service needs to refuse a request once more.
const REFUSAL: u64 = 4096;

/// What has been used up and who is there at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pulse {
    ticks: u64,
    /// What was read and written, without that which only wakes.
    moved: Moved,
    /// What came over the network.
    received: u64,
    pids: BTreeSet<u32>,
}

/// Bytes that were read and written, and in how many calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    read: u64,
    reads: u64,
    written: u64,
    writes: u64,
}

impl Moved {
    fn of(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(known, _)| *known == name).and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
        };
        let [read, reads] = ["rchar", "syscr"].map(field);
        let [written, writes] = ["wchar", "syscw"].map(field);
        Self { read, reads, written, writes }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            reads: self.reads + other.reads,
            written: self.written + other.written,
            writes: self.writes + other.writes,
        }
    }

    /// Returns the bytes that were moved since, beside those of wake-ups.
    fn since(self, last: Self) -> u64 {
        let beyond = |bytes: u64, known: u64, calls: u64, made: u64| {
            let wakes = calls.saturating_sub(made).saturating_mul(WAKE);
            bytes.saturating_sub(known).saturating_sub(wakes)
        };
        beyond(self.read, last.read, self.reads, last.reads)
            + beyond(self.written, last.written, self.writes, last.writes)
    }
}

/// Watches one family for signs of life.
#[derive(Debug)]
pub(crate) struct Vitals {
    pid: u32,
    last: Pulse,
    looked: Instant,
    alive: Instant,
    /// What has come over the network since it went to sleep, if it sleeps.
    asleep: Option<u64>,
}

impl Vitals {
    pub(crate) fn new(pid: u32, now: Instant) -> Self {
        Self { pid, last: pulse(pid), looked: now, alive: now, asleep: None }
    }

    /// Notes that it said that it sleeps until it is taken again.
    pub(crate) fn fell_asleep(&mut self, now: Instant) {
        self.alive = now;
        self.asleep = Some(0);
    }

    /// Notes that it printed something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.alive = now;
        self.asleep = None;
    }

    /// Looks at it, and returns how long there has been no sign of life.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        let pulse = pulse(self.pid);
        let passed = now.saturating_duration_since(self.looked).as_millis();
        let busy = u64::try_from(passed).unwrap_or(u64::MAX) * TICKS / 1000 / BUSY_PART;
        let computed = pulse.ticks.saturating_sub(self.last.ticks);
        let received = pulse.received.saturating_sub(self.last.received);
        self.asleep = self.asleep.map(|since| since.saturating_add(received));
        let is_asleep = self.asleep.is_some_and(|since| since <= REFUSAL);
        let does_something = computed > busy
            || pulse.moved.since(self.last.moved) > HUM
            || received > 0
            || pulse.pids != self.last.pids;
        if !is_asleep && does_something {
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
        pulse.moved = pulse.moved.plus(Moved::of(pid));
        pulse.pids.insert(pid);
    }
    pulse.received = bytes_received(pulse.pids.iter().copied());
    pulse
}
