//! What an incident does with the project's files: keep, measure, give back.
//!
//! Each returns the report that the incident takes in; what went wrong is data.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::EffectReport;
use salve_core::scrub::{Scrubbed, Scrubber};

use crate::project::Project;
use crate::workspace::{Again, Give, Measured, Moment, Name, Snapshot, Workspace, WorkspaceError};

/// Whether files were edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edits {
    /// None was.
    None,
    /// At least one was.
    Some,
}

/// Finds out whether anything changed since the snapshot of that name, and keeps the state found.
pub fn has_changed(project: &Project, name: Name) -> Result<Edits, WorkspaceError> {
    let Some(found) = look(project, name)? else { return Ok(Edits::Some) };
    Ok(if found.change.files == Some(0) { Edits::None } else { Edits::Some })
}

/// Finds out what changed since the snapshot of that name, and keeps the state found; nothing if
/// there is no such snapshot.
pub fn look(project: &Project, name: Name) -> Result<Option<Measured>, WorkspaceError> {
    let workspace = Workspace::open(project)?;
    let before = workspace.load(name)?;
    before.map(|before| workspace.measure(&before)).transpose()
}

/// Keeps the present state under a name, and lets those older than `kept` go.
pub fn keep(
    project: &Project,
    name: Name,
    (now, kept): (Timestamp, Duration),
    scrubber: &Scrubber,
) -> EffectReport {
    let take = || {
        let workspace = Workspace::open(project)?;
        let taken = workspace.snapshot(name);
        // Old ones go when new ones come; what fails now is done the next time.
        let _later = workspace.prune(now, kept);
        taken
    };
    match take() {
        Ok(_) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Measures what changed since the snapshot of that name.
pub fn measure(project: &Project, name: Name, scrubber: &Scrubber) -> EffectReport {
    match look(project, name) {
        Ok(Some(measured)) => EffectReport::Measured(measured.change),
        Ok(None) => nothing_there(),
        Err(error) => failed(scrubber, &error),
    }
}

/// Gives the files back as they were under that name, except what others edited since.
pub fn restore(project: &Project, name: Name, scrubber: &Scrubber) -> EffectReport {
    let workspace = match Workspace::open(project) {
        Ok(workspace) => workspace,
        Err(error) => return failed(scrubber, &error),
    };
    match workspace.load(name) {
        Ok(Some(before)) => {
            // Only what the repair changed is given back, where that is known: what a person
            // edited since stays, and is a person's decision where both edited one file.
            let after = match latest_after(&workspace, name) {
                Ok(after) => after,
                Err(error) => return failed(scrubber, &error),
            };
            let give = match &after {
                Some(left) => Give::Repair { left, again: Again::Refuse },
                None => Give::All,
            };
            match workspace.restore(&before, give) {
                Ok(_) => EffectReport::Done,
                Err(error) => failed(scrubber, &error),
            }
        }
        // Nothing was kept, so nothing was changed.
        Ok(None) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Gives the files back as the repair of that attempt left them, except what others edited since.
pub fn redo(project: &Project, name: Name, scrubber: &Scrubber) -> EffectReport {
    let redo = || -> Result<EffectReport, WorkspaceError> {
        let workspace = Workspace::open(project)?;
        let (Some(before), Some(after)) =
            (workspace.load(name)?, workspace.load(name.at(Moment::After))?)
        else {
            return Ok(nothing_there());
        };
        let give = Give::Repair { left: &before, again: Again::Refuse };
        Ok(match workspace.restore(&after, give) {
            Ok(_) => EffectReport::Done,
            Err(error) => failed(scrubber, &error),
        })
    };
    redo().unwrap_or_else(|error| failed(scrubber, &error))
}

/// Returns the last state that was measured from that attempt on.
fn latest_after(workspace: &Workspace, name: Name) -> Result<Option<Snapshot>, WorkspaceError> {
    let names = workspace.names(name.incident)?;
    let is_after = |one: &&Name| one.moment == Moment::After && one.attempt >= name.attempt;
    match names.iter().filter(is_after).max() {
        Some(after) => workspace.load(*after),
        None => Ok(None),
    }
}

/// Returns the report that there is nothing to go back to.
pub fn nothing_there() -> EffectReport {
    EffectReport::failed(Scrubbed::literal("there is no snapshot"))
}

/// Returns the report of a failure with its causes.
pub fn failed(scrubber: &Scrubber, error: &dyn Error) -> EffectReport {
    EffectReport::failed(scrubber.scrub(&with_causes(error)))
}

/// Returns what went wrong, and because of what.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
