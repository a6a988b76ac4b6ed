//! The one SQLite database that is a project's own.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::FailedSubject;
use super::{git, relative};
use crate::files::{FileKind, Links, open_regular, read_text};

/// How a database file begins; one that was only opened is empty.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// How database files end.
const ENDINGS: &[&str] = &["sqlite3", "sqlite", "db"];

/// Files in which a project says where its database is.
const SETTINGS: &[&str] =
    &["settings.py", "alembic.ini", ".env", "schema.prisma", "database.yml", "config.py", "app.py"];

/// How deep and how far a project is searched.
const DEPTH: usize = 3;
const DIRECTORIES: usize = 200;

/// Returns the database that the project's own settings name, if it is the only one, lies inside
/// the project and is not tracked by git; nothing if the environment names another.
pub(super) fn local(ask: &FailedSubject<'_>, output: &str) -> Option<String> {
    let speaks = ["no such table", "no such column", "igrations are pending", "not up to date"];
    if !speaks.iter().any(|words| output.contains(words)) {
        return None;
    }
    let elsewhere = ask.variable("DATABASE_URL").and_then(|url| url.into_string().ok());
    if elsewhere.is_some_and(|url| !url.is_empty() && !url.starts_with("sqlite")) {
        return None;
    }
    let (mut databases, mut settings) = (Vec::new(), String::new());
    let mut open = vec![(ask.root.to_path_buf(), DEPTH)];
    let mut left = DIRECTORIES;
    while let Some((dir, depth)) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let Ok(kind) = entry.file_type() else { continue };
            let foreign = name.starts_with('.') || ["node_modules", "target"].contains(&&*name);
            if kind.is_dir() && depth > 0 && left > 0 && !foreign {
                left -= 1;
                open.push((path.clone(), depth - 1));
            } else if kind.is_file() && SETTINGS.contains(&&*name) {
                settings.push_str(&read_text(&path, FileKind::Settings).unwrap_or_default());
            } else if kind.is_file() && is_database(&path) {
                databases.push((path, name));
            }
        }
    }
    databases.retain(|(_, name)| settings.contains(name.as_str()));
    let [(path, _)] = databases.as_slice() else { return None };
    let path = relative(ask.root, path)?;
    (!git::is_tracked(ask.root, &path)).then_some(path)
}

fn is_database(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !ENDINGS.contains(&ending) {
        return false;
    }
    let mut start = [0; MAGIC.len()];
    let Ok(mut file) = open_regular(path, Links::Refuse) else { return false };
    file.read(&mut start).is_ok_and(|read| read == 0 || start[..read] == *MAGIC)
}

/// Returns a database with the files that SQLite keeps beside it.
pub(in super::super) fn files(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let text = path.as_os_str().to_owned();
    ["", "-wal", "-shm", "-journal"].into_iter().map(move |ending| {
        let mut name = text.clone();
        name.push(ending);
        PathBuf::from(name)
    })
}
