//! Takes a repair back: the files as they were before it, and again as it left them.

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, NoteEvent};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase};
use salve_core::scrub::Scrubber;

use crate::process;
use crate::store::{Store, StoreError, Stream};
use crate::workspace::{
    Again, AttemptChange, Give, Moment, Name, RestoreError, RestoreSummary, Snapshot, Workspace,
    WorkspaceError,
};

/// What is to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoRequest {
    /// Only this attempt; the whole repair if absent.
    pub attempt: Option<u32>,
    /// What becomes of files that were changed again since.
    pub changed_since: Again,
    /// Which way to go.
    pub direction: UndoDirection,
}

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoDirection {
    /// To the files before the repair.
    Undo,
    /// From there back to the files that the repair left.
    Redo,
}

/// Why a repair was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// A repair is at work on the same files.
    #[error("this incident is being healed right now")]
    BeingHealed,
    /// No snapshot from before is kept.
    #[error("no state from before that repair is kept")]
    NothingKept,
    /// There is no undoing to take back.
    #[error("that repair has not been undone")]
    NotUndone,
    /// The files could not be given back.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The snapshots cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes a repair back, or an undoing, and says so in the incident's story.
///
/// # Errors
///
/// When the incident is being healed, no snapshot is kept, or files cannot be given back.
pub fn undo_repair(
    store: &Store,
    id: IncidentId,
    request: &UndoRequest,
    by: Actor,
    scrubber: &Scrubber,
) -> Result<RestoreSummary, UndoError> {
    if is_being_healed(store, id, scrubber)? {
        return Err(UndoError::BeingHealed);
    }
    let restored = give_back(&Workspace::open(store.project())?, id, request)?;
    note(store, id, request, by, &restored)?;
    Ok(restored)
}

/// Tells whether a repair is at work on the same files.
fn is_being_healed(store: &Store, id: IncidentId, scrubber: &Scrubber) -> Result<bool, UndoError> {
    let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX)?;
    let Ok(incident) = Incident::replay(&entries) else { return Ok(false) };
    let is_at_work = match incident.phase() {
        Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } | Phase::Ending { .. } => true,
        Phase::Asking { .. } | Phase::CoolingDown { .. } | Phase::Closed(_) => false,
    };
    let is_owned = incident.owner().is_some_and(|owner| !process::is_gone(owner, scrubber));
    Ok(is_at_work && is_owned)
}

/// Finds the snapshots and restores.
fn give_back(
    workspace: &Workspace,
    id: IncidentId,
    request: &UndoRequest,
) -> Result<RestoreSummary, UndoError> {
    let names = workspace.names(id)?;
    let is_of = |change: &AttemptChange| {
        request.attempt.is_none_or(|attempt| change.before.attempt == attempt)
    };
    let mut standing = workspace.attempts().standing(id)?;
    standing.retain(is_of);
    match (request.direction, request.changed_since) {
        (UndoDirection::Undo, Again::Refuse | Again::Leave) if !standing.is_empty() => {
            return Ok(workspace.attempts().take_back(&standing)?);
        }
        (UndoDirection::Undo, _) => {}
        (UndoDirection::Redo, _) => {
            let is_undone = |name: &Name| matches!(name.moment, Moment::Undone(_));
            let undone: Vec<u32> =
                names.iter().filter(|name| is_undone(name)).map(|name| name.attempt).collect();
            let mut taken_back = workspace.attempts().changes(id)?;
            taken_back.retain(|change| is_of(change) && undone.contains(&change.before.attempt));
            if taken_back.is_empty() {
                return Err(UndoError::NotUndone);
            }
            return Ok(workspace.attempts().bring_back(&taken_back)?);
        }
    }
    let is_meant = |name: &&Name| request.attempt.is_none_or(|attempt| name.attempt == attempt);
    let meant: Vec<Name> = names.iter().filter(is_meant).copied().collect();
    let first = meant.iter().find(|name| name.moment == Moment::Before);
    let before = load(workspace, first)?.ok_or(UndoError::NothingKept)?;
    let again = request.changed_since;
    let after = meant.iter().filter(|name| name.moment == Moment::After).max();
    Ok(match load(workspace, after)? {
        Some(left) => workspace.restore(&before, Give::Repair { left: &left, again })?,
        None => workspace.restore(&before, Give::All)?,
    })
}

fn load(workspace: &Workspace, name: Option<&Name>) -> Result<Option<Snapshot>, WorkspaceError> {
    Ok(name.map(|name| workspace.load(*name)).transpose()?.flatten())
}

/// Writes the undoing into the incident's story.
fn note(
    store: &Store,
    id: IncidentId,
    request: &UndoRequest,
    by: Actor,
    done: &RestoreSummary,
) -> Result<(), StoreError> {
    let Some(kept) = done.kept else { return Ok(()) };
    let what = match request.direction {
        UndoDirection::Undo => "undid the repair",
        UndoDirection::Redo => "took an undoing back",
    };
    let files = match done.files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let text = format!("{what}: {files}; the state before is in {}", kept.to_ref());
    let text = crate::scrub::scrubber().scrub(&text);
    let event = Event::Note(NoteEvent::Noted { text });
    store.journal().append(Draft { at: Timestamp::now(), by, incident: Some(id), event })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;
    use crate::project::Project;

    fn request(attempt: Option<u32>, direction: UndoDirection) -> UndoRequest {
        UndoRequest { attempt, changed_since: Again::Refuse, direction }
    }

    #[test]
    fn a_repair_is_undone_and_the_undoing_too() {
        use UndoDirection::{Redo, Undo};
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
        give_back(&workspace, id, &request(Some(2), Undo)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["tried", "2"]);
        give_back(&workspace, id, &request(Some(2), Redo)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["repaired", "2"]);
        give_back(&workspace, id, &request(None, Undo)).unwrap();
        assert_eq!([read("app.js"), read("mine.js")], ["broken", "2"]);
        std::fs::write(file("app.js"), "by hand").unwrap();
        let refused = give_back(&workspace, id, &request(None, Undo)).unwrap_err();
        let refused = matches!(refused, UndoError::Restore(RestoreError::ChangedSince { .. }));
        assert!(refused, "what was edited since is a person's");
        let forced = UndoRequest { changed_since: Again::Overwrite, ..request(None, Undo) };
        give_back(&workspace, id, &forced).unwrap();
        assert_eq!(read("app.js"), "broken");
        let none = give_back(&workspace, IncidentId(Uuid::from_u128(8)), &request(None, Undo));
        assert!(matches!(none, Err(UndoError::NothingKept)));
    }

    #[test]
    fn an_undoing_is_part_of_the_story() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let id = IncidentId(Uuid::from_u128(9));
        let name = Name::before(id, 1).at(Moment::Undone(1));
        let done = RestoreSummary { kept: Some(name), files: vec!["a".into()], left: Vec::new() };
        let by = Actor::Person { name: Scrubbed::literal("ada") };
        note(&store, id, &request(None, UndoDirection::Undo), by.clone(), &done).unwrap();
        let entries = store.journal().tail(&Stream::Incident(id), 1).unwrap();
        assert_eq!(entries[0].by, by);
        let Event::Note(NoteEvent::Noted { text }) = &entries[0].event else {
            panic!("{entries:?}")
        };
        let want = format!("undid the repair: 1 file; the state before is in {}", name.to_ref());
        assert_eq!(text.as_str(), want);
    }
}
