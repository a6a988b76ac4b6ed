//! What a repository brings in the place of Salve's own files.
//!
//! What stands below `.salve` is believed: what healed here once is done again unattended. A
//! repository that somebody else wrote may hold such files, and git writes them over ours when it
//! checks them out, since ours are ignored. Only what was learned is meant to be shared that way.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use super::{Project, ProjectError};
use crate::atomic::WriteError;
use crate::files::{self, STATE_DIR};
use crate::process::{quiet_git, what_keeps_git_waiting};

/// What may come with a repository: what a team shares, and what keeps the rest out of git.
const SHARED: [&str; 2] = ["learned", ".gitignore"];

/// How the names of the directories begin in which what was brought is kept.
const ASIDE: &str = "brought-";

/// Files that came with the repository and were put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutAside {
    /// How many there are.
    pub files: usize,
    /// The directory in which they are now.
    pub dir: PathBuf,
}

impl Project {
    /// Puts aside what git tracks of Salve's own files; nothing if it tracks none of them.
    ///
    /// The caller is alone with the files.
    ///
    /// # Errors
    ///
    /// When one of them cannot be moved, or the whole directory is another repository's.
    pub(crate) fn put_brought_aside(&self) -> Result<Option<PutAside>, ProjectError> {
        let (mut brought, state) = (self.brought()?, self.state_dir());
        if brought.is_empty() {
            return Ok(None);
        }
        let database = self.database();
        if brought.contains(&database) {
            // Left in its place, its log would be taken for that of the next one.
            brought.extend(["-wal", "-shm"].map(|end| {
                let mut name = database.clone().into_os_string();
                name.push(end);
                PathBuf::from(name)
            }));
        }
        let is_free = |dir: &PathBuf| fs::symlink_metadata(dir).is_err();
        let dir = (1_u64..).map(|n| state.join(format!("{ASIDE}{n}"))).find(is_free);
        let dir = dir.unwrap_or_else(|| state.join(ASIDE));
        let mut files = 0;
        for from in &brought {
            let to = dir.join(from.strip_prefix(&state).unwrap_or(from));
            let moved = files::make_directories(to.parent().unwrap_or(&dir))
                .and_then(|()| files::rename(from, &to));
            match moved {
                Ok(()) => files += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let (path, source) = (from.clone(), WriteError::new(from, error));
                    return Err(ProjectError::Make { path, source });
                }
            }
        }
        Ok((files > 0).then_some(PutAside { files, dir }))
    }

    /// Returns whether git tracks any of Salve's own files.
    pub(crate) fn has_brought(&self) -> Result<bool, ProjectError> {
        Ok(!self.brought()?.is_empty())
    }

    /// Lists what git tracks of Salve's own files; nothing where there is no repository.
    fn brought(&self) -> Result<Vec<PathBuf>, ProjectError> {
        let root = self.home();
        if let Some(path) = what_keeps_git_waiting(root) {
            // What git would say of it is not known, so nothing of it is believed.
            return Err(ProjectError::GitWaits { path });
        }
        let mut git = quiet_git(root);
        git.args(["ls-files", "-z", "--", STATE_DIR]).stdin(Stdio::null());
        let Some(listed) = git.output().ok().filter(|output| output.status.success()) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for name in listed.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let path = Path::new(OsStr::from_bytes(name));
            let mut parts = path.components().skip(1);
            let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            match parts.next() {
                None => {
                    let found = "a submodule of the repository";
                    return Err(ProjectError::NotOurs { path: root.join(path), found });
                }
                Some(first) if SHARED.iter().any(|name| first.as_os_str() == *name) => {}
                Some(_) if is_plain && fs::symlink_metadata(root.join(path)).is_ok() => {
                    found.push(root.join(path));
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }
}
