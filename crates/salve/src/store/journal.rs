//! The append-only record of what happened: the one truth, as an interface.
//!
//! Entries are numbered in the order in which they are written, without a gap, and a reader never
//! sees one before all earlier ones. What was appended is on record when the call returns; how
//! much that survives is up to the kind of event ([`Event::is_durable`]).
//!
//! [`Event::is_durable`]: salve_core::event::Event::is_durable

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{Draft, Entry, LoopId};
use salve_core::id::IncidentId;

use super::{StoreError, Stream};

/// How many entries are read at once where all are looked through.
const PORTION: usize = 256;

/// How far a writer has read a stream: nobody may have written to it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    pub stream: Stream,
    /// The number of the last entry that the writer knows; 0 means that it expects none.
    pub after: u64,
}

/// What became of an append that expected a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entries were written.
    Written(Vec<Entry>),
    /// Nothing was written: this entry, the first that the writer did not know, was there before.
    Refused(Box<Entry>),
}

/// The journal of a store.
pub trait Journal: Debug {
    /// Writes all entries, one after the other with none in between, or none at all.
    fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>, StoreError>;

    /// Writes all entries if the stream has not grown beyond what the writer knows of it.
    ///
    /// Looking and writing are one step: of two processes that try at once, one is refused.
    fn append_after(
        &self,
        position: &StreamPosition,
        drafts: Vec<Draft>,
    ) -> Result<Appended, StoreError>;

    /// Returns up to `limit` entries of a stream with numbers above `after`, in order.
    fn read(&self, after: u64, stream: &Stream, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// Returns the last `limit` entries of a stream with numbers below `before`, in order.
    fn read_back(
        &self,
        before: u64,
        stream: &Stream,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Returns the number of the last entry, 0 if there is none.
    fn last_seq(&self) -> Result<u64, StoreError>;

    /// Returns the incidents whose id begins with these hex digits, with or without hyphens.
    fn incidents_like(&self, prefix: &str) -> Result<Vec<IncidentId>, StoreError>;

    /// Returns the names of all loops that have a stream, in their order.
    fn loops(&self) -> Result<Vec<LoopId>, StoreError>;

    /// Returns a reader that waits for entries of a stream with numbers above `after`.
    fn follow(&self, after: u64, stream: Stream) -> Box<dyn Follower + '_>;

    /// Writes one entry.
    fn append(&self, draft: Draft) -> Result<Entry, StoreError> {
        // One draft becomes one entry; the number 0 is never given.
        let entries = self.append_all(vec![draft.clone()])?;
        Ok(entries.into_iter().next().unwrap_or_else(|| draft.at_seq(0)))
    }

    /// Returns the last `count` entries of a stream, in order.
    fn tail(&self, stream: &Stream, count: usize) -> Result<Vec<Entry>, StoreError> {
        self.read_back(u64::MAX, stream, count)
    }

    /// Returns the entry with this number, if there is one.
    fn entry(&self, seq: u64) -> Result<Option<Entry>, StoreError> {
        let found = self.read(seq.saturating_sub(1), &Stream::Project, 1)?;
        Ok(found.into_iter().find(|entry| entry.seq == seq))
    }

    /// Returns the entries of a stream that were stamped at `since` or later, in order.
    ///
    /// It reads back until a whole portion is older: stamps follow the numbers but for clocks that
    /// were set.
    fn read_since(&self, since: Timestamp, stream: &Stream) -> Result<Vec<Entry>, StoreError> {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        loop {
            let portion = self.read_back(before, stream, PORTION)?;
            let is_last = portion.len() < PORTION || portion.iter().all(|entry| entry.at < since);
            before = portion.first().map_or(0, |first| first.seq);
            found.extend(portion.into_iter().rev().filter(|entry| entry.at >= since));
            if is_last {
                found.reverse();
                return Ok(found);
            }
        }
    }
}

/// Reads a stream as it grows.
pub trait Follower: Debug {
    /// Returns the next entries, or none when there were none within `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<Vec<Entry>, StoreError>;

    /// Returns how far the journal has been read.
    fn after(&self) -> u64;
}
