//! What an incident does with the project's files: keep, measure, give back.
//!
//! Each returns the report that the incident takes in; what went wrong is data.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{EffectReport, Scope};
use salve_core::scrub::{Scrubbed, Scrubber};

use crate::project::Project;
use crate::workspace::{
    AttemptChange, Measured, Moment, Name, RestoreError, Workspace, WorkspaceError,
};

/// Whether files were edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeEdits {
    /// None was.
    None,
    /// At least one was.
    Some,
}

/// Finds out whether anything changed since the snapshot of that name, and keeps the state found.
pub fn has_changed(project: &Project, name: Name) -> Result<TreeEdits, WorkspaceError> {
    let Some(found) = look(project, name)? else { return Ok(TreeEdits::Some) };
    Ok(if found.change.files == Some(0) { TreeEdits::None } else { TreeEdits::Some })
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
    now: Timestamp,
    kept: Duration,
    scrubber: &Scrubber,
) -> EffectReport {
    let take = || {
        let workspace = Workspace::open(project)?;
        // Old ones go when new ones come; what fails now is done the next time. First, for git has a clock
        // of its own.
        let _later = workspace.prune(now, kept);
        workspace.snapshot(name)
    };
    match take() {
        Ok(_) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Takes the change of an attempt back, or those of all attempts, because they did not help; nothing
/// that others edited.
pub fn roll_back(
    project: &Project,
    attempt: Name,
    scope: Scope,
    scrubber: &Scrubber,
) -> EffectReport {
    let workspace = Workspace::open(project).map_err(RestoreError::from);
    report(workspace.and_then(|there| there.attempts().roll_back(attempt, scope)), scrubber)
}

/// Takes the change of an attempt away, to see how it is without.
pub fn take_away(project: &Project, attempt: Name, scrubber: &Scrubber) -> EffectReport {
    let change = change_of(attempt);
    let workspace = Workspace::open(project).map_err(RestoreError::from);
    report(workspace.and_then(|there| there.attempts().take_back(&[change])), scrubber)
}

/// Brings the change of an attempt back that was taken away.
pub fn bring_back(project: &Project, attempt: Name, scrubber: &Scrubber) -> EffectReport {
    let change = change_of(attempt);
    let workspace = Workspace::open(project).map_err(RestoreError::from);
    report(workspace.and_then(|there| there.attempts().bring_back(&[change])), scrubber)
}

fn change_of(attempt: Name) -> AttemptChange {
    AttemptChange { before: attempt, after: attempt.at(Moment::After) }
}

fn report<T>(done: Result<T, RestoreError>, scrubber: &Scrubber) -> EffectReport {
    match done {
        Ok(_) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
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
