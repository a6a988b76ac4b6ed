//! What is known about failures, kept in the store.
//!
//! A project's store holds the project's memory; the user's own store, opened with
//! [`Project::of_user`](crate::project::Project::of_user), holds what is remembered across
//! projects. Both have the same tables.

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use salve_core::id::Signature;
use salve_core::memory::{Failure, Knowledge, Outcome, Remedy, Tried, merge};
use salve_core::scrub::Scrubbed;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Durability, Store, StoreError};

/// The memory in a store.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'s> {
    pub(super) store: &'s Store,
}

/// A part of all that is known, most recently seen first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// How many to pass over.
    pub skip: u64,
    /// How many to return at most.
    pub limit: u64,
}

/// How much a memory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Failures known.
    pub failures: u64,
    /// Remedies known for them.
    pub remedies: u64,
    /// Remedies that have healed.
    pub proven: u64,
    /// Remedies that failed and never healed.
    pub failed: u64,
}

impl<'s> Memory<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Self { store }
    }

    /// Returns all that is known about a failure.
    pub fn recall(&self, signature: Signature) -> Result<Option<Knowledge>, StoreError> {
        self.store.read(|tx| load(tx, signature, Scope::InForce))
    }

    /// Takes in that a failure was seen.
    pub fn see(&self, failure: &Failure, at: Timestamp) -> Result<(), StoreError> {
        self.change(failure, at, |known| {
            known.last_seen = known.last_seen.max(at);
            known.seen = known.seen.saturating_add(1);
        })
    }

    /// Takes in how a remedy came out, to survive a power cut.
    pub fn learn(
        &self,
        failure: &Failure,
        remedy: &Remedy,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        self.change(failure, outcome.at, |known| known.learn(remedy.clone(), outcome.clone()))
    }

    /// Takes in a remedy that somebody teaches.
    pub fn teach(
        &self,
        failure: &Failure,
        remedy: &Remedy,
        at: Timestamp,
        by: &Scrubbed,
    ) -> Result<(), StoreError> {
        self.change(failure, at, |known| known.teach(remedy.clone(), at, by.clone()))
    }

    /// Takes in what another memory knows; the same knowledge twice changes nothing.
    ///
    /// Returns how many of them brought something new.
    pub fn merge(&self, others: &[Knowledge]) -> Result<u64, StoreError> {
        self.store.write(Durability::Power, |tx| {
            let mut news = 0;
            for other in others {
                let old = load(tx, other.failure.signature, Scope::All)?;
                let merged = match old.clone() {
                    None => other.clone(),
                    Some(mut known) => {
                        merge(&mut known, other);
                        known
                    }
                };
                news += u64::from(old.as_ref() != Some(&merged));
                save(tx, &merged)?;
            }
            Ok(news)
        })
    }

    /// Drops all that is known about a failure and returns whether anything was.
    pub fn forget(&self, signature: Signature) -> Result<bool, StoreError> {
        self.store.write(Durability::Power, |tx| {
            let own = "DELETE FROM learned WHERE file = 'healing-patterns.json' AND key = ?1";
            tx.execute(own, [signature.to_string()])?;
            let sql = "DELETE FROM failure WHERE signature = ?1";
            Ok(tx.prepare_cached(sql)?.execute([stored(signature)])? > 0)
        })
    }

    /// Returns a part of all that is known, most recently seen first.
    pub fn list(&self, page: Page) -> Result<Vec<Knowledge>, StoreError> {
        self.store.read(|tx| {
            let sql = "SELECT signature FROM failure WHERE withdrawn = 0
                       ORDER BY last_seen DESC, id LIMIT ?1 OFFSET ?2";
            let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
            let skip = i64::try_from(page.skip).unwrap_or(i64::MAX);
            let signatures = signatures(tx, sql, [limit, skip])?;
            load_all(tx, &signatures)
        })
    }

    /// Calls `take` with everything that is known, in portions, oldest first.
    pub fn each<E: From<StoreError>>(
        &self,
        mut take: impl FnMut(Vec<Knowledge>) -> Result<(), E>,
    ) -> Result<(), E> {
        const PORTION: i64 = 500;
        let mut after = 0_i64;
        loop {
            let (known, last) = self.store.read(|tx| {
                let sql = "SELECT signature FROM failure WHERE withdrawn = 0 AND id > ?1
                           ORDER BY id LIMIT ?2";
                let signatures = signatures(tx, sql, [after, PORTION])?;
                let last = match signatures.last() {
                    Some(last) => Some(number_of(tx, *last)?),
                    None => None,
                };
                Ok((load_all(tx, &signatures)?, last))
            })?;
            let Some(last) = last else { return Ok(()) };
            after = last;
            take(known)?;
        }
    }

    /// Returns how much the memory holds.
    pub fn counts(&self) -> Result<Counts, StoreError> {
        self.store.read(|tx| {
            let failures = "SELECT count(*) FROM failure WHERE withdrawn = 0";
            let failures = tx.query_row(failures, [], |row| row.get(0))?;
            let remedies = "SELECT count(*),
                    coalesce(sum(record ->> 'proven' > 0), 0),
                    coalesce(sum(record ->> 'proven' = 0
                        AND (record ->> 'failed') + (record ->> 'masked') > 0), 0)
                FROM remedy JOIN failure ON failure.id = remedy.failure WHERE withdrawn = 0";
            tx.query_row(remedies, [], |row| {
                let (remedies, proven, failed) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Counts { failures, remedies, proven, failed })
            })
        })
    }

    /// Returns the failures whose signature starts with these hex digits, at most ten.
    pub fn signatures_like(&self, prefix: &str) -> Result<Vec<Signature>, StoreError> {
        let Ok(first) = format!("{prefix:0<16}").parse::<Signature>() else {
            return Ok(Vec::new());
        };
        let Ok(last) = format!("{prefix:f<16}").parse::<Signature>() else {
            return Ok(Vec::new());
        };
        self.store.read(|tx| {
            // Both have the same first digit, so they are on the same side of zero when stored.
            let sql = "SELECT signature FROM failure
                       WHERE withdrawn = 0 AND signature BETWEEN ?1 AND ?2 LIMIT 10";
            signatures(tx, sql, [stored(first), stored(last)])
        })
    }

    fn change(
        &self,
        failure: &Failure,
        at: Timestamp,
        change: impl Fn(&mut Knowledge),
    ) -> Result<(), StoreError> {
        self.store.write(Durability::Power, |tx| {
            let known = load(tx, failure.signature, Scope::All)?;
            let mut known = known
                .unwrap_or_else(|| Knowledge { seen: 0, ..Knowledge::new(failure.clone(), at) });
            change(&mut known);
            save(tx, &known)
        })
    }
}

/// Whether what a person took out of the shared file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only what is in force.
    InForce,
    /// What was withdrawn too: its history returns with it.
    All,
}

/// Reads what is known about one failure.
pub(crate) fn load(
    tx: &Transaction<'_>,
    signature: Signature,
    scope: Scope,
) -> rusqlite::Result<Option<Knowledge>> {
    let sql = "SELECT id, class, error_type, normalized, identity, first_seen, last_seen, seen,
                   remedies
               FROM failure WHERE signature = ?1 AND withdrawn <= ?2";
    let withdrawn = i64::from(scope == Scope::All);
    let found = tx
        .prepare_cached(sql)?
        .query_row(params![stored(signature), withdrawn], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(8)?, knowledge(signature, row)?))
        })
        .optional()?;
    let Some((id, remedies, mut known)) = found else { return Ok(None) };
    if remedies == 0 {
        return Ok(Some(known));
    }
    let sql = "SELECT kind, text, since, by, record, outcomes FROM remedy
               WHERE failure = ?1 ORDER BY since, digest";
    let mut statement = tx.prepare_cached(sql)?;
    known.remedies = statement.query_map([id], tried)?.collect::<Result<_, _>>()?;
    Ok(Some(known))
}

fn load_all(tx: &Transaction<'_>, signatures: &[Signature]) -> rusqlite::Result<Vec<Knowledge>> {
    let mut all = Vec::with_capacity(signatures.len());
    for &signature in signatures {
        all.extend(load(tx, signature, Scope::InForce)?);
    }
    Ok(all)
}

fn knowledge(signature: Signature, row: &Row<'_>) -> rusqlite::Result<Knowledge> {
    Ok(Knowledge {
        failure: Failure {
            signature,
            class: word(row, 1)?,
            error_type: word(row, 2)?,
            normalized: word(row, 3)?,
            identity: match row.get_ref(4)?.as_str_or_null()? {
                None => None,
                Some(_) => Some(word(row, 4)?),
            },
        },
        first_seen: time(row, 5)?,
        last_seen: time(row, 6)?,
        seen: row.get(7)?,
        remedies: Vec::new(),
    })
}

fn tried(row: &Row<'_>) -> rusqlite::Result<Tried> {
    Ok(Tried {
        remedy: Remedy { kind: word(row, 0)?, text: word(row, 1)? },
        since: time(row, 2)?,
        by: word(row, 3)?,
        record: json(row, 4)?,
        outcomes: json(row, 5)?,
    })
}

/// Writes what is known about one failure; a withdrawn one is in force again.
pub(crate) fn save(tx: &Transaction<'_>, known: &Knowledge) -> rusqlite::Result<()> {
    let failure = &known.failure;
    let sql = "INSERT INTO failure (signature, class, error_type, normalized, identity,
                   first_seen, last_seen, seen, remedies)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
               ON CONFLICT (signature) DO UPDATE SET class = ?2, error_type = ?3,
                   first_seen = ?6, last_seen = ?7, seen = ?8, remedies = ?9, withdrawn = 0
               RETURNING id";
    let values = params![
        stored(failure.signature),
        failure.class.as_str(),
        failure.error_type.as_str(),
        failure.normalized.as_str(),
        failure.identity.as_ref().map(Scrubbed::as_str),
        known.first_seen.as_microsecond(),
        known.last_seen.as_microsecond(),
        known.seen.min(i64::MAX as u64),
        known.remedies.len(),
    ];
    let id: i64 = tx.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    for tried in &known.remedies {
        save_tried(tx, id, tried)?;
    }
    Ok(())
}

fn save_tried(tx: &Transaction<'_>, failure: i64, tried: &Tried) -> rusqlite::Result<()> {
    let sql = "INSERT INTO remedy (failure, digest, kind, text, since, by, record, outcomes)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
               ON CONFLICT (failure, digest) DO UPDATE SET
                   since = ?5, by = ?6, record = ?7, outcomes = ?8";
    let values = params![
        failure,
        &tried.remedy.digest().0[..],
        tried.remedy.kind.as_str(),
        tried.remedy.text.as_str(),
        tried.since.as_microsecond(),
        tried.by.as_str(),
        to_json(&tried.record)?,
        to_json(&tried.outcomes)?,
    ];
    tx.prepare_cached(sql)?.execute(values).map(|_| ())
}

/// Drops one remedy of a failure.
pub(crate) fn drop_remedy(
    tx: &Transaction<'_>,
    signature: Signature,
    remedy: &Remedy,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM remedy WHERE digest = ?2
               AND failure = (SELECT id FROM failure WHERE signature = ?1)";
    tx.execute(sql, params![stored(signature), &remedy.digest().0[..]]).map(|_| ())
}

/// Reads what is known about the failures last seen of those that have a remedy, oldest first.
pub(crate) fn load_patterns(tx: &Transaction<'_>, most: u64) -> rusqlite::Result<Vec<Knowledge>> {
    let sql = "SELECT signature FROM (SELECT signature, first_seen, id FROM failure
                   WHERE remedies > 0 AND withdrawn = 0 ORDER BY last_seen DESC LIMIT ?1)
               ORDER BY first_seen, id";
    let signatures = signatures(tx, sql, [most])?;
    load_all(tx, &signatures)
}

/// Takes a failure out of force but keeps its history.
pub(crate) fn withdraw(tx: &Transaction<'_>, signature: Signature) -> rusqlite::Result<()> {
    let sql = "UPDATE failure SET withdrawn = 1 WHERE signature = ?1";
    tx.execute(sql, [stored(signature)]).map(|_| ())
}

fn signatures(
    tx: &Transaction<'_>,
    sql: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Signature>> {
    let mut statement = tx.prepare_cached(sql)?;
    let rows = statement.query_map(values, |row| row.get(0).map(from_stored))?;
    rows.collect()
}

fn number_of(tx: &Transaction<'_>, signature: Signature) -> rusqlite::Result<i64> {
    let sql = "SELECT id FROM failure WHERE signature = ?1";
    tx.prepare_cached(sql)?.query_row([stored(signature)], |row| row.get(0))
}

fn stored(signature: Signature) -> i64 {
    signature.0.cast_signed()
}

/// Reads a signature as it is stored.
pub(super) fn from_stored(number: i64) -> Signature {
    Signature(number.cast_unsigned())
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let micros = row.get(column)?;
    Timestamp::from_microsecond(micros).map_err(|error| malformed(column, error))
}

/// Reads a text column into a type that is a plain string in JSON.
fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_value(text.into()).map_err(|error| malformed(column, error))
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| malformed(column, error))
}

pub(crate) fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn malformed(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
