//! The append-only record of what happened: the one truth.
//!
//! Entries are numbered in the order in which they are written, without a gap, and a reader never
//! sees one before all earlier ones. What was appended is on record when the call returns; how
//! much that survives is up to the kind of event.
//!
//! Nothing here shows what engine lies beneath.

mod export;
mod follow;
mod line;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, named_params};
use salve_core::event::{Draft, Encoded, Entry, Event};
use salve_core::id::IncidentId;
use serde_json::error::Category;

pub(super) use export::{copied_to, forget_copy};
pub use follow::Follower;
pub use line::{LineError, parse_line, to_line};

use super::{Copying, Durability, Store, StoreError};

/// Which entries are meant; the default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those of this incident.
    pub incident: Option<IncidentId>,
    /// Only those of these kinds; none means any.
    pub kinds: Vec<String>,
    /// Only those stamped at this time or later.
    pub since: Option<Timestamp>,
}

impl Filter {
    /// Means every entry of one incident.
    pub fn incident(incident: IncidentId) -> Self {
        Self { incident: Some(incident), ..Self::default() }
    }

    /// Means only entries of this kind, too.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kinds.push(kind.to_owned());
        self
    }
}

/// What must not have happened for an append to take place.
///
/// "Nobody has touched this incident since I looked" is its filter with the last number seen;
/// "nobody ever approved it" is its filter with the kind, after 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unless {
    /// No such entry may exist …
    pub any: Filter,
    /// … with a number above this one.
    pub after: u64,
}

/// What became of a conditional append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entries were written.
    Written(Vec<Entry>),
    /// Nothing was written: this entry, the first of its kind, stands in the way.
    Refused(Box<Entry>),
}

/// The journal of a store.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'s> {
    store: &'s Store,
}

impl<'s> Journal<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Self { store }
    }

    /// Writes one entry.
    pub fn append(&self, draft: Draft) -> Result<Entry, StoreError> {
        let row = RawEntry::of(&draft);
        let seq = self.write(&[draft.event.is_durable()], |tx| {
            let seq = last_seq(tx)? + 1;
            row.insert(tx, seq)?;
            Ok(seq)
        })?;
        Ok(stored(draft, seq))
    }

    /// Writes all entries, one after the other with none in between, or none at all.
    pub fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>, StoreError> {
        let rows: Vec<_> = drafts.iter().map(RawEntry::of).collect();
        let first = self.write(&durable(&drafts), |tx| insert_all(tx, &rows))?;
        Ok(number(drafts, first))
    }

    /// Writes all entries unless something is on record that forbids it.
    ///
    /// Looking and writing are one step: of two processes that try at once, one is refused.
    pub fn append_unless(
        &self,
        drafts: Vec<Draft>,
        unless: &Unless,
    ) -> Result<Appended, StoreError> {
        let rows: Vec<_> = drafts.iter().map(RawEntry::of).collect();
        let written = self.write(&durable(&drafts), |tx| {
            match select(tx, unless.after, &unless.any, 1)?.pop() {
                Some(obstacle) => Ok(Err(obstacle)),
                None => insert_all(tx, &rows).map(Ok),
            }
        })?;
        match written {
            Ok(first) => Ok(Appended::Written(number(drafts, first))),
            Err(obstacle) => Ok(Appended::Refused(Box::new(self.decode(obstacle)?))),
        }
    }

    /// Returns up to `limit` entries with numbers above `after`, in order.
    pub fn read(
        &self,
        after: u64,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        Ok(self.read_on(after, filter, limit)?.0)
    }

    /// Returns the last `count` entries, in order.
    pub fn tail(&self, filter: &Filter, count: usize) -> Result<Vec<Entry>, StoreError> {
        self.store.mending(|| {
            let rows = self.store.read(|tx| select_where(tx, filter, (0, "DESC", count)))?;
            rows.into_iter().rev().map(|row| self.decode(row)).collect()
        })
    }

    /// Returns the number of the last entry, 0 if there is none.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        self.store.read(last_seq)
    }

    /// Returns the incidents whose id begins with these hex digits, with or without hyphens.
    pub fn incidents_like(&self, prefix: &str) -> Result<Vec<IncidentId>, StoreError> {
        let digits = prefix.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase());
        let mut from = String::new();
        for (at, digit) in digits.enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                from.push('-');
            }
            from.push(digit);
        }
        // Ids are made of hex digits and hyphens, so "g" comes after all that go on like this.
        let to = format!("{from}g");
        let sql = "SELECT DISTINCT incident FROM entry \
                   WHERE incident IS NOT NULL AND incident >= ?1 AND incident < ?2";
        let found: Vec<String> = self.store.read(|tx| {
            tx.prepare_cached(sql)?.query_map([&from, &to], |row| row.get(0))?.collect()
        })?;
        Ok(found.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Returns a reader that waits for entries with numbers above `after`.
    pub fn follow(&self, after: u64, filter: Filter) -> Follower<'s> {
        Follower::new(*self, after, filter)
    }

    /// Brings the copy for people and scripts, `events.jsonl`, up to date.
    ///
    /// Every append does so by itself, unless that is left to another ([`Copying`]); but an append
    /// does not fail when only the copy cannot be written.
    pub fn export(&self) -> Result<(), StoreError> {
        export::update(self)
    }

    /// Returns entries and how far the journal has been read to find them.
    fn read_on(
        &self,
        after: u64,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Entry>, u64), StoreError> {
        let read = |tx: &Transaction<'_>| {
            let last = last_seq(tx)?;
            let rows = if last > after { select(tx, after, filter, limit)? } else { Vec::new() };
            Ok((rows, last))
        };
        let (entries, last) = self.store.mending(|| {
            let (rows, last) = self.store.read(read)?;
            let entries = rows.into_iter().map(|row| self.decode(row));
            Ok((entries.collect::<Result<Vec<_>, _>>()?, last))
        })?;
        let full = entries.len() >= limit;
        let read_to = entries.last().filter(|_| full).map_or(last.max(after), |last| last.seq);
        Ok((entries, read_to))
    }

    /// Returns the number of the first entry that was written to this very file, and of the last.
    fn bounds(&self) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'origin'";
        self.store.read(|tx| {
            let origin = tx.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
            Ok((origin.unwrap_or(1), last_seq(tx)?))
        })
    }

    fn write<T>(
        &self,
        durable: &[bool],
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let durability =
            if durable.contains(&true) { Durability::Power } else { Durability::Process };
        let value = self.store.write(durability, work)?;
        match self.store.copying.get() {
            // The entry is on record whatever becomes of the copy, which the next append mends.
            Copying::AtOnce => drop(self.export()),
            Copying::Later => {}
        }
        Ok(value)
    }

    fn decode(&self, row: RawEntry) -> Result<Entry, StoreError> {
        let (path, seq) = (self.store.project().database(), row.seq);
        row.decode().map_err(|source| {
            if source.is_damage() {
                StoreError::Corrupt { path, source: source.into() }
            } else {
                StoreError::Malformed { path, seq, source }
            }
        })
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct RawEntry {
    pub(super) seq: u64,
    at: i64,
    by: String,
    incident: Option<String>,
    kind: String,
    version: u32,
    data: String,
}

impl RawEntry {
    /// Returns the row that `draft` becomes; it gets its number when it is inserted.
    pub(super) fn of(draft: &Draft) -> Self {
        let Encoded { kind, version, data } = draft.event.encode();
        Self {
            seq: 0,
            at: draft.at.as_microsecond(),
            // An actor has string keys only, so there is no failing path.
            by: serde_json::to_string(&draft.by).unwrap_or_default(),
            incident: draft.incident.map(|id| id.to_string()),
            kind,
            version,
            data: data.to_string(),
        }
    }

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            at: row.get(1)?,
            by: row.get(2)?,
            incident: row.get(3)?,
            kind: row.get(4)?,
            version: row.get(5)?,
            data: row.get(6)?,
        })
    }

    pub(super) fn insert(&self, tx: &Transaction<'_>, seq: u64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO entry (seq, at, by, incident, kind, version, data) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let Self { seq: _, at, by, incident, kind, version, data } = self;
        let values = rusqlite::params![seq, at, by, incident, kind, version, data];
        tx.prepare_cached(sql)?.execute(values).map(drop)
    }

    pub(super) fn decode(self) -> Result<Entry, RawError> {
        let Self { seq, at, by, incident, kind, version, data } = self;
        Ok(Entry {
            seq,
            at: Timestamp::from_microsecond(at).map_err(RawError::Time)?,
            by: serde_json::from_str(&by).map_err(RawError::Json)?,
            incident: incident.map(|id| id.parse()).transpose().map_err(RawError::Incident)?,
            event: {
                let data = serde_json::from_str(&data).map_err(RawError::Json)?;
                Event::decode(Encoded { kind, version, data }).map_err(RawError::Event)?
            },
        })
    }
}

/// Why a stored row is not an entry.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The time stamp is out of range.
    #[error("bad time stamp")]
    Time(#[source] jiff::Error),
    /// A part is not JSON of the right shape.
    #[error("bad JSON")]
    Json(#[source] serde_json::Error),
    /// The incident's id is none.
    #[error("bad incident id")]
    Incident(#[source] uuid::Error),
    /// What happened is malformed.
    #[error("bad event")]
    Event(#[source] salve_core::event::DecodeError),
}

impl RawError {
    /// Returns whether nobody can have written this, as opposed to a shape we do not understand.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Time(_) | Self::Incident(_) => true,
            Self::Json(error) => error.classify() != Category::Data,
            Self::Event(_) => false,
        }
    }
}

fn durable(drafts: &[Draft]) -> Vec<bool> {
    drafts.iter().map(|draft| draft.event.is_durable()).collect()
}

fn number(drafts: Vec<Draft>, first: u64) -> Vec<Entry> {
    (first..).zip(drafts).map(|(seq, draft)| stored(draft, seq)).collect()
}

/// Returns the entry as reading it back would: the store keeps microseconds.
fn stored(draft: Draft, seq: u64) -> Entry {
    let mut entry = draft.at_seq(seq);
    entry.at = Timestamp::from_microsecond(entry.at.as_microsecond()).unwrap_or(entry.at);
    entry
}

pub(super) fn last_seq(tx: &Transaction<'_>) -> rusqlite::Result<u64> {
    tx.prepare_cached("SELECT coalesce(max(seq), 0) FROM entry")?.query_row([], |row| row.get(0))
}

fn insert_all(tx: &Transaction<'_>, rows: &[RawEntry]) -> rusqlite::Result<u64> {
    let first = last_seq(tx)? + 1;
    (first..).zip(rows).try_for_each(|(seq, row)| row.insert(tx, seq))?;
    Ok(first)
}

fn select(
    tx: &Transaction<'_>,
    after: u64,
    filter: &Filter,
    limit: usize,
) -> rusqlite::Result<Vec<RawEntry>> {
    select_where(tx, filter, (after, "ASC", limit))
}

fn select_where(
    tx: &Transaction<'_>,
    filter: &Filter,
    (after, order, limit): (u64, &str, usize),
) -> rusqlite::Result<Vec<RawEntry>> {
    let mut sql = "SELECT seq, at, by, incident, kind, version, data FROM entry \
                   WHERE seq > :after AND (:since IS NULL OR at >= :since)"
        .to_owned();
    // Only the conditions that are there are asked for, so that the right index is used.
    sql.push_str(if filter.incident.is_some() {
        " AND incident = :incident"
    } else {
        " AND :incident IS NULL"
    });
    if filter.kinds.is_empty() {
        sql.push_str(" AND :kinds = '[]'");
    } else {
        sql.push_str(" AND kind IN (SELECT value FROM json_each(:kinds))");
    }
    sql.push_str(&format!(" ORDER BY seq {order} LIMIT :limit"));
    let values = named_params! {
        ":after": after.min(line::MAX_SEQ),
        ":since": filter.since.map(Timestamp::as_microsecond),
        ":incident": filter.incident.map(|id| id.to_string()),
        ":kinds": serde_json::to_string(&filter.kinds).unwrap_or_default(),
        ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
    };
    tx.prepare_cached(&sql)?.query_map(values, RawEntry::from_row)?.collect()
}

#[cfg(test)]
mod tests;
