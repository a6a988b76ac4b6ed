//! The shape of the database and how an older one is brought up to date.
//!
//! A part of Salve that keeps its own tables here adds one [`Migration`] to the end of
//! [`MIGRATIONS`]. A migration that has been released never changes.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::store::StoreError;

/// One step from a schema version to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The version the database has afterwards.
    pub(crate) version: u32,
    /// What to run.
    pub(crate) sql: &'static str,
}

/// Every migration, oldest first.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("schema/1-journal.sql") },
    Migration { version: 2, sql: include_str!("schema/2-memory.sql") },
    Migration { version: 3, sql: include_str!("schema/3-streams.sql") },
    Migration { version: 4, sql: include_str!("schema/4-key-lines.sql") },
    Migration { version: 5, sql: include_str!("schema/5-queue.sql") },
    Migration { version: 6, sql: include_str!("schema/6-seals.sql") },
];

/// Marks the file as Salve's: "SALV".
const APPLICATION_ID: i32 = 0x5341_4c56;

/// What a database that can be used needs before it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaState {
    /// It has no tables at all.
    Empty,
    /// It has this older version.
    Old(u32),
    /// It is up to date.
    Current,
}

/// Returns the newest version this program knows.
pub(super) fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Looks whether the database at `path` is Salve's and of a version that can be used.
pub(super) fn inspect(conn: &Connection, path: &Path) -> Result<SchemaState, StoreError> {
    let engine = |error| StoreError::opening(path, error);
    let pragma = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (id, version) =
        (pragma("application_id").map_err(engine)?, pragma("user_version").map_err(engine)?);
    let found = version.cast_unsigned();
    if id == APPLICATION_ID && found == newest() {
        return Ok(SchemaState::Current);
    }
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(tables, [], |row| row.get(0)).map_err(engine)?;
    if id == 0 && found == 0 && tables == 0 {
        return Ok(SchemaState::Empty);
    }
    // The header and the table must agree, else it is the header that was damaged.
    let recorded = recorded_version(conn);
    match recorded {
        Some(recorded) if id != APPLICATION_ID || recorded != found => {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            let what = "the header does not agree with the content".to_owned();
            Err(engine(rusqlite::Error::SqliteFailure(code, Some(what))))
        }
        _ if id != APPLICATION_ID => Err(StoreError::Foreign { path: path.to_path_buf() }),
        _ if found > newest() => {
            Err(StoreError::Newer { path: path.to_path_buf(), found, known: newest() })
        }
        _ => Ok(SchemaState::Old(found)),
    }
}

fn recorded_version(conn: &Connection) -> Option<u32> {
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'schema'";
    conn.query_row(sql, [], |row| row.get(0)).optional().ok().flatten()
}

/// Brings the database up to date, all at once or not at all.
pub(super) fn migrate(conn: &Connection) -> rusqlite::Result<()> {
    migrate_with(conn, MIGRATIONS)
}

fn migrate_with(conn: &Connection, migrations: &[Migration]) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let from: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in migrations.iter().filter(|migration| migration.version > from) {
        tx.execute_batch(migration.sql)?;
        tx.pragma_update(None, "user_version", migration.version)?;
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('schema', ?1)";
        tx.execute(sql, [migration.version.to_string()])?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(conn: &Connection) -> Vec<String> {
        let sql = "SELECT name || coalesce(sql, '') FROM sqlite_schema ORDER BY name";
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn versions_count_up_without_a_gap() {
        let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=newest()).collect::<Vec<_>>());
    }

    #[test]
    fn every_older_database_ends_like_a_new_one() {
        let path = Path::new("test.db");
        let new = Connection::open_in_memory().unwrap();
        assert_eq!(inspect(&new, path).unwrap(), SchemaState::Empty);
        migrate(&new).unwrap();
        for older in 1..MIGRATIONS.len() {
            let old = Connection::open_in_memory().unwrap();
            migrate_with(&old, &MIGRATIONS[..older]).unwrap();
            let version = MIGRATIONS[older - 1].version;
            assert_eq!(inspect(&old, path).unwrap(), SchemaState::Old(version));
            migrate(&old).unwrap();
            assert_eq!(schema(&old), schema(&new), "from {version}");
            assert_eq!(inspect(&old, path).unwrap(), SchemaState::Current);
        }
        assert_eq!(inspect(&new, path).unwrap(), SchemaState::Current);
    }

    #[test]
    fn a_newer_foreign_or_contradictory_database_is_told_apart() {
        let path = Path::new("test.db");
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(inspect(&conn, path), Err(StoreError::Corrupt { .. })));
        conn.execute("UPDATE meta SET value = '99' WHERE name = 'schema'", []).unwrap();
        assert!(matches!(inspect(&conn, path), Err(StoreError::Newer { found: 99, .. })));
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(inspect(&foreign, path), Err(StoreError::Foreign { .. })));
    }

    #[test]
    fn a_failing_migration_changes_nothing() {
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        let before = schema(&conn);
        let bad =
            Migration { version: newest() + 1, sql: "CREATE TABLE a (x); CREATE TABLE entry (x);" };
        migrate_with(&conn, &[bad]).unwrap_err();
        assert_eq!(schema(&conn), before);
        assert_eq!(inspect(&conn, Path::new("test.db")).unwrap(), SchemaState::Current);
    }
}
