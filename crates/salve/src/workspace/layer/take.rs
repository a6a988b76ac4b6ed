//! Taking a measured change over into the real tree, file by file.
//!
//! The user may have gone on typing. A file that only the agent changed is exchanged in one step; one
//! that both changed is merged by lines; where that is not possible nothing at all is taken over, both
//! versions are kept, and a person is asked. Afterwards the two snapshots of the attempt hold exactly
//! the patch that was taken over, so undoing it takes back that patch and nothing of the user's.

use super::merge::{self, Versions};
use crate::workspace::error::{RestoreError, WorkspaceError};
use crate::workspace::git::pipe;
use crate::workspace::oid::Oid;
use crate::workspace::tree::{Kind, Rel, TreeItem, WorkingTree, show};
use crate::workspace::{Again, Give, Moment, Name, RestoreSummary, Snapshot, Workspace, keep};

/// How often a take-over starts over because the user saved a file at that very moment.
const ATTEMPTS: usize = 8;

/// What was taken over.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// The files that changed.
    pub files: Vec<String>,
    /// Those of them that the user had edited meanwhile, in which both changes are.
    pub merged: Vec<String>,
    /// The state before, with what the user had edited meanwhile.
    pub before: Snapshot,
    /// The state after.
    pub after: Snapshot,
}

/// Why a change was not taken over; nothing was changed unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The user and the agent changed the same lines.
    #[error("you edited {} meanwhile, in the same place as the agent", .paths.join(", "))]
    Conflict {
        /// The files; the tree has the user's version, the snapshot of the layer the agent's.
        paths: Vec<String>,
    },
    /// The files could not be changed.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl From<WorkspaceError> for TakeOverError {
    fn from(error: WorkspaceError) -> Self {
        Self::Restore(error.into())
    }
}

/// Whose a file is that is already as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EqualFiles {
    /// The user made the same change, which therefore is no part of the patch.
    Users,
    /// An earlier run took it over.
    Taken,
}

/// Trees with what both changes have in common, and where they conflict.
struct MergedTrees {
    before: WorkingTree,
    after: WorkingTree,
    merged: Vec<Rel>,
    conflicts: Vec<Rel>,
}

impl Workspace {
    /// Takes over what an attempt did in a layer, or goes on with that.
    ///
    /// # Errors
    ///
    /// When nothing is kept of it, it conflicts with what the user edited meanwhile, or the files
    /// cannot be changed.
    pub fn take_over_attempt(&self, attempt: Name) -> Result<TakenOver, TakeOverError> {
        let load = |moment| self.load(attempt.at(moment));
        let after = match load(Moment::After)? {
            Some(after) => Some(after),
            None => load(Moment::InLayer)?,
        };
        match (load(Moment::Before)?, after) {
            (Some(before), Some(after)) => self.take_over(&before, &after),
            (None, _) | (_, None) => {
                let paths = vec!["the state of the attempt".to_owned()];
                Err(RestoreError::NotKept { paths }.into())
            }
        }
    }

    /// Takes over what differs between two snapshots, which were measured in a layer.
    ///
    /// # Errors
    ///
    /// When it conflicts with what the user edited meanwhile, or the files cannot be changed.
    pub fn take_over(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<TakenOver, TakeOverError> {
        while_changed_meanwhile(|| self.take_over_now(before, after))
    }

    fn take_over_now(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<TakenOver, TakeOverError> {
        let now = self.now(before.name, before)?;
        let equal = match after.name.moment {
            Moment::After => EqualFiles::Taken,
            Moment::Before | Moment::InLayer | Moment::Undone(_) => EqualFiles::Users,
        };
        let trees = self.merge_trees(&before.tree, &after.tree, &now.tree, equal)?;
        if !trees.conflicts.is_empty() {
            let paths = trees.conflicts.iter().map(|path| show(path)).collect();
            return Err(TakeOverError::Conflict { paths });
        }
        let is_same = trees.before == before.tree;
        let found = trees.before.items.clone();
        let name = before.name.at(Moment::After);
        // First the target: killed in between, the next one merges with it once more.
        let after = self.keep(Snapshot { name, tree: trees.after, ..after.clone() })?;
        let before = if is_same {
            before.clone()
        } else {
            self.keep(Snapshot { tree: trees.before, ..before.clone() })?
        };
        let is_other = |path: &&Rel| before.tree.items.get(*path) != found.get(*path);
        // Keeping reads the files again: what the user saved since has to be merged too.
        if let Some(path) = trees.merged.iter().find(is_other) {
            return Err(RestoreError::ChangedSince { paths: vec![show(path)] }.into());
        }
        let files = self.bring(&before, &after)?;
        let merged = trees.merged.iter().map(|path| show(path)).collect();
        Ok(TakenOver { files, merged, before, after })
    }

    /// Takes back exactly what differs between two snapshots; what the user edited in the same files
    /// since stays.
    ///
    /// # Errors
    ///
    /// When the user has edited the same lines since, or the files cannot be changed.
    pub fn take_back(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<RestoreSummary, TakeOverError> {
        while_changed_meanwhile(|| self.take_back_now(before, after))
    }

    fn take_back_now(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<RestoreSummary, TakeOverError> {
        let now = self.now(after.name, after)?;
        let trees = self.merge_trees(&after.tree, &before.tree, &now.tree, EqualFiles::Users)?;
        if !trees.conflicts.is_empty() {
            let paths = trees.conflicts.iter().map(|path| show(path)).collect();
            return Err(TakeOverError::Conflict { paths });
        }
        let left = Snapshot { tree: trees.before, ..after.clone() };
        let target = Snapshot { tree: trees.after, ..before.clone() };
        Ok(self.restore(&target, Give::Repair { left: &left, again: Again::Refuse })?)
    }

    /// Brings the user's edits since `from` into both trees, for each file that `to` changes.
    fn merge_trees(
        &self,
        from: &WorkingTree,
        to: &WorkingTree,
        now: &WorkingTree,
        equal: EqualFiles,
    ) -> Result<MergedTrees, RestoreError> {
        let (mut merged, mut conflicts) = (Vec::new(), Vec::new());
        let (mut before, mut after) = (from.clone(), to.clone());
        for path in from.differing(to) {
            let (was, wanted, is) =
                (from.items.get(&path), to.items.get(&path), now.items.get(&path));
            let has_gap = [from, to, now].iter().any(|tree| tree.gaps.contains_key(&path));
            if is == was || has_gap {
                continue;
            }
            if is == wanted {
                if equal == EqualFiles::Users {
                    set(&mut before, &path, is.copied());
                }
                continue;
            }
            match self.merge_items(&path, [was, wanted, is])? {
                Some(item) => {
                    set(&mut before, &path, is.copied());
                    set(&mut after, &path, Some(item));
                    merged.push(path);
                }
                None => conflicts.push(path),
            }
        }
        before.add_parents();
        after.add_parents();
        Ok(MergedTrees { before, after, merged, conflicts })
    }

    /// Merges one file; nothing if that is not possible.
    fn merge_items(
        &self,
        path: &Rel,
        [was, wanted, is]: [Option<&TreeItem>; 3],
    ) -> Result<Option<TreeItem>, RestoreError> {
        let (Some(was), Some(wanted), Some(is)) = (was, wanted, is) else { return Ok(None) };
        if [was, wanted, is].iter().any(|item| item.kind == Kind::Link) {
            return Ok(None);
        }
        let git = &self.scanner.git;
        let mut kept = Vec::new();
        keep::contents(git, &[was.oid, wanted.oid], |_, content| {
            kept.push(content.to_vec());
            Ok(())
        })?;
        let full = self.scanner.root.join(path);
        let (found, ours) = self.scanner.content(&full).map_err(WorkspaceError::io(&full))?;
        if found != *is {
            return Err(RestoreError::ChangedSince { paths: vec![show(path)] });
        }
        let (Some(theirs), Some(base)) = (kept.pop(), kept.pop()) else { return Ok(None) };
        let versions = Versions { base: &base, ours: &ours, theirs: &theirs };
        let scratch = self.state_dir.join("merges");
        let Some(content) = merge::merge(git, &scratch, &versions)? else { return Ok(None) };
        let args = ["hash-object", "-w", "--stdin", "--no-filters"];
        let name = git.feed(&args, |to| to.write_all(&content).map_err(pipe))?;
        let Some(oid) = Oid::parse(name.trim_ascii_end()) else { return Ok(None) };
        // Whoever changed the permissions has a say in them.
        let permissions = if wanted.permissions == was.permissions { is } else { wanted };
        Ok(Some(TreeItem { oid, ..*permissions }))
    }
}

/// Does something to files until nobody saves one of them at that very moment.
fn while_changed_meanwhile<T>(
    mut change: impl FnMut() -> Result<T, TakeOverError>,
) -> Result<T, TakeOverError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match change() {
            Err(TakeOverError::Restore(error)) if error.is_changed_meanwhile() => {
                last = Some(error);
            }
            other => return other,
        }
    }
    Err(last.map_or_else(|| TakeOverError::Conflict { paths: Vec::new() }, Into::into))
}

fn set(tree: &mut WorkingTree, path: &Rel, item: Option<TreeItem>) {
    match item {
        Some(item) => _ = tree.items.insert(path.clone(), item),
        None => _ = tree.items.remove(path),
    }
}
