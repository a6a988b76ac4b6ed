//! An event with who says so, when, and of which incident: about to be written, or in the journal.

use jiff::Timestamp;

use super::{Actor, Event, Seal};
use crate::id::IncidentId;

/// A fact about to be written to the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// When it happened, stamped once on entry.
    pub at: Timestamp,
    /// Who says so.
    pub by: Actor,
    /// The incident it belongs to, if any.
    pub incident: Option<IncidentId>,
    /// What happened.
    pub event: Event,
}

/// A fact in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the journal; strictly rising.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Who says so.
    pub by: Actor,
    /// The incident it belongs to, if any.
    pub incident: Option<IncidentId>,
    /// What happened.
    pub event: Event,
    /// The seal, if it is a person's word that was sealed.
    pub seal: Option<Seal>,
}

impl Draft {
    /// Returns the entry this draft becomes at `seq`.
    pub fn at_seq(self, seq: u64) -> Entry {
        let Self { at, by, incident, event } = self;
        Entry { seq, at, by, incident, event, seal: None }
    }
}
