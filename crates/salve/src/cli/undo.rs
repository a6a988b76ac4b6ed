//! `salve undo`: the files as they were before a repair.

use std::io::Write;

use salve_core::id::IncidentId;
use serde::Serialize;

use super::events::find;
use super::output::counted;
use super::project::{expect_person, locate, scrubber, speaker, tell_mended};
use super::{CliError, Exit, Output};
use crate::process;
use crate::store::{Store, Stream};
use crate::undo::{UndoDirection, UndoError, UndoRequest, undo_repair};
use crate::workspace::{
    Again, Moment, Name, RestoreError, RestoreSummary, Workspace, WorkspaceError,
};

/// Arguments of `salve undo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The incident, by the first digits of its id [default: the only one whose repair is kept]
    incident: Option<String>,
    /// Undo only this attempt [default: the whole repair]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Also undo files that have changed since; Salve keeps their present state
    #[arg(long)]
    force: bool,
    /// Take the last undo back
    #[arg(long)]
    back: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct UndoReport<'a> {
    version: u32,
    incident: IncidentId,
    files: &'a [String],
    left: &'a [String],
    kept: Option<String>,
}

/// Undoes a repair, or an undoing.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if process::is_agents() {
        let id = args.incident.as_deref().unwrap_or_default();
        let command = format!("salve undo {id}");
        return Err(CliError::needs_person("an agent cannot undo a repair")
            .hint(format!("ask the person you work for to run `{}`", command.trim_end())));
    }
    let project = locate(out)?;
    expect_person(&project)?;
    let Some(store) = Store::open_existing(&project)? else {
        return Err(CliError::failed("Salve has repaired nothing in this project"));
    };
    tell_mended(&store, out);
    let id = match &args.incident {
        Some(id) => find(store.journal(), id)?,
        None => only_repaired(&store, &Workspace::open(&project)?)?,
    };
    let request = UndoRequest {
        attempt: args.attempt,
        changed_since: if args.force { Again::Overwrite } else { Again::Refuse },
        direction: if args.back { UndoDirection::Redo } else { UndoDirection::Undo },
    };
    let scrubber = scrubber();
    let restored = undo_repair(&store, id, &request, speaker(&scrubber), &scrubber)?;
    tell(id, &args, &restored, out)?;
    Ok(Exit::Well)
}

/// How many incidents back one looks for a repair.
const LOOKED_BACK: usize = 50;

/// Returns the only incident whose repair changed files and can be undone.
fn only_repaired(store: &Store, workspace: &Workspace) -> Result<IncidentId, CliError> {
    let opened = store.journal().tail(&Stream::Incidents, LOOKED_BACK)?;
    let mut found = Vec::new();
    for id in opened.iter().rev().filter_map(|entry| entry.incident) {
        let names = workspace.names(id)?;
        if names.iter().any(|name| name.moment == Moment::After) {
            found.push(id);
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(CliError::failed("no repair is kept that could be undone")
            .hint("`salve incidents` lists what happened")),
        several => {
            let lines: Vec<_> =
                several.iter().take(5).map(|id| format!("salve undo {}", id.short())).collect();
            Err(CliError::usage("several repairs can be undone; say which is meant")
                .hint(lines.join("\n       ")))
        }
    }
}

fn tell(id: IncidentId, args: &Args, done: &RestoreSummary, out: &Output) -> Result<(), CliError> {
    if out.json() {
        let kept = done.kept.map(Name::to_ref);
        return out.fact(&UndoReport {
            version: 1,
            incident: id,
            files: &done.files,
            left: &done.left,
            kept,
        });
    }
    let mut to = out.fitted();
    if done.kept.is_none() {
        writeln!(to, "nothing to undo: the files are as they were before")?;
        return Ok(());
    }
    let verb = if args.back { "back again" } else { "undone" };
    writeln!(to, "{verb}: {}", counted(done.files.len() as u64, "file", "files"))?;
    for file in &done.files {
        writeln!(to, "  {file}")?;
    }
    for file in &done.left {
        writeln!(to, "  {file} stays as it is: see whether you still need it")?;
    }
    if !args.back {
        writeln!(to, "take it back: salve undo {} --back", id.short())?;
    }
    Ok(())
}

impl From<WorkspaceError> for CliError {
    fn from(error: WorkspaceError) -> Self {
        let advice = error.advice();
        Self::failed("cannot use the project's snapshots").because(error).hint(advice)
    }
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        let advice = error.advice();
        match error {
            RestoreError::Workspace(error) => error.into(),
            RestoreError::ChangedSince { .. } => {
                Self::needs_person("the repair cannot be undone as it is")
                    .because(error)
                    .hint(advice)
            }
            RestoreError::NotKept { .. }
            | RestoreError::Blocked { .. }
            | RestoreError::Denied { .. }
            | RestoreError::Partly { .. } => {
                Self::failed("the repair cannot be undone").because(error).hint(advice)
            }
        }
    }
}

impl From<UndoError> for CliError {
    fn from(error: UndoError) -> Self {
        match error {
            UndoError::Restore(error) => error.into(),
            UndoError::Workspace(error) => error.into(),
            UndoError::Store(error) => error.into(),
            UndoError::BeingHealed => {
                Self::failed(error.to_string()).hint("wait until it is over, or stop `salve` first")
            }
            UndoError::NothingKept => Self::failed(error.to_string())
                .hint("snapshots are kept for a while only, and only for what changed files"),
            UndoError::NotUndone => Self::failed(error.to_string()),
        }
    }
}
