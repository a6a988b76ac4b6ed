//! Which repository a directory belongs to, and to which of its worktrees.

use std::path::{Path, PathBuf};

use crate::files::{FileKind, read_text};

/// One worktree of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    pub root: PathBuf,
    /// The directory in which git keeps what all worktrees of the repository share.
    repository: PathBuf,
}

impl Worktree {
    /// Finds the worktree that a directory is in.
    pub fn of(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let root = dir.ancestors().find(|dir| dir.join(".git").exists())?;
        let git = root.join(".git");
        let own = if git.is_dir() {
            git
        } else {
            root.join(named(&git)?.strip_prefix("gitdir:")?.trim())
        };
        // A worktree that was added says where the repository is; a submodule has its own.
        let repository = match named(&own.join("commondir")) {
            Some(common) => own.join(common),
            None => own,
        };
        Some(Self { root: root.to_path_buf(), repository: repository.canonicalize().ok()? })
    }

    /// Tells whether this is another worktree of the same repository.
    pub fn is_sibling_of(&self, other: &Self) -> bool {
        self.repository == other.repository && self.root != other.root
    }

    /// Returns the repository's main worktree, if this is another one and there is a main one.
    pub fn main_root(&self) -> Option<&Path> {
        let is_git = self.repository.file_name().is_some_and(|name| name == ".git");
        let main = self.repository.parent().filter(|_| is_git)?;
        (main != self.root).then_some(main)
    }
}

/// Returns the first line of one of git's own small files.
fn named(file: &Path) -> Option<String> {
    let text = read_text(file, FileKind::Note).ok()?;
    text.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"];
        let done = Command::new("git").args(who).args(args).current_dir(dir).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn worktrees_of_one_repository_are_siblings_wherever_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let main = top.join("main");
        for repository in ["main", "other"] {
            fs::create_dir_all(top.join(repository).join("web")).unwrap();
            git(&top.join(repository), &["init", "-q"]);
            git(&top.join(repository), &["commit", "-q", "--allow-empty", "-m", "begin"]);
        }
        git(&main, &["worktree", "add", "-q", "../beside"]);
        git(&main, &["worktree", "add", "-q", "inside"]);
        let [at_main, beside, inside, other] = ["main/web", "beside", "main/inside", "other"]
            .map(|dir| Worktree::of(&top.join(dir)).unwrap());
        assert!(at_main.is_sibling_of(&beside) && inside.is_sibling_of(&beside));
        assert!(inside.is_sibling_of(&at_main), "a worktree may lie in another one");
        assert!(!at_main.is_sibling_of(&at_main) && !other.is_sibling_of(&at_main));
        assert_eq!((at_main.main_root(), beside.main_root()), (None, Some(main.as_path())));
        assert_eq!(Worktree::of(&top), None);
    }
}
