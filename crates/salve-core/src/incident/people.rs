//! What people say: answers, orders, refills. Nobody else can.

use super::step::Taken;
use super::{Ignored, Incident, Then, answers};
use crate::event::{
    Entry, Event, IncidentEvent, IncidentOutcome, PersonOrder, PersonQuestion, TeamEvent,
};
use crate::scrub::Scrubbed;

impl Incident {
    /// Takes in what a named person said.
    pub(super) fn hear_person(&mut self, name: &Scrubbed, entry: &Entry) -> Taken {
        match &entry.event {
            Event::Incident(event) => self.take_persons_word(name, event, entry.seq),
            // It is on record; what becomes of it is the owner's to choose.
            Event::Team(TeamEvent::FixProposed { .. } | TeamEvent::FixWanted { .. }) => Ok(None),
            // The rest is no part of an incident's life.
            Event::Team(TeamEvent::IssueReported { .. } | TeamEvent::IssueSettled { .. })
            | Event::Config(_)
            | Event::Memory(_)
            | Event::Server(_)
            | Event::Session(_)
            | Event::Job(_)
            | Event::Loop(_)
            | Event::Recovery(_)
            | Event::Rule(_)
            | Event::Note(_)
            | Event::Other(_) => Err(Ignored::NoNews),
        }
    }

    fn take_persons_word(&mut self, name: &Scrubbed, event: &IncidentEvent, seq: u64) -> Taken {
        use IncidentEvent as E;
        match event {
            E::Approved { question, digest, .. } => {
                let question = answers::answered(&self.repair, *question, *digest)?;
                answers::approved(&mut self.repair, question, seq)
            }
            E::Rejected { question, digest, .. } => {
                let question = answers::answered(&self.repair, *question, *digest)?;
                answers::rejected(&mut self.repair, question)
            }
            E::Resolved { .. } => self.repair.stop(Then::End(IncidentOutcome::Resolved)),
            E::Refilled { granted } => answers::refilled(&mut self.repair, *granted),
            E::Ordered { order } => self.ordered(name, *order),
            E::Opened { .. }
            | E::Claimed { .. }
            | E::Released { .. }
            | E::Sickened { .. }
            | E::Judged { .. }
            | E::NothingLeft { .. }
            | E::Superseded { .. }
            | E::TriedAgain { .. }
            | E::CameBack { .. }
            | E::Requested { .. }
            | E::Progressed { .. }
            | E::AgentLaunched { .. }
            | E::LayerLaid { .. }
            | E::Finished { .. }
            | E::Exhausted { .. }
            | E::CooledDown { .. }
            | E::Tripped { .. }
            | E::Charged { .. }
            | E::Ended { .. } => Err(Ignored::NotOwner),
            // Only told, by whoever it is.
            E::Diagnosed { .. }
            | E::Marked { .. }
            | E::FilesChanged { .. }
            | E::EnvironmentSet { .. }
            | E::ProofExplained { .. }
            | E::SeenGreen {}
            | E::CountersRestored { .. } => Err(Ignored::NoNews),
        }
    }

    fn ordered(&mut self, name: &Scrubbed, order: PersonOrder) -> Taken {
        match order {
            PersonOrder::Pause => self.paused = Some(name.clone()),
            PersonOrder::Resume => self.paused = None,
            PersonOrder::Abort => return self.repair.stop(Then::End(IncidentOutcome::Aborted)),
            PersonOrder::Escalate => return self.repair.stop(Then::Ask(PersonQuestion::Ordered)),
            PersonOrder::Skip => return answers::skip(&mut self.repair),
            PersonOrder::Retry => return answers::retry(&mut self.repair, self.last_seq),
        }
        Ok(None)
    }
}
