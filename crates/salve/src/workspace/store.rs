//! Which repository keeps a project's snapshots.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use super::git::Git;
use super::oid::Format;

/// The repository for projects that have none, below the project's root.
const PRIVATE: &str = ".salve/snapshots.git";

/// The repository for what git ignores, below the user's repository, where no `git clean` reaches.
const VAULT: &str = "salve/ignored.git";

/// Where a project's snapshots are kept.
pub(super) struct OpenedVault {
    pub(super) git: Git,
    pub(super) format: Format,
    pub(super) vault: Vault,
}

/// Finds the repository that the project's files belong to, else Salve's own.
pub(super) fn open(root: &Path) -> Result<OpenedVault, WorkspaceError> {
    let (git, format, store) = match surrounding(root)? {
        Some((format, dir)) => (Git::at(root), format, dir.join(VAULT)),
        None => {
            let store = root.join(PRIVATE);
            (make(root, &store, Format::Sha1)?, Format::Sha1, store)
        }
    };
    let vault = Vault { root: root.to_path_buf(), store, format };
    Ok(OpenedVault { git, format, vault })
}

/// The store of what git ignores, which is made when there is something to keep.
///
/// It lies in the user's repository but is none of it: who pushes all refs would push the secrets
/// in such files.
#[derive(Debug)]
pub(super) struct Vault {
    root: PathBuf,
    store: PathBuf,
    format: Format,
}

impl Vault {
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

/// Returns how the repository around the project names objects, and where it is; nothing if there
/// is none that the project's files belong to.
fn surrounding(root: &Path) -> Result<Option<(Format, PathBuf)>, WorkspaceError> {
    let git = Git::at(root);
    let args = ["rev-parse", "--is-inside-work-tree", "--show-object-format", "--absolute-git-dir"];
    let Some(answer) = git.ask(&args)? else { return Ok(None) };
    let mut lines = answer.splitn(3, |&byte| byte == b'\n');
    let (inside, format) = (lines.next(), lines.next().map(String::from_utf8_lossy));
    let dir = lines.next().map(|dir| dir.strip_suffix(b"\n").unwrap_or(dir));
    let found = match (inside, format.and_then(|format| Format::parse(&format)), dir) {
        (Some(b"true"), Some(format), Some(dir)) => {
            Some((format, PathBuf::from(OsStr::from_bytes(dir))))
        }
        _ => None,
    };
    // A project that the repository around it ignores is not part of it.
    let is_ignored = git.ask(&["check-ignore", "--quiet", "."])?.is_some();
    Ok(found.filter(|_| !is_ignored))
}

/// Opens a repository of Salve's own, making it if need be.
///
/// Several may want it at once: each makes one aside, and the first to move it into place wins.
fn make(root: &Path, store: &Path, format: Format) -> Result<Git, WorkspaceError> {
    if !store.join("HEAD").exists() {
        let beside = store.parent().unwrap_or(root);
        let mut dirs = std::fs::DirBuilder::new();
        dirs.recursive(true).mode(0o700).create(beside).map_err(WorkspaceError::io(beside))?;
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
