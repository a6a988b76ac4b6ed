//! Which repository keeps a project's snapshots.

use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use super::git::Git;
use super::oid::Format;

/// The repository for projects that have none, below the project's root.
const PRIVATE: &str = ".salve/snapshots.git";

/// The repository for what git ignores, below the project's root.
const VAULT: &str = ".salve/ignored.git";

/// Finds the repository that the project's files belong to, else Salve's own.
pub(super) fn open(root: &Path) -> Result<(Git, Format), WorkspaceError> {
    match surrounding(root)? {
        Some(format) => Ok((Git::at(root), format)),
        None => Ok((make(root, &root.join(PRIVATE), Format::Sha1)?, Format::Sha1)),
    }
}

/// The store of what git ignores, which is made when there is something to keep.
///
/// It is never the user's repository: who pushes all refs would push the secrets in such files.
#[derive(Debug)]
pub(super) struct Vault {
    root: PathBuf,
    store: PathBuf,
    format: Format,
}

impl Vault {
    /// Returns the vault of a project whose snapshots `git` keeps.
    pub(super) fn of(root: &Path, git: &Git, format: Format) -> Self {
        let store = git.store().map_or_else(|| root.join(VAULT), Path::to_path_buf);
        Self { root: root.to_path_buf(), store, format }
    }

    /// Returns the store, if there is one yet.
    pub(super) fn existing(&self) -> Option<Git> {
        let is_there = self.store.join("HEAD").exists();
        is_there.then(|| Git::private(&self.root, self.store.clone()))
    }

    /// Returns the store, making it if need be.
    pub(super) fn open(&self) -> Result<Git, WorkspaceError> {
        make(&self.root, &self.store, self.format)
    }
}

/// Returns how the repository around the project names objects; nothing if there is none that the
/// project's files belong to.
fn surrounding(root: &Path) -> Result<Option<Format>, WorkspaceError> {
    let git = Git::at(root);
    let Some(answer) = git.ask(&["rev-parse", "--is-inside-work-tree", "--show-object-format"])?
    else {
        return Ok(None);
    };
    let answer = String::from_utf8_lossy(&answer);
    let format = match answer.lines().collect::<Vec<_>>()[..] {
        ["true", format] => Format::parse(format),
        _ => None,
    };
    // A project that the repository around it ignores is not part of it.
    let is_ignored = git.ask(&["check-ignore", "--quiet", "."])?.is_some();
    Ok(format.filter(|_| !is_ignored))
}

/// Opens a repository of Salve's own, making it if need be.
///
/// Several may want it at once: each makes one aside, and the first to move it into place wins.
fn make(root: &Path, store: &Path, format: Format) -> Result<Git, WorkspaceError> {
    if !store.join("HEAD").exists() {
        let beside = store.parent().unwrap_or(root);
        let aside = tempfile::Builder::new().prefix("snapshots.").tempdir_in(beside);
        let aside = aside.map_err(WorkspaceError::io(beside.to_path_buf()))?;
        let path = aside.path().to_string_lossy().into_owned();
        let format = format!("--object-format={}", format.name());
        Git::at(root).read(&["init", "--quiet", "--bare", "--template=", &format, &path])?;
        match std::fs::rename(aside.path(), store) {
            Ok(()) => drop(aside.keep()),
            Err(_) if store.join("HEAD").exists() => {}
            Err(error) => return Err(WorkspaceError::io(store)(error)),
        }
    }
    Ok(Git::private(root, store.to_path_buf()))
}
