//! Agents that were attached to a project, remembered for as long as they live: one that ends its
//! own `salve mcp`, or closes its input, is still an agent.
//!
//! A note is an empty file in the user's own data directory, whose name says the project and the
//! process. Whoever may write there could as well read the user's key.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use salve_core::event::Digest;

use super::tree::{self, Stat};
use crate::dirs;

/// Remembers that a process is an agent of the project at `root`, and forgets those that ended.
pub(super) fn remember(root: &Path, agent: &Stat) -> io::Result<()> {
    let dir = dir().ok_or_else(|| io::Error::other("there is no directory for your data"))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    for file in fs::read_dir(&dir)?.flatten() {
        if !noted(&file.file_name().to_string_lossy()).is_some_and(|note| tree::is_still(&note)) {
            // Another process may have been faster.
            let _ = fs::remove_file(file.path());
        }
    }
    fs::write(dir.join(format!("{}-{}-{}", name_of(root), agent.pid, agent.started)), [])
}

/// Returns the agents of the project at `root` that were remembered and still live.
pub(super) fn of_project(root: &Path) -> Vec<u32> {
    let files = dir().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let prefix = format!("{}-", name_of(root));
    let notes = names.filter(|name| name.starts_with(&prefix)).filter_map(|name| noted(&name));
    notes.filter(tree::is_still).map(|note| note.pid).collect()
}

fn dir() -> Option<PathBuf> {
    dirs::data().map(|dir| dir.join("attached"))
}

/// Returns the process that the name of a note says.
fn noted(name: &str) -> Option<Stat> {
    let mut parts = name.split('-').skip(1);
    let pid: u32 = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    tree::stat(pid).map(|now| Stat { started, ..now })
}

/// Returns the name of a project among the notes.
fn name_of(root: &Path) -> String {
    let digest = Digest::of(&[b"attached", root.as_os_str().as_bytes()]);
    digest.to_string().chars().take(16).collect()
}
