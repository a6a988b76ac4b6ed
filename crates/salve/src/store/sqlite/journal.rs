//! The journal in SQLite: one table, and an index for each way to a stream.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, named_params};
use salve_core::event::{Actor, Digest, Draft, Encoded, Entry, Event, LoopId};
use salve_core::id::IncidentId;

use super::database::{Database, lock_path};
use super::follow::SqliteFollower;
use super::words::{WordJudge, WordPass};
use super::{Copying, Durability, export};
use crate::project::Project;
use crate::store::line::MAX_SEQ;
use crate::store::stream::KindSelector;
use crate::store::{Appended, Follower, Journal, RawError, StoreError, Stream, StreamPosition};

/// The journal's table, and its copy for people and scripts.
#[derive(Debug)]
pub(super) struct SqliteJournal {
    database: Arc<Database>,
    words: WordJudge,
    copying: Cell<Copying>,
}

impl Journal for SqliteJournal {
    fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>, StoreError> {
        let rows: Vec<_> = drafts.iter().map(RawEntry::of).collect();
        let pass = self.words.let_in(&rows)?;
        let first =
            self.append_with(durability_of(&drafts), |tx| insert_all(tx, &rows, pass.as_ref()))?;
        self.words.note_uses(&rows, first)?;
        Ok(number_entries(drafts, &rows, first, pass.as_ref()))
    }

    fn append_after(
        &self,
        StreamPosition { stream, after }: &StreamPosition,
        drafts: Vec<Draft>,
    ) -> Result<Appended, StoreError> {
        let rows: Vec<_> = drafts.iter().map(RawEntry::of).collect();
        let pass = self.words.let_in(&rows)?;
        let written = self.append_with(durability_of(&drafts), |tx| {
            match select_rows(tx, stream, Span { after: *after, ..Span::first(1) })?.pop() {
                Some(obstacle) => Ok(Err(obstacle)),
                None => insert_all(tx, &rows, pass.as_ref()).map(Ok),
            }
        })?;
        match written {
            Ok(first) => {
                self.words.note_uses(&rows, first)?;
                Ok(Appended::Written(number_entries(drafts, &rows, first, pass.as_ref())))
            }
            Err(obstacle) => Ok(Appended::Refused(Box::new(self.decode(obstacle)?))),
        }
    }

    fn read(&self, after: u64, stream: &Stream, limit: usize) -> Result<Vec<Entry>, StoreError> {
        Ok(self.read_on(after, stream, limit)?.0)
    }

    fn read_back(
        &self,
        before: u64,
        stream: &Stream,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let span = Span { before, order: "DESC", ..Span::first(limit) };
        self.database.mending(|| {
            let rows = self.database.read_tables(|tx| select_rows(tx, stream, span))?;
            rows.into_iter().rev().map(|row| self.decode(row)).collect()
        })
    }

    fn last_seq(&self) -> Result<u64, StoreError> {
        self.database.read_tables(last_seq)
    }

    fn incidents_like(&self, prefix: &str) -> Result<Vec<IncidentId>, StoreError> {
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
        let found: Vec<String> = self.database.read_tables(|tx| {
            tx.prepare_cached(sql)?.query_map([&from, &to], |row| row.get(0))?.collect()
        })?;
        Ok(found.iter().filter_map(|id| id.parse().ok()).collect())
    }

    fn loops(&self) -> Result<Vec<LoopId>, StoreError> {
        let sql = format!(
            "SELECT DISTINCT {LOOP_OF_ENTRY} AS loop FROM entry \
             WHERE {IS_ABOUT_LOOP} ORDER BY loop"
        );
        let found: Vec<Option<String>> = self.database.read_tables(|tx| {
            tx.prepare_cached(&sql)?.query_map([], |row| row.get(0))?.collect()
        })?;
        Ok(found.into_iter().flatten().filter_map(|id| id.parse().ok()).collect())
    }

    fn follow(&self, after: u64, stream: Stream) -> Box<dyn Follower + '_> {
        Box::new(SqliteFollower::new(self, after, stream))
    }
}

impl SqliteJournal {
    /// Keeps the journal's table in a database.
    pub(super) fn new(database: &Arc<Database>) -> Self {
        Self {
            database: Arc::clone(database),
            words: WordJudge::new(database),
            copying: Cell::new(Copying::AtOnce),
        }
    }

    /// Returns the project whose journal this is.
    pub(super) fn project(&self) -> &Project {
        self.database.project()
    }

    /// Returns the file that writers ring at.
    pub(super) fn lock_file(&self) -> PathBuf {
        lock_path(self.project())
    }

    /// Counts how often the file was opened: more than once if it was replaced meanwhile.
    pub(super) fn openings(&self) -> u32 {
        self.database.openings()
    }

    /// Says who keeps the copy up to date, from now on.
    pub(super) fn set_copying(&self, copying: Copying) {
        self.copying.set(copying);
    }

    /// Returns entries and how far the journal has been read to find them.
    pub(super) fn read_on(
        &self,
        after: u64,
        stream: &Stream,
        limit: usize,
    ) -> Result<(Vec<Entry>, u64), StoreError> {
        let read = |tx: &Transaction<'_>| {
            let last = last_seq(tx)?;
            let span = Span { after, ..Span::first(limit) };
            let rows = if last > after { select_rows(tx, stream, span)? } else { Vec::new() };
            Ok((rows, last))
        };
        let (entries, last) = self.database.mending(|| {
            let (rows, last) = self.database.read_tables(read)?;
            let entries = rows.into_iter().map(|row| self.decode(row));
            Ok((entries.collect::<Result<Vec<_>, _>>()?, last))
        })?;
        let full = entries.len() >= limit;
        let read_to = entries.last().filter(|_| full).map_or(last.max(after), |last| last.seq);
        Ok((entries, read_to))
    }

    /// Returns the number of the first entry that was written to this very file, and of the last.
    pub(super) fn bounds(&self) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'origin'";
        self.database.read_tables(|tx| {
            let origin = tx.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
            Ok((origin.unwrap_or(1), last_seq(tx)?))
        })
    }

    fn append_with<T>(
        &self,
        durability: Durability,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let value = self.database.write_tables(durability, work)?;
        match self.copying.get() {
            // The entry is on record whatever becomes of the copy, which the next append mends.
            Copying::AtOnce => drop(export::update(self)),
            Copying::Later => {}
        }
        Ok(value)
    }

    fn decode(&self, row: RawEntry) -> Result<Entry, StoreError> {
        let (path, seq) = (self.project().database(), row.seq);
        let entry = row.decode().map_err(|source| {
            if source.is_damage() {
                StoreError::Corrupt { path, source: source.into() }
            } else {
                StoreError::Malformed { path, seq, source }
            }
        })?;
        self.words.judged(&row, entry)
    }

    /// Returns entries as they are stored, whoever is believed to have written them.
    pub(super) fn read_as_stored(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let span = Span { after, ..Span::first(limit) };
        let rows = self.database.read_tables(|tx| select_rows(tx, &Stream::Project, span))?;
        let path = self.project().database();
        let decode = |row: RawEntry| {
            let seq = row.seq;
            let malformed = |source| StoreError::Malformed { path: path.clone(), seq, source };
            row.decode().map_err(malformed)
        };
        rows.into_iter().map(decode).collect()
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
    seal: Option<String>,
}

impl RawEntry {
    /// Returns what is announced of a row that carries a person's word; others have none.
    pub(super) fn word(&self) -> Option<Digest> {
        self.names_person().then(|| self.digest(b"a person's word", 0))
    }

    /// Returns what is sealed of a row that carries a person's word, at its place.
    pub(super) fn sealed_content(&self, seq: u64) -> Option<Digest> {
        self.names_person().then(|| self.digest(b"a sealed word", seq))
    }

    /// Returns the incident in which something begins with this row.
    pub(super) fn begins_in(&self) -> Option<&str> {
        self.incident.as_deref().filter(|_| self.kind == "requested")
    }

    /// Returns the row's seal, if it bears one.
    pub(super) fn seal(&self) -> Option<&str> {
        self.seal.as_deref()
    }

    /// Returns what is noted of a row that used a person's word.
    pub(super) fn use_digest(&self, seq: u64) -> Digest {
        self.digest(b"the use of a word", seq)
    }

    /// Returns whether it says that a person speaks, however that is spelt.
    fn names_person(&self) -> bool {
        self.by.contains("person")
            && matches!(serde_json::from_str(&self.by), Ok(Actor::Person { .. }))
    }

    fn digest(&self, what: &[u8], seq: u64) -> Digest {
        let Self { seq: _, at, by, incident, kind, version, data, seal: _ } = self;
        let incident = incident.as_deref().unwrap_or_default();
        let texts = [by, incident, kind, data].map(str::as_bytes);
        let [by, incident, kind, data] = texts;
        let (seq, at, version) = (seq.to_le_bytes(), at.to_le_bytes(), version.to_le_bytes());
        Digest::of(&[what, &seq, &at, by, incident, kind, &version, data])
    }

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
            seal: None,
        }
    }

    /// Returns the row with a seal that it bore before.
    pub(super) fn with_seal(self, seal: Option<String>) -> Self {
        Self { seal, ..self }
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
            seal: row.get(7)?,
        })
    }

    pub(super) fn insert(&self, tx: &Transaction<'_>, seq: u64) -> rusqlite::Result<()> {
        self.insert_sealed(tx, seq, self.seal.as_deref())
    }

    fn insert_sealed(
        &self,
        tx: &Transaction<'_>,
        seq: u64,
        seal: Option<&str>,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO entry (seq, at, by, incident, kind, version, data, seal) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Self { seq: _, at, by, incident, kind, version, data, seal: _ } = self;
        let values = rusqlite::params![seq, at, by, incident, kind, version, data, seal];
        tx.prepare_cached(sql)?.execute(values).map(drop)
    }

    pub(super) fn decode(&self) -> Result<Entry, RawError> {
        let Self { seq, at, by, incident, kind, version, data, seal } = self;
        let (seq, at, version) = (*seq, *at, *version);
        Ok(Entry {
            seq,
            at: Timestamp::from_microsecond(at).map_err(RawError::Time)?,
            by: serde_json::from_str(by).map_err(RawError::Json)?,
            incident: incident
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(RawError::Incident)?,
            event: match Event::of_text(kind, version, data) {
                Some(event) => event,
                None => {
                    let (kind, data) = (kind.clone(), serde_json::from_str(data));
                    let data = data.map_err(RawError::Json)?;
                    Event::decode(Encoded { kind, version, data }).map_err(RawError::Event)?
                }
            },
            // What is no seal seals nothing.
            seal: seal.as_deref().and_then(|seal| seal.parse().ok()),
        })
    }
}

fn durability_of(drafts: &[Draft]) -> Durability {
    if drafts.iter().any(|draft| draft.event.is_durable()) {
        Durability::Power
    } else {
        Durability::Process
    }
}

/// Returns the seals of what people granted to an incident before an entry.
pub(super) fn words_before(
    tx: &Transaction<'_>,
    incident: &str,
    before: u64,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT seal FROM entry WHERE incident = ?1 AND seq < ?2 AND seal IS NOT NULL \
               AND kind IN ('approved', 'ordered', 'refilled')";
    tx.prepare_cached(sql)?.query_map((incident, before), |row| row.get(0))?.collect()
}

/// Returns the row of a number.
pub(super) fn row_at(tx: &Transaction<'_>, seq: u64) -> rusqlite::Result<Option<RawEntry>> {
    let sql = "SELECT seq, at, by, incident, kind, version, data, seal FROM entry WHERE seq = ?1";
    tx.prepare_cached(sql)?.query_row([seq], RawEntry::from_row).optional()
}

/// Returns the entries that drafts have become, as reading them back would.
fn number_entries(
    drafts: Vec<Draft>,
    rows: &[RawEntry],
    first: u64,
    pass: Option<&WordPass>,
) -> Vec<Entry> {
    let sealed = |((seq, draft), row): ((u64, Draft), &RawEntry)| {
        let seal = pass.and_then(|pass| pass.seal(row, seq)?.parse().ok());
        Entry { seal, ..as_read_back(draft, seq) }
    };
    (first..).zip(drafts).zip(rows).map(sealed).collect()
}

/// Returns the entry as reading it back would: the store keeps microseconds.
fn as_read_back(draft: Draft, seq: u64) -> Entry {
    let mut entry = draft.at_seq(seq);
    entry.at = Timestamp::from_microsecond(entry.at.as_microsecond()).unwrap_or(entry.at);
    entry
}

pub(super) fn last_seq(tx: &Transaction<'_>) -> rusqlite::Result<u64> {
    tx.prepare_cached("SELECT coalesce(max(seq), 0) FROM entry")?.query_row([], |row| row.get(0))
}

fn insert_all(
    tx: &Transaction<'_>,
    rows: &[RawEntry],
    pass: Option<&WordPass>,
) -> rusqlite::Result<u64> {
    let first = last_seq(tx)? + 1;
    (first..).zip(rows).try_for_each(|(seq, row)| {
        let seal = pass.and_then(|pass| pass.seal(row, seq));
        row.insert_sealed(tx, seq, seal.as_deref())
    })?;
    Ok(first)
}

/// Which part of a stream is read, and from which end.
#[derive(Clone, Copy)]
struct Span {
    after: u64,
    before: u64,
    order: &'static str,
    limit: usize,
}

impl Span {
    /// Means the first entries of all.
    fn first(limit: usize) -> Self {
        Self { after: 0, before: u64::MAX, order: "ASC", limit }
    }
}

/// The entries whose data names a loop; the index `entry_by_loop` has the same words.
const IS_ABOUT_LOOP: &str = "kind IN ('loop', 'loop_attached', 'loop_detached', \
                             'manifests_seen', 'recovery_refused')";

/// The loop that an entry's data names; the index `entry_by_loop` has the same words.
const LOOP_OF_ENTRY: &str =
    "CASE WHEN json_valid(data) THEN coalesce(data ->> 'id', data ->> 'name') END";

fn select_rows(
    tx: &Transaction<'_>,
    stream: &Stream,
    Span { after, before, order, limit }: Span,
) -> rusqlite::Result<Vec<RawEntry>> {
    let mut sql = "SELECT seq, at, by, incident, kind, version, data, seal FROM entry \
                   WHERE seq > :after AND seq < :before"
        .to_owned();
    let selector = stream.selector();
    // Only the conditions that are there are asked for, so that the right index is used.
    let of = match selector.which {
        KindSelector::All => None,
        KindSelector::OfIncident(id) => {
            sql.push_str(" AND incident = :of");
            Some(id.to_string())
        }
        KindSelector::OfNoIncident => {
            sql.push_str(" AND incident IS NULL");
            None
        }
        KindSelector::OfLoop(id) => {
            sql.push_str(&format!(" AND {IS_ABOUT_LOOP} AND {LOOP_OF_ENTRY} = :of"));
            Some(id.to_string())
        }
    };
    if of.is_none() {
        sql.push_str(" AND :of IS NULL");
    }
    if selector.kinds.is_empty() || matches!(selector.which, KindSelector::OfLoop(_)) {
        sql.push_str(" AND :kinds <> ''");
    } else {
        // A plus keeps the engine from its index: it would read a portion of each kind, and sort.
        let kind = if stream.is_common() { "+kind" } else { "kind" };
        sql.push_str(&format!(" AND {kind} IN (SELECT value FROM json_each(:kinds))"));
    }
    sql.push_str(&format!(" ORDER BY seq {order} LIMIT :limit"));
    let values = named_params! {
        ":after": after.min(MAX_SEQ),
        ":before": before.min(MAX_SEQ + 1),
        ":of": of,
        ":kinds": serde_json::to_string(selector.kinds).unwrap_or_default(),
        ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
    };
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    let mut found: Vec<RawEntry> = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RawEntry::from_row(row)?;
        // The engine trusts the order in which it finds the rows of a table. Damage may let it find
        // them in any order, or the same ones again and again; who reads on from the last would
        // never come to an end.
        let is_in_order = found.last().is_none_or(|last| match order {
            "DESC" => row.seq < last.seq,
            _ => row.seq > last.seq,
        });
        if !is_in_order || row.seq <= after {
            let seq = i64::try_from(row.seq).unwrap_or(i64::MAX);
            return Err(rusqlite::Error::IntegralValueOutOfRange(0, seq));
        }
        found.push(row);
    }
    Ok(found)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
