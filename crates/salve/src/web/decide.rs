//! What people decide on the page, written to the journal.
//!
//! A word is tried on the incident first; what it would not take is refused with the reason and
//! not written. An answer carries the question's number and the hash of what was shown, so that
//! nobody says yes to something they have not seen.

use jiff::Timestamp;
use salve_core::event::{
    Actor, Amounts, Digest, Draft, Event, IncidentEvent, PersonOrder, ServerEvent, ServerOrder,
};
use salve_core::id::IncidentId;
use salve_core::repair::{self};
use salve_core::scrub::Scrubbed;
use salve_core::view::IncidentView;

use super::views::{ProjectReader, ViewError};
use crate::reading::IncidentNotFound;
use crate::store::{Appended, StoreError, Stream, StreamPosition};
use crate::subjects::server::cared_for;

/// How often what changed meanwhile is looked at anew.
const TRIES: usize = 8;

/// What a person wants.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// Yes to the question that was shown.
    Approve(Answered),
    /// No to it.
    Reject(Answered),
    /// The matter is settled.
    Resolve {
        /// How.
        note: Option<Scrubbed>,
    },
    /// An order to the incident.
    Order(PersonOrder),
    /// More of the budget.
    Refill(Amounts),
}

/// Which question is answered, as it was shown.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The question's number.
    pub(super) question: u32,
    /// The hash of what was shown.
    pub(super) digest: Digest,
    /// The person's remark.
    pub(super) note: Option<Scrubbed>,
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecideError {
    /// The incident cannot be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Another question is open by now, or none.
    #[error("this question is no longer open; look at what is asked now")]
    AnotherQuestion,
    /// The incident does not take it.
    #[error("the incident does not take this: {0}")]
    Refused(String),
    /// It changes all the time.
    #[error("the incident keeps changing; try again")]
    Restless,
    /// No salve runs that server.
    #[error("no salve runs the server `{0}` now; start it with `salve dev`")]
    NoSuchServer(String),
}

impl From<StoreError> for DecideError {
    fn from(error: StoreError) -> Self {
        ViewError::from(error).into()
    }
}

/// Writes a decision about an incident, if the incident takes it; returns its entry's number.
pub(super) fn decide(
    reader: &mut ProjectReader,
    id: IncidentId,
    person: &Scrubbed,
    decision: &Decision,
) -> Result<u64, DecideError> {
    for _ in 0..TRIES {
        let unknown = || ViewError::from(IncidentNotFound::Unknown(id.to_string()));
        let view = reader.incident_view(&id.to_string())?;
        let event = Event::Incident(event_of(&view, decision)?);
        let by = Actor::Person { name: person.clone() };
        let draft = Draft { at: Timestamp::now(), by, incident: Some(id), event };
        let after = view.incident().last_seq();
        let mut next = view.incident().clone();
        let tried = draft.clone().at_seq(after.saturating_add(1));
        next.step(&tried).map_err(|why| DecideError::Refused(why.to_string()))?;
        let position = StreamPosition { stream: Stream::Incident(id), after };
        let Some(store) = reader.store()? else { return Err(unknown().into()) };
        if let Appended::Written(written) = store.journal().append_after(&position, vec![draft])? {
            return Ok(written.first().map_or(after, |entry| entry.seq));
        }
    }
    Err(DecideError::Restless)
}

fn event_of(view: &IncidentView, decision: &Decision) -> Result<IncidentEvent, DecideError> {
    let check = |answered: &Answered| {
        let ask = repair::ask(view).ok_or(DecideError::AnotherQuestion)?;
        match ask.number == answered.question && ask.digest == answered.digest {
            true => Ok(()),
            false => Err(DecideError::AnotherQuestion),
        }
    };
    Ok(match decision {
        Decision::Approve(answered) => {
            check(answered)?;
            let Answered { question, digest, note } = answered.clone();
            IncidentEvent::Approved { question, digest, note }
        }
        Decision::Reject(answered) => {
            check(answered)?;
            let Answered { question, digest, note } = answered.clone();
            IncidentEvent::Rejected { question, digest, note }
        }
        Decision::Resolve { note } => IncidentEvent::Resolved { note: note.clone() },
        Decision::Order(order) => IncidentEvent::Ordered { order: *order },
        Decision::Refill(granted) => IncidentEvent::Refilled { granted: *granted },
    })
}

/// Writes an order to a server that some salve runs; returns its entry's number.
pub(super) fn order_server(
    reader: &mut ProjectReader,
    server: &str,
    order: ServerOrder,
    person: &Scrubbed,
) -> Result<u64, DecideError> {
    let scrubber = reader.scrubber().clone();
    let running = cared_for(reader.project(), &scrubber).unwrap_or_default();
    let missing = || DecideError::NoSuchServer(server.chars().take(60).collect());
    if !running.iter().any(|name| name == server) {
        return Err(missing());
    }
    let event = Event::Server(ServerEvent::Ordered { server: scrubber.scrub(server), order });
    let by = Actor::Person { name: person.clone() };
    let draft = Draft { at: Timestamp::now(), by, incident: None, event };
    let Some(store) = reader.store()? else { return Err(missing()) };
    Ok(store.journal().append(draft)?.seq)
}
