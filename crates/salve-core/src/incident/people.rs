//! What people say: answers, orders, refills. Nobody else can.

use super::step::Taken;
use super::{ConsideredRemedy, Ignored, Incident, Phase, RemedyFate, Then};
use crate::event::{
    Acted, Amounts, Authority, Breaker, Digest, Effect, Entry, Event, IncidentEvent,
    IncidentOutcome, PersonOrder, PersonQuestion, Scope, TeamEvent,
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
                let question = self.answered(*question, *digest)?;
                self.approved(question, seq)
            }
            E::Rejected { question, digest, .. } => {
                let question = self.answered(*question, *digest)?;
                self.rejected(question)
            }
            E::Resolved { .. } => self.stop(Then::End(IncidentOutcome::Resolved)),
            E::Refilled { granted } => self.refilled(*granted),
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
            | E::ProofExplained { .. }
            | E::SeenGreen {}
            | E::CountersRestored { .. } => Err(Ignored::NoNews),
        }
    }

    /// Returns the open question if the answer is to exactly it.
    fn answered(&self, answer_to: u32, about: Digest) -> Result<PersonQuestion, Ignored> {
        match self.phase {
            Phase::Asking { number, question, digest, .. }
                if (number, digest) == (answer_to, about) =>
            {
                Ok(question)
            }
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => Err(Ignored::Stale),
        }
    }

    fn approved(&mut self, question: PersonQuestion, seq: u64) -> Taken {
        match question {
            PersonQuestion::Remedy => self.begin(Authority::Approval(seq)),
            PersonQuestion::ChangeTooLarge => self.due(Effect::Verify, self.policy.quiet_ms),
            PersonQuestion::SnapshotFailed => self.due(Effect::Snapshot, 0),
            PersonQuestion::MayHaveActed => {
                self.symptom.acted = Acted::No;
                match self.trial {
                    Some(_) => self.due(Effect::Verify, 0),
                    None => self.proceed(Then::Choose),
                }
            }
            // A yes is no refill: only a stated amount raises a budget.
            PersonQuestion::Exhausted(_) => return Err(Ignored::Exhausted),
            PersonQuestion::NoProgress => {
                self.history.forgive();
                self.proceed(Then::Choose);
            }
            PersonQuestion::NothingLeft
            | PersonQuestion::RollBackFailed
            | PersonQuestion::Masked
            | PersonQuestion::Flaky
            | PersonQuestion::Tripped(_)
            | PersonQuestion::Ordered => self.proceed(Then::Choose),
        }
        Ok(None)
    }

    fn rejected(&mut self, question: PersonQuestion) -> Taken {
        match question {
            PersonQuestion::Remedy | PersonQuestion::ChangeTooLarge => {
                self.note_trial(RemedyFate::Declined);
                self.stop_now(Then::Choose);
            }
            PersonQuestion::SnapshotFailed
            | PersonQuestion::MayHaveActed
            | PersonQuestion::Exhausted(_)
            | PersonQuestion::NoProgress
            | PersonQuestion::NothingLeft
            | PersonQuestion::RollBackFailed
            | PersonQuestion::Masked
            | PersonQuestion::Flaky
            | PersonQuestion::Tripped(_)
            | PersonQuestion::Ordered => self.stop_now(Then::End(IncidentOutcome::GivenUp)),
        }
        Ok(None)
    }

    fn refilled(&mut self, granted: Amounts) -> Taken {
        if granted == Amounts::default() {
            return Err(Ignored::NoNews);
        }
        self.ledger.refill(granted);
        let waits = match self.phase {
            Phase::CoolingDown { .. }
            | Phase::Asking { question: PersonQuestion::Exhausted(_), .. } => true,
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        };
        if waits && self.ledger.exhausted().is_none() {
            self.proceed(Then::Choose);
        }
        Ok(None)
    }

    fn ordered(&mut self, name: &Scrubbed, order: PersonOrder) -> Taken {
        match order {
            PersonOrder::Pause => self.paused = Some(name.clone()),
            PersonOrder::Resume => self.paused = None,
            PersonOrder::Abort => return self.stop(Then::End(IncidentOutcome::Aborted)),
            PersonOrder::Escalate => return self.stop(Then::Ask(PersonQuestion::Ordered)),
            PersonOrder::Skip => return self.skip(),
            PersonOrder::Retry => return self.retry(),
        }
        Ok(None)
    }

    fn skip(&mut self) -> Taken {
        if self.trial.is_none() || matches!(self.phase, Phase::Ending { .. }) {
            return Err(Ignored::Stale);
        }
        let digest = self.trial.as_ref().map(|trial| trial.remedy.digest);
        let taken = self.stop(Then::Choose)?;
        let signature = self.symptom.signature;
        self.tried.extend(digest.map(|digest| ConsideredRemedy {
            digest,
            signature,
            fate: RemedyFate::Declined,
        }));
        Ok(taken)
    }

    fn retry(&mut self) -> Taken {
        match self.phase {
            Phase::CoolingDown { .. } => Err(Ignored::Exhausted),
            Phase::Asking {
                question: PersonQuestion::Remedy | PersonQuestion::ChangeTooLarge,
                ..
            } => Err(Ignored::Stale),
            Phase::Asking { question, .. } => self.approved(question, self.last_seq),
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => Err(Ignored::Stale),
        }
    }

    /// Stops trying: at once, or as soon as the running effect is back.
    pub(super) fn stop(&mut self, then: Then) -> Taken {
        if self.outcome.is_some() {
            return Err(Ignored::Over);
        }
        match self.phase {
            Phase::Ending { .. } | Phase::Closed(_) => return Err(Ignored::Over),
            Phase::Doing { .. } => self.wish = Some(then),
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. } => self.stop_now(then),
        }
        Ok(None)
    }

    /// Undoes what is unproven, then goes on with `then`.
    ///
    /// What a person settled by hand is left as the person left it.
    pub(super) fn stop_now(&mut self, then: Then) {
        match (self.phase, then) {
            (_, Then::End(IncidentOutcome::Resolved)) => self.proceed(then),
            (_, Then::Ask(PersonQuestion::Tripped(Breaker::NewErrors))) => {
                self.undo(Scope::Incident, then)
            }
            (Phase::Due { what: Effect::RollBack(_), .. }, _) => self.then = then,
            (_, _) => self.undo(Scope::Attempt, then),
        }
    }
}
