//! The items of the learned files, as rows.

use rusqlite::{OptionalExtension, Transaction, params};
use salve_core::id::Signature;

use super::memory::to_json;
use crate::store::memory::item_added_to;
use crate::store::{FileBase, ItemChange, KeyedItem, LearnedItem};

/// The file whose items are keyed by signature.
const OF_FAILURES: &str = "healing-patterns.json";

/// Returns the latest items of a file, oldest first.
pub(super) fn all_items(
    tx: &Transaction<'_>,
    file: &str,
    most: u64,
) -> rusqlite::Result<Vec<KeyedItem>> {
    let sql = "SELECT key, data FROM (SELECT key, data, place FROM learned WHERE file = ?1
               ORDER BY place DESC LIMIT ?2) ORDER BY place";
    let mut statement = tx.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![file, most], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut items = Vec::new();
    for row in rows {
        let (key, data) = row?;
        items.extend(serde_json::from_str(&data).ok().map(|item| KeyedItem { key, item }));
    }
    Ok(items)
}

/// Applies one change.
pub(super) fn change_item(
    tx: &Transaction<'_>,
    file: &str,
    change: &ItemChange,
) -> rusqlite::Result<()> {
    match change {
        ItemChange::Put(KeyedItem { key, item }) => put_item(tx, file, key, item),
        ItemChange::Update { keyed: KeyedItem { key, item }, own_keys } => {
            let mut merged = find_item(tx, file, key)?.unwrap_or_default();
            merged.retain(|name, _| !own_keys.contains(&name.as_str()));
            merged.extend(item.clone());
            put_item(tx, file, key, &merged)
        }
        ItemChange::Add { keyed: KeyedItem { key, item }, counts, latest, unknown } => {
            let stored = find_item(tx, file, key)?;
            match item_added_to(stored, item, counts, latest, *unknown) {
                Some(item) => put_item(tx, file, key, &item),
                None => Ok(()),
            }
        }
        ItemChange::Drop { key } => {
            let sql = "DELETE FROM learned WHERE file = ?1 AND key = ?2";
            tx.execute(sql, params![file, key]).map(drop)
        }
    }
}

fn find_item(tx: &Transaction<'_>, file: &str, key: &str) -> rusqlite::Result<Option<LearnedItem>> {
    let sql = "SELECT data FROM learned WHERE file = ?1 AND key = ?2";
    let mut statement = tx.prepare_cached(sql)?;
    let data: Option<String> =
        statement.query_row(params![file, key], |row| row.get(0)).optional()?;
    Ok(data.and_then(|data| serde_json::from_str(&data).ok()))
}

/// Adds an item at the end of a file, or replaces it in its place.
fn put_item(
    tx: &Transaction<'_>,
    file: &str,
    key: &str,
    item: &LearnedItem,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO learned (file, key, place, data) VALUES (?1, ?2,
                   (SELECT coalesce(max(place), 0) + 1 FROM learned WHERE file = ?1), ?3)
               ON CONFLICT (file, key) DO UPDATE SET data = ?3";
    tx.execute(sql, params![file, key, to_json(item)?]).map(drop)
}

/// Drops what a person added to a failure that is forgotten.
pub(super) fn forget_failure(tx: &Transaction<'_>, signature: Signature) -> rusqlite::Result<()> {
    change_item(tx, OF_FAILURES, &ItemChange::Drop { key: signature.to_string() })
}

/// Moves what a person added to a failure to its new signature; what stands there stays.
pub(super) fn move_failure(
    tx: &Transaction<'_>,
    from: Signature,
    to: Signature,
) -> rusqlite::Result<()> {
    if let Some(mut item) = find_item(tx, OF_FAILURES, &from.to_string())? {
        item.extend(find_item(tx, OF_FAILURES, &to.to_string())?.unwrap_or_default());
        put_item(tx, OF_FAILURES, &to.to_string(), &item)?;
    }
    forget_failure(tx, from)
}

/// Returns what a file said when it was last in step.
pub(super) fn base_of_file(tx: &Transaction<'_>, file: &str) -> rusqlite::Result<Option<FileBase>> {
    let sql = "SELECT digest, items FROM learned_file WHERE file = ?1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
    let found = tx.query_row(sql, [file], row).optional()?;
    Ok(found.map(|(digest, items)| {
        let items = serde_json::from_str(&items).unwrap_or_default();
        FileBase { digest, items }
    }))
}

/// Returns the digest of what a file said, without its items, of which there may be many.
pub(super) fn digest_of_file(tx: &Transaction<'_>, file: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT digest FROM learned_file WHERE file = ?1";
    tx.query_row(sql, [file], |row| row.get(0)).optional()
}

/// Remembers what a file says now that it is in step.
pub(super) fn set_base_of_file(
    tx: &Transaction<'_>,
    file: &str,
    base: &FileBase,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO learned_file (file, digest, items) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![file, base.digest, to_json(&base.items)?]).map(drop)
}
