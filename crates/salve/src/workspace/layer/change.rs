//! What an agent changed in its layer, kept and counted like any state of the tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use salve_core::sealed_path::SealedPath;

use super::ignore::ignored_among;
use super::upper::UpperContent;
use super::{LayerGround, PrivateLayer};
use crate::files::{FileKind, read_bytes};
use crate::sealed::{self, SealedReach};
use crate::workspace::discard::put_discarded_back;
use crate::workspace::error::WorkspaceError;
use crate::workspace::ignored::is_program_data;
use crate::workspace::keep::KeepPlace;
use crate::workspace::scan::{Scanner, Walk, is_always_derived};
use crate::workspace::tree::{Rel, WorkingTree, show};
use crate::workspace::{Measured, Moment, Snapshot, Workspace, compare_ignored, keep, measure};

/// The permissions by which a program runs as its owner or its group.
const AS_OWNER: u32 = 0o6000;

/// What an agent changed.
#[derive(Clone, Debug)]
pub struct LayerChange {
    /// How much, and the state that taking it over would lead to.
    pub measured: Measured,
    /// Sealed paths that the agent wanted to change; they are left out.
    pub sealed: Vec<String>,
    /// What it threw away of the user's work that is not committed, as `git stash` does; it is left
    /// out.
    pub discarded: Vec<String>,
    /// Files that it made or changed and that cannot be kept: too large, or closed to reading. They are
    /// left out as well.
    pub unkept: Vec<String>,
    /// How many files it made that tools make again: caches, build output, installed packages. They
    /// are left out too.
    pub derived: usize,
}

/// Where a path of the upper directory belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpperPathKind {
    Seen,
    Ignored,
    Derived,
    Sealed,
}

/// Sorts paths of a layer.
struct Sorter<'a> {
    before: &'a Snapshot,
    ignored: BTreeSet<Rel>,
    /// What sealed places lead to.
    reach: SealedReach,
    place: &'a Path,
}

impl Sorter<'_> {
    fn is_sealed(&self, path: &OsStr) -> bool {
        SealedPath::of(path.as_bytes()).is_some() || self.reach.holds(Path::new(path))
    }

    fn part(&self, path: &OsStr) -> UpperPathKind {
        if self.is_sealed(path) {
            return UpperPathKind::Sealed;
        }
        let is_known = self.before.tree.items.contains_key(path);
        let is_ignored = self.ignored.contains(path) || self.before.tree.hides(path);
        if is_known || !(is_ignored || is_always_derived(Path::new(path))) {
            return UpperPathKind::Seen;
        }
        if self.before.ignored.tree.items.contains_key(path) {
            return UpperPathKind::Ignored;
        }
        if is_always_derived(Path::new(path)) || is_program_data(self.place, Path::new(path)) {
            UpperPathKind::Derived
        } else {
            UpperPathKind::Ignored
        }
    }
}

impl Workspace {
    /// Measures what was changed in a layer since the snapshot it was made with, and keeps the state
    /// that taking it over would lead to, as [`Moment::InLayer`].
    ///
    /// It may be asked at any time; what counts is asked after the agent has ended with all that it
    /// started.
    ///
    /// # Errors
    ///
    /// When the layer cannot be read or the state cannot be kept.
    pub fn layer_change(
        &self,
        before: &Snapshot,
        layer: &PrivateLayer,
    ) -> Result<LayerChange, WorkspaceError> {
        let place = UpperContent::place(&layer.ground);
        let content = self.upper_content(&layer.ground)?;
        drop_foreign_rights(before, place, &content)?;
        let ignored = ignored_among(&self.scanner, &content)?;
        let reach = reach_of_layer(&self.scanner.root, &content);
        let sorter = Sorter { before, ignored, reach, place };
        let git = self.scanner.git.clone();
        // It reads what was written, by the same names as in the real tree.
        let upper =
            Scanner::new(place.to_path_buf(), git, self.scanner.format, self.scanner.limits);
        let name = before.name.at(Moment::InLayer);
        let mut after = Snapshot { name, ..before.clone() };
        change_tree(&sorter, UpperPathKind::Seen, &mut after.tree, &content, &upper);
        change_dirs(&mut after.tree, &content, &sorter);
        change_tree(&sorter, UpperPathKind::Ignored, &mut after.ignored.tree, &content, &upper);
        let discarded = put_discarded_back(self, before, &mut after)?;
        let is_displaced = |path: &&Rel| {
            [&after.tree, &after.ignored.tree].iter().any(|tree| is_displaced(path, tree))
        };
        let paths = discarded.iter().filter(is_displaced).map(|path| show(path));
        let paths: Vec<String> = paths.collect();
        if !paths.is_empty() {
            return Err(WorkspaceError::Displaced { paths });
        }
        let discarded = discarded.iter().map(|path| show(path)).collect();
        let sealed = sealed_paths(&self.scanner.root, &sorter, &content);
        let derived =
            content.written.iter().filter(|path| sorter.part(path) == UpperPathKind::Derived);
        let derived = derived.count();
        let mut unkept = leave_unkept(&before.tree, &mut after.tree);
        let mut after = self.keep_from(&upper, after)?;
        let more = leave_unkept(&before.tree, &mut after.tree);
        if !more.is_empty() {
            // All together were too much.
            unkept.extend(more);
            after = self.keep_from(&upper, after)?;
        }
        let files = self.compare(before, &after)?;
        let ignored = compare_ignored(self, before, &after)?;
        let measured = Measured { change: measure::total(&files), files, ignored, after };
        Ok(LayerChange { measured, sealed, discarded, unkept, derived })
    }

    fn upper_content(&self, ground: &LayerGround) -> Result<UpperContent, WorkspaceError> {
        match ground {
            LayerGround::Overlay { upper, .. } => {
                UpperContent::of_upper(upper).map_err(WorkspaceError::io(upper))
            }
            LayerGround::Copy { shadow, first } => {
                Ok(UpperContent::of_copy(first, &self.copy_tree(shadow)?))
            }
        }
    }

    /// Keeps a state whose new files `from` reads.
    fn keep_from(&self, from: &Scanner, mut state: Snapshot) -> Result<Snapshot, WorkspaceError> {
        let Snapshot { name, tree, ignored } = &mut state;
        if !ignored.tree.items.is_empty() || self.vault.existing().is_some() {
            let (store, at) = (self.vault.open()?, name.to_ignored_ref());
            let place = KeepPlace { store: &store, at: &at, name: *name, base: None };
            keep::keep(from, &place, &mut ignored.tree)?;
        }
        let at = name.to_ref();
        let (store, base) = (&self.scanner.git, self.scanner.base());
        let place = KeepPlace { store, at: &at, name: *name, base: base.as_ref() };
        keep::keep(from, &place, tree)?;
        Ok(state)
    }

    /// Takes out of a layer what is not part of its change, so that a check in it sees the real tree
    /// with the change and nothing else.
    ///
    /// # Errors
    ///
    /// When something cannot be removed.
    pub fn leave_out(&self, before: &Snapshot, layer: &PrivateLayer) -> Result<(), WorkspaceError> {
        let place = UpperContent::place(&layer.ground);
        let content = self.upper_content(&layer.ground)?;
        let ignored = ignored_among(&self.scanner, &content)?;
        let reach = reach_of_layer(&self.scanner.root, &content);
        let sorter = Sorter { before, ignored, reach, place };
        let kept = self.load(before.name.at(Moment::InLayer))?;
        let is_as_before = |path: &Rel, kept: &Snapshot| {
            let ignored = (&kept.ignored.tree.items, &before.ignored.tree.items);
            let is_ignored =
                ignored.0.contains_key(path) && ignored.0.get(path) == ignored.1.get(path);
            let is_seen = sorter.part(path) == UpperPathKind::Seen;
            is_ignored || is_seen && is_left_out(path, &content, [&before.tree, &kept.tree])
        };
        let is_new = |path: &Rel| {
            let trees = [&before.tree, &before.ignored.tree];
            !trees.iter().any(|tree| tree.items.contains_key(path) || tree.gaps.contains_key(path))
        };
        let is_out = |path: &&Rel| match sorter.part(path) {
            UpperPathKind::Sealed | UpperPathKind::Derived => true,
            // No change can carry it, and a check that opens a pipe would wait for ever.
            _ if content.special.contains(*path) => true,
            // What was thrown away is put back by showing what lies below, if something does.
            UpperPathKind::Seen | UpperPathKind::Ignored => {
                let shows_below = matches!(layer.ground, LayerGround::Overlay { .. });
                let is_as_before = kept.as_ref().is_some_and(|kept| is_as_before(path, kept));
                is_as_before && (shows_below || is_new(path))
            }
        };
        for path in content.touched().filter(is_out) {
            remove(&place.join(path)).map_err(WorkspaceError::io(place.join(path)))?;
        }
        Ok(())
    }
}

/// Takes the rights away by which a program runs as its owner, whoever starts it, unless the user had
/// given them: whoever else can reach the tree could become the user by it.
fn drop_foreign_rights(
    before: &Snapshot,
    place: &Path,
    content: &UpperContent,
) -> Result<(), WorkspaceError> {
    for path in &content.written {
        let full = place.join(path);
        let Ok(meta) = full.symlink_metadata() else { continue };
        let mode = meta.permissions().mode();
        let had = before.tree.items.get(path).map_or(0, |item| u32::from(item.permissions));
        let more = mode & AS_OWNER & !had;
        if meta.is_file() && more != 0 {
            let fewer = fs::Permissions::from_mode(mode & 0o7777 & !more);
            fs::set_permissions(&full, fewer).map_err(WorkspaceError::io(&full))?;
        }
    }
    Ok(())
}

/// Takes back out of a change what cannot be kept, and therefore not be brought in; returns the files.
fn leave_unkept(before: &WorkingTree, after: &mut WorkingTree) -> Vec<String> {
    let paths = after.gaps.keys().chain(before.gaps.keys());
    let differs = |path: &&Rel| {
        let is_same_item = before.items.get(*path) == after.items.get(*path);
        !is_same_item || before.gaps.get(*path) != after.gaps.get(*path)
    };
    let unkept: BTreeSet<Rel> = paths.filter(differs).cloned().collect();
    for path in &unkept {
        after.items.remove(path);
        after.gaps.remove(path);
        after.items.extend(before.items.get(path).map(|item| (path.clone(), *item)));
        after.gaps.extend(before.gaps.get(path).map(|gap| (path.clone(), *gap)));
    }
    unkept.iter().map(|path| show(path)).collect()
}

/// Tells whether what was done to a path is no part of the change that is kept.
fn is_left_out(path: &Rel, content: &UpperContent, [before, kept]: [&WorkingTree; 2]) -> bool {
    let is_same = kept.items.get(path) == before.items.get(path)
        && kept.gaps.get(path) == before.gaps.get(path);
    // A directory that was taken away is in neither.
    let is_kept = kept.items.contains_key(path) || kept.gaps.contains_key(path);
    is_same && (is_kept || content.written.contains(path))
}

/// Tells whether a file has no place in a tree: what is above it is a file, or it is a directory.
fn is_displaced(path: &Rel, tree: &WorkingTree) -> bool {
    let above = Path::new(path).ancestors().skip(1);
    let is_dir = || {
        let after = tree.items.range::<Rel, _>((Bound::Excluded(path), Bound::Unbounded));
        let mut alike =
            after.take_while(|(other, _)| other.as_bytes().starts_with(path.as_bytes()));
        alike.any(|(other, _)| Path::new(other).starts_with(path))
    };
    above.map(Path::as_os_str).any(|dir| tree.items.contains_key(dir)) || is_dir()
}

fn remove(full: &Path) -> io::Result<()> {
    match fs::remove_file(full) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Brings the files of a tree, as far as they are of its kind, to the state that the layer shows.
fn change_tree(
    sorter: &Sorter<'_>,
    kind: UpperPathKind,
    tree: &mut WorkingTree,
    content: &UpperContent,
    upper: &Scanner,
) {
    let goes = |path: &Rel| !sorter.is_sealed(path) && content.takes_away(path);
    tree.items.retain(|path, _| !goes(path));
    tree.gaps.retain(|path, _| !goes(path));
    for path in content.written.iter().filter(|path| sorter.part(path) == kind) {
        let mut walk = Walk::default();
        upper.look(path, &mut walk);
        let WorkingTree { mut items, mut gaps, .. } = walk.into_tree();
        tree.items.remove(path);
        tree.gaps.remove(path);
        tree.items.append(&mut items);
        tree.gaps.append(&mut gaps);
    }
}

/// The same for directories.
fn change_dirs(tree: &mut WorkingTree, content: &UpperContent, sorter: &Sorter<'_>) {
    let is_file = |dir: &Rel| content.written.contains(dir);
    let goes = |dir: &Rel| is_file(dir) || (!content.dirs.contains(dir) && content.takes_away(dir));
    // A sealed file in it would be in the way; an empty directory is sealed itself.
    tree.dirs.retain(|dir| sorter.is_sealed(dir) || !goes(dir));
    let inside = |dir: &Rel| Path::new(dir).join("x").into_os_string();
    let made = content.dirs.iter().filter(|dir| sorter.part(&inside(dir)) == UpperPathKind::Seen);
    tree.dirs.extend(made.cloned());
    tree.add_parents();
}

/// Returns the sealed paths that differ from the real ones, for people; what git itself writes in its
/// repository all the time is none of them.
fn sealed_paths(real: &Path, sorter: &Sorter<'_>, content: &UpperContent) -> Vec<String> {
    let place = sorter.place;
    let is_told = |path: &&Rel| {
        let text = path.as_bytes();
        let is_programs =
            text.ends_with(b".git/config") || memchr::memmem::find(text, b".git/hooks/").is_some();
        match SealedPath::of(text) {
            None => sorter.is_sealed(path),
            Some(SealedPath::Git) if text.starts_with(b".git/") => is_programs,
            Some(SealedPath::Salve) => !text.starts_with(b".salve") && !text.starts_with(b".dev-"),
            Some(SealedPath::Git | SealedPath::Agent | SealedPath::Editor) => true,
        }
    };
    let differs = |path: &&Rel| {
        if content.written.contains(*path) {
            // What is too large to be settings is told of, too.
            let read = |path: &Path| read_bytes(path, FileKind::Document).ok();
            let ours = read(&real.join(path));
            ours.is_none() || ours != read(&place.join(path))
        } else {
            real.join(path).symlink_metadata().is_ok()
        }
    };
    let told = content.touched().filter(is_told).filter(differs);
    told.map(|path| show(path)).collect()
}

/// Returns what the sealed places of a root lead to, and what would make a directory a repository in
/// which git runs programs.
fn reach_of_layer(root: &Path, content: &UpperContent) -> SealedReach {
    let mut reach = sealed::reach_of_files(root);
    let made = content.written.iter().chain(&content.dirs).map(Path::new);
    let parts = made.filter(|path| sealed::is_part_of_bare(path));
    let dirs: BTreeSet<&Path> = parts.filter_map(Path::parent).collect();
    for dir in dirs {
        let was = |name: &str| root.join(dir).join(name).symlink_metadata().is_ok();
        let is = |name: &str| {
            let path = dir.join(name).into_os_string();
            let is_made = content.written.contains(&path) || content.dirs.contains(&path);
            is_made || was(name) && !content.takes_away(&path)
        };
        reach.hold_new_bare(dir, was, is);
    }
    reach
}
