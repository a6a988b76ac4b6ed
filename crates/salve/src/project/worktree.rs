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
            git.clone()
        } else {
            root.join(named(&git)?.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?
        };
        // A worktree that was added says where the repository is; a submodule has its own.
        let common = named(&own.join("commondir"));
        let common = common.and_then(|common| own.join(common).canonicalize().ok());
        // What is no worktree of a repository, whatever it says, shares nothing with one.
        let repository = common.filter(|common| has_worktree(common, &own, &git)).unwrap_or(git);
        Some(Self { root: root.to_path_buf(), repository })
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

/// Tells whether a repository knows of the worktree that has this `.git`.
///
/// What lies in a directory may claim to be a worktree of any repository, and would share its
/// memory then. The repository's own note of its worktrees cannot be made from there.
fn has_worktree(repository: &Path, own: &Path, git: &Path) -> bool {
    let back = named(&own.join("gitdir")).and_then(|back| own.join(back).canonicalize().ok());
    own.parent() == Some(&repository.join("worktrees")) && back.as_deref() == Some(git)
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

    /// **Invariant:** what only claims to be a worktree of a repository shares nothing with it.
    #[test]
    fn a_directory_that_only_claims_to_be_a_worktree_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let victim = top.join("victim");
        fs::create_dir_all(&victim).unwrap();
        git(&victim, &["init", "-q"]);
        git(&victim, &["commit", "-q", "--allow-empty", "-m", "begin"]);
        git(&victim, &["worktree", "add", "-q", "../real"]);
        let of_victim = Worktree::of(&victim).unwrap();
        let hostile = top.join("hostile");
        fs::create_dir_all(hostile.join("own")).unwrap();
        fs::write(hostile.join("own/commondir"), victim.join(".git").display().to_string())
            .unwrap();
        fs::write(hostile.join("own/gitdir"), hostile.join(".git").display().to_string()).unwrap();
        for own in [hostile.join("own"), victim.join(".git"), victim.join(".git/worktrees/real")] {
            fs::write(hostile.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
            let claims = Worktree::of(&hostile).unwrap();
            assert_eq!(claims.main_root(), None, "{}", own.display());
            assert!(!claims.is_sibling_of(&of_victim), "{}", own.display());
        }
        fs::remove_file(hostile.join(".git")).unwrap();
        std::os::unix::fs::symlink(victim.join(".git"), hostile.join(".git")).unwrap();
        assert_eq!(Worktree::of(&hostile).unwrap().main_root(), None);
        let real = Worktree::of(&top.join("real")).unwrap();
        assert_eq!(real.main_root(), Some(victim.as_path()));
    }
}
