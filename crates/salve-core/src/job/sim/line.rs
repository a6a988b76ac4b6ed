//! The order in which everything in a simulated fleet happens, and the network through which it goes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::incident::sim::rng::Rng;

/// What is still to happen, by time.
#[derive(Debug)]
pub(super) struct EventLine<E> {
    pub(super) rng: Rng,
    pub(super) now: i64,
    chaos_ms: i64,
    /// The times of the events to come, with their numbers.
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    events: HashMap<u64, E>,
    order: u64,
    /// Messages that were lost, and those that come twice.
    pub(super) lost: u64,
    pub(super) doubled: u64,
}

impl<E: Clone> EventLine<E> {
    pub(super) fn new(rng: Rng, chaos_ms: i64) -> Self {
        let (queue, events) = (BinaryHeap::new(), HashMap::new());
        Self { rng, now: 0, chaos_ms, queue, events, order: 0, lost: 0, doubled: 0 }
    }

    /// Tells whether things still go wrong.
    pub(super) fn is_chaos(&self) -> bool {
        self.now < self.chaos_ms
    }

    pub(super) fn below(&mut self, limit: i64) -> i64 {
        i64::try_from(self.rng.below(limit.unsigned_abs())).unwrap_or(0)
    }

    /// Has something happen at a time.
    pub(super) fn plan_at(&mut self, at: i64, event: E) {
        self.order += 1;
        self.queue.push(Reverse((at.max(self.now), self.order)));
        self.events.insert(self.order, event);
    }

    /// Sends something through the network: it may be lost, come late, or come twice.
    pub(super) fn send(&mut self, event: E) {
        if !self.is_chaos() {
            let at = self.now + 1 + self.below(5);
            return self.plan_at(at, event);
        }
        if self.rng.chance(1) {
            self.lost += 1;
            return;
        }
        if self.rng.chance(1) {
            self.doubled += 1;
            let at = self.now + 1 + self.below(2_000);
            self.plan_at(at, event.clone());
        }
        let late = if self.rng.chance(1) { self.below(8_000) } else { 0 };
        let at = self.now + 1 + self.below(20) + late;
        self.plan_at(at, event);
    }

    /// Returns what happens next; it is its time then.
    pub(super) fn next(&mut self) -> Option<E> {
        let Reverse((at, number)) = self.queue.pop()?;
        self.now = at;
        self.events.remove(&number)
    }
}
