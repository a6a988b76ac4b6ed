//! Laying a kept tree out in a shadow.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::{Scanner, ShadowRoots, WorkspaceError, link_text};
use crate::workspace::git::Git;
use crate::workspace::keep;
use crate::workspace::oid::Oid;
use crate::workspace::tree::{Gap, Kind, Rel, TreeItem, Why, WorkingTree, show};

/// Makes the directories from the top to the root, and shows what lies beside the way by links.
pub(super) fn surround(ground: &ShadowRoots) -> Result<(), WorkspaceError> {
    fs::create_dir_all(&ground.root).map_err(WorkspaceError::io(&ground.root))?;
    for step in ground.real.ancestors().take_while(|step| *step != ground.real_top) {
        let Some(above) = step.parent() else { break };
        for entry in fs::read_dir(above).map_err(WorkspaceError::io(above))?.flatten() {
            let real = entry.path();
            if real != step && entry.file_name() != ".git" {
                let place = ground.path(&real);
                symlink(&real, &place).map_err(WorkspaceError::io(place))?;
            }
        }
    }
    Ok(())
}

/// Lays all out that is kept; returns what is missing.
pub(super) fn lay(
    scanner: &Scanner,
    tree: &WorkingTree,
    ground: &ShadowRoots,
) -> Result<Vec<String>, WorkspaceError> {
    lay_over(&scanner.git, tree, ground)?;
    let gaps = tree.gaps.iter().filter(|(path, gap)| !bring_large(ground, path, gap));
    Ok(gaps.map(|(path, gap)| format!("{} ({})", show(path), in_words(gap.why))).collect())
}

/// Returns why a file is not kept, for people.
fn in_words(why: Why) -> &'static str {
    match why {
        Why::TooLarge | Why::TooMuch => "too large to keep a copy of",
        Why::Unreadable => "it cannot be read",
        Why::Derived => "a tool makes it",
    }
}

/// Lays a tree out whose files the `store` has.
pub(super) fn lay_over(
    store: &Git,
    tree: &WorkingTree,
    ground: &ShadowRoots,
) -> Result<(), WorkspaceError> {
    let mut made = HashSet::new();
    let parents = tree.items.keys().filter_map(|path| Path::new(path).parent());
    for dir in tree.dirs.iter().map(Path::new).chain(parents) {
        if made.insert(dir) {
            let dir = ground.root.join(dir);
            fs::create_dir_all(&dir).map_err(WorkspaceError::io(dir))?;
        }
    }
    write_all(store, ground, tree.items.iter())
}

/// Writes items into directories that are there.
fn write_all<'a>(
    store: &Git,
    ground: &ShadowRoots,
    items: impl Iterator<Item = (&'a Rel, &'a TreeItem)>,
) -> Result<(), WorkspaceError> {
    let items: Vec<_> = items.collect();
    let oids: Vec<Oid> = items.iter().map(|(_, item)| item.oid).collect();
    keep::contents(store, &oids, |at, content| {
        let (path, item) = items[at];
        let place = ground.root.join(path);
        let made = match item.kind {
            Kind::Link => {
                let real = ground.real.join(path);
                symlink(link_text(ground, &real, OsStr::from_bytes(content)), &place)
            }
            Kind::Plain | Kind::Executable => write(&place, content, item.permissions),
        };
        made.map_err(WorkspaceError::io(place))
    })
}

fn write(path: &Path, content: &[u8], permissions: u16) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(u32::from(permissions)))
}

/// The largest file that is copied. A file may claim terabytes without holding a byte, and its copy
/// would fill the disk.
const LARGEST_COPY: u64 = 2 << 30;

/// Copies a file that was too large to be kept, if it is still what it was.
fn bring_large(ground: &ShadowRoots, path: &OsStr, gap: &Gap) -> bool {
    let real = ground.real.join(path);
    let is_same = |meta: &fs::Metadata| {
        let written = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let is_as_it_was = meta.size() == gap.size && written == gap.written;
        meta.is_file() && is_as_it_was && meta.size() <= LARGEST_COPY
    };
    let place = ground.root.join(path);
    fs::symlink_metadata(&real).is_ok_and(|meta| is_same(&meta))
        && place.parent().is_some_and(|dir| fs::create_dir_all(dir).is_ok())
        && fs::copy(&real, &place).is_ok()
}
