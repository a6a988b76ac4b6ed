//! The way back to a snapshot.

use super::error::{Back, RestoreError, WorkspaceError};
use super::name::{Moment, Name};
use super::plan::{self, Again, Both, RestoreExtent};
use super::restore::{self, LayPlace, Stop};
use super::tree::show;
use super::{Snapshot, Workspace};

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
pub struct RestoreSummary {
    /// The snapshot of the state that was left; nothing if there was nothing to do.
    pub kept: Option<Name>,
    /// The files that were given back or removed.
    pub files: Vec<String>,
    /// Files that are not what they were but stay: too large to be kept, or ignored by git and
    /// possibly written by others.
    pub left: Vec<String>,
}

impl Workspace {
    /// Gives the working tree back as it was, after keeping the state that it leaves.
    ///
    /// Files that did not change are not touched.
    pub fn restore(&self, to: &Snapshot, give: Give<'_>) -> Result<RestoreSummary, RestoreError> {
        let now = self.now(to.name, to)?;
        if self.plan(to, &now, give)?.is_empty() {
            return Ok(RestoreSummary { kept: None, files: Vec::new(), left: Vec::new() });
        }
        let kept = next_undone(self, to.name)?;
        // Keeping reads the files again, so the plan is made from what is kept.
        let now = self.keep(Snapshot { name: kept, ..now })?;
        let plan = self.plan(to, &now, give)?;
        if let Err(stop) = self.work_off(&plan, &now)? {
            let back = go_back(self, &now, to);
            return Err(RestoreError::Partly { path: show(&stop.path), source: stop.source, back });
        }
        let [files, left] = plan.told();
        Ok(RestoreSummary { kept: Some(kept), files, left })
    }

    /// Makes of the state `left` the state `to`, in the files in which they differ, and returns these.
    ///
    /// Nothing is kept of the present state: both states are, and no other file is touched.
    pub(super) fn bring(
        &self,
        left: &Snapshot,
        to: &Snapshot,
    ) -> Result<Vec<String>, RestoreError> {
        let now = self.now(left.name, left)?;
        let plan = self.plan(to, &now, Give::Repair { left, again: Again::Refuse })?;
        if let Err(stop) = self.work_off(&plan, &now)? {
            let back = go_back(self, left, to);
            return Err(RestoreError::Partly { path: show(&stop.path), source: stop.source, back });
        }
        let [files, _left] = plan.told();
        Ok(files)
    }

    /// Decides what has to be done for all files.
    fn plan(&self, to: &Snapshot, now: &Snapshot, give: Give<'_>) -> Result<Both, RestoreError> {
        let (extent, extent_ignored) = match give {
            Give::All => (RestoreExtent::All, RestoreExtent::All),
            Give::Repair { left, again } => (
                RestoreExtent::Repair { left: &left.tree, again },
                RestoreExtent::Repair { left: &left.ignored.tree, again },
            ),
        };
        let seen = plan::plan(&to.tree, &now.tree, extent)?;
        let ignored = plan::plan_ignored(&to.ignored.tree, &now.ignored, extent_ignored);
        Ok(Both { seen, ignored })
    }

    /// Lays all files ready, then works both plans off.
    fn work_off(&self, plan: &Both, now: &Snapshot) -> Result<Result<(), Stop>, RestoreError> {
        let main = &self.scanner.git;
        let vault = self.vault.existing();
        let dir = self.state_dir.as_path();
        let seen =
            restore::stage(&self.scanner, &plan.seen, &now.tree, LayPlace { dir, store: main })?;
        let store = vault.as_ref().unwrap_or(main);
        let expected = &now.ignored.tree;
        let ignored =
            restore::stage(&self.scanner, &plan.ignored, expected, LayPlace { dir, store })?;
        Ok(seen.apply().and_then(|()| ignored.apply()))
    }
}

/// Returns the name for the state that the next undoing leaves.
fn next_undone(workspace: &Workspace, name: Name) -> Result<Name, WorkspaceError> {
    let names = workspace.names(name.incident)?;
    let time = |other: &Name| match other.moment {
        Moment::Undone(time) if other.attempt == name.attempt => Some(time),
        Moment::Undone(_) | Moment::Before | Moment::InLayer | Moment::After => None,
    };
    let last = names.iter().filter_map(time).max().unwrap_or(0);
    Ok(name.at(Moment::Undone(last + 1)))
}

/// Takes a restore that failed half-way back: the files that have the state `reached` get that of
/// `to`, and no others.
fn go_back(workspace: &Workspace, to: &Snapshot, reached: &Snapshot) -> Back {
    let back = || -> Result<Result<(), Stop>, RestoreError> {
        let now = workspace.now(to.name, to)?;
        let give = Give::Repair { left: reached, again: Again::Leave };
        workspace.work_off(&workspace.plan(to, &now, give)?, &now)
    };
    match back() {
        Ok(Ok(())) => Back::Whole,
        Ok(Err(_)) | Err(_) => Back::Kept { name: to.name.to_ref() },
    }
}
