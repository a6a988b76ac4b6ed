//! What people decide on the page, written to the journal.
//!
//! A word is tried on the incident first; what it would not take is refused with the reason and
//! not written. An answer carries the question's number and the hash of what was shown, so that
//! nobody says yes to something they have not seen.

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, ServerEvent, ServerOrder};
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubbed;

use super::views::{ProjectReader, ViewError};
use crate::heal::people::{PersonError, PersonWord, speak};
use crate::reading::{IncidentNotFound, has_owner};
use crate::store::StoreError;
use crate::subjects::server::cared_for;

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

/// A decision that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenDecision {
    /// The number of its entry.
    pub(super) seq: u64,
    /// Whether a running Salve hears it and acts on it.
    pub(super) is_heard: bool,
}

/// Writes a decision about an incident, if the incident takes it.
pub(super) fn decide(
    reader: &mut ProjectReader,
    id: IncidentId,
    person: &Scrubbed,
    decision: PersonWord,
) -> Result<WrittenDecision, DecideError> {
    let scrubber = reader.scrubber().clone();
    let unknown = || ViewError::from(IncidentNotFound::Unknown(id.to_string()));
    let Some(store) = reader.store()? else { return Err(unknown().into()) };
    let by = Actor::Person { name: person.clone() };
    let taken = speak(store.journal(), id, &by, decision).map_err(|error| match error {
        PersonError::Store(error) => error.into(),
        PersonError::Unreadable(_) => unknown().into(),
        PersonError::NothingAsked(_) | PersonError::OtherQuestion { .. } => {
            DecideError::AnotherQuestion
        }
        PersonError::NotTaken(why) => DecideError::Refused(why.to_string()),
        PersonError::Restless => DecideError::Restless,
    })?;
    Ok(WrittenDecision { seq: taken.seq, is_heard: has_owner(&taken.incident, &scrubber) })
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
