//! Asks git about paths, without running anything the repository configures.

use std::path::Path;
use std::process::{Command, Stdio};

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
    let mut git = Command::new("git");
    git.arg("-C").arg(root);
    git.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    git.env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null()).stderr(Stdio::null());
    git
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
