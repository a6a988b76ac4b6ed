//! Laying a kept tree out in a shadow.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path};

use super::{Scanner, ShadowRoots, WorkspaceError, link_text};
use crate::workspace::git::Git;
use crate::workspace::keep;
use crate::workspace::oid::Oid;
use crate::workspace::tree::{Gap, Kind, Rel, TreeItem, WorkingTree, show};

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
    Ok(gaps.map(|(path, _)| format!("{}: it is not kept", show(path))).collect())
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

/// Gives the files that `only` names the state that they have in `tree`.
pub(super) fn overlay(
    scanner: &Scanner,
    ground: &ShadowRoots,
    tree: &WorkingTree,
    only: &[String],
) -> Result<(), WorkspaceError> {
    let only: HashSet<&str> = only.iter().map(String::as_str).collect();
    for name in &only {
        // The names are for people: one that tells not all of its path names none in `tree`.
        clear(ground, Path::new(name)).map_err(WorkspaceError::io(ground.root.join(name)))?;
    }
    let is_meant = |path: &&Rel| only.contains(show(path).as_str());
    let meant: Vec<_> = tree.items.iter().filter(|(path, _)| is_meant(path)).collect();
    for (path, _) in &meant {
        make_way(ground, Path::new(path)).map_err(WorkspaceError::io(ground.root.join(path)))?;
    }
    write_all(&scanner.git, ground, meant.into_iter())
}

/// Removes a file of the shadow, never what a link leads to.
fn clear(ground: &ShadowRoots, path: &Path) -> io::Result<()> {
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    if !is_inside || above.into_iter().any(|dir| ground.root.join(dir).is_symlink()) {
        return Ok(());
    }
    let place = ground.root.join(path);
    match fs::symlink_metadata(&place) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => fs::remove_file(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the directories to `path` real ones, and its place free.
fn make_way(ground: &ShadowRoots, path: &Path) -> io::Result<()> {
    let mut above: Vec<&Path> =
        path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()).collect();
    above.reverse();
    for dir in above {
        let dir = ground.root.join(dir);
        match fs::symlink_metadata(&dir) {
            Ok(meta) if meta.is_dir() => continue,
            Ok(_) => fs::remove_file(&dir)?,
            Err(_) => {}
        }
        fs::create_dir(&dir)?;
    }
    let place = ground.root.join(path);
    match fs::symlink_metadata(&place) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(_) => Ok(()),
    }
}
