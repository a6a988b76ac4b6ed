//! Keeps what Salve leaves at a project's root out of git, without a word to the user.
//!
//! `.git/info/exclude` is git's own place for what is this machine's matter alone: nothing that is
//! tracked changes, and a team that wants the lines in `.gitignore` can have them there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::atomic;
use crate::files::{FileKind, read_text};

/// What Salve leaves at the root; `.salve` looks after itself.
pub(crate) const LEFT_AT_THE_ROOT: [&str; 2] = [".dev-crash*.log", ".dev-repair.lock"];

/// Adds what is missing to git's list; where there is no git, or it cannot be written, nothing
/// happens, since the files do no harm.
pub(crate) fn keep_out_of_git(root: &Path) {
    let Some(git) = root.ancestors().find_map(git_dir) else { return };
    let list = git.join("info/exclude");
    let known = [list.clone(), root.join(".gitignore")]
        .map(|file| read_text(&file, FileKind::Settings).unwrap_or_default());
    let has = |line: &&str| {
        let is = |known: &str| known.trim().trim_start_matches('/') == *line;
        known.iter().any(|text| text.lines().any(is))
    };
    let missing: Vec<&str> = LEFT_AT_THE_ROOT.into_iter().filter(|line| !has(line)).collect();
    if missing.is_empty() || fs::symlink_metadata(&list).is_ok_and(|meta| !meta.is_file()) {
        return;
    }
    let old = &known[0];
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    // A list that is missing or not ours to write is no reason to fail.
    let _ = fs::create_dir(git.join("info"));
    let _ = atomic::write(&list, format!("{old}{gap}{}\n", missing.join("\n")));
}

/// Returns git's common directory, if `dir` is the top of a working tree.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let place = dir.join(".git");
    if place.is_dir() {
        return Some(place);
    }
    let text = read_text(&place, FileKind::Note).ok()?;
    let own = dir.join(text.trim().strip_prefix("gitdir: ")?);
    // A linked working tree has a directory of its own, and the list of all of them elsewhere.
    let common = read_text(&own.join("commondir"), FileKind::Note).ok();
    let dir = common.map_or_else(|| own.clone(), |common| own.join(common.trim()));
    dir.is_dir().then_some(dir)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_left_at_the_root_is_ignored_in_every_working_tree_and_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("main");
        let git = |at: &Path, args: &[&str]| {
            let done = Command::new("git")
                .current_dir(at)
                .args(["-c", "user.name=x", "-c", "user.email=x@x"])
                .args(args)
                .output()
                .unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../other"]);
        let other = dir.path().join("other");
        keep_out_of_git(&other);
        keep_out_of_git(&main);
        for root in [&main, &other] {
            fs::write(root.join(".dev-crash.12345678.log"), "").unwrap();
            fs::write(root.join(".dev-repair.lock"), "").unwrap();
            assert_eq!(git(root, &["status", "--porcelain"]), "", "{}", root.display());
        }
        let list = fs::read_to_string(main.join(".git/info/exclude")).unwrap();
        assert_eq!(list.matches(".dev-repair.lock").count(), 1, "{list}");
        keep_out_of_git(Path::new("/"));
    }
}
