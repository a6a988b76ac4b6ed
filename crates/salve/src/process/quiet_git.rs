//! Running the `git` program without its side effects.
//!
//! **Invariant:** no call takes the user's index lock, runs a hook, filter, pager, editor or
//! monitor, writes a reflog, signs, fetches, listens to `GIT_*` variables of the environment, or
//! finds a program in the project by `PATH`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::machine::{machine_path, machine_program};

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
    command
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
