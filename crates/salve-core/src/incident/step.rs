//! Taking journal entries in: who may say what, and when.

use super::machine::RepairMachine;
use super::{Ignored, Incident, NotOpened, Phase, Then};
use crate::event::{
    Actor, Effect, Entry, Event, IncidentEvent, IncidentOutcome, NoteEvent, PersonOrder,
    PersonQuestion, Process, RecoveryEvent, TeamEvent,
};

/// An effect that has to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueEffect {
    /// Its number, which its results name.
    pub effect: u32,
    /// What is to be done.
    pub what: Effect,
}

/// What came of an entry.
pub(super) type Taken = Result<Option<DueEffect>, Ignored>;

impl Incident {
    /// Begins an incident with its opening entry.
    pub(super) fn open(entry: &Entry) -> Result<Self, NotOpened> {
        let (Event::Incident(IncidentEvent::Opened { subject, policy, symptom }), Some(id)) =
            (&entry.event, entry.incident)
        else {
            return Err(NotOpened::NoOpening);
        };
        if policy.person.as_str().trim().is_empty() {
            return Err(NotOpened::NobodyNamed);
        }
        if policy.limits.attempts.is_none() {
            return Err(NotOpened::Endless);
        }
        let (subject, policy) = (subject.clone(), (**policy).clone());
        let repair = RepairMachine::open(id, subject, policy, (**symptom).clone(), entry.at);
        Ok(Self { owner: None, paused: None, last_seq: entry.seq, repair })
    }

    /// Takes one entry in and returns the effect that has to run now, if any.
    ///
    /// # Errors
    ///
    /// When the entry does not belong; then it changed nothing but [`Incident::last_seq`] and
    /// [`Incident::clock`].
    pub fn step(&mut self, entry: &Entry) -> Result<Option<DueEffect>, Ignored> {
        if entry.incident != Some(self.id()) {
            return Err(Ignored::Elsewhere);
        }
        if entry.seq <= self.last_seq {
            return Err(Ignored::Replayed);
        }
        self.last_seq = entry.seq;
        self.repair.clock = self.repair.clock.max(entry.at);
        if let (Event::Incident(IncidentEvent::Charged { effect, spent }), Actor::Salve(_)) =
            (&entry.event, &entry.by)
        {
            // Costs are costs: whoever ran the effect, and even when all is over.
            return self.repair.charged(*effect, *spent);
        }
        if let Phase::Closed(_) = self.repair.phase {
            return Err(Ignored::Over);
        }
        match &entry.by {
            Actor::Salve(process) => self.hear_salve(process, &entry.event),
            Actor::Forged { .. } => Err(Ignored::NotAPerson),
            Actor::Person { .. } | Actor::Unproven { .. } => match entry.by.person_in_history() {
                Some(name) => self.hear_person(name, entry),
                None => Err(Ignored::NotAPerson),
            },
            Actor::Agent { .. } => match &entry.event {
                Event::Incident(IncidentEvent::Marked { attempt, mark, reported, .. }) => {
                    self.repair.marked(*attempt, *mark, *reported)
                }
                // It is on record; what becomes of it is the owner's to choose.
                Event::Team(TeamEvent::FixProposed { .. } | TeamEvent::FixWanted { .. }) => {
                    Ok(None)
                }
                _ => Err(Ignored::NotAPerson),
            },
        }
    }

    fn hear_salve(&mut self, process: &Process, event: &Event) -> Taken {
        match event {
            Event::Incident(event) => self.take_own_step(process, event),
            // On record with the incident; the rest is no part of its life.
            Event::Note(NoteEvent::Noted { .. })
            | Event::Team(TeamEvent::FixWanted { .. })
            | Event::Recovery(RecoveryEvent::Sought { .. } | RecoveryEvent::Proposed { .. }) => {
                self.is_owner(process).then_some(None).ok_or(Ignored::NotOwner)
            }
            Event::Note(NoteEvent::StoreSalvaged { .. } | NoteEvent::Notified(_))
            | Event::Team(
                TeamEvent::IssueReported { .. }
                | TeamEvent::IssueSettled { .. }
                | TeamEvent::FixProposed { .. },
            )
            | Event::Recovery(RecoveryEvent::Refused { .. })
            | Event::Config(_)
            | Event::Memory(_)
            | Event::Server(_)
            | Event::Session(_)
            | Event::Job(_)
            | Event::Loop(_)
            | Event::Rule(_)
            | Event::Other(_) => {
                Err(if self.is_owner(process) { Ignored::NoNews } else { Ignored::NotOwner })
            }
        }
    }

    fn is_owner(&self, process: &Process) -> bool {
        self.owner.as_ref() == Some(process)
    }

    /// Takes in a step that a process of Salve wrote.
    fn take_own_step(&mut self, process: &Process, event: &IncidentEvent) -> Taken {
        use IncidentEvent as E;
        match event {
            E::Claimed { instead_of } => return self.claimed(process, instead_of.as_ref()),
            E::Ended { outcome: IncidentOutcome::Aborted } if self.owner.is_none() => {
                return self.repair.called_off();
            }
            E::Ordered { order: PersonOrder::Pause } => {
                // A breaker holds everything; only a person lets it go on.
                self.paused = Some(self.repair.policy.person.clone());
                return Ok(None);
            }
            _ if !self.is_owner(process) => return Err(Ignored::NotOwner),
            _ => {}
        }
        match event {
            E::Released {} => {
                self.owner = None;
                self.repair.phase.let_go(self.repair.clock);
                Ok(None)
            }
            E::Sickened { symptom } => self.repair.sickened(symptom),
            E::Diagnosed { findings, .. } => self.repair.diagnosed(findings),
            E::Judged { remedy, judgement } => self.repair.judged(remedy, judgement),
            E::NothingLeft {} => self.repair.nothing_left(),
            E::Superseded {} => self.repair.superseded(),
            E::TriedAgain { .. } => self.repair.tried_again(),
            E::CameBack { .. } => self.repair.came_back(),
            E::Requested { effect, what } => self.repair.requested(*effect, *what),
            E::Progressed { effect, .. } if self.repair.phase.is_running(*effect) => Ok(None),
            E::Progressed { .. } => Err(Ignored::Stale),
            E::AgentLaunched { effect, limit_ms, .. } => self.repair.launched(*effect, *limit_ms),
            E::LayerLaid { effect } => self.repair.layer_laid(*effect),
            E::Finished { effect, report } => self.repair.finished(*effect, report),
            E::Charged { effect, spent } => self.repair.charged(*effect, *spent),
            E::Exhausted { resource } => self.repair.exhausted(*resource),
            E::CooledDown {} => self.repair.cooled_down(),
            E::Tripped { breaker } => {
                self.repair.stop(Then::Ask(PersonQuestion::Tripped(*breaker)))
            }
            E::Ended { outcome } => self.repair.ended(*outcome),
            E::Approved { .. }
            | E::Rejected { .. }
            | E::Resolved { .. }
            | E::Ordered { .. }
            | E::Refilled { .. } => Err(Ignored::NotAPerson),
            E::Claimed { .. } => Err(Ignored::Held),
            // On record with it.
            E::FilesChanged { .. }
            | E::EnvironmentSet { .. }
            | E::ProofExplained { .. }
            | E::SeenGreen {}
            | E::CountersRestored { .. } => Ok(None),
            // An agent says how far it is, never Salve; an incident opens once.
            E::Marked { .. } | E::Opened { .. } => Err(Ignored::NoNews),
        }
    }

    fn claimed(&mut self, process: &Process, instead_of: Option<&Process>) -> Taken {
        if self.owner.as_ref() != instead_of || instead_of == Some(process) {
            return Err(Ignored::Held);
        }
        self.owner = Some(process.clone());
        self.repair.resume();
        Ok(None)
    }
}
