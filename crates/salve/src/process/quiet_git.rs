//! Running the `git` program without its side effects.
//!
//! **Invariant:** no call takes the user's index lock, runs a hook, filter, pager, editor or
//! monitor, writes a reflog, signs, fetches, listens to `GIT_*` variables of the environment, or
//! finds a program in the project by `PATH`. None waits for a pipe in the place of one of git's own
//! files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::machine::{machine_path, machine_program};
use crate::files::{FileKind, Links, read_text_where};

/// Settings that keep git from doing more than it is asked to.
const QUIET: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.logAllRefUpdates=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.quotePath=false",
    // Names that differ only by case are two names; otherwise one file would be lost.
    "core.ignoreCase=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Returns the machine's git in `dir`, ready for its own arguments.
pub fn quiet_git(dir: &Path) -> Command {
    let mut command = Command::new(machine_program("git", dir));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command.env("PATH", machine_path(dir));
    command.current_dir(dir).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    command.env("GIT_NO_LAZY_FETCH", "1").arg("--no-pager");
    for setting in QUIET {
        command.args(["-c", setting]);
    }
    if let Some(file) = what_keeps_git_waiting(dir) {
        // Git then says what is the matter, and that at once.
        let mut said = file.into_os_string();
        said.push(" (a pipe, a device or too large: git would wait)");
        command.env("GIT_DIR", said);
    }
    command
}

/// Files that git opens in its own directory, whatever it is asked to do.
const OPENED: [&str; 16] = [
    "HEAD",
    "commondir",
    "gitdir",
    "config",
    "config.worktree",
    "packed-refs",
    "index",
    "shallow",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
    "objects/info/commit-graph",
    "objects/pack/multi-pack-index",
    "sharedindex",
];
/// How many names a branch may be called by, one leading to the next.
const MAX_NAMES: usize = 5;

/// Returns what stands in the place of one of git's own files and would keep git waiting in `dir`, or
/// feed it without end: a pipe or a device, also behind a link.
pub fn what_keeps_git_waiting(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    let mut bare: Vec<PathBuf> = Vec::new();
    let root = dir.ancestors().find(|dir| {
        let is_root = fs::symlink_metadata(dir.join(".git")).is_ok();
        if !is_root {
            // Git looks whether it is a repository itself.
            bare.push(dir.join("HEAD"));
        }
        is_root
    });
    let odd = |files: Vec<PathBuf>| files.into_iter().find(|file| never_ends(file));
    let Some(root) = root else { return odd(bare) };
    let git = root.join(".git");
    let here = [git.clone(), root.join(".gitignore"), root.join(".gitattributes")];
    if let Some(file) = odd(here.into_iter().chain(bare).collect()) {
        return Some(file);
    }
    let own = match first_line(&git).as_deref().and_then(|line| line.strip_prefix("gitdir:")) {
        Some(named) => root.join(named.trim()),
        None => git,
    };
    let mut dirs = vec![own.clone()];
    // The file itself is looked at among the others.
    dirs.extend(first_line(&own.join("commondir")).map(|common| own.join(common)));
    let files = dirs.iter().flat_map(|dir| OPENED.iter().map(move |name| dir.join(name)));
    odd(files.collect()).or_else(|| {
        let mut name = "HEAD".to_owned();
        for _ in 0..MAX_NAMES {
            let files: Vec<PathBuf> = dirs.iter().map(|dir| dir.join(&name)).collect();
            if let Some(file) = odd(files.clone()) {
                return Some(file);
            }
            let line = files.iter().find_map(|file| first_line(file))?;
            line.strip_prefix("ref:")?.trim().clone_into(&mut name);
        }
        None
    })
}

/// The most bytes that one of git's small files may have, and one of its others.
const MAX_SMALL: u64 = 64 << 20;
const MAX_LARGE: u64 = 8 << 30;
/// Files of git that grow with the repository.
const LARGE: [&str; 5] =
    ["index", "sharedindex", "packed-refs", "commit-graph", "multi-pack-index"];

/// Returns whether a file gives nothing for as long as it likes, never ends, or claims so much that
/// git would read for ever.
fn never_ends(file: &Path) -> bool {
    let is_large = file.file_name().is_some_and(|name| LARGE.iter().any(|large| *large == name));
    let most = if is_large { MAX_LARGE } else { MAX_SMALL };
    fs::metadata(file).is_ok_and(|meta| !meta.is_dir() && (!meta.is_file() || meta.len() > most))
}

/// Returns the first line of one of git's own small files.
fn first_line(file: &Path) -> Option<String> {
    let text = read_text_where(file, FileKind::Note, Links::Follow).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Returns whether git tracks a file: whether it came with a repository or goes with it.
pub fn is_tracked(file: &Path) -> bool {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { return true };
    if file.symlink_metadata().is_err() {
        return false;
    }
    // Asked where it lies: that may be a submodule, of whose files the repository around it knows
    // nothing.
    let mut git = quiet_git(dir);
    git.args(["ls-files", "--error-unmatch", "--"]).arg(name);
    let asked = git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match asked.ok().and_then(|status| status.code()) {
        Some(0) => true,
        Some(1) => false,
        // There is no repository, or one that cannot be asked.
        Some(_) | None => dir.ancestors().any(|dir| dir.join(".git").exists()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// **Invariant:** Git is not asked where it would wait for a pipe.
    #[test]
    fn a_pipe_in_the_place_of_one_of_gits_files_keeps_nobody_waiting() {
        let stage = tempfile::tempdir().unwrap();
        let fifo = |path: &Path| {
            // What stood there gives way.
            let _ = fs::remove_file(path);
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        };
        let made = |name: &str| {
            let root = stage.path().join(name.replace('/', "-"));
            fs::create_dir_all(root.join("web")).unwrap();
            assert!(quiet_git(&root).args(["init", "-q"]).status().unwrap().success());
            root
        };
        let root = made("sound");
        assert_eq!(what_keeps_git_waiting(&root), None);
        for name in ["HEAD", "commondir", "config", "packed-refs", "index", "info/exclude"] {
            let root = made(name);
            fs::create_dir_all(root.join(".git/info")).unwrap();
            fifo(&root.join(".git").join(name));
            for dir in [&root, &root.join("web")] {
                let said = quiet_git(dir).args(["status"]).output().unwrap();
                let text = String::from_utf8_lossy(&said.stderr);
                assert!(!said.status.success(), "{name}");
                assert!(text.contains(name) && text.contains("git would wait"), "{name}: {text}");
            }
        }
        let branch = made("branch");
        let head = fs::read_to_string(branch.join(".git/HEAD")).unwrap();
        fifo(&branch.join(".git").join(head.strip_prefix("ref: ").unwrap().trim()));
        assert!(!quiet_git(&branch).args(["status"]).output().unwrap().status.success());
        let file = made("file");
        fs::rename(file.join(".git"), file.join("own")).unwrap();
        fs::write(file.join(".git"), "gitdir: own\n").unwrap();
        assert_eq!(what_keeps_git_waiting(&file), None);
        fifo(&file.join("own/HEAD"));
        assert!(!quiet_git(&file).args(["status"]).output().unwrap().status.success());
        let bare = made("bare").join("web");
        fifo(&bare.join("HEAD"));
        assert!(!quiet_git(&bare).args(["status"]).output().unwrap().status.success());
        let large = made("large");
        let ignored = fs::File::create(large.join(".gitignore")).unwrap();
        ignored.set_len(1 << 40).unwrap();
        assert!(!quiet_git(&large).args(["status"]).output().unwrap().status.success());
        let device = made("device");
        fs::remove_file(device.join(".git/HEAD")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", device.join(".git/HEAD")).unwrap();
        assert!(!quiet_git(&device).args(["status"]).output().unwrap().status.success());
    }
}
