//! A limit on how long the engine works on one thing.
//!
//! A database that is damaged in the right places makes the engine walk the same pages for as long
//! as the world stands, without an error. So its work is looked at now and then, and cut short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How many steps of the engine's own machine lie between two looks at the clock.
const STEPS: i32 = 20_000;

/// Stands for no end.
const NEVER: u64 = u64::MAX;

/// The instant up to which a connection may work, which its owner moves on.
#[derive(Clone, Debug)]
pub(super) struct WorkLimit {
    began: Instant,
    /// In milliseconds after `began`.
    end: Arc<AtomicU64>,
}

impl WorkLimit {
    /// Limits all work on a connection from now on; the first end is `after` from now.
    pub(super) fn set(conn: &mut Connection, after: Duration) -> rusqlite::Result<Self> {
        let limit = Self { began: Instant::now(), end: Arc::new(AtomicU64::new(NEVER)) };
        limit.begin(Some(after));
        let watched = limit.clone();
        conn.progress_handler(STEPS, Some(move || watched.is_over()))?;
        Ok(limit)
    }

    /// Begins new work that may take this long, or as long as it takes.
    pub(super) fn begin(&self, after: Option<Duration>) {
        let end = after.map(|after| (self.began.elapsed() + after).as_millis());
        let end = end.map_or(NEVER, |end| u64::try_from(end).unwrap_or(NEVER));
        self.end.store(end, Ordering::Relaxed);
    }

    /// Returns whether the time is up.
    pub(super) fn is_over(&self) -> bool {
        self.began.elapsed().as_millis() > u128::from(self.end.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts for as long as it is let.
    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                           SELECT count(*) FROM n";

    #[test]
    fn endless_work_is_cut_short_and_the_connection_works_on() {
        let mut conn = Connection::open_in_memory().unwrap();
        let limit = WorkLimit::set(&mut conn, Duration::from_millis(1)).unwrap();
        let ask = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        let code = ask(ENDLESS).unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
        assert!(limit.is_over());
        limit.begin(None);
        assert!(!limit.is_over());
        assert_eq!(ask("SELECT 7").unwrap(), 7);
    }
}
