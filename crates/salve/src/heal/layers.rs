//! What an agent did in its private layer: measured, and brought into the tree.
//!
//! Each returns the report that the incident takes in, and what a person should know; what went wrong
//! is data.

use std::path::Path;
use std::sync::Arc;

use salve_core::event::EffectReport;
use salve_core::scrub::{Scrubbed, Scrubber};

use super::files::{TreeEdits, failed, has_changed, nothing_there, with_causes};
use super::inbox::StateLeft;
use crate::agent::AgentGround;
use crate::config::SandboxMode;
use crate::project::Project;
use crate::workspace::{
    HeldTree, LayerChange, LayerError, Name, PrivateLayer, TakeOverError, Workspace,
    WorkspaceError, forget_after,
};

/// How many paths are named.
const NAMED: usize = 5;

/// Lays a private layer over the files for an attempt, whose state before is kept.
///
/// # Errors
///
/// When nothing is kept, nothing here can hold a layer, or it cannot be made.
pub fn lay(project: &Project, attempt: Name) -> Result<Arc<PrivateLayer>, LayerError> {
    let workspace = Workspace::open(project)?;
    let before = workspace.load(attempt)?.ok_or(LayerError::NothingKept)?;
    Ok(Arc::new(workspace.private_layer(&before)?))
}

/// Returns what an agent works on in a tree that is nobody's work in progress: that tree, and nothing
/// else in its reach.
///
/// # Errors
///
/// When nothing here can hold it to that, unless the settings let commands run without; the reason is
/// for people.
pub fn hold(tree: &Path, mode: SandboxMode) -> Result<AgentGround, String> {
    match HeldTree::over(tree) {
        Ok(tree) => Ok(AgentGround::Held { tree: Arc::new(tree), writable: Vec::new() }),
        Err(LayerError::Unheld) if mode == SandboxMode::Off => Ok(AgentGround::Tree),
        Err(error) => Err(unheld_words(&error)),
    }
}

/// Says why an agent is not let into a tree, and what lets it.
pub fn unheld_words(error: &LayerError) -> String {
    let why = with_causes(error);
    match error {
        LayerError::Unheld => {
            format!("{why}; recovery.sandbox.mode = \"off\" lets it work without")
        }
        LayerError::NothingKept | LayerError::Workspace(_) => {
            format!("the agent cannot be kept to its files: {why}")
        }
    }
}

/// Finds out whether an agent changed anything that counts: in its layer, or in the tree without one.
///
/// # Errors
///
/// When the layer or the tree cannot be read.
pub fn edits_in(
    project: &Project,
    attempt: Name,
    layer: Option<&PrivateLayer>,
) -> Result<TreeEdits, WorkspaceError> {
    let Some(layer) = layer else { return has_changed(project, attempt) };
    let Some(change) = change_in(project, attempt, layer)? else { return Ok(TreeEdits::None) };
    let is_none = change.measured.files.is_empty() && change.measured.ignored.is_empty();
    Ok(if is_none && change.sealed.is_empty() { TreeEdits::None } else { TreeEdits::Some })
}

fn change_in(
    project: &Project,
    attempt: Name,
    layer: &PrivateLayer,
) -> Result<Option<LayerChange>, WorkspaceError> {
    let workspace = Workspace::open(project)?;
    let before = workspace.load(attempt)?;
    before.map(|before| workspace.layer_change(&before, layer)).transpose()
}

/// Measures what an agent that has ended did in its layer, and takes out of the layer what is no part
/// of its change.
pub fn measure(
    project: &Project,
    attempt: Name,
    layer: Option<&PrivateLayer>,
    scrubber: &Scrubber,
) -> (EffectReport, Option<StateLeft>) {
    let Some(layer) = layer else {
        let reason = "its private layer went with the run of Salve that had laid it";
        return (EffectReport::failed(Scrubbed::literal(reason)), None);
    };
    let measured = || -> Result<Option<LayerChange>, WorkspaceError> {
        let Some(change) = change_in(project, attempt, layer)? else { return Ok(None) };
        let workspace = Workspace::open(project)?;
        forget_after(&workspace, attempt)?;
        if let Some(before) = workspace.load(attempt)? {
            workspace.leave_out(&before, layer)?;
        }
        Ok(Some(change))
    };
    match measured() {
        Ok(Some(LayerChange { measured, sealed, discarded, unkept, .. })) => {
            let notes = [sealed_words(&sealed), discarded_words(&discarded), unkept_words(&unkept)];
            let notes = notes.into_iter().flatten().collect();
            let (tree, files) = (measured.after.tree(), measured.files);
            let left = StateLeft { tree, files, notes };
            (EffectReport::Measured(measured.change), Some(left))
        }
        Ok(None) => (nothing_there(), None),
        Err(error) => (failed(scrubber, &error), None),
    }
}

/// Brings what an attempt did in its layer into the tree, or goes on with that.
pub fn take_over(
    project: &Project,
    attempt: Name,
    scrubber: &Scrubber,
) -> (EffectReport, Option<StateLeft>) {
    let workspace = match Workspace::open(project) {
        Ok(workspace) => workspace,
        Err(error) => return (failed(scrubber, &error), None),
    };
    match workspace.take_over_attempt(attempt) {
        Ok(taken) => {
            let notes = merged_words(&taken.merged).into_iter().collect();
            let left = StateLeft { tree: taken.after.tree(), files: Vec::new(), notes };
            (EffectReport::Done, Some(left))
        }
        Err(TakeOverError::Conflict { paths }) => {
            let paths = paths.iter().map(|path| scrubber.scrub(path)).collect();
            (EffectReport::Conflict { paths }, None)
        }
        Err(TakeOverError::Restore(error)) => (failed(scrubber, &error), None),
    }
}

/// Measures what an agent that has ended did in its layer and brings it into the tree, whatever its
/// size; returns what a person should know.
///
/// # Errors
///
/// When that is not possible; the reason is for people, and what the agent did is kept.
pub fn bring_in(
    project: &Project,
    attempt: Name,
    layer: &PrivateLayer,
    scrubber: &Scrubber,
) -> Result<Vec<String>, String> {
    let told = |report: EffectReport| match report {
        EffectReport::Failed { reason, .. } => Err(reason.to_string()),
        EffectReport::Conflict { paths } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            Err(format!("it changed the same lines of {} as you did meanwhile", some(&paths)))
        }
        EffectReport::Done
        | EffectReport::TimedOut
        | EffectReport::NoAgent
        | EffectReport::Measured(_)
        | EffectReport::Verified { .. } => Ok(()),
    };
    let (measured, left) = measure(project, attempt, Some(layer), scrubber);
    told(measured)?;
    let mut notes = left.map(|left| left.notes).unwrap_or_default();
    let (taken, left) = take_over(project, attempt, scrubber);
    told(taken)?;
    notes.extend(left.into_iter().flat_map(|left| left.notes));
    Ok(notes)
}

/// Says which sealed paths an agent wanted to change.
pub fn sealed_words(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| {
        format!(
            "the agent also wanted to change {}, which is no part of any change of its: left out",
            some(paths)
        )
    })
}

/// Says what an agent threw away of the user's work.
fn discarded_words(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| {
        format!("the agent threw away what you have not committed in {}: left out", some(paths))
    })
}

/// Says which files of an agent cannot be brought in.
fn unkept_words(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| {
        format!(
            "the agent also wrote {}, too large to be kept or closed to reading: left out",
            some(paths)
        )
    })
}

/// Says in which files the user's edits and the agent's stand together.
fn merged_words(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| {
        format!("you edited {} meanwhile: your edits and the repair are both in it", some(paths))
    })
}

/// Names the first few of many paths.
pub fn some(paths: &[String]) -> String {
    let shown = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
