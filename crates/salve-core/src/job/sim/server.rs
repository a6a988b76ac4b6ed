//! The servers of a simulated fleet: records at revisions, wake-ups that come again, dead letters.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use uuid::Uuid;

use crate::job::{QueuedJob, SentWrite, WriteAnswer};

/// How long a worker that was woken may say nothing before another one is.
const ACK_WAIT_MS: i64 = 4_000;

/// A process in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    pub(super) client: usize,
    pub(super) life: u64,
}

/// What a fleet keeps of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimRecord {
    pub(super) job: QueuedJob,
    /// What each step that is committed left.
    pub(super) steps: Vec<u64>,
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptRecord {
    pub(super) record: SimRecord,
    pub(super) write: SentWrite,
}

/// What a write is meant to be; only the judge looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteIntent {
    pub(super) job: usize,
    pub(super) by: Writer,
    pub(super) is_claim: bool,
    /// The claim under which it is made.
    pub(super) epoch: Option<u64>,
    /// The step that it commits, with what that left.
    pub(super) step: Option<(usize, u64)>,
}

/// A wake-up for a job; the number tells it from earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimWakeUp {
    pub(super) job: usize,
    pub(super) number: u64,
}

/// Whoever waits to be woken.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimWaiter {
    pub(super) by: Writer,
    pub(super) ticket: u64,
    pub(super) until: i64,
}

/// The servers.
#[derive(Debug, Default)]
pub(super) struct SimServer {
    records: Vec<Option<KeptRecord>>,
    /// What was there before, for servers that forget.
    former: Vec<Option<KeptRecord>>,
    revision: u64,
    /// The wake-up of each job, and which time that it is due counts.
    wake_ups: Vec<Option<(u64, u64)>>,
    wakes: u64,
    /// When wake-ups are due: the time, the order, the job, its number.
    due: BinaryHeap<Reverse<(i64, u64, usize, u64)>>,
    order: u64,
    waiters: VecDeque<SimWaiter>,
    letters: HashSet<usize>,
}

impl SimServer {
    pub(super) fn new(jobs: usize) -> Self {
        let records = vec![None; jobs];
        let former = records.clone();
        Self { records, former, wake_ups: vec![None; jobs], ..Self::default() }
    }

    pub(super) fn record(&self, job: usize) -> Option<&KeptRecord> {
        self.records[job].as_ref()
    }

    /// Tells whether a write at this revision is accepted.
    pub(super) fn accepts(&self, job: usize, revision: u64) -> bool {
        self.record(job).map_or(0, |kept| kept.write.revision) == revision
    }

    /// Replaces a record.
    pub(super) fn write(&mut self, job: usize, record: SimRecord, mark: Uuid) -> WriteAnswer {
        self.revision += 1;
        let write = SentWrite { mark, revision: self.revision };
        let before = self.records[job].replace(KeptRecord { record, write });
        self.former[job] = before;
        WriteAnswer::Kept
    }

    /// Sets a record back, as servers do that had it in memory only.
    pub(super) fn forget(&mut self, job: usize) {
        if self.former[job].is_some() {
            self.records[job] = self.former[job].take();
        }
    }

    /// Wakes somebody for a job; an earlier wake-up is replaced.
    pub(super) fn wake(&mut self, job: usize, now: i64) {
        self.wakes += 1;
        self.wake_ups[job] = Some((self.wakes, 0));
        self.put_off(SimWakeUp { job, number: self.wakes }, now);
    }

    pub(super) fn bury(&mut self, job: usize) {
        self.letters.insert(job);
    }

    pub(super) fn has_letter(&self, job: usize) -> bool {
        self.letters.contains(&job)
    }

    pub(super) fn has_wake_up(&self, job: usize) -> bool {
        self.wake_ups[job].is_some()
    }

    /// Has a wake-up come again at a time.
    pub(super) fn put_off(&mut self, wake_up: SimWakeUp, at: i64) {
        let Some((number, order)) = &mut self.wake_ups[wake_up.job] else { return };
        if *number == wake_up.number {
            self.order += 1;
            *order = self.order;
            self.due.push(Reverse((at, self.order, wake_up.job, wake_up.number)));
        }
    }

    pub(super) fn settle(&mut self, wake_up: SimWakeUp) {
        if self.wake_ups[wake_up.job].is_some_and(|(number, _)| number == wake_up.number) {
            self.wake_ups[wake_up.job] = None;
        }
    }

    pub(super) fn wait(&mut self, waiter: SimWaiter) {
        self.waiters.push_back(waiter);
    }

    /// Returns when something is due.
    pub(super) fn next_due(&self) -> Option<i64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Gives a wake-up that is due to somebody who waits.
    pub(super) fn deliver(&mut self, now: i64) -> Option<(SimWaiter, SimWakeUp)> {
        while self.waiters.front().is_some_and(|waiter| waiter.until < now) {
            self.waiters.pop_front();
        }
        while let Some(&Reverse((at, order, job, number))) = self.due.peek() {
            if at > now {
                return None;
            }
            if self.wake_ups[job] != Some((number, order)) {
                self.due.pop();
                continue;
            }
            let waiter = self.waiters.pop_front()?;
            self.due.pop();
            let wake_up = SimWakeUp { job, number };
            self.put_off(wake_up, now + ACK_WAIT_MS);
            return Some((waiter, wake_up));
        }
        None
    }

    /// Loses those who wait, and brings back what was given to somebody.
    pub(super) fn lose_leader(&mut self, now: i64) {
        self.waiters.clear();
        let all: Vec<SimWakeUp> = (self.wake_ups.iter().enumerate())
            .filter_map(|(job, kept)| kept.map(|(number, _)| SimWakeUp { job, number }))
            .collect();
        for wake_up in all.into_iter().step_by(3) {
            self.put_off(wake_up, now);
        }
    }
}
