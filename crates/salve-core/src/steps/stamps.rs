//! When a list of steps was last heard of, and by whom it is driven.

use jiff::Timestamp;

use super::{EntryTaken, NotTaken};
use crate::event::{Entry, Process};

/// The times and entries that a list of steps is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStamps {
    /// The process that drives it, or did.
    pub(super) driver: Option<Process>,
    /// The last entry before this run of the list.
    pub(super) run_since: u64,
    /// When the last pass began.
    pub(super) began: Timestamp,
    pub(super) since: Timestamp,
    /// The latest time that it has seen.
    pub(super) clock: Timestamp,
    pub(super) last_seq: u64,
}

impl StepStamps {
    /// Makes them of the entry that starts the list.
    pub(super) fn start(entry: &Entry) -> Self {
        Self {
            driver: entry.by.process().cloned(),
            run_since: entry.seq.saturating_sub(1),
            began: entry.at,
            since: entry.at,
            clock: entry.at,
            last_seq: entry.seq,
        }
    }

    /// Takes in that an entry was written; one that is known already is refused.
    pub(crate) fn stamp(&mut self, entry: &Entry) -> EntryTaken {
        if entry.seq <= self.last_seq {
            return Err(NotTaken::NotOurs);
        }
        self.last_seq = entry.seq;
        self.clock = self.clock.max(entry.at);
        Ok(())
    }

    /// Takes in that it stands as it does since an entry.
    pub(crate) fn stands_since(&mut self, entry: &Entry) {
        self.since = entry.at;
    }

    /// Takes in which process drives it.
    pub(crate) fn driven_by(&mut self, process: Option<&Process>) {
        self.driver = process.cloned();
    }

    /// Returns the journal's last entry before this run began.
    pub fn run_since(&self) -> u64 {
        self.run_since
    }

    /// Returns when the last pass began, or the whole, before the first.
    pub fn began(&self) -> Timestamp {
        self.began
    }

    /// Returns when it last came to stand as it does.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the latest time that it has seen; time goes on from there.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Returns the process that drives it, or did last, if one has said anything.
    pub fn driver(&self) -> Option<&Process> {
        self.driver.as_ref()
    }

    /// Returns the last entry that it was made of.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}
