//! `salve undo`: the files as they were before a repair.

use std::io::Write;

use jiff::Timestamp;
use salve_core::event::{Draft, Event, NoteEvent};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase};
use serde::Serialize;

use super::events::find;
use super::output::counted;
use super::project::{locate, scrubber, speaker, tell_mended};
use super::{CliError, Exit, Output};
use crate::process;
use crate::store::{Store, Stream};
use crate::workspace::{
    Again, Give, Moment, Name, RestoreError, Restored, Snapshot, Workspace, WorkspaceError,
};

/// Arguments of `salve undo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The incident, by the first digits of its id [default: the only one whose repair is kept]
    incident: Option<String>,
    /// Undo only this attempt [default: the whole repair]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Undo files too that were changed again since; their present state is kept
    #[arg(long)]
    force: bool,
    /// Take the last undoing back
    #[arg(long)]
    back: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    incident: IncidentId,
    files: &'a [String],
    left: &'a [String],
    kept: Option<String>,
}

/// Undoes a repair, or an undoing.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if process::is_agents() {
        return Err(CliError::needs_person("an agent cannot undo a repair").hint(format!(
            "ask the person you work for to run `salve undo {}`",
            args.incident.as_deref().unwrap_or_default()
        )));
    }
    let project = locate(out)?;
    let Some(store) = Store::open_existing(&project)? else {
        return Err(CliError::failed("Salve has repaired nothing in this project"));
    };
    tell_mended(&store, out);
    let workspace = Workspace::open(&project)?;
    let id = match &args.incident {
        Some(id) => find(store.journal(), id)?,
        None => only_repaired(&store, &workspace)?,
    };
    check_quiet(&store, id)?;
    let restored = give_back(&workspace, id, &args)?;
    note(&store, id, &args, &restored)?;
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

/// Refuses while a repair is at work on the same files.
fn check_quiet(store: &Store, id: IncidentId) -> Result<(), CliError> {
    let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX)?;
    let Ok(incident) = Incident::replay(&entries) else { return Ok(()) };
    let is_at_work = match incident.phase() {
        Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } | Phase::Ending { .. } => true,
        Phase::Asking { .. } | Phase::CoolingDown { .. } | Phase::Closed(_) => false,
    };
    let is_owned = incident.owner().is_some_and(|owner| !process::is_gone(owner, &scrubber()));
    if is_at_work && is_owned {
        return Err(CliError::failed("this incident is being healed right now")
            .hint("wait until it is over, or stop `salve` first"));
    }
    Ok(())
}

/// Finds the snapshots and restores.
fn give_back(workspace: &Workspace, id: IncidentId, args: &Args) -> Result<Restored, CliError> {
    let names = workspace.names(id)?;
    let is_meant = |name: &&Name| args.attempt.is_none_or(|attempt| name.attempt == attempt);
    let meant: Vec<Name> = names.iter().filter(is_meant).copied().collect();
    let first = meant.iter().find(|name| name.moment == Moment::Before);
    let Some(before) = first.map(|name| workspace.load(*name)).transpose()?.flatten() else {
        return Err(CliError::failed("no state from before that repair is kept")
            .hint("snapshots are kept for a while only, and only for what changed files"));
    };
    let again = if args.force { Again::Overwrite } else { Again::Refuse };
    if args.back {
        let undone = |name: &&Name| {
            matches!(name.moment, Moment::Undone(_)) && name.attempt == before.name().attempt
        };
        let Some(kept) = load(workspace, meant.iter().filter(undone).max())? else {
            return Err(CliError::failed("that repair has not been undone"));
        };
        return Ok(workspace.restore(&kept, Give::Repair { left: &before, again })?);
    }
    let after = meant.iter().filter(|name| name.moment == Moment::After).max();
    Ok(match load(workspace, after)? {
        Some(left) => workspace.restore(&before, Give::Repair { left: &left, again })?,
        None => workspace.restore(&before, Give::All)?,
    })
}

fn load(workspace: &Workspace, name: Option<&Name>) -> Result<Option<Snapshot>, CliError> {
    Ok(name.map(|name| workspace.load(*name)).transpose()?.flatten())
}

/// Writes the undoing into the incident's story.
fn note(store: &Store, id: IncidentId, args: &Args, done: &Restored) -> Result<(), CliError> {
    let Some(kept) = done.kept else { return Ok(()) };
    let what = if args.back { "took an undoing back" } else { "undid the repair" };
    let files = counted(done.files.len() as u64, "file", "files");
    let text = format!("{what}: {files}; the state before is in {}", kept.to_ref());
    let scrubber = scrubber();
    store.journal().append(Draft {
        at: Timestamp::now(),
        by: speaker(&scrubber),
        incident: Some(id),
        event: Event::Note(NoteEvent::Noted { text: scrubber.scrub(&text) }),
    })?;
    Ok(())
}

fn tell(id: IncidentId, args: &Args, done: &Restored, out: &Output) -> Result<(), CliError> {
    if out.json() {
        let kept = done.kept.map(Name::to_ref);
        return out.fact(&Report {
            version: 1,
            incident: id,
            files: &done.files,
            left: &done.left,
            kept,
        });
    }
    let mut to = out.stdout();
    if done.kept.is_none() {
        writeln!(to, "nothing to undo: the files are as they were")?;
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

#[cfg(test)]
mod tests {
    use salve_core::event::Actor;
    use uuid::Uuid;

    use super::*;
    use crate::project::Project;

    fn args(attempt: Option<u32>, force: bool, back: bool) -> Args {
        Args { incident: None, attempt, force, back }
    }

    #[test]
    fn a_repair_is_undone_and_the_undoing_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        std::fs::write(file("app.js"), "broken").unwrap();
        std::fs::write(file("mine.js"), "1").unwrap();
        let workspace = Workspace::open(&Project::at(dir.path()).unwrap()).unwrap();
        let id = IncidentId(Uuid::from_u128(9));
        for (attempt, text) in [(1, "tried"), (2, "repaired")] {
            let before = workspace.snapshot(Name::before(id, attempt)).unwrap();
            std::fs::write(file("app.js"), text).unwrap();
            workspace.measure(&before).unwrap();
        }
        std::fs::write(file("mine.js"), "2").unwrap();
        give_back(&workspace, id, &args(Some(2), false, false)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["tried", "2"]);
        give_back(&workspace, id, &args(Some(2), false, true)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["repaired", "2"]);
        give_back(&workspace, id, &args(None, false, false)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["broken", "2"]);
        std::fs::write(file("app.js"), "by hand").unwrap();
        let refused = give_back(&workspace, id, &args(None, false, false)).unwrap_err();
        assert_eq!(refused.exit(), Exit::NeedsPerson);
        give_back(&workspace, id, &args(None, true, false)).unwrap();
        assert_eq!(read("app.js"), "broken");
        let none = give_back(&workspace, IncidentId(Uuid::from_u128(8)), &args(None, false, false));
        assert!(none.unwrap_err().to_string().contains("no state from before"));
    }

    #[test]
    fn an_undoing_is_part_of_the_story() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let id = IncidentId(Uuid::from_u128(9));
        let name = Name::before(id, 1).at(Moment::Undone(1));
        let done = Restored { kept: Some(name), files: vec!["a".into()], left: Vec::new() };
        note(&store, id, &args(None, false, false), &done).unwrap();
        let entries = store.journal().tail(&Stream::Incident(id), 1).unwrap();
        assert!(matches!(&entries[0].by, Actor::Person { .. } | Actor::Agent { .. }));
        let Event::Note(NoteEvent::Noted { text }) = &entries[0].event else {
            panic!("{entries:?}")
        };
        let want = format!("undid the repair: 1 file; the state before is in {}", name.to_ref());
        assert_eq!(text.as_str(), want);
    }
}
