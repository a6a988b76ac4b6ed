//! The index of near matches: a file beside the database that is made again whenever it does not fit.
//!
//! The database is the truth. The file holds the words of all failures up to some number; what was
//! added since is read from the database and added in memory. A failure that was forgotten is
//! found by the index and not by the database, and so is left out of the answer.

use std::path::PathBuf;

use salve_core::id::Signature;
use salve_core::near::{IndexOrigin, NearIndex};

use super::database::Database;
use super::memory::from_stored;
use crate::atomic;
use crate::files::{FileKind, read_bytes};
use crate::store::StoreError;

/// Failures that may be in the database and not in the file before the file is made again.
const BEHIND: u64 = 2_000;

/// Reads or makes the index of near matches.
///
/// A file that is missing, damaged or of another memory costs time and nothing else.
pub(super) fn read_index(database: &Database) -> Result<NearIndex, StoreError> {
    let (store, last) = extent(database)?;
    let path = index_path(database);
    let kept =
        read_bytes(&path, FileKind::Bulk).ok().and_then(|bytes| NearIndex::from_bytes(bytes).ok());
    let (mut index, origin) = kept
        .filter(|(_, origin)| origin.store == store && origin.upto <= last)
        .unwrap_or((NearIndex::new(), IndexOrigin { store, upto: 0 }));
    let added = add_since(database, origin.upto, &mut index)?;
    if added > BEHIND {
        // Keeping it only saves time later; who may not write here still gets an answer.
        let _ = atomic::write(&path, index.to_bytes(IndexOrigin { store, upto: last }));
    }
    Ok(index)
}

/// Returns which memory this is and the number of the last failure it took in.
fn extent(database: &Database) -> Result<(u64, u64), StoreError> {
    database.read_tables(|tx| {
        let sql = "SELECT value FROM meta WHERE name = 'memory'";
        let store: String = tx.query_row(sql, [], |row| row.get(0))?;
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'failure'";
        let last = tx.query_row(sql, [], |row| row.get(0))?;
        Ok((u64::from_str_radix(&store, 16).unwrap_or_default(), last))
    })
}

/// Adds what came after failure `upto` and returns how many those were.
fn add_since(database: &Database, upto: u64, index: &mut NearIndex) -> Result<u64, StoreError> {
    const PORTION: u64 = 50_000;
    let (mut after, mut added) = (upto, 0);
    loop {
        let rows: Vec<(u64, Signature, String)> = database.read_tables(|tx| {
            let sql = "SELECT id, signature, normalized FROM failure WHERE id > ?1
                       ORDER BY id LIMIT ?2";
            let mut statement = tx.prepare_cached(sql)?;
            let rows = statement.query_map([after, PORTION], |row| {
                Ok((row.get(0)?, from_stored(row.get(1)?), row.get(2)?))
            })?;
            rows.collect()
        })?;
        let Some((last, ..)) = rows.last() else { return Ok(added) };
        after = *last;
        added += rows.len() as u64;
        rows.iter().for_each(|(_, signature, text)| index.add(*signature, text));
    }
}

fn index_path(database: &Database) -> PathBuf {
    database.project().state_dir().join("near.index")
}
