//! Reading rows from a damaged database, around the damage.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, Transaction, params_from_iter};

use crate::store::sqlite::open::distrust;
use crate::store::sqlite::patience::WorkLimit;
use crate::store::sqlite::schema;

/// How far to look behind a damaged place: more rows than a page can hold.
const FURTHEST: i64 = 1 << 40;

/// How many rows to look for one by one around a damaged place.
const CLOSEST: i64 = 4096;

/// Copies into `fresh` every row of `damaged` that can be read, table by table.
///
/// It ends after `time` with what was read by then: of a damaged file nobody knows how often the
/// same rows come by.
pub(super) fn rescue(
    damaged: &Path,
    fresh: &Transaction<'_>,
    time: Duration,
) -> rusqlite::Result<()> {
    let Some((source, limit)) = open(damaged, time) else { return Ok(()) };
    let tables = tables(fresh)?;
    for table in &tables {
        SalvagedTable { source: &source, fresh, table, limit: &limit }.copy()?;
    }
    tables.iter().try_for_each(|table| drop_orphans(fresh, table))
}

/// Drops rows that belong to a row which is lost, before another takes its place.
fn drop_orphans(fresh: &Transaction<'_>, table: &str) -> rusqlite::Result<()> {
    let sql = "SELECT \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1)";
    let parents: Vec<(String, String, String)> = fresh
        .prepare(sql)?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (parent, from, to) in parents {
        let known = format!("SELECT {to} FROM {parent}");
        fresh.execute(&format!("DELETE FROM {table} WHERE {from} NOT IN ({known})"), [])?;
    }
    Ok(())
}

/// Opens what may not even look like a database any more, for as long as `time`; `None` if nothing
/// helps. Its views and triggers are off: one in a table's place could be read for ever.
pub(super) fn open(damaged: &Path, time: Duration) -> Option<(Connection, WorkLimit)> {
    let readable = |conn: &Connection| {
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).is_ok()
    };
    let attempt = || {
        let mut conn = Connection::open(damaged).ok()?;
        let limit = WorkLimit::set(&mut conn, time).ok()?;
        distrust(&conn).ok()?;
        Some((conn, limit)).filter(|(conn, _)| readable(conn))
    };
    attempt().or_else(|| {
        write_header(damaged).ok()?;
        attempt()
    })
}

/// Rewrites the first bytes of the file, which are the same in every store.
fn write_header(damaged: &Path) -> io::Result<()> {
    const PAGE: u16 = 4096;
    let mut file = fs::OpenOptions::new().write(true).open(damaged)?;
    let pages = u32::try_from(file.metadata()?.len() / u64::from(PAGE)).unwrap_or(u32::MAX);
    let mut header = [0; 100];
    header[..16].copy_from_slice(b"SQLite format 3\0");
    header[16..18].copy_from_slice(&PAGE.to_be_bytes());
    // Written and read with a log, nothing reserved, and the fixed fractions.
    header[18..24].copy_from_slice(&[2, 2, 0, 64, 32, 32]);
    header[24..28].copy_from_slice(&1_u32.to_be_bytes());
    header[28..32].copy_from_slice(&pages.to_be_bytes());
    header[40..44].copy_from_slice(&1_u32.to_be_bytes());
    header[44..48].copy_from_slice(&4_u32.to_be_bytes());
    header[56..60].copy_from_slice(&1_u32.to_be_bytes());
    header[60..64].copy_from_slice(&schema::newest().to_be_bytes());
    header[92..96].copy_from_slice(&1_u32.to_be_bytes());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header)
}

/// Lists the plain tables of a database, those first that others may refer to.
fn tables(conn: &Transaction<'_>) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'meta' \
               AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid";
    conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

struct SalvagedTable<'c> {
    source: &'c Connection,
    fresh: &'c Transaction<'c>,
    table: &'c str,
    limit: &'c WorkLimit,
}

impl SalvagedTable<'_> {
    fn copy(&self) -> rusqlite::Result<()> {
        let wanted = columns(self.fresh, self.table)?;
        // A table that is not there, or has other columns, is from another version: take what fits.
        let there = columns(self.source, self.table).unwrap_or_default();
        let columns: Vec<_> = wanted.into_iter().filter(|name| there.contains(name)).collect();
        if columns.is_empty() {
            return Ok(());
        }
        let list = columns.join(", ");
        let marks = vec!["?"; columns.len()].join(", ");
        let Self { table, .. } = self;
        let insert = format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({marks})");
        let put = |values: Vec<Value>| {
            // A row that does not fit is as good as damaged.
            let _ = self.fresh.prepare_cached(&insert)?.execute(params_from_iter(values));
            Ok(())
        };
        let select = format!("SELECT rowid, {list} FROM {table}");
        match self.source.prepare(&select) {
            Ok(_) => self.walk(&select, columns.len(), &put),
            // Without row numbers, read up to the damaged place from both ends.
            Err(_) => ["ASC", "DESC"].into_iter().try_for_each(|order| {
                let by: Vec<_> = key(self.fresh, table)?;
                let by: Vec<_> = by.iter().map(|name| format!("{name} {order}")).collect();
                let sql = format!("SELECT 0, {list} FROM {table} ORDER BY {}", by.join(", "));
                self.scan(&sql, columns.len(), &put).map(drop)
            }),
        }
    }

    /// Reads by row number, and on behind each damaged place.
    fn walk(
        &self,
        select: &str,
        columns: usize,
        put: &dyn Fn(Vec<Value>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut after = i64::MIN;
        let mut step = 1;
        while step < FURTHEST && !self.limit.is_over() {
            let sql =
                format!("{select} WHERE rowid > {} ORDER BY rowid", after.saturating_add(step - 1));
            match self.scan(&sql, columns, put)? {
                Scan::Done => return self.pick(select, RowStep { after, step }, columns, put),
                // Only on: rows in the wrong order must not lead back to where it was.
                Scan::Broke { last: Some(last) } if last > after => {
                    self.pick(select, RowStep { after, step }, columns, put)?;
                    (after, step) = (last, 1);
                }
                Scan::Broke { last: Some(_) } => step *= 2,
                // Row numbers are positive; there is no need to crawl up from the very lowest.
                Scan::Broke { last: None } if after == i64::MIN => after = 0,
                Scan::Broke { last: None } => step *= 2,
            }
        }
        self.pick(select, RowStep { after, step: CLOSEST }, columns, put)
    }

    /// Reads one by one the rows that were stepped over.
    fn pick(
        &self,
        select: &str,
        RowStep { after, step }: RowStep,
        columns: usize,
        put: &dyn Fn(Vec<Value>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        for rowid in after.saturating_add(1)..after.saturating_add(step.min(CLOSEST)) {
            if self.limit.is_over() {
                return Ok(());
            }
            self.scan(&format!("{select} WHERE rowid = {rowid}"), columns, put)?;
        }
        Ok(())
    }

    fn scan(
        &self,
        sql: &str,
        columns: usize,
        put: &dyn Fn(Vec<Value>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Scan> {
        let mut last = None;
        let Ok(mut statement) = self.source.prepare(sql) else { return Ok(Scan::Broke { last }) };
        let Ok(mut rows) = statement.query([]) else { return Ok(Scan::Broke { last }) };
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let Ok((rowid, values)) = split(row, columns) else {
                        return Ok(Scan::Broke { last });
                    };
                    put(values)?;
                    // Without row numbers there is no order to keep to.
                    if rowid != 0 && last.is_some_and(|last| last >= rowid) {
                        return Ok(Scan::Broke { last });
                    }
                    last = Some(rowid);
                }
                Ok(None) => return Ok(Scan::Done),
                Err(_) => return Ok(Scan::Broke { last }),
            }
        }
    }
}

/// The rows behind one that were stepped over.
#[derive(Clone, Copy)]
struct RowStep {
    after: i64,
    step: i64,
}

/// How far a reading went.
enum Scan {
    /// To the end.
    Done,
    /// To a damaged place behind this row.
    Broke { last: Option<i64> },
}

fn split(row: &Row<'_>, columns: usize) -> rusqlite::Result<(i64, Vec<Value>)> {
    let values = (1..=columns).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?;
    Ok((row.get(0)?, values))
}

fn columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_table_info(?1)";
    conn.prepare(sql)?.query_map([table], |row| row.get(0))?.collect()
}

/// Lists the columns of the primary key, in its order.
fn key(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk";
    conn.prepare(sql)?.query_map([table], |row| row.get(0))?.collect()
}
