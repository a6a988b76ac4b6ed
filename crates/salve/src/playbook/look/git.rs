//! Asks git about paths, without running anything the repository configures.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::quiet_git;

/// Names of derived files and directories, for projects without git.
const DERIVED: &[&str] = &[
    "node_modules",
    "dist",
    "build",
    "out",
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".venv",
    "venv",
    "target",
    "__pycache__",
    ".cache",
    ".parcel-cache",
    ".turbo",
    ".angular",
    ".vite",
];

fn git(root: &Path) -> Command {
    let mut git = quiet_git(root);
    git.stdin(Stdio::null()).stderr(Stdio::null());
    git
}

/// Returns the files that git tracks.
pub(crate) fn tracked(root: &Path) -> Vec<String> {
    listed(root, &["ls-files", "-z"])
}

/// Returns files that git tracks and that are gone from the working tree; nothing if there are
/// more than `most`.
pub(crate) fn deleted(root: &Path, most: usize) -> Vec<String> {
    let gone = listed(root, &["ls-files", "-z", "--deleted"]);
    if gone.len() > most { Vec::new() } else { gone }
}

fn listed(root: &Path, args: &[&str]) -> Vec<String> {
    let listed = git(root).args(args).output();
    let text = listed.map(|list| String::from_utf8_lossy(&list.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

/// Returns whether git tracks the path or something below it.
pub(crate) fn is_tracked(root: &Path, relative: &str) -> bool {
    let listed = git(root).args(["ls-files", "-z", "--", relative]).output();
    listed.is_ok_and(|list| !list.stdout.is_empty())
}

/// Returns whether git ignores the path; without a repository its name decides.
pub(crate) fn is_ignored(root: &Path, relative: &str) -> bool {
    let asked = git(root)
        .args(["check-ignore", "-q", "--no-index", "--", relative])
        .stdout(Stdio::null())
        .status();
    match asked.ok().and_then(|status| status.code()) {
        Some(0) => true,
        Some(1) => false,
        Some(_) | None => relative.split('/').any(|part| DERIVED.contains(&part)),
    }
}
