//! Taking journal entries in: who may say what, and when.

use super::{Ignored, Incident, Marks, NotOpened, Phase, Then, Told, TrialReach, later};
use crate::event::{
    Actor, Amounts, Effect, Entry, Event, IncidentEvent, IncidentOutcome, NoteEvent, PersonOrder,
    PersonQuestion, Process, RecoveryEvent, RemedyKind, Resource, Symptom, TeamEvent,
};
use crate::playbook::PlaybookFinding;

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
        let mut incident = Self {
            id,
            subject: subject.clone(),
            policy: (**policy).clone(),
            symptom: (**symptom).clone(),
            owner: None,
            paused: None,
            phase: Phase::Choosing,
            trial: None,
            marks: Marks::default(),
            launched: None,
            tried: Vec::new(),
            ledger: super::Ledger::new(policy.limits),
            history: super::History::default(),
            findings: Vec::new(),
            effects: 0,
            questions: 0,
            failures_in_row: 0,
            kept: false,
            then: Then::Choose,
            wish: None,
            outcome: None,
            clock: entry.at,
            last_seq: entry.seq,
        };
        incident.history.see(symptom);
        if incident.may_have_acted() {
            incident.ask(PersonQuestion::MayHaveActed);
        }
        Ok(incident)
    }

    /// Takes one entry in and returns the effect that has to run now, if any.
    ///
    /// # Errors
    ///
    /// When the entry does not belong; then it changed nothing but [`Incident::last_seq`] and
    /// [`Incident::clock`].
    pub fn step(&mut self, entry: &Entry) -> Result<Option<DueEffect>, Ignored> {
        if entry.incident != Some(self.id) {
            return Err(Ignored::Elsewhere);
        }
        if entry.seq <= self.last_seq {
            return Err(Ignored::Replayed);
        }
        self.last_seq = entry.seq;
        self.clock = self.clock.max(entry.at);
        if let (Event::Incident(IncidentEvent::Charged { effect, spent }), Actor::Salve(_)) =
            (&entry.event, &entry.by)
        {
            // Costs are costs: whoever ran the effect, and even when all is over.
            return self.charged(*effect, *spent);
        }
        if let Phase::Closed(_) = self.phase {
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
                    self.marked(*attempt, *mark, *reported)
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
            | Event::Other(_) => match self.is_owner(process) {
                true => Err(Ignored::NoNews),
                false => Err(Ignored::NotOwner),
            },
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
                return self.called_off();
            }
            E::Ordered { order: PersonOrder::Pause } => {
                // A breaker holds everything; only a person lets it go on.
                self.paused = Some(self.policy.person.clone());
                return Ok(None);
            }
            _ if !self.is_owner(process) => return Err(Ignored::NotOwner),
            _ => {}
        }
        match event {
            E::Released {} => Ok(self.let_go()),
            E::Sickened { symptom } => self.sickened(symptom),
            E::Diagnosed { findings, .. } => self.diagnosed(findings),
            E::Judged { remedy, judgement } => self.judged(remedy, judgement),
            E::NothingLeft {} => self.nothing_left(),
            E::Superseded {} => self.superseded(),
            E::TriedAgain { .. } => self.tried_again(),
            E::CameBack { .. } => self.came_back(),
            E::Requested { effect, what } => self.requested(*effect, *what),
            E::Progressed { effect, .. } if self.is_running(*effect) => Ok(None),
            E::Progressed { .. } => Err(Ignored::Stale),
            E::AgentLaunched { effect, limit_ms, .. } => self.launched(*effect, *limit_ms),
            E::Finished { effect, report } => self.finished(*effect, report),
            E::Charged { effect, spent } => self.charged(*effect, *spent),
            E::Exhausted { resource } => self.exhausted(*resource),
            E::CooledDown {} => self.cooled_down(),
            E::Tripped { breaker } => self.stop(Then::Ask(PersonQuestion::Tripped(*breaker))),
            E::Ended { outcome } => self.ended(*outcome),
            E::Approved { .. }
            | E::Rejected { .. }
            | E::Resolved { .. }
            | E::Ordered { .. }
            | E::Refilled { .. } => Err(Ignored::NotAPerson),
            E::Claimed { .. } => Err(Ignored::Held),
            // On record with it.
            E::FilesChanged { .. }
            | E::ProofExplained { .. }
            | E::SeenGreen {}
            | E::CountersRestored { .. } => Ok(None),
            // An agent says how far it is, never Salve; an incident opens once.
            E::Marked { .. } | E::Opened { .. } => Err(Ignored::NoNews),
        }
    }

    /// Closes an incident that nobody took up: somebody else is at it, or it is a time to wait.
    fn called_off(&mut self) -> Taken {
        if (self.phase, self.effects) != (Phase::Choosing, 0) {
            return Err(Ignored::NotOwner);
        }
        self.outcome = Some(IncidentOutcome::Aborted);
        self.phase = Phase::Closed(IncidentOutcome::Aborted);
        Ok(None)
    }

    fn claimed(&mut self, process: &Process, instead_of: Option<&Process>) -> Taken {
        if self.owner.as_ref() != instead_of || instead_of == Some(process) {
            return Err(Ignored::Held);
        }
        self.owner = Some(process.clone());
        self.resume();
        Ok(None)
    }

    /// Lets go of it; nobody watches a healed subject any more, so its next failure is another.
    fn let_go(&mut self) -> Option<DueEffect> {
        self.owner = None;
        if let Phase::Ending { from, .. } = &mut self.phase {
            *from = (*from).min(self.clock);
        }
        None
    }

    fn sickened(&mut self, symptom: &Symptom) -> Taken {
        match self.phase {
            Phase::Ending { outcome: IncidentOutcome::Recovered(_), .. } => {
                self.fail(Some(symptom));
                Ok(None)
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

    /// Remembers what was found out about the present symptom.
    fn diagnosed(&mut self, findings: &[PlaybookFinding]) -> Taken {
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        self.findings = findings.to_vec();
        Ok(None)
    }

    pub(super) fn due(&mut self, what: Effect, in_ms: u64) {
        self.phase = Phase::Due { what, from: later(self.clock, in_ms) };
    }

    fn requested(&mut self, effect: u32, what: Effect) -> Taken {
        if effect != self.effects.saturating_add(1) {
            return Err(Ignored::NotDue);
        }
        match self.phase {
            Phase::Asking { number, question, digest, told: Told::No } if what == Effect::Ask => {
                let told = Told::Telling(effect);
                self.phase = Phase::Asking { number, question, digest, told };
            }
            Phase::Due { what: due, from } if due == what => {
                if self.clock < from {
                    return Err(Ignored::TooEarly);
                }
                if self.out_of_budget_for(what).is_some() {
                    return Err(Ignored::Exhausted);
                }
                self.count(what);
                self.phase = Phase::Doing { effect, what, since: self.clock };
            }
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => return Err(Ignored::NotDue),
        }
        self.effects = effect;
        if self.is_written() {
            // The agent had finished before we began to wait for it.
            self.applied();
            return Ok(None);
        }
        Ok(Some(DueEffect { effect, what }))
    }

    /// Counts the attempt or the reset that an effect begins.
    fn count(&mut self, what: Effect) {
        if !self.begins_attempt(what) {
            return;
        }
        let mut amounts = Amounts { attempts: 1, ..Amounts::default() };
        if let Some(trial) = &mut self.trial {
            trial.reach = TrialReach::Applied;
            match trial.remedy.kind {
                RemedyKind::HardReset => {
                    amounts.resets = 1;
                    self.history.forgive();
                }
                RemedyKind::Retry
                | RemedyKind::Command
                | RemedyKind::Patch
                | RemedyKind::Agent
                | RemedyKind::SoftReset => {}
            }
        }
        self.ledger.count(amounts);
    }

    pub(super) fn is_running(&self, effect: u32) -> bool {
        match self.phase {
            Phase::Doing { effect: running, .. }
            | Phase::Asking { told: Told::Telling(running), .. } => running == effect,
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        }
    }

    fn charged(&mut self, effect: u32, spent: Amounts) -> Taken {
        if effect == 0 || effect > self.effects {
            return Err(Ignored::NotDue);
        }
        match self.ledger.charge(effect, spent) {
            true => Ok(None),
            false => Err(Ignored::NoNews),
        }
    }

    fn exhausted(&mut self, resource: Resource) -> Taken {
        let waiting = match self.phase {
            Phase::Choosing => true,
            Phase::Due { what, .. } => self.begins_attempt(what),
            Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => return Err(Ignored::Stale),
        };
        if !waiting || self.ledger.exhausted() != Some(resource) {
            return Err(Ignored::NotExhausted);
        }
        self.trial = None;
        match self.policy.cooldown_ms {
            0 => self.ask(PersonQuestion::Exhausted(resource)),
            ms => self.phase = Phase::CoolingDown { until: later(self.clock, ms) },
        }
        Ok(None)
    }

    fn cooled_down(&mut self) -> Taken {
        let Phase::CoolingDown { until } = self.phase else { return Err(Ignored::Stale) };
        if self.clock < until {
            return Err(Ignored::TooEarly);
        }
        let resource = self.ledger.exhausted().unwrap_or(Resource::Attempts);
        self.ask(PersonQuestion::Exhausted(resource));
        Ok(None)
    }

    fn ended(&mut self, outcome: IncidentOutcome) -> Taken {
        if (self.phase, self.effects, outcome) == (Phase::Choosing, 0, IncidentOutcome::Aborted) {
            // Nothing has been done, so the owner itself may call it off: somebody else is at it.
            self.proceed(Then::End(outcome));
        }
        let Phase::Ending { outcome: clear, from } = self.phase else {
            return Err(Ignored::Stale);
        };
        if outcome != clear {
            return Err(Ignored::Stale);
        }
        if self.clock < from {
            return Err(Ignored::TooEarly);
        }
        self.outcome = Some(outcome);
        self.due(Effect::Record, 0);
        Ok(None)
    }
}
