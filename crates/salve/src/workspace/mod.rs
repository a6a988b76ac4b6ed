//! Snapshots of a project's working tree, and the way back to them.
//!
//! A snapshot keeps every file below the project's root that git does not ignore, byte for byte,
//! with links, permissions and empty directories, in git's object store under a hidden ref
//! ([`Name::to_ref`]). Without a repository around the project, Salve keeps one of its own in
//! `.salve/snapshots.git`. Ignored files that people write, such as `.env`, are kept too, always in
//! a store of Salve's own, which `git clean` does not reach.
//!
//! **Invariants:** the user's index, stash, HEAD, branches, tags and reflogs are never touched,
//! and no hook or filter runs. A restore keeps the state it leaves in a snapshot of its own before
//! it changes anything, and changes nothing if something could not be given back. Salve's own
//! files (`.salve`, `.dev-crash*`, `.dev-repair.lock`) are never part of either.

mod attempts;
mod committed_tree;
mod discard;
mod error;
#[cfg(test)]
mod faults;
mod git;
mod give;
mod ignored;
mod keep;
mod layer;
mod measure;
mod memo;
mod name;
mod note;
mod oid;
mod packages;
mod patch;
mod plan;
mod restore;
mod scan;
mod scratch_dir;
mod shadow;
mod step_place;
mod step_replay;
mod step_store;
mod store;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{Change, Digest};
use salve_core::id::IncidentId;

use crate::project::Project;

pub use attempts::{AttemptChange, Attempts, forget_after};
pub use error::{Back, RestoreError, WorkspaceError};
pub use give::{Give, RestoreSummary};
pub use layer::{
    HeldTree, LayerChange, LayerCommand, LayerError, LayerLaunch, LayerMeans, LayerSight,
    PrivateLayer, TakeOverError, TakenOver, enter_layer,
};
pub use measure::{FileChange, FileFate};
pub use name::{Moment, Name};
pub use patch::{PatchError, Patches};
pub use plan::Again;
pub use shadow::{Confined, Shadow};
pub use step_replay::{ReplayError, ReplayStep};
pub use step_store::{ChangedPath, ResultBase, SeenTree, StartFrom, StepDiff, StepStore};
pub use tree::Why;

use git::Git;
use ignored::IgnoredFiles;
use keep::KeepPlace;
use measure::NamedTree;
use scan::Scanner;
use store::Vault;
use tree::{WorkingTree, show};

/// The longest diff that is shown.
const LONGEST_DIFF: usize = 1 << 20;

/// How much a snapshot may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// The largest file in bytes.
    pub file: u64,
    /// The most bytes that one snapshot adds to the store.
    pub total: u64,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { file: 32 << 20, total: 512 << 20 }
    }
}

/// A working tree that snapshots can be taken of.
///
/// It remembers what it has read, so that looking again costs little while it is kept.
#[derive(Debug)]
pub struct Workspace {
    scanner: Scanner,
    vault: Vault,
    state_dir: PathBuf,
    /// Where shadows are laid.
    shadows: PathBuf,
}

/// A kept state of the working tree.
#[derive(Clone)]
pub struct Snapshot {
    name: Name,
    tree: WorkingTree,
    ignored: IgnoredFiles,
}

/// A file that a snapshot does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// Its path below the project's root, for people.
    pub path: String,
    /// Why it is not kept.
    pub why: Why,
}

/// What changed since a snapshot.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How much in all.
    pub change: Change,
    /// Each file that git does not ignore.
    pub files: Vec<FileChange>,
    /// Each file that git ignores and that is kept; they do not count.
    pub ignored: Vec<FileChange>,
    /// The state that was measured, kept under the same attempt.
    pub after: Snapshot,
}

impl Workspace {
    /// Opens the project's working tree.
    pub fn open(project: &Project) -> Result<Self, WorkspaceError> {
        let mut workspace = Self::with_limits(project, SnapshotLimits::default())?;
        if let Some(file) = memo::file(project.root()) {
            workspace.scanner.remember_in(file);
        }
        Ok(workspace)
    }

    /// Opens the project's working tree with other limits, and without what other processes have
    /// seen there.
    pub fn with_limits(project: &Project, limits: SnapshotLimits) -> Result<Self, WorkspaceError> {
        let root = project.root();
        let state_dir = project.make_state_dir()?;
        let store::OpenedVault { git, format, vault } = store::open(root)?;
        let scanner = Scanner::new(root.to_path_buf(), git, format, limits);
        Ok(Self { scanner, vault, state_dir, shadows: shadow::usual_base() })
    }

    /// Returns the hash of all content, for telling whether anything changed at all.
    pub fn tree(&self) -> Result<Digest, WorkspaceError> {
        Ok(self.scanner.scan([])?.digest())
    }

    /// Keeps the present state under a name, instead of what was there under it.
    pub fn snapshot(&self, name: Name) -> Result<Snapshot, WorkspaceError> {
        let tree = self.scanner.scan([])?;
        let ignored = ignored::look(&self.scanner, &tree, []);
        self.keep(Snapshot { name, tree, ignored })
    }

    /// Returns the snapshot of a name, if there is one.
    pub fn load(&self, name: Name) -> Result<Option<Snapshot>, WorkspaceError> {
        let Some(tree) = keep::load(&self.scanner.git, &name.to_ref())? else { return Ok(None) };
        let ignored = match self.vault.existing() {
            Some(store) => keep::load(&store, &name.to_ignored_ref())?.unwrap_or_default(),
            None => WorkingTree::default(),
        };
        Ok(Some(Snapshot { name, tree, ignored: IgnoredFiles::of(ignored) }))
    }

    /// Returns the names of all snapshots of an incident, in order.
    pub fn names(&self, incident: IncidentId) -> Result<Vec<Name>, WorkspaceError> {
        let under = format!("{}/{incident}/", name::REFS);
        let mut names: Vec<Name> = refs(self, &under)?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    /// Measures what changed since a snapshot, and keeps the state that was measured.
    pub fn measure(&self, before: &Snapshot) -> Result<Measured, WorkspaceError> {
        let name = before.name.at(Moment::After);
        let after = self.keep(self.now(name, before)?)?;
        let files = self.compare(before, &after)?;
        let ignored = compare_ignored(self, before, &after)?;
        Ok(Measured { change: measure::total(&files), files, ignored, after })
    }

    /// Returns the files that differ between two snapshots.
    pub fn compare(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<Vec<FileChange>, WorkspaceError> {
        let (from, to) = (before.name.to_ref(), after.name.to_ref());
        let before = NamedTree { tree: &before.tree, name: &from };
        let after = NamedTree { tree: &after.tree, name: &to };
        measure::compare(&self.scanner.git, before, after)
    }

    /// Returns the present state, with all that is in another whatever git says of it now.
    fn now(&self, name: Name, other: &Snapshot) -> Result<Snapshot, WorkspaceError> {
        let tree = self.scanner.scan(other.tree.items.keys())?;
        let also = other.ignored.tree.items.keys();
        let ignored = ignored::look(&self.scanner, &tree, also);
        Ok(Snapshot { name, tree, ignored })
    }

    /// Keeps a state that was looked at, and returns what is kept.
    fn keep(&self, mut state: Snapshot) -> Result<Snapshot, WorkspaceError> {
        let Snapshot { name, tree, ignored } = &mut state;
        // First what git ignores: a snapshot that is there is there whole.
        if !ignored.tree.items.is_empty() || self.vault.existing().is_some() {
            let (store, at) = (self.vault.open()?, name.to_ignored_ref());
            let place = KeepPlace { store: &store, at: &at, name: *name, base: None };
            keep::keep(&self.scanner, &place, &mut ignored.tree)?;
        }
        let (base, at) = (self.scanner.base(), name.to_ref());
        let (store, base) = (&self.scanner.git, base.as_ref());
        keep::keep(&self.scanner, &KeepPlace { store, at: &at, name: *name, base }, tree)?;
        self.scanner.remember(&at, tree);
        Ok(state)
    }

    /// Returns the difference as a patch, raw: it is scrubbed before it is shown or stored.
    pub fn diff(&self, before: &Snapshot, after: &Snapshot) -> Result<String, WorkspaceError> {
        let (from, to) = (before.name.to_ref(), after.name.to_ref());
        let mut args = vec!["diff-tree", "-r", "-p", "--no-renames", "--no-color"];
        args.extend(["--no-ext-diff", "--no-textconv", &from, &to]);
        let mut patch = self.scanner.git.read(&args)?;
        if patch.len() > LONGEST_DIFF {
            patch.truncate(LONGEST_DIFF);
            patch.extend(b"\n(cut here: the patch is longer)\n");
        }
        Ok(String::from_utf8_lossy(&patch).into_owned())
    }

    /// Returns what a file holds in a snapshot; nothing if it is not there.
    pub fn content(&self, of: &Snapshot, path: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        self.scanner.git.ask(&["cat-file", "blob", &format!("{}:{path}", of.name.to_ref())])
    }

    /// Returns the files of installed packages that were edited, not installed, since a moment after
    /// a snapshot; they are in no snapshot.
    pub fn edited_packages(&self, of: &Snapshot, since: Timestamp) -> Vec<String> {
        packages::edited(&self.scanner.root, &of.tree.hidden, since.into())
    }

    /// Returns what changed from the last commit to a snapshot, as a patch; nothing where there is
    /// no commit to compare with.
    pub fn since_commit(&self, to: &Snapshot) -> Result<Option<String>, WorkspaceError> {
        let reference = to.name.to_ref();
        let mut args = vec!["diff-tree", "-r", "-p", "--no-renames", "--no-color"];
        args.extend(["--no-ext-diff", "--no-textconv", "HEAD:./", &reference]);
        let patch = self.scanner.git.ask(&args)?;
        Ok(patch.map(|mut patch| {
            patch.truncate(LONGEST_DIFF);
            String::from_utf8_lossy(&patch).into_owned()
        }))
    }

    /// Removes snapshots older than `age`; returns how many.
    pub fn prune(&self, now: Timestamp, age: Duration) -> Result<usize, WorkspaceError> {
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let is_old = |made: &i64| now.as_second().saturating_sub(*made) > age;
        memo::forget_old();
        let refs = refs(self, &format!("{}/", name::REFS))?;
        let old: Vec<Name> =
            refs.into_iter().filter(|(_, made)| is_old(made)).map(|(name, _)| name).collect();
        if old.is_empty() {
            return Ok(0);
        }
        forget(&self.scanner.git, old.iter().map(|name| name.to_ref()))?;
        if self.scanner.git.store().is_some() {
            clear_out(&self.scanner.git)?;
        }
        if let Some(store) = self.vault.existing() {
            let names = old.iter().map(|name| name.to_ignored_ref());
            forget(&store, names)?;
            clear_out(&store)?;
        }
        Ok(old.len())
    }
}

/// Returns the ignored files that differ between two snapshots, as far as they are kept.
fn compare_ignored(
    workspace: &Workspace,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Vec<FileChange>, WorkspaceError> {
    let Some(store) = workspace.vault.existing() else { return Ok(Vec::new()) };
    // Where there was nothing to keep there may be no ref either.
    let at = |snapshot: &Snapshot| {
        if snapshot.ignored.tree.items.is_empty() {
            workspace.scanner.format.empty_tree().to_owned()
        } else {
            snapshot.name.to_ignored_ref()
        }
    };
    let (from, to) = (at(before), at(after));
    let before = NamedTree { tree: &before.ignored.tree, name: &from };
    let after = NamedTree { tree: &after.ignored.tree, name: &to };
    measure::compare(&store, before, after)
}

/// Returns the snapshots under a prefix of refs, with the second each was made in.
fn refs(workspace: &Workspace, under: &str) -> Result<Vec<(Name, i64)>, WorkspaceError> {
    let format = "--format=%(refname) %(committerdate:unix)";
    let listed = workspace.scanner.git.read(&["for-each-ref", format, under])?;
    let text = String::from_utf8_lossy(&listed);
    let parse = |line: &str| {
        let (name, made) = line.split_once(' ')?;
        Some((Name::from_ref(name)?, made.parse().ok()?))
    };
    Ok(text.lines().filter_map(parse).collect())
}

impl Snapshot {
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the hash of its content.
    pub fn tree(&self) -> Digest {
        self.tree.digest()
    }

    /// Returns what of the ignored files it does not keep, each directory for all that is in it;
    /// it is known only to whoever took the snapshot.
    pub fn uncovered(&self) -> Vec<MissingFile> {
        let uncovered =
            |(path, why): (&tree::Rel, &Why)| MissingFile { path: show(path), why: *why };
        self.ignored.uncovered.iter().map(uncovered).collect()
    }

    /// Returns the files that it does not keep; with any, it is incomplete.
    pub fn missing(&self) -> Vec<MissingFile> {
        let missing =
            |(path, gap): (&tree::Rel, &tree::Gap)| MissingFile { path: show(path), why: gap.why };
        self.tree.gaps.iter().map(missing).collect()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({}, {} files)", self.name.to_ref(), self.tree.items.len())
    }
}

/// Removes refs.
fn forget(store: &Git, refs: impl Iterator<Item = String> + Send) -> Result<(), WorkspaceError> {
    store.feed(&["update-ref", "--stdin"], |to| {
        let mut refs = refs;
        refs.try_for_each(|name| writeln!(to, "delete {name}")).map_err(git::pipe)
    })?;
    Ok(())
}

/// Removes what no ref holds from a store of Salve's own.
fn clear_out(store: &Git) -> Result<(), WorkspaceError> {
    // What somebody else is keeping right now has no name yet.
    store.read(&["gc", "--quiet", "--prune=1.hour.ago"]).map(drop)
}
