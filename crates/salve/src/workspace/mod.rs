//! Snapshots of a project's working tree, and the way back to them.
//!
//! A snapshot keeps every file below the project's root that git does not ignore, byte for byte,
//! with links, permissions and empty directories, in git's object store under a hidden ref
//! ([`Name::to_ref`]). Without a repository around the project, Salve keeps one of its own in
//! `.salve/snapshots.git`.
//!
//! **Invariants:** the user's index, stash, HEAD, branches, tags and reflogs are never touched,
//! and no hook or filter runs. A restore keeps the state it leaves in a snapshot of its own before
//! it changes anything, and changes nothing if something could not be given back. Salve's own
//! files (`.salve`, `.dev-crash*`, `.dev-repair.lock`) are never part of either.

mod error;
mod git;
mod keep;
mod lair;
mod measure;
mod name;
mod note;
mod oid;
mod patch;
mod plan;
mod restore;
mod scan;
mod shadow;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{Change, Digest};
use salve_core::id::IncidentId;

use crate::project::Project;

pub use error::{Back, RestoreError, WorkspaceError};
pub use measure::{Fate, FileChange};
pub use name::{Moment, Name};
pub use patch::PatchError;
pub use plan::Again;
pub use shadow::{Confined, Shadow};
pub use tree::Why;

use git::Git;
use oid::Format;
use plan::Extent;
use scan::Scanner;
use tree::{Tree, show};

/// The repository for projects that have none, below the project's root.
const PRIVATE_STORE: &str = ".salve/snapshots.git";

/// The longest diff that is shown.
const LONGEST_DIFF: usize = 1 << 20;

/// How much a snapshot may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest file in bytes.
    pub file: u64,
    /// The most bytes that one snapshot adds to the store.
    pub total: u64,
}

impl Default for Limits {
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
    state_dir: PathBuf,
    /// Where shadows are laid.
    shadows: PathBuf,
}

/// A kept state of the working tree.
#[derive(Clone)]
pub struct Snapshot {
    name: Name,
    tree: Tree,
}

/// A file that a snapshot does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
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
    /// Each file.
    pub files: Vec<FileChange>,
    /// The state that was measured, kept under the same attempt.
    pub after: Snapshot,
}

/// Which differences are given back.
#[derive(Clone, Copy, Debug)]
pub enum Give<'a> {
    /// All of them.
    All,
    /// Those that the repair made; what others changed stays.
    Repair {
        /// The state that the repair left.
        left: &'a Snapshot,
        /// What happens to files that were changed again since.
        again: Again,
    },
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot of the state that was left; nothing if there was nothing to do.
    pub kept: Option<Name>,
    /// The files that were given back or removed.
    pub files: Vec<String>,
    /// Files that were not there before but stay, since they are too large to be kept.
    pub left: Vec<String>,
}

impl Workspace {
    /// Opens the project's working tree.
    pub fn open(project: &Project) -> Result<Self, WorkspaceError> {
        Self::with_limits(project, Limits::default())
    }

    /// Opens the project's working tree with other limits.
    pub fn with_limits(project: &Project, limits: Limits) -> Result<Self, WorkspaceError> {
        let root = project.root();
        let state_dir = project.make_state_dir()?;
        let (git, format) = match surrounding(root)? {
            Some(format) => (Git::at(root), format),
            None => private(root)?,
        };
        let scanner = Scanner::new(root.to_path_buf(), git, format, limits);
        Ok(Self { scanner, state_dir, shadows: shadow::usual_base() })
    }

    /// Returns the hash of all content, for telling whether anything changed at all.
    pub fn tree(&self) -> Result<Digest, WorkspaceError> {
        Ok(self.scanner.scan([])?.digest())
    }

    /// Keeps the present state under a name, instead of what was there under it.
    pub fn snapshot(&self, name: Name) -> Result<Snapshot, WorkspaceError> {
        let mut tree = self.scanner.scan([])?;
        keep::keep(&self.scanner, name, &mut tree)?;
        Ok(Snapshot { name, tree })
    }

    /// Returns the snapshot of a name, if there is one.
    pub fn load(&self, name: Name) -> Result<Option<Snapshot>, WorkspaceError> {
        Ok(keep::load(&self.scanner, name)?.map(|tree| Snapshot { name, tree }))
    }

    /// Returns the names of all snapshots of an incident, in order.
    pub fn names(&self, incident: IncidentId) -> Result<Vec<Name>, WorkspaceError> {
        let under = format!("{}/{incident}/", name::REFS);
        let mut names: Vec<Name> = self.refs(&under)?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    /// Measures what changed since a snapshot, and keeps the state that was measured.
    pub fn measure(&self, before: &Snapshot) -> Result<Measured, WorkspaceError> {
        let name = before.name.at(Moment::After);
        let mut tree = self.scanner.scan(before.tree.items.keys())?;
        keep::keep(&self.scanner, name, &mut tree)?;
        let after = Snapshot { name, tree };
        let files = self.compare(before, &after)?;
        Ok(Measured { change: measure::total(&files), files, after })
    }

    /// Returns the files that differ between two snapshots.
    pub fn compare(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<Vec<FileChange>, WorkspaceError> {
        let (from, to) = (before.name.to_ref(), after.name.to_ref());
        measure::compare(&self.scanner.git, (&before.tree, &from), (&after.tree, &to))
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

    /// Gives the working tree back as it was, after keeping the state that it leaves.
    ///
    /// Files that did not change are not touched.
    pub fn restore(&self, to: &Snapshot, give: Give<'_>) -> Result<Restored, RestoreError> {
        let mut now = self.scanner.scan(to.tree.items.keys())?;
        let extent = match give {
            Give::All => Extent::All,
            Give::Repair { left, again } => Extent::Repair { left: &left.tree, again },
        };
        if plan::plan(&to.tree, &now, extent)?.is_empty() {
            return Ok(Restored { kept: None, files: Vec::new(), left: Vec::new() });
        }
        let kept = self.next_undone(to.name)?;
        keep::keep(&self.scanner, kept, &mut now)?;
        // Keeping read the files again, so the plan is made from what is kept.
        let plan = plan::plan(&to.tree, &now, extent)?;
        let staged = restore::stage(&self.scanner, &plan, (&self.state_dir, &self.scanner.git))?;
        if let Err(stop) = staged.apply() {
            let back = self.go_back(&now, kept);
            return Err(RestoreError::Partly { path: show(&stop.path), source: stop.source, back });
        }
        let files = plan.remove.iter().chain(plan.write.keys()).map(|path| show(path)).collect();
        let left = plan.left.iter().map(|path| show(path)).collect();
        Ok(Restored { kept: Some(kept), files, left })
    }

    /// Removes snapshots older than `age`; returns how many.
    pub fn prune(&self, now: Timestamp, age: Duration) -> Result<usize, WorkspaceError> {
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let is_old = |made: &i64| now.as_second().saturating_sub(*made) > age;
        let refs = self.refs(&format!("{}/", name::REFS))?;
        let old: Vec<Name> =
            refs.into_iter().filter(|(_, made)| is_old(made)).map(|(name, _)| name).collect();
        if old.is_empty() {
            return Ok(0);
        }
        self.scanner.git.feed(&["update-ref", "--stdin"], |to| {
            old.iter()
                .try_for_each(|name| writeln!(to, "delete {}", name.to_ref()))
                .map_err(git::pipe)
        })?;
        if self.scanner.git.store().is_some() {
            // What somebody else is keeping right now has no name yet.
            self.scanner.git.read(&["gc", "--quiet", "--prune=1.hour.ago"])?;
        }
        Ok(old.len())
    }

    /// Returns the snapshots under a prefix of refs, with the second each was made in.
    fn refs(&self, under: &str) -> Result<Vec<(Name, i64)>, WorkspaceError> {
        let format = "--format=%(refname) %(committerdate:unix)";
        let listed = self.scanner.git.read(&["for-each-ref", format, under])?;
        let text = String::from_utf8_lossy(&listed);
        let parse = |line: &str| {
            let (name, made) = line.split_once(' ')?;
            Some((Name::from_ref(name)?, made.parse().ok()?))
        };
        Ok(text.lines().filter_map(parse).collect())
    }

    /// Returns the name for the state that the next undoing leaves.
    fn next_undone(&self, name: Name) -> Result<Name, WorkspaceError> {
        let names = self.names(name.incident)?;
        let time = |other: &Name| match other.moment {
            Moment::Undone(time) if other.attempt == name.attempt => Some(time),
            Moment::Undone(_) | Moment::Before | Moment::After => None,
        };
        let last = names.iter().filter_map(time).max().unwrap_or(0);
        Ok(name.at(Moment::Undone(last + 1)))
    }

    /// Takes a restore that failed half-way back.
    fn go_back(&self, to: &Tree, kept: Name) -> Back {
        let back = || -> Result<(), RestoreError> {
            let now = self.scanner.scan(to.items.keys())?;
            let plan = plan::plan(to, &now, Extent::All)?;
            let staged =
                restore::stage(&self.scanner, &plan, (&self.state_dir, &self.scanner.git))?;
            staged.apply().map_err(|stop| RestoreError::Denied { paths: vec![show(&stop.path)] })
        };
        match back() {
            Ok(()) => Back::Whole,
            Err(_) => Back::Kept { name: kept.to_ref() },
        }
    }
}

impl Snapshot {
    /// Returns its name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the hash of its content.
    pub fn tree(&self) -> Digest {
        self.tree.digest()
    }

    /// Returns the files that it does not keep; with any, it is incomplete.
    pub fn missing(&self) -> Vec<Missing> {
        let missing =
            |(path, gap): (&tree::Rel, &tree::Gap)| Missing { path: show(path), why: gap.why };
        self.tree.gaps.iter().map(missing).collect()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({}, {} files)", self.name.to_ref(), self.tree.items.len())
    }
}

/// Returns how the repository around the project names objects; nothing if there is none that the
/// project's files belong to.
fn surrounding(root: &Path) -> Result<Option<Format>, WorkspaceError> {
    let git = Git::at(root);
    let Some(answer) = git.ask(&["rev-parse", "--is-inside-work-tree", "--show-object-format"])?
    else {
        return Ok(None);
    };
    let answer = String::from_utf8_lossy(&answer);
    let format = match answer.lines().collect::<Vec<_>>()[..] {
        ["true", format] => Format::parse(format),
        _ => None,
    };
    // A project that the repository around it ignores is not part of it.
    let is_ignored = git.ask(&["check-ignore", "--quiet", "."])?.is_some();
    Ok(format.filter(|_| !is_ignored))
}

/// Opens Salve's own repository for a project that has none, making it if need be.
///
/// Several may want it at once: each makes one aside, and the first to move it into place wins.
fn private(root: &Path) -> Result<(Git, Format), WorkspaceError> {
    let store = root.join(PRIVATE_STORE);
    if !store.join("HEAD").exists() {
        let beside = store.parent().unwrap_or(root);
        let aside = tempfile::Builder::new().prefix("snapshots.").tempdir_in(beside);
        let aside = aside.map_err(WorkspaceError::io(beside.to_path_buf()))?;
        let path = aside.path().to_string_lossy().into_owned();
        let init = ["init", "--quiet", "--bare", "--template=", "--object-format=sha1", &path];
        Git::at(root).read(&init)?;
        match std::fs::rename(aside.path(), &store) {
            Ok(()) => drop(aside.keep()),
            Err(_) if store.join("HEAD").exists() => {}
            Err(error) => return Err(WorkspaceError::io(store)(error)),
        }
    }
    Ok((Git::private(root, store), Format::Sha1))
}
