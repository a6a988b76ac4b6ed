//! How much changed between two snapshots.
//!
//! Lines are counted as git counts them, added plus removed. Git does not count the lines of files
//! it takes for binary; for those the pieces between line feeds that are in one version and not in
//! the other are counted, and one at least, so that no change of content counts as nothing. A
//! change of a file whose content is not kept makes the number of lines unknown.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use salve_core::event::Change;

use super::error::WorkspaceError;
use super::git::Git;
use super::keep;
use super::tree::{Rel, TreeItem, WorkingTree, show};

/// What became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFate {
    /// It was not there before.
    Created,
    /// Its content, kind or permissions changed.
    Changed,
    /// It is gone.
    Removed,
}

/// One file that changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileChange {
    /// Its path below the project's root, for people.
    pub path: String,
    /// What became of it.
    pub fate: FileFate,
    /// Lines added and removed, if they could be counted.
    pub lines: Option<u32>,
}

/// A tree, and what the store that has it calls it.
#[derive(Clone, Copy)]
pub(super) struct NamedTree<'a> {
    pub(super) tree: &'a WorkingTree,
    pub(super) name: &'a str,
}

/// Compares two trees that `store` has.
pub(super) fn compare(
    store: &Git,
    NamedTree { tree: before, name: from }: NamedTree<'_>,
    NamedTree { tree: after, name: to }: NamedTree<'_>,
) -> Result<Vec<FileChange>, WorkspaceError> {
    let differing = before.differing(after);
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    let counted = numstat(store, from, to)?;
    let mut changes = Vec::with_capacity(differing.len());
    for path in differing {
        let there =
            |tree: &WorkingTree| tree.items.contains_key(&path) || tree.gaps.contains_key(&path);
        let fate = match (there(before), there(after)) {
            (false, _) => FileFate::Created,
            (true, false) => FileFate::Removed,
            (true, true) => FileFate::Changed,
        };
        let lines = match (before.gaps.contains_key(&path), after.gaps.contains_key(&path)) {
            (false, false) => {
                let items = [before.items.get(&path), after.items.get(&path)];
                Some(lines(store, counted.get(&path), items)?)
            }
            _ => None,
        };
        changes.push(FileChange { path: show(&path), fate, lines });
    }
    Ok(changes)
}

/// Adds up.
pub(super) fn total(changes: &[FileChange]) -> Change {
    let sum = changes
        .iter()
        .try_fold(0_u32, |sum, change| change.lines.map(|lines| sum.saturating_add(lines)));
    Change { files: Some(u32::try_from(changes.len()).unwrap_or(u32::MAX)), lines: sum }
}

/// Returns git's count for each path: the lines, or nothing for a file it takes for binary.
fn numstat(store: &Git, from: &str, to: &str) -> Result<HashMap<Rel, Option<u32>>, WorkspaceError> {
    let mut args = vec!["diff-tree", "-r", "-z", "--numstat", "--no-renames"];
    args.extend(["--no-ext-diff", "--no-textconv", from, to]);
    let listed = store.read(&args)?;
    let mut counts = HashMap::new();
    for line in listed.split(|&byte| byte == 0) {
        let mut parts = line.splitn(3, |&byte| byte == b'\t');
        let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let lines = number(added).zip(number(removed)).map(|(a, r)| a.saturating_add(r));
        counts.insert(OsStr::from_bytes(path).to_owned(), lines);
    }
    Ok(counts)
}

fn lines(
    store: &Git,
    counted: Option<&Option<u32>>,
    items: [Option<&TreeItem>; 2],
) -> Result<u32, WorkspaceError> {
    match counted {
        Some(Some(lines)) => return Ok(*lines),
        // Only the permissions changed.
        None => return Ok(0),
        Some(None) => {}
    }
    let oids: Vec<_> = items.iter().flatten().map(|item| item.oid).collect();
    let mut contents = Vec::new();
    keep::contents(store, &oids, |_, content| {
        contents.push(content.to_vec());
        Ok(())
    })?;
    let new = contents.pop().unwrap_or_default();
    Ok(pieces(&contents.pop().unwrap_or_default(), &new).max(1))
}

/// Counts the pieces between line feeds that only one of both has.
fn pieces(old: &[u8], new: &[u8]) -> u32 {
    let mut counts: HashMap<&[u8], i64> = HashMap::new();
    for piece in old.split(|&byte| byte == b'\n') {
        *counts.entry(piece).or_default() -= 1;
    }
    for piece in new.split(|&byte| byte == b'\n') {
        *counts.entry(piece).or_default() += 1;
    }
    let differing: u64 = counts.values().map(|count| count.unsigned_abs()).sum();
    u32::try_from(differing).unwrap_or(u32::MAX)
}
