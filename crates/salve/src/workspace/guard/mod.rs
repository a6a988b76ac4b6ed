//! The user's repository itself, kept while an agent works.
//!
//! What git never changes once it is written, its objects, is kept by hard links; the rest, which
//! is small, by copies. So keeping costs little, and a repository that was deleted or damaged is
//! given back whole. What an agent did to HEAD, branches, index, settings or hooks is told, and put
//! back if one wants it.
//!
//! **Invariant:** what is kept outlives a sudden end of Salve: the next one that asks finds it and
//! gives back what is gone.

mod change;
mod copy;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use super::git::Git;
use super::scratch_dir::ScratchDir;
use super::{Workspace, shadow};
use crate::files::{FileKind, read_bytes};
use crate::project::Project;

pub use change::{GitChange, GitPart};

/// The repository, below the directory of what is kept.
const KEPT: &str = "git";
/// The file that says whose it is.
const NOTE: &str = "whose";
/// What a linked working tree has in place of a repository.
const LINK: &str = "link";

/// A kept repository, until it is dropped.
#[derive(Debug)]
pub struct GitGuard {
    /// The top of the working tree.
    top: PathBuf,
    /// The repository, which other working trees may share.
    common: PathBuf,
    lair: ScratchDir,
}

impl Workspace {
    /// Keeps the repository around the project; nothing if there is none.
    pub fn guard_git(&self) -> Result<Option<GitGuard>, WorkspaceError> {
        let Some(top) = shadow::top(&self.scanner.git)? else { return Ok(None) };
        let common =
            Git::at(&top).read(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let common = path(&common);
        let lair = ScratchDir::claim(&base(&self.guards, &self.state_dir, &common))?;
        let guard = GitGuard { top, common, lair };
        guard.keep()?;
        Ok(Some(guard))
    }
}

/// Gives back what is gone of the repository of a project whose keeper was killed; says what.
///
/// It comes before the project's working tree is opened: without its repository it looks like a
/// project that never had one.
pub fn mend_git(project: &Project) -> Result<Vec<String>, WorkspaceError> {
    let state_dir = project.root().join(".salve");
    mend_in(&[usual_base(), state_dir.join("kept")], project.root())
}

fn mend_in(bases: &[PathBuf], root: &Path) -> Result<Vec<String>, WorkspaceError> {
    let mut mended = Vec::new();
    for lair in bases.iter().flat_map(|base| ScratchDir::left(base)) {
        let note = read_bytes(&lair.dir().join(NOTE), FileKind::Note).unwrap_or_default();
        let mut lines =
            note.split(|&byte| byte == 0).map(|line| PathBuf::from(OsStr::from_bytes(line)));
        let (Some(top), Some(common)) = (lines.next(), lines.next()) else { continue };
        if !root.starts_with(&top) && !top.as_os_str().is_empty() {
            // It is another project's, which asks for it itself.
            lair.leave();
            continue;
        }
        let guard = GitGuard { top, common, lair };
        match guard.mend() {
            Ok(told) => mended.extend(told),
            Err(error) => {
                guard.lair.leave();
                return Err(error);
            }
        }
    }
    Ok(mended)
}

impl GitGuard {
    /// Keeps all; the note comes last, so that what has none is not whole.
    fn keep(&self) -> Result<(), WorkspaceError> {
        let kept = self.kept();
        copy::copy(&self.common, &kept).map_err(WorkspaceError::io(&self.common))?;
        let dot = self.top.join(".git");
        if dot.is_file() {
            fs::copy(&dot, self.lair.dir().join(LINK)).map_err(WorkspaceError::io(dot))?;
        }
        let names = [self.top.as_os_str().as_bytes(), self.common.as_os_str().as_bytes()];
        let note = self.lair.dir().join(NOTE);
        fs::write(&note, names.join(&0)).map_err(WorkspaceError::io(note))
    }

    /// Returns what was changed since.
    pub fn changes(&self) -> Result<Vec<GitChange>, WorkspaceError> {
        if !self.is_usable() {
            let text = "the repository was deleted or damaged".to_owned();
            return Ok(vec![GitChange { part: GitPart::Repository, text }]);
        }
        change::changes(&self.kept(), &self.common, &self.top)
    }

    /// Puts parts of the repository back as they were; what others changed there is lost, so it is
    /// for changes of which it is known who made them.
    pub fn put_back(&self, changes: &[GitChange]) -> Result<(), WorkspaceError> {
        for change in changes {
            match change.part {
                GitPart::Repository => drop(self.mend()?),
                part => change::put_back(part, &self.kept(), &self.common, &self.top)?,
            }
        }
        Ok(())
    }

    /// Gives back what is gone if the repository cannot be used any more; says what, for people.
    pub fn mend(&self) -> Result<Vec<String>, WorkspaceError> {
        if self.is_usable() {
            return Ok(Vec::new());
        }
        let io = WorkspaceError::io;
        let was_there = self.common.is_dir();
        // Another repository in its place is not mended, nor one that has lost all.
        if was_there && copy::shares_objects(&self.kept(), &self.common) {
            copy::fill(&self.kept(), &self.common).map_err(io(&self.common))?;
            change::mend_files(&self.kept(), &self.common)?;
        }
        let link = self.lair.dir().join(LINK);
        let dot = self.top.join(".git");
        if link.exists() && !dot.is_file() {
            fs::copy(&link, &dot).map_err(io(&dot))?;
        }
        if was_there && self.is_usable() {
            return Ok(vec!["the repository was damaged; what was gone is back".to_owned()]);
        }
        self.replace()?;
        Ok(vec![if was_there {
            "the repository was damaged and is back as it was".to_owned()
        } else {
            "the repository was deleted and is back".to_owned()
        }])
    }

    /// Puts all that is kept in the place of what is there, which is moved aside.
    fn replace(&self) -> Result<(), WorkspaceError> {
        let io = || WorkspaceError::io(&self.common);
        let mut fresh = self.common.clone().into_os_string();
        fresh.push(".salve-new");
        let fresh = PathBuf::from(fresh);
        if fresh.exists() {
            fs::remove_dir_all(&fresh).map_err(io())?;
        }
        copy::copy(&self.kept(), &fresh).map_err(io())?;
        if fs::symlink_metadata(&self.common).is_ok() {
            let state = self.top.join(".salve");
            fs::create_dir_all(&state).map_err(io())?;
            let aside = state.join(format!("damaged-git-{}", uuid::Uuid::now_v7()));
            fs::rename(&self.common, aside).map_err(io())?;
        }
        fs::rename(&fresh, &self.common).map_err(io())
    }

    /// Returns whether git works with the repository, and finds in it what it found before.
    fn is_usable(&self) -> bool {
        let ask = |git: &Git, args: &[&str]| git.ask(args).ok().flatten();
        let git = Git::at(&self.top);
        let is_found =
            ask(&git, &["rev-parse", "--show-toplevel"]).is_some_and(|top| path(&top) == self.top);
        let is_whole = ["objects", "refs"].iter().all(|dir| self.common.join(dir).is_dir());
        let kept = Git::private(&self.top, self.kept());
        let head = ask(&kept, &["rev-parse", "--quiet", "--verify", "HEAD^{tree}"]);
        let has_head = head.is_none_or(|tree| {
            let tree = String::from_utf8_lossy(&tree).trim_end().to_owned();
            ask(&git, &["cat-file", "-e", &tree]).is_some()
        });
        let has_now = ask(&git, &["symbolic-ref", "--quiet", "HEAD"]).is_some()
            || ask(&git, &["rev-parse", "--quiet", "--verify", "HEAD"]).is_some();
        is_found && is_whole && has_head && has_now && change::is_index_whole(&self.common)
    }

    fn kept(&self) -> PathBuf {
        self.lair.dir().join(KEPT)
    }
}

/// Returns where repositories are kept by default: out of the project's reach.
pub(super) fn usual_base() -> PathBuf {
    crate::dirs::data()
        .map_or_else(|| std::env::temp_dir().join("salve-kept"), |data| data.join("kept"))
}

/// Returns a place on the same disk as the repository, best one out of the project's reach.
fn base(usual: &Path, state_dir: &Path, common: &Path) -> PathBuf {
    let disk = |path: &Path| {
        let there = path.ancestors().find_map(|dir| fs::metadata(dir).ok());
        there.map(|meta| meta.dev())
    };
    let is_outside = common.parent().is_none_or(|top| !usual.starts_with(top));
    if is_outside && disk(usual) == disk(common) {
        usual.to_path_buf()
    } else {
        state_dir.join("kept")
    }
}

fn path(answer: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(answer.strip_suffix(b"\n").unwrap_or(answer)))
}
