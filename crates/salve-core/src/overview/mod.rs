//! All incidents of a journal at a glance: one row each, kept up to date entry by entry.
//!
//! A list of a hundred thousand incidents cannot replay each of them to show its first page. An
//! [`IncidentIndex`] hears only the few kinds of entries in [`IncidentIndex::KINDS`], keeps one
//! small row per incident, and is never the authority on an incident that is still open: whoever
//! shows one of those replays it.
//!
//! **Invariant:** hearing the same entry twice changes nothing.

mod statistics;
#[cfg(test)]
mod tests;

pub use statistics::{ClassStatistics, PeriodStatistics, SignatureStatistics, Statistics};

use std::collections::HashMap;

use jiff::Timestamp;

use crate::class::Class;
use crate::event::{Amounts, Effect, Entry, Event, IncidentEvent, IncidentOutcome, SubjectKind};
use crate::id::{IncidentId, Signature};

/// One incident in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedIncident {
    /// The incident.
    pub id: IncidentId,
    /// The number of the entry that opened it; rows are sorted by it.
    pub opened_seq: u64,
    /// When it opened.
    pub opened_at: Timestamp,
    /// What kind of thing failed.
    pub subject: SubjectKind,
    /// The name of what failed.
    pub name: String,
    /// The kind of failure it opened with.
    pub class: Class,
    /// The identity of the failure it opened with.
    pub signature: Signature,
    /// The line that names the failure.
    pub key_line: String,
    /// How it ended, once it has.
    pub ending: Option<IncidentEnding>,
    /// How many remedies were applied.
    pub applied: u32,
    /// How often a person was asked.
    pub asked: u32,
    /// How long each answered question waited, in milliseconds.
    pub answered_after_ms: Vec<u64>,
    waiting_since: Option<Timestamp>,
    charges: Vec<EffectCharge>,
}

/// How and when an incident ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncidentEnding {
    /// When.
    pub at: Timestamp,
    /// How.
    pub outcome: IncidentOutcome,
}

/// What one effect has cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EffectCharge {
    effect: u32,
    spent: Amounts,
}

impl IndexedIncident {
    /// Returns what the incident has cost, as far as that was stated.
    pub fn spent(&self) -> Amounts {
        self.charges.iter().fold(Amounts::default(), |sum, charge| sum.plus(charge.spent))
    }

    /// Returns how long it took from opening to ending, in milliseconds, once it has ended.
    pub fn lasted_ms(&self) -> Option<u64> {
        Some(between_ms(self.opened_at, self.ending?.at))
    }

    /// Tells whether any of its texts contains `text`, whatever the case.
    pub fn mentions(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let contains = |field: &str| field.to_lowercase().contains(&wanted);
        contains(&self.name)
            || contains(&self.key_line)
            || contains(&self.class.to_string())
            || self.id.to_string().starts_with(wanted.trim_start_matches("heal-"))
            || self.signature.to_string().starts_with(&wanted)
    }

    fn hear(&mut self, at: Timestamp, event: &IncidentEvent) {
        match event {
            IncidentEvent::Requested { what: Effect::Apply { .. }, .. } => self.applied += 1,
            IncidentEvent::Requested { what: Effect::Ask, .. } => {
                self.asked += 1;
                self.waiting_since = Some(at);
            }
            IncidentEvent::Approved { .. }
            | IncidentEvent::Rejected { .. }
            | IncidentEvent::Resolved { .. } => {
                let since = self.waiting_since.take();
                self.answered_after_ms.extend(since.map(|since| between_ms(since, at)));
            }
            IncidentEvent::Charged { effect, spent } => self.charge(*effect, *spent),
            IncidentEvent::Ended { outcome } => {
                self.ending.get_or_insert(IncidentEnding { at, outcome: *outcome });
            }
            _ => {}
        }
    }

    /// Takes in what an effect has cost; the larger of two statements counts, as in the budget.
    fn charge(&mut self, effect: u32, spent: Amounts) {
        match self.charges.iter_mut().find(|charge| charge.effect == effect) {
            Some(charge) => charge.spent = charge.spent.max(spent),
            None => self.charges.push(EffectCharge { effect, spent }),
        }
    }
}

/// All incidents of a journal, one row each, in the order in which they opened.
#[derive(Clone, Debug, Default)]
pub struct IncidentIndex {
    rows: Vec<IndexedIncident>,
    places: HashMap<IncidentId, usize>,
    heard_to: u64,
}

impl IncidentIndex {
    /// The kinds of the entries that say something to an index.
    pub const KINDS: [&'static str; 7] =
        ["opened", "requested", "approved", "rejected", "resolved", "charged", "ended"];

    /// Takes in the next entry; entries come in the journal's order.
    pub fn hear(&mut self, entry: &Entry) {
        if entry.seq <= self.heard_to {
            return;
        }
        self.heard_to = entry.seq;
        let (Some(id), Event::Incident(event)) = (entry.incident, &entry.event) else { return };
        if let IncidentEvent::Opened { subject, symptom, .. } = event {
            if self.places.contains_key(&id) {
                return;
            }
            self.places.insert(id, self.rows.len());
            self.rows.push(IndexedIncident {
                id,
                opened_seq: entry.seq,
                opened_at: entry.at,
                subject: subject.kind,
                name: subject.name.to_string(),
                class: symptom.class,
                signature: symptom.signature,
                key_line: symptom.key_line.to_string(),
                ending: None,
                applied: 0,
                asked: 0,
                answered_after_ms: Vec::new(),
                waiting_since: None,
                charges: Vec::new(),
            });
            return;
        }
        if let Some(row) = self.places.get(&id).and_then(|&at| self.rows.get_mut(at)) {
            row.hear(entry.at, event);
        }
    }

    /// Returns the number of the last entry that was heard.
    pub fn heard_to(&self) -> u64 {
        self.heard_to
    }

    /// Returns all rows, the oldest first.
    pub fn rows(&self) -> &[IndexedIncident] {
        &self.rows
    }

    /// Returns one incident's row.
    pub fn get(&self, id: IncidentId) -> Option<&IndexedIncident> {
        self.places.get(&id).and_then(|&at| self.rows.get(at))
    }

    /// Returns the rows of incidents that are not over, the newest first.
    pub fn open(&self) -> impl Iterator<Item = &IndexedIncident> {
        self.rows.iter().rev().filter(|row| row.ending.is_none())
    }

    /// Returns the rows that opened before the entry `before`, the newest first.
    pub fn before(&self, before: u64) -> impl Iterator<Item = &IndexedIncident> {
        let end = self.rows.partition_point(|row| row.opened_seq < before);
        self.rows[..end].iter().rev()
    }
}

/// Returns the milliseconds from one time to a later one, 0 if the clock went back.
fn between_ms(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}
