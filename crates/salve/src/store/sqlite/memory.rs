//! The memory in SQLite: failures, their remedies, and the items of the learned files.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use salve_core::id::Signature;
use salve_core::memory::{
    Knowledge, KnowledgeEdit, Rekeying, RememberedFailure, RememberedRemedy, TriedRemedy, join,
    merge,
};
use salve_core::near::NearIndex;
use salve_core::scrub::Scrubbed;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::database::Database;
use super::{Durability, items, near};
use crate::store::{
    FailurePortion, FileBase, FileEdit, KeyedItem, Memory, MemorySize, Page, Portion, StoreError,
};

/// The tables of the memory.
#[derive(Debug)]
pub(super) struct SqliteMemory {
    database: Arc<Database>,
}

impl SqliteMemory {
    /// Keeps the memory's tables in a database.
    pub(super) fn new(database: &Arc<Database>) -> Self {
        Self { database: Arc::clone(database) }
    }
}

impl Memory for SqliteMemory {
    fn recall(&self, signature: Signature) -> Result<Option<Knowledge>, StoreError> {
        self.database.read_tables(|tx| load_failure(tx, signature, WithdrawnScope::InForce))
    }

    fn edit(&self, edits: &[KnowledgeEdit]) -> Result<(), StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            edits.iter().try_for_each(|edit| apply_edit(tx, edit))
        })
    }

    fn merge(&self, others: &[Knowledge]) -> Result<u64, StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            let mut news = 0;
            for other in others {
                let old = load_failure(tx, other.failure.signature, WithdrawnScope::All)?;
                let merged = match old.clone() {
                    None => other.clone(),
                    Some(mut known) => {
                        merge(&mut known, other);
                        known
                    }
                };
                news += u64::from(old.as_ref() != Some(&merged));
                save_failure(tx, &merged)?;
            }
            Ok(news)
        })
    }

    fn forget(&self, signature: Signature) -> Result<bool, StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            items::forget_failure(tx, signature)?;
            let sql = "DELETE FROM failure WHERE signature = ?1";
            Ok(tx.prepare_cached(sql)?.execute([stored_signature(signature)])? > 0)
        })
    }

    fn list(&self, page: Page) -> Result<Vec<Knowledge>, StoreError> {
        self.database.read_tables(|tx| {
            let sql = "SELECT signature FROM failure WHERE withdrawn = 0
                       ORDER BY last_seen DESC, id LIMIT ?1 OFFSET ?2";
            let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
            let skip = i64::try_from(page.skip).unwrap_or(i64::MAX);
            let signatures = find_signatures(tx, sql, [limit, skip])?;
            load_failures(tx, &signatures)
        })
    }

    fn portion(&self, after: u64, limit: u64) -> Result<Portion, StoreError> {
        self.database.read_tables(|tx| {
            let sql = "SELECT signature FROM failure WHERE withdrawn = 0 AND id > ?1
                       ORDER BY id LIMIT ?2";
            let signatures = find_signatures(tx, sql, [after, limit])?;
            let next = match signatures.last() {
                Some(last) => Some(number_of(tx, *last)?),
                None => None,
            };
            Ok(Portion { known: load_failures(tx, &signatures)?, next })
        })
    }

    fn with_remedies(&self, most: u64) -> Result<Vec<Knowledge>, StoreError> {
        self.database.read_tables(|tx| {
            let sql = "SELECT signature FROM (SELECT signature, first_seen, id FROM failure
                           WHERE remedies > 0 AND withdrawn = 0 ORDER BY last_seen DESC LIMIT ?1)
                       ORDER BY first_seen, id";
            let signatures = find_signatures(tx, sql, [most])?;
            load_failures(tx, &signatures)
        })
    }

    fn counts(&self) -> Result<MemorySize, StoreError> {
        self.database.read_tables(|tx| {
            let failures = "SELECT count(*) FROM failure WHERE withdrawn = 0";
            let failures = tx.query_row(failures, [], |row| row.get(0))?;
            let remedies = "SELECT count(*),
                    coalesce(sum(record ->> 'proven' > 0), 0),
                    coalesce(sum(record ->> 'proven' = 0
                        AND (record ->> 'failed') + (record ->> 'masked') > 0), 0)
                FROM remedy JOIN failure ON failure.id = remedy.failure WHERE withdrawn = 0";
            tx.query_row(remedies, [], |row| {
                let (remedies, proven, failed) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(MemorySize { failures, remedies, proven, failed })
            })
        })
    }

    fn signatures_like(&self, prefix: &str) -> Result<Vec<Signature>, StoreError> {
        let Ok(first) = format!("{prefix:0<16}").parse::<Signature>() else {
            return Ok(Vec::new());
        };
        let Ok(last) = format!("{prefix:f<16}").parse::<Signature>() else {
            return Ok(Vec::new());
        };
        self.database.read_tables(|tx| {
            // Both have the same first digit, so they are on the same side of zero when stored.
            let sql = "SELECT signature FROM failure
                       WHERE withdrawn = 0 AND signature BETWEEN ?1 AND ?2 LIMIT 10";
            find_signatures(tx, sql, [stored_signature(first), stored_signature(last)])
        })
    }

    fn near_index(&self) -> Result<NearIndex, StoreError> {
        near::read_index(&self.database)
    }

    fn tables_digest(&self) -> Result<Option<String>, StoreError> {
        self.database.read_tables(tables_digest)
    }

    fn failures(&self, after: u64, limit: u64) -> Result<FailurePortion, StoreError> {
        self.database.read_tables(|tx| {
            let sql = "SELECT id, class, error_type, normalized, identity, signature, 0, 0, 0,
                           key_line
                       FROM failure WHERE id > ?1 ORDER BY id LIMIT ?2";
            let mut portion = FailurePortion::default();
            let mut statement = tx.prepare_cached(sql)?;
            let mut rows = statement.query([after, limit])?;
            while let Some(row) = rows.next()? {
                portion.failures.push(failure_in_row(from_stored(row.get(5)?), row)?);
                portion.next = Some(row.get(0)?);
            }
            Ok(portion)
        })
    }

    fn rekey(&self, tables: &str, rekeyings: &[Rekeying]) -> Result<(), StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            if tables_digest(tx)?.as_deref() == Some(tables) {
                // Another process was faster.
                return Ok(());
            }
            rekeyings.iter().try_for_each(|rekeying| move_failure(tx, rekeying))?;
            let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('tables', ?1)";
            tx.execute(sql, [tables]).map(drop)
        })
    }

    fn file_items(&self, file: &str, most: u64) -> Result<Vec<KeyedItem>, StoreError> {
        self.database.read_tables(|tx| items::all_items(tx, file, most))
    }

    fn file_base(&self, file: &str) -> Result<Option<FileBase>, StoreError> {
        self.database.read_tables(|tx| items::base_of_file(tx, file))
    }

    fn file_digest(&self, file: &str) -> Result<Option<String>, StoreError> {
        self.database.read_tables(|tx| items::digest_of_file(tx, file))
    }

    fn edit_file(&self, edit: &FileEdit) -> Result<(), StoreError> {
        self.database.write_tables(Durability::Power, |tx| {
            edit.withdrawn.iter().try_for_each(|signature| withdraw_failure(tx, *signature))?;
            edit.knowledge.iter().try_for_each(|edit| apply_edit(tx, edit))?;
            edit.items.iter().try_for_each(|change| items::change_item(tx, edit.file, change))?;
            match &edit.base {
                Some(base) => items::set_base_of_file(tx, edit.file, base),
                None => Ok(()),
            }
        })
    }
}

fn tables_digest(tx: &Transaction<'_>) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM meta WHERE name = 'tables'";
    tx.query_row(sql, [], |row| row.get(0)).optional()
}

/// Moves what is known about a failure to its new signature.
fn move_failure(tx: &Transaction<'_>, Rekeying { from, to }: &Rekeying) -> rusqlite::Result<()> {
    let Some(mut known) = load_failure(tx, *from, WithdrawnScope::All)? else { return Ok(()) };
    let is_in_force = load_failure(tx, *from, WithdrawnScope::InForce)?.is_some()
        || load_failure(tx, to.signature, WithdrawnScope::InForce)?.is_some();
    tx.execute("DELETE FROM failure WHERE signature = ?1", [stored_signature(*from)])?;
    match load_failure(tx, to.signature, WithdrawnScope::All)? {
        Some(there) => {
            known.failure = there.failure.clone();
            join(&mut known, &there);
        }
        None => known.failure = to.clone(),
    }
    save_failure(tx, &known)?;
    if !is_in_force {
        withdraw_failure(tx, to.signature)?;
    }
    items::move_failure(tx, *from, to.signature)
}

/// Applies an edit to what is known at this moment, withdrawn or not.
fn apply_edit(tx: &Transaction<'_>, edit: &KnowledgeEdit) -> rusqlite::Result<()> {
    let signature = edit.failure.signature;
    let known = load_failure(tx, signature, WithdrawnScope::All)?;
    edit.dropped().try_for_each(|remedy| drop_remedy(tx, signature, remedy))?;
    save_failure(tx, &edit.apply(known))
}

/// Whether what a person took out of the shared file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithdrawnScope {
    /// Only what is in force.
    InForce,
    /// What was withdrawn too: its history returns with it.
    All,
}

/// Reads what is known about one failure.
fn load_failure(
    tx: &Transaction<'_>,
    signature: Signature,
    scope: WithdrawnScope,
) -> rusqlite::Result<Option<Knowledge>> {
    let sql = "SELECT id, class, error_type, normalized, identity, first_seen, last_seen, seen,
                   remedies, key_line
               FROM failure WHERE signature = ?1 AND withdrawn <= ?2";
    let withdrawn = i64::from(scope == WithdrawnScope::All);
    let found = tx
        .prepare_cached(sql)?
        .query_row(params![stored_signature(signature), withdrawn], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(8)?, knowledge_in_row(signature, row)?))
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

fn load_failures(
    tx: &Transaction<'_>,
    signatures: &[Signature],
) -> rusqlite::Result<Vec<Knowledge>> {
    let mut all = Vec::with_capacity(signatures.len());
    for &signature in signatures {
        all.extend(load_failure(tx, signature, WithdrawnScope::InForce)?);
    }
    Ok(all)
}

fn knowledge_in_row(signature: Signature, row: &Row<'_>) -> rusqlite::Result<Knowledge> {
    Ok(Knowledge {
        failure: failure_in_row(signature, row)?,
        first_seen: time_in_column(row, 5)?,
        last_seen: time_in_column(row, 6)?,
        seen: row.get(7)?,
        remedies: Vec::new(),
    })
}

/// Reads a failure from columns 1 to 4 and 9.
fn failure_in_row(signature: Signature, row: &Row<'_>) -> rusqlite::Result<RememberedFailure> {
    Ok(RememberedFailure {
        signature,
        class: word_in_column(row, 1)?,
        error_type: word_in_column(row, 2)?,
        normalized: word_in_column(row, 3)?,
        identity: match row.get_ref(4)?.as_str_or_null()? {
            None => None,
            Some(_) => Some(word_in_column(row, 4)?),
        },
        key_line: word_in_column(row, 9)?,
    })
}

fn tried(row: &Row<'_>) -> rusqlite::Result<TriedRemedy> {
    Ok(TriedRemedy {
        remedy: RememberedRemedy { kind: word_in_column(row, 0)?, text: word_in_column(row, 1)? },
        since: time_in_column(row, 2)?,
        by: word_in_column(row, 3)?,
        record: json_in_column(row, 4)?,
        outcomes: json_in_column(row, 5)?,
    })
}

/// Writes what is known about one failure; a withdrawn one is in force again.
fn save_failure(tx: &Transaction<'_>, known: &Knowledge) -> rusqlite::Result<()> {
    let failure = &known.failure;
    let sql = "INSERT INTO failure (signature, class, error_type, normalized, identity,
                   first_seen, last_seen, seen, remedies, key_line)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
               ON CONFLICT (signature) DO UPDATE SET class = ?2, error_type = ?3, first_seen = ?6,
                   last_seen = ?7, seen = ?8, remedies = ?9, key_line = ?10, withdrawn = 0
               RETURNING id";
    let values = params![
        stored_signature(failure.signature),
        failure.class.as_str(),
        failure.error_type.as_str(),
        failure.normalized.as_str(),
        failure.identity.as_ref().map(Scrubbed::as_str),
        known.first_seen.as_microsecond(),
        known.last_seen.as_microsecond(),
        known.seen.min(i64::MAX as u64),
        known.remedies.len(),
        failure.key_line.as_str(),
    ];
    let id: i64 = tx.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    for tried in &known.remedies {
        save_tried(tx, id, tried)?;
    }
    Ok(())
}

fn save_tried(tx: &Transaction<'_>, failure: i64, tried: &TriedRemedy) -> rusqlite::Result<()> {
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
fn drop_remedy(
    tx: &Transaction<'_>,
    signature: Signature,
    remedy: &RememberedRemedy,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM remedy WHERE digest = ?2
               AND failure = (SELECT id FROM failure WHERE signature = ?1)";
    tx.execute(sql, params![stored_signature(signature), &remedy.digest().0[..]]).map(|_| ())
}

/// Takes a failure out of force but keeps its history.
fn withdraw_failure(tx: &Transaction<'_>, signature: Signature) -> rusqlite::Result<()> {
    let sql = "UPDATE failure SET withdrawn = 1 WHERE signature = ?1";
    tx.execute(sql, [stored_signature(signature)]).map(|_| ())
}

fn find_signatures(
    tx: &Transaction<'_>,
    sql: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Signature>> {
    let mut statement = tx.prepare_cached(sql)?;
    let rows = statement.query_map(values, |row| row.get(0).map(from_stored))?;
    rows.collect()
}

fn number_of(tx: &Transaction<'_>, signature: Signature) -> rusqlite::Result<u64> {
    let sql = "SELECT id FROM failure WHERE signature = ?1";
    tx.prepare_cached(sql)?.query_row([stored_signature(signature)], |row| row.get(0))
}

fn stored_signature(signature: Signature) -> i64 {
    signature.0.cast_signed()
}

/// Reads a signature as it is stored.
pub(super) fn from_stored(number: i64) -> Signature {
    Signature(number.cast_unsigned())
}

fn time_in_column(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let micros = row.get(column)?;
    Timestamp::from_microsecond(micros).map_err(|error| malformed(column, error))
}

/// Reads a text column into a type that is a plain string in JSON.
fn word_in_column<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_value(text.into()).map_err(|error| malformed(column, error))
}

fn json_in_column<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| malformed(column, error))
}

pub(super) fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
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
