//! What a snapshot's commit says about itself, besides its files.
//!
//! A line for people, then one line of JSON: the permissions, empty directories and ignored paths
//! that a tree of git does not hold, and the files that were not kept.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use salve_core::event::Digest;
use serde::{Deserialize, Serialize};

use super::name::{Moment, Name};
use super::tree::{Gap, Kind, TreeItem, Why, WorkingTree};

/// The version that is written; a newer one is not understood.
const VERSION: u32 = 1;

/// All that the commit says.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotNote {
    version: u32,
    tree: Digest,
    /// The permissions of files that are not in `permissions`.
    plain: u16,
    executable: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    permissions: BTreeMap<String, u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    empty: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<NotedMissing>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    packages: BTreeMap<String, Digest>,
}

/// One file that was not kept.
#[derive(Debug, Serialize, Deserialize)]
struct NotedMissing {
    path: String,
    why: Why,
    size: u64,
    /// Nanoseconds, as text since JSON's numbers end before.
    written: String,
}

/// Writes what the commit of `tree` says.
pub(super) fn write(name: Name, tree: &WorkingTree) -> String {
    let title = match name.moment {
        Moment::Before => "before",
        Moment::InLayer => "in the layer of",
        Moment::After => "after",
        Moment::Undone(_) => "before undoing",
    };
    let usual = |kind| usual(tree.items.values().filter(move |item| item.kind == kind));
    let (plain, executable) = (usual(Kind::Plain), usual(Kind::Executable));
    let is_odd = |item: &TreeItem| match item.kind {
        Kind::Plain => item.permissions != plain,
        Kind::Executable => item.permissions != executable,
        Kind::Link => false,
    };
    let odd = tree.items.iter().filter(|(_, item)| is_odd(item));
    let missing = tree.gaps.iter().map(|(path, gap)| NotedMissing {
        path: escape(path),
        why: gap.why,
        size: gap.size,
        written: gap.written.to_string(),
    });
    let note = SnapshotNote {
        version: VERSION,
        tree: tree.digest(),
        plain,
        executable,
        permissions: odd.map(|(path, item)| (escape(path), item.permissions)).collect(),
        empty: tree.empty_dirs().map(|path| escape(path)).collect(),
        ignored: tree.hidden.iter().map(|path| escape(path)).collect(),
        missing: missing.collect(),
        packages: tree.packages.iter().map(|(path, state)| (escape(path), *state)).collect(),
    };
    // Text keys and numbers only, so there is no failing path.
    let json = serde_json::to_string(&note).unwrap_or_default();
    format!("Salve: {title} attempt {} of {}\n\n{json}\n", name.attempt, name.incident)
}

/// Completes a tree whose items came from git by what its commit says; nothing if it is no note.
pub(super) fn read(message: &str, tree: &mut WorkingTree) -> Option<()> {
    let json = message.lines().find(|line| line.starts_with('{'))?;
    let note: SnapshotNote = serde_json::from_str(json).ok()?;
    if note.version > VERSION {
        return None;
    }
    for (path, item) in &mut tree.items {
        item.permissions = match item.kind {
            Kind::Link => 0,
            Kind::Plain | Kind::Executable if note.permissions.is_empty() => usual_of(&note, item),
            Kind::Plain | Kind::Executable => {
                *note.permissions.get(&escape(path)).unwrap_or(&usual_of(&note, item))
            }
        };
    }
    tree.dirs = note.empty.iter().map(|path| unescape(path)).collect();
    tree.add_parents();
    tree.hidden = note.ignored.iter().map(|path| unescape(path)).collect();
    let packages = note.packages.iter().map(|(path, state)| (unescape(path), *state));
    tree.packages = packages.collect();
    for missing in note.missing {
        let NotedMissing { path, why, size, written } = missing;
        let written = written.parse().ok()?;
        tree.gaps.insert(unescape(&path), Gap { why, size, written });
    }
    Some(())
}

fn usual_of(note: &SnapshotNote, item: &TreeItem) -> u16 {
    match item.kind {
        Kind::Plain => note.plain,
        Kind::Executable => note.executable,
        Kind::Link => 0,
    }
}

/// Returns the permissions that most of these have.
fn usual<'a>(items: impl Iterator<Item = &'a TreeItem>) -> u16 {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item.permissions).or_insert(0_usize) += 1;
    }
    counts.into_iter().max_by_key(|&(permissions, count)| (count, permissions)).map_or(0, |c| c.0)
}

/// Writes a path of any bytes as text.
fn escape(path: &OsStr) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path.as_bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

/// Reads [`escape`]d text back.
fn unescape(text: &str) -> OsString {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| byte == b'%') {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use salve_core::id::IncidentId;
    use uuid::Uuid;

    use super::*;
    use crate::workspace::oid::{Format, Oid};

    #[test]
    fn a_tree_is_read_back_with_all_that_git_does_not_hold() {
        let oid = Oid::of_blob(Format::Sha1, b"x");
        let odd = OsString::from_vec(b"100%/\xff \"\n".to_vec());
        let item = |kind, permissions| TreeItem { kind, permissions, oid };
        let mut tree = WorkingTree::default();
        tree.items.insert("a".into(), item(Kind::Plain, 0o644));
        tree.items.insert("b".into(), item(Kind::Plain, 0o644));
        tree.items.insert(odd.clone(), item(Kind::Plain, 0o600));
        tree.items.insert("deep/run".into(), item(Kind::Executable, 0o755));
        tree.items.insert("link".into(), item(Kind::Link, 0));
        tree.dirs.insert("empty/inner".into());
        tree.hidden.extend([odd.clone(), ".env".into()]);
        tree.gaps.insert("big".into(), Gap { why: Why::TooLarge, size: 7, written: i128::MAX });
        tree.packages.insert(odd.clone(), Digest::of(&[b"x"]));
        tree.add_parents();
        let name = Name::before(IncidentId(Uuid::nil()), 2);
        let message = write(name, &tree);
        assert!(message.starts_with("Salve: before attempt 2 of 0000"), "{message}");
        let mut back = WorkingTree::default();
        for (path, item) in &tree.items {
            back.items.insert(path.clone(), TreeItem { permissions: 0, ..*item });
        }
        read(&message, &mut back).unwrap();
        assert_eq!(back, tree);
        let newer = message.replace("\"version\":1", "\"version\":2");
        assert_eq!(read(&newer, &mut back), None);
    }
}
