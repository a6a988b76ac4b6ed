//! Loops: their ids, and what is asked and told when their tests have to be recovered.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{
    Actor, Draft, Event, IncidentEvent, LoopEvent, LoopId, LoopTurn, PersonOrder, Repeat, Subject,
    SubjectKind,
};
use salve_core::iteration::Loop;
use salve_core::scrub::Scrubber;

use super::people::after_word;
use super::recovery_file::ProposalStamp;
use super::run::CommandRunEnd;
use super::unfinished;
use crate::store::{Store, StoreError};

/// What a loop wants recovered.
#[derive(Clone, Debug)]
pub struct Sought {
    /// The iteration of the loop, from 1.
    pub iteration: u32,
    /// How the tests came out just now, if they ran.
    pub first: Option<CommandRunEnd>,
    /// The journal's last entry before this run of the loop began; its limits count from there.
    pub since: u64,
    /// When this iteration began; a proposal from before is not this one's.
    pub began: Timestamp,
    /// Where the loop's files are, `recovery.json` among them.
    pub dir: PathBuf,
}

/// What became of tests that could not execute.
#[derive(Clone, Debug)]
pub enum Recovered {
    /// They execute; this is how they came out.
    Executes(CommandRunEnd),
    /// There is nothing to recover from: the code has to change, or recovery is switched off.
    NotInfrastructure(CommandRunEnd),
    /// A person declined, or it was called off: the loop goes on without.
    Declined(Option<CommandRunEnd>),
    /// A person has to decide, and nobody waits here.
    NeedsPerson,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}

/// What became of tests, and how long was worked on them.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// What became of them.
    pub how: Recovered,
    /// How long was worked; waiting for a person is no work.
    pub worked: Duration,
    /// The proposal that was looked at last; a later one is still to be taken up.
    pub seen: ProposalStamp,
}

/// Returns an order to a loop as an entry of the journal, if the loop takes it.
pub fn ordered(of: &Loop, order: PersonOrder, by: &Actor) -> Option<Draft> {
    let what = LoopTurn::Ordered { order };
    let event =
        Event::Loop(LoopEvent::Turned { id: of.id().clone(), iteration: of.iteration(), what });
    let draft = Draft { at: Timestamp::now(), by: by.clone(), incident: None, event };
    let tried = of.clone().step(&draft.clone().at_seq(of.stamps().last_seq().saturating_add(1)));
    tried.is_ok().then_some(draft)
}

/// Gives an order to a loop, and to what it is recovering from; returns the first entry's number,
/// or nothing where neither takes it.
pub fn order_loop(
    store: &Store,
    of: &Loop,
    order: PersonOrder,
    by: &Actor,
    scrubber: &Scrubber,
) -> Result<Option<u64>, StoreError> {
    let mut drafts: Vec<Draft> = ordered(of, order, by).into_iter().collect();
    for incident in unfinished(store, &subject(of.id().as_str(), scrubber))? {
        let event = Event::Incident(IncidentEvent::Ordered { order });
        let (at, incident_id) = (Timestamp::now(), Some(incident.id()));
        let draft = Draft { at, by: by.clone(), incident: incident_id, event };
        drafts.extend(after_word(&incident, &draft).is_ok().then_some(draft));
    }
    if drafts.is_empty() {
        return Ok(None);
    }
    Ok(store.journal().append_all(drafts)?.first().map(|entry| entry.seq))
}

/// Returns a loop as a subject of incidents.
pub fn subject(loop_id: &str, scrubber: &Scrubber) -> Subject {
    Subject { kind: SubjectKind::Iteration, name: scrubber.scrub(loop_id), repeat: Repeat::Safe }
}

/// Returns the id of the loop whose files are in `dir`: made of the directory's name.
pub fn id_of_dir(dir: &Path) -> LoopId {
    let named = dir.components().rev().find_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    LoopId::made_of(&named.unwrap_or_default())
}
