//! What the attempts of an incident changed, and the way back from it.

use std::ffi::OsString;

use salve_core::event::Scope;
use salve_core::id::IncidentId;

use super::error::{RestoreError, WorkspaceError};
use super::give::RestoreSummary;
use super::layer::TakeOverError;
use super::name::{Moment, Name};
use super::oid::Oid;
use super::tree::TreeItem;
use super::{Workspace, forget, git};

/// A change that an attempt made, by the names of the states around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptChange {
    /// The state before.
    pub before: Name,
    /// The state after.
    pub after: Name,
}

/// What attempts changed in a workspace, and the ways back from it.
pub struct Attempts<'w>(&'w Workspace);

impl Workspace {
    /// Returns what attempts changed here.
    pub fn attempts(&self) -> Attempts<'_> {
        Attempts(self)
    }
}

impl Attempts<'_> {
    /// Returns what each attempt of an incident changed, in their order, as far as that is kept.
    ///
    /// # Errors
    ///
    /// When the snapshots cannot be listed.
    pub fn changes(&self, id: IncidentId) -> Result<Vec<AttemptChange>, WorkspaceError> {
        let names = self.0.names(id)?;
        let befores = names.iter().filter(|name| name.moment == Moment::Before);
        let change = |before: &Name| {
            let is_kept = |after: &Name| names.contains(after);
            let afters = [Moment::After, Moment::InLayer].map(|moment| before.at(moment));
            let after = afters.into_iter().find(is_kept)?;
            Some(AttemptChange { before: *before, after })
        };
        Ok(befores.filter_map(change).collect())
    }

    /// Returns the changes of an incident that were brought into the tree and not taken back since,
    /// the latest first.
    ///
    /// # Errors
    ///
    /// When the snapshots cannot be listed.
    pub fn standing(&self, id: IncidentId) -> Result<Vec<AttemptChange>, WorkspaceError> {
        let names = self.0.names(id)?;
        let is_undone = |change: &AttemptChange| {
            let is_its = |name: &&Name| name.attempt == change.before.attempt;
            names.iter().filter(is_its).any(|name| matches!(name.moment, Moment::Undone(_)))
        };
        let mut changes = self.changes(id)?;
        changes.retain(|change| change.after.moment == Moment::After && !is_undone(change));
        changes.reverse();
        Ok(changes)
    }

    /// Takes changes back, one after the other; each exactly, and nothing of what others edited.
    ///
    /// # Errors
    ///
    /// When somebody edited the same lines since, or the files cannot be changed; what was taken back
    /// before stays so.
    pub fn take_back(&self, changes: &[AttemptChange]) -> Result<RestoreSummary, RestoreError> {
        let mut all = RestoreSummary { kept: None, files: Vec::new(), left: Vec::new() };
        for change in changes {
            let (Some(before), Some(after)) =
                (self.0.load(change.before)?, self.0.load(change.after)?)
            else {
                continue;
            };
            let done = self.0.take_back(&before, &after).map_err(RestoreError::from)?;
            all.kept = done.kept.or(all.kept);
            all.files.extend(done.files);
            all.left.extend(done.left);
        }
        all.files.sort();
        all.files.dedup();
        Ok(all)
    }

    /// Brings changes that were taken back into the tree again, one after the other.
    ///
    /// # Errors
    ///
    /// When somebody edited the same lines since, or the files cannot be changed.
    pub fn bring_back(&self, changes: &[AttemptChange]) -> Result<RestoreSummary, RestoreError> {
        let mut all = RestoreSummary { kept: None, files: Vec::new(), left: Vec::new() };
        for change in changes {
            let done = self.0.take_over_attempt(change.before).map_err(RestoreError::from)?;
            forget_undoing(self.0, change.before)?;
            if !done.files.is_empty() {
                all.kept = Some(change.before);
            }
            all.files.extend(done.files);
        }
        all.files.sort();
        all.files.dedup();
        Ok(all)
    }

    /// Takes the present attempt of an incident back, or all of them, because they did not help.
    ///
    /// # Errors
    ///
    /// When somebody edited the same lines since, or the files cannot be changed.
    pub fn roll_back(&self, attempt: Name, scope: Scope) -> Result<(), RestoreError> {
        let mut standing = self.standing(attempt.incident)?;
        if scope == Scope::Attempt {
            standing.retain(|change| change.before == attempt);
        }
        for change in standing {
            self.take_back(&[change])?;
            // A person who undoes the rest, and takes that back, does not mean this one.
            rename(self.0, change.after, change.before.at(Moment::InLayer))?;
        }
        Ok(())
    }

    /// Gives files of what lies in an attempt's layer another content before it is brought into the
    /// tree; nothing stands for a file that is not there.
    ///
    /// # Errors
    ///
    /// When the state cannot be kept.
    pub fn amend_layer(
        &self,
        attempt: Name,
        files: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), WorkspaceError> {
        let load = |moment| self.0.load(attempt.at(moment));
        let (Some(before), Some(mut layer)) = (load(Moment::Before)?, load(Moment::InLayer)?)
        else {
            return Ok(());
        };
        for (path, content) in files {
            let path = OsString::from(path);
            let known = before.tree.items.get(&path).or(layer.tree.items.get(&path)).copied();
            match (content, known) {
                (Some(content), Some(known)) => {
                    let args = ["hash-object", "-w", "--stdin", "--no-filters"];
                    let name = self
                        .0
                        .scanner
                        .git
                        .feed(&args, |to| to.write_all(content).map_err(git::pipe))?;
                    let Some(oid) = Oid::parse(name.trim_ascii_end()) else { continue };
                    layer.tree.items.insert(path, TreeItem { oid, ..known });
                }
                (Some(_), None) => {}
                (None, _) => _ = layer.tree.items.remove(&path),
            }
        }
        layer.tree.add_parents();
        self.0.keep(layer).map(drop)
    }
}

/// Forgets what the tree was found to be after an attempt whose change lies in a layer, as when it was looked
/// what a session had edited: it is no state that a change was brought into.
///
/// # Errors
///
/// When the snapshot cannot be removed.
pub fn forget_after(workspace: &Workspace, attempt: Name) -> Result<(), WorkspaceError> {
    let after = attempt.at(Moment::After);
    if !workspace.names(attempt.incident)?.contains(&after) {
        return Ok(());
    }
    forget(&workspace.scanner.git, std::iter::once(after.to_ref()))
}

/// Gives a snapshot another name.
fn rename(workspace: &Workspace, from: Name, to: Name) -> Result<(), WorkspaceError> {
    let vault = workspace.vault.existing();
    let main = (&workspace.scanner.git, from.to_ref(), to.to_ref());
    let kept = vault.as_ref().map(|git| (git, from.to_ignored_ref(), to.to_ignored_ref()));
    for (git, from, to) in kept.into_iter().chain([main]) {
        let Some(oid) = git.ask(&["rev-parse", "--verify", "--quiet", &from])? else {
            continue;
        };
        let oid = String::from_utf8_lossy(&oid).trim().to_owned();
        git.feed(&["update-ref", "--stdin"], |orders| {
            writeln!(orders, "update {to} {oid}\ndelete {from}").map_err(git::pipe)
        })?;
    }
    Ok(())
}

/// Lets go of the states that the undoings of an attempt left: it is done again.
fn forget_undoing(workspace: &Workspace, attempt: Name) -> Result<(), WorkspaceError> {
    let is_its =
        |name: &&Name| name.attempt == attempt.attempt && matches!(name.moment, Moment::Undone(_));
    let names = workspace.names(attempt.incident)?;
    let refs: Vec<String> = names.iter().filter(is_its).map(|name| name.to_ref()).collect();
    forget(&workspace.scanner.git, refs.into_iter())
}

impl From<TakeOverError> for RestoreError {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Conflict { paths } => Self::ChangedSince { paths },
            TakeOverError::Restore(error) => error,
        }
    }
}
