//! What people say to incidents: answers, orders, grants, whoever carries the words.
//!
//! Every word is tried on the incident first; what it would not take is refused with the reason
//! and not written. An answer is bound to the question's number and to what it is about. What a
//! question means, and what yes and no do, is worded by [`salve_core::repair::ask`].

use jiff::Timestamp;
use salve_core::event::{
    Actor, Amounts, Digest, Draft, Entry, Event, IncidentEvent, PersonOrder, PersonQuestion,
    ServerEvent, ServerOrder, SubjectKind,
};
use salve_core::id::IncidentId;
use salve_core::incident::{Ignored, Incident, NotOpened, Phase, RepairPhase};
use salve_core::repair::{self};
use salve_core::scrub::Scrubbed;
use salve_core::view::IncidentView;

use crate::store::{Appended, Journal, StoreError, Stream, StreamPosition};

/// How often what changed meanwhile is looked at again.
const TRIES: usize = 8;

/// What a person may say to an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonWord {
    /// Yes to the open question.
    Approve(PersonAnswer),
    /// No to it.
    Reject(PersonAnswer),
    /// The matter is settled.
    Resolve(Option<Scrubbed>),
    /// What is to be done with the incident.
    Order(PersonOrder),
    /// More that may be spent.
    Refill(Amounts),
}

/// An answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonAnswer {
    /// A remark, kept with the answer.
    pub note: Option<Scrubbed>,
    /// The question that is meant, if it has to be that one.
    pub question: Option<u32>,
    /// The hash of what the person was shown, where that is known.
    pub shown: Option<Digest>,
}

/// What came of a word that was taken.
#[derive(Clone, Debug)]
pub struct TakenWord {
    /// All entries of the incident, the word among them.
    pub entries: Vec<Entry>,
    /// The incident as it is now.
    pub incident: Incident,
    /// The number of the word's entry.
    pub seq: u64,
    /// Whether the server that it is about is started again.
    pub starts_server: bool,
}

/// Why a person's word is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PersonError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal's entries make no incident.
    #[error("the incident cannot be read")]
    Unreadable(#[source] NotOpened),
    /// There is no question.
    #[error("it asks nothing; it is at `{0}`")]
    NothingAsked(RepairPhase),
    /// Another question is open.
    #[error("question {number} is open now: {why}")]
    OtherQuestion {
        number: u32,
        /// Why it is asked.
        why: String,
    },
    /// The incident would not take it.
    #[error("{0}")]
    NotTaken(Ignored),
    /// Others kept writing.
    #[error("the incident keeps changing")]
    Restless,
}

/// Appends a person's word to an incident, if the incident takes it.
///
/// Where others write meanwhile it is tried again, but never as the answer to another question
/// than the one that was open first.
pub fn speak(
    journal: &dyn Journal,
    id: IncidentId,
    by: &Actor,
    mut word: PersonWord,
) -> Result<TakenWord, PersonError> {
    for _ in 0..TRIES {
        let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
        let view = IncidentView::of(entries.clone()).map_err(PersonError::Unreadable)?;
        let draft =
            |incident, event| Draft { at: Timestamp::now(), by: by.clone(), incident, event };
        let start = start_order(view.incident(), &word).map(|order| draft(None, order));
        let starts_server = start.is_some();
        let spoken = said(&view, &mut word).and_then(|event| {
            let draft = draft(Some(id), Event::Incident(event));
            let incident = after_word(view.incident(), &draft).map_err(PersonError::NotTaken)?;
            Ok((draft, incident))
        });
        let (word, incident) = match spoken {
            Ok((draft, incident)) => (Some(draft), incident),
            // A used-up budget stays used up; starting a server is no attempt.
            Err(PersonError::NothingAsked(_) | PersonError::NotTaken(Ignored::Exhausted))
                if starts_server =>
            {
                (None, view.incident().clone())
            }
            Err(error) => return Err(error),
        };
        let after = view.incident().last_seq();
        let position = StreamPosition { stream: Stream::Incident(id), after };
        let drafts = word.into_iter().chain(start).collect();
        if let Appended::Written(written) = journal.append_after(&position, drafts)? {
            let seq = written.first().map_or(after, |entry| entry.seq);
            let own = written.into_iter().filter(|entry| entry.incident == Some(id));
            let entries = entries.into_iter().chain(own).collect();
            return Ok(TakenWord { entries, incident, seq, starts_server });
        }
    }
    Err(PersonError::Restless)
}

/// Appends what a person or an agent said to an incident, unless the incident has gone on since
/// the entry of that number; then there is nothing to return.
pub fn append_word(
    journal: &dyn Journal,
    after: u64,
    draft: Draft,
) -> Result<Option<Vec<Entry>>, StoreError> {
    let Some(id) = draft.incident else { return Ok(None) };
    let position = StreamPosition { stream: Stream::Incident(id), after };
    Ok(match journal.append_after(&position, vec![draft])? {
        Appended::Written(written) => Some(written),
        Appended::Refused(_) => None,
    })
}

/// Returns the order that starts a server again, where a word to its incident means that: whoever
/// says yes, again or settled to one that nothing is done for wants it to run.
fn start_order(incident: &Incident, word: &PersonWord) -> Option<Event> {
    let means_start = match word {
        PersonWord::Approve(_) | PersonWord::Order(PersonOrder::Retry) => true,
        PersonWord::Resolve(_) => true,
        PersonWord::Reject(_) | PersonWord::Order(_) | PersonWord::Refill(_) => false,
    };
    let waits = match incident.phase() {
        Phase::CoolingDown { .. } => true,
        Phase::Asking { question, .. } => match question {
            // The yes is to something else, which starts the server when it is done.
            PersonQuestion::Remedy
            | PersonQuestion::ChangeTooLarge
            | PersonQuestion::Conflict
            | PersonQuestion::SnapshotFailed
            | PersonQuestion::MayHaveActed => matches!(word, PersonWord::Resolve(_)),
            PersonQuestion::Exhausted(_)
            | PersonQuestion::NoProgress
            | PersonQuestion::NothingLeft
            | PersonQuestion::RollBackFailed
            | PersonQuestion::Masked
            | PersonQuestion::Flaky
            | PersonQuestion::Tripped(_)
            | PersonQuestion::Ordered => true,
        },
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => false,
    };
    let subject = incident.subject();
    let is_meant = means_start && waits && subject.kind == SubjectKind::Server;
    is_meant.then(|| {
        let (server, order) = (subject.name.clone(), ServerOrder::Start);
        Event::Server(ServerEvent::Ordered { server, order })
    })
}

/// Returns the incident as it would be with a word, or why it would not take it.
pub fn after_word(incident: &Incident, draft: &Draft) -> Result<Incident, Ignored> {
    let mut next = incident.clone();
    next.step(&draft.clone().at_seq(incident.last_seq().saturating_add(1)))?;
    Ok(next)
}

/// Returns what a word is to an incident that stands like this; an answer is bound to its question.
fn said(view: &IncidentView, word: &mut PersonWord) -> Result<IncidentEvent, PersonError> {
    let (answer, is_yes) = match word {
        PersonWord::Resolve(note) => return Ok(IncidentEvent::Resolved { note: note.clone() }),
        PersonWord::Order(order) => return Ok(IncidentEvent::Ordered { order: *order }),
        PersonWord::Refill(granted) => return Ok(IncidentEvent::Refilled { granted: *granted }),
        PersonWord::Approve(answer) => (answer, true),
        PersonWord::Reject(answer) => (answer, false),
    };
    let ask = repair::ask(view).ok_or_else(|| PersonError::NothingAsked(view.phase()))?;
    let is_other = answer.question.is_some_and(|wanted| wanted != ask.number)
        || answer.shown.is_some_and(|shown| shown != ask.digest);
    if is_other {
        return Err(PersonError::OtherQuestion { number: ask.number, why: ask.why });
    }
    (answer.question, answer.shown) = (Some(ask.number), Some(ask.digest));
    let (question, digest, note) = (ask.number, ask.digest, answer.note.clone());
    Ok(if is_yes {
        IncidentEvent::Approved { question, digest, note }
    } else {
        IncidentEvent::Rejected { question, digest, note }
    })
}
