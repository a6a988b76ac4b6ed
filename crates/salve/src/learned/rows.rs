//! The items of the learned files as rows of the store.

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use super::file::File;
use super::healing::to_pattern;
use super::yaml::Item;
use crate::store::{load_patterns, to_json};

/// What a file said: the digest of its text, and its items with what tells each from the others.
pub(super) type Base = (String, Vec<(String, Item)>);

/// Returns the healing patterns, with what a person added to them.
pub(super) fn healing_items(tx: &Transaction<'_>, most: u64) -> rusqlite::Result<Vec<Item>> {
    let mut items = Vec::new();
    for known in load_patterns(tx, most)? {
        let pattern = to_pattern(&known);
        let key = pattern.error_signature.clone();
        if let Ok(Value::Object(mut item)) = serde_json::to_value(&pattern) {
            item.extend(item_of(tx, File::HealingPatterns, &key)?.unwrap_or_default());
            items.push(item);
        }
    }
    Ok(items)
}

/// Returns the latest items of a file, oldest first.
pub(super) fn items_of(tx: &Transaction<'_>, file: File, most: u64) -> rusqlite::Result<Vec<Item>> {
    let sql = "SELECT data FROM (SELECT data, place FROM learned WHERE file = ?1
               ORDER BY place DESC LIMIT ?2) ORDER BY place";
    let mut statement = tx.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![file.name(), most], |row| row.get::<_, String>(0))?;
    let mut items = Vec::new();
    for row in rows {
        items.extend(serde_json::from_str::<Item>(&row?).ok());
    }
    Ok(items)
}

/// Returns one item of a file.
pub(super) fn item_of(
    tx: &Transaction<'_>,
    file: File,
    key: &str,
) -> rusqlite::Result<Option<Item>> {
    let sql = "SELECT data FROM learned WHERE file = ?1 AND key = ?2";
    let mut statement = tx.prepare_cached(sql)?;
    let data: Option<String> =
        statement.query_row(params![file.name(), key], |row| row.get(0)).optional()?;
    Ok(data.and_then(|data| serde_json::from_str(&data).ok()))
}

/// Adds an item at the end of a file, or replaces it in its place.
pub(super) fn put_item(
    tx: &Transaction<'_>,
    file: File,
    key: &str,
    item: &Item,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO learned (file, key, place, data) VALUES (?1, ?2,
                   (SELECT coalesce(max(place), 0) + 1 FROM learned WHERE file = ?1), ?3)
               ON CONFLICT (file, key) DO UPDATE SET data = ?3";
    tx.execute(sql, params![file.name(), key, to_json(item)?]).map(|_| ())
}

/// Drops an item of a file.
pub(super) fn drop_item(tx: &Transaction<'_>, file: File, key: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM learned WHERE file = ?1 AND key = ?2";
    tx.execute(sql, params![file.name(), key]).map(|_| ())
}

/// Returns what a file said when it was last in step.
pub(super) fn base_of(tx: &Transaction<'_>, file: File) -> rusqlite::Result<Option<Base>> {
    let sql = "SELECT digest, items FROM learned_file WHERE file = ?1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
    let found = tx.query_row(sql, [file.name()], row).optional()?;
    Ok(found.map(|(digest, items)| (digest, serde_json::from_str(&items).unwrap_or_default())))
}

/// Remembers what a file says now that it is in step.
pub(super) fn set_base(
    tx: &Transaction<'_>,
    file: File,
    digest: &str,
    items: &[(String, Item)],
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO learned_file (file, digest, items) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![file.name(), digest, to_json(&items)?]).map(|_| ())
}
