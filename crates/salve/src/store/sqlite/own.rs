//! Whether a database is this user's own, or came with a repository.
//!
//! A database bears a mark that only the user's keys make, for the project's very place. Where that
//! does not hold, and wherever something would be restored from the copy, what git tracks of Salve's
//! own files is put aside first. A database from before such marks is marked then.
//!
//! **Invariant:** nothing that came with a repository stands in the journal or in memory, but for what
//! was learned and is meant to be shared.

use std::os::unix::ffi::OsStrExt as _;

use rusqlite::{Connection, OptionalExtension as _};
use salve_core::event::{Digest, Seal};

use crate::project::{Project, ProjectError};
use crate::seal_keys::{SealKeys, SealWorth};

/// Returns whether a database bears the user's mark.
pub(super) fn is_own(conn: &Connection, project: &Project) -> Result<bool, ProjectError> {
    if !project.is_projects() {
        return Ok(true);
    }
    let Ok(keys) = SealKeys::of_user() else {
        // Nobody can mark anything; so it is looked for every time.
        return Ok(!project.has_brought()?);
    };
    let sql = "SELECT value FROM meta WHERE name = 'own'";
    // What cannot be read is marked once more, or found to be damaged elsewhere.
    let mark = conn.query_row(sql, [], |row| row.get::<_, String>(0)).optional().ok().flatten();
    let mark = mark.and_then(|mark| mark.parse::<Seal>().ok());
    // A key that was given up was the user's own.
    let holds = |mark: Seal| keys.worth(&mark, marked(project)) != SealWorth::Wrong;
    Ok(mark.is_some_and(holds))
}

/// Marks a database as the user's own.
pub(super) fn mark(conn: &Connection, project: &Project) -> rusqlite::Result<()> {
    let keys = SealKeys::of_user().ok().filter(|_| project.is_projects());
    let Some(seal) = keys.and_then(|keys| keys.seal(marked(project))) else { return Ok(()) };
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('own', ?1)";
    conn.execute(sql, [seal.to_string()]).map(drop)
}

/// Returns what the mark is made of.
fn marked(project: &Project) -> Digest {
    Digest::of(&[b"own store", project.root().as_os_str().as_bytes()])
}
