//! The work on one failure: where it stands, and what follows from what happens.
//!
//! [`Incident`](super::Incident) decides who may say what; here is what it leads to.

use jiff::Timestamp;

use super::agent_watch::AgentWatch;
use super::step::{DueEffect, Taken};
use super::trials::Trials;
use super::{History, Ignored, Ledger, Phase, Then, Told, TrialGround, TrialReach, later};
use crate::event::{
    AgentMark, Amounts, Change, Effect, IncidentOutcome, IncidentPolicy, PersonQuestion,
    RemedyKind, Resource, Subject, Symptom,
};
use crate::id::IncidentId;
use crate::playbook::PlaybookFinding;

/// The work on one failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepairMachine {
    pub(super) id: IncidentId,
    pub(super) subject: Subject,
    pub(super) policy: IncidentPolicy,
    pub(super) symptom: Symptom,
    pub(super) phase: Phase,
    pub(super) trials: Trials,
    pub(super) agent: AgentWatch,
    pub(super) ledger: Ledger,
    pub(super) history: History,
    pub(super) findings: Vec<PlaybookFinding>,
    pub(super) effects: u32,
    pub(super) questions: u32,
    pub(super) failures_in_row: u32,
    /// Whether a snapshot was taken.
    pub(super) kept: bool,
    /// What follows once a change has been undone.
    pub(super) then: Then,
    /// What was ordered while an effect runs.
    pub(super) wish: Option<Then>,
    pub(super) outcome: Option<IncidentOutcome>,
    pub(super) clock: Timestamp,
}

impl RepairMachine {
    /// Begins the work on a failure.
    pub(super) fn open(
        id: IncidentId,
        subject: Subject,
        policy: IncidentPolicy,
        symptom: Symptom,
        clock: Timestamp,
    ) -> Self {
        let mut history = History::default();
        history.see(&symptom);
        let mut machine = Self {
            id,
            subject,
            ledger: Ledger::new(policy.limits),
            policy,
            symptom,
            phase: Phase::Choosing,
            trials: Trials::default(),
            agent: AgentWatch::default(),
            history,
            findings: Vec::new(),
            effects: 0,
            questions: 0,
            failures_in_row: 0,
            kept: false,
            then: Then::Choose,
            wish: None,
            outcome: None,
            clock,
        };
        if machine.subject.must_not_repeat(&machine.symptom) {
            machine.ask(PersonQuestion::MayHaveActed);
        }
        machine
    }

    /// Tells whether the same failure kept coming back in the same tree.
    pub(super) fn is_stuck(&self) -> bool {
        let limit = self.policy.no_progress_limit;
        limit.is_some_and(|limit| self.history.repeats() >= limit)
    }

    /// Closes an incident that nobody took up: somebody else is at it, or it is a time to wait.
    pub(super) fn called_off(&mut self) -> Taken {
        if (self.phase, self.effects) != (Phase::Choosing, 0) {
            return Err(Ignored::NotOwner);
        }
        self.outcome = Some(IncidentOutcome::Aborted);
        self.phase = Phase::Closed(IncidentOutcome::Aborted);
        Ok(None)
    }

    pub(super) fn sickened(&mut self, symptom: &Symptom) -> Taken {
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
    pub(super) fn diagnosed(&mut self, findings: &[PlaybookFinding]) -> Taken {
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        self.findings = findings.to_vec();
        Ok(None)
    }

    pub(super) fn due(&mut self, what: Effect, in_ms: u64) {
        self.phase = Phase::Due { what, from: later(self.clock, in_ms) };
    }

    pub(super) fn requested(&mut self, effect: u32, what: Effect) -> Taken {
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
        if !self.trials.begins_attempt(what) {
            return;
        }
        let mut amounts = Amounts { attempts: 1, ..Amounts::default() };
        if let Some(trial) = &mut self.trials.current {
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

    pub(super) fn charged(&mut self, effect: u32, spent: Amounts) -> Taken {
        if effect == 0 || effect > self.effects {
            return Err(Ignored::NotDue);
        }
        let is_news = self.ledger.charge(effect, spent);
        is_news.then_some(None).ok_or(Ignored::NoNews)
    }

    pub(super) fn exhausted(&mut self, resource: Resource) -> Taken {
        let waiting = match self.phase {
            Phase::Choosing => true,
            Phase::Due { what, .. } => self.trials.begins_attempt(what),
            Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => return Err(Ignored::Stale),
        };
        if !waiting || self.ledger.exhausted() != Some(resource) {
            return Err(Ignored::NotExhausted);
        }
        self.trials.current = None;
        match self.policy.cooldown_ms {
            0 => self.ask(PersonQuestion::Exhausted(resource)),
            ms => self.phase = Phase::CoolingDown { until: later(self.clock, ms) },
        }
        Ok(None)
    }

    pub(super) fn cooled_down(&mut self) -> Taken {
        let Phase::CoolingDown { until } = self.phase else { return Err(Ignored::Stale) };
        if self.clock < until {
            return Err(Ignored::TooEarly);
        }
        let resource = self.ledger.exhausted().unwrap_or(Resource::Attempts);
        self.ask(PersonQuestion::Exhausted(resource));
        Ok(None)
    }

    pub(super) fn ended(&mut self, outcome: IncidentOutcome) -> Taken {
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

    /// Takes in how far an agent says it is.
    pub(super) fn marked(&mut self, attempt: u32, mark: AgentMark, reported: Change) -> Taken {
        if attempt != self.attempt() {
            return Err(Ignored::Stale);
        }
        self.agent.mark(attempt, mark, reported, self.clock)?;
        if self.is_written() {
            self.applied();
        }
        Ok(None)
    }

    /// Takes in that an agent was started for the effect that runs.
    pub(super) fn launched(&mut self, effect: u32, limit_ms: u64) -> Taken {
        if self.phase.agent_wait(self.trials.kind()).is_none() || !self.phase.is_running(effect) {
            return Err(Ignored::Stale);
        }
        self.agent.launch(effect, later(self.clock, limit_ms))?;
        Ok(None)
    }

    /// Takes in that the agent or the patch of the effect that runs works in a private layer.
    pub(super) fn layer_laid(&mut self, effect: u32) -> Taken {
        let is_applied = matches!(self.phase, Phase::Doing { what: Effect::Apply { .. }, .. });
        let edits = self.trials.kind().is_some_and(RemedyKind::edits);
        if !(is_applied && edits && self.phase.is_running(effect)) {
            return Err(Ignored::Stale);
        }
        match &mut self.trials.current {
            Some(trial) if trial.reach == TrialReach::Applied => {
                (trial.reach, trial.ground) = (TrialReach::InLayer, TrialGround::Layer);
            }
            Some(_) | None => return Err(Ignored::NoNews),
        }
        Ok(None)
    }

    /// Tells whether the agent that is waited for has finished.
    fn is_written(&self) -> bool {
        self.phase.agent_wait(self.trials.kind()).is_some()
            && self.agent.has_written(self.attempt())
    }

    /// Returns the number of the present attempt, from 1.
    pub(super) fn attempt(&self) -> u32 {
        let begun = u32::try_from(self.ledger.spent().attempts).unwrap_or(u32::MAX);
        if self.trials.is_untouched() || self.phase == Phase::Choosing {
            begun.saturating_add(1)
        } else {
            begun
        }
    }

    /// Returns what has run out, if `what` would begin an attempt.
    pub(super) fn out_of_budget_for(&self, what: Effect) -> Option<Resource> {
        self.ledger.exhausted().filter(|_| self.trials.begins_attempt(what))
    }

    /// Returns when to stop waiting for an agent, if one is waited for.
    pub(super) fn agent_deadline(&self) -> Option<Timestamp> {
        self.phase
            .agent_wait(self.trials.kind())
            .map(|wait| self.agent.deadline(wait, &self.policy))
    }
}
