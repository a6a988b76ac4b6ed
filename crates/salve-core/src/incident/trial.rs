//! Taking up a remedy: whether it may be tried, and on whose word.

use super::machine::RepairMachine;
use super::step::Taken;
use super::{Ignored, Phase, RemedyFate, Then, Told, Trial, TrialGround, TrialReach, later};
use crate::event::{
    Authority, Effect, IncidentOutcome, IncidentPolicy, Judgement, PersonQuestion, Proof, Remedy,
    RemedyKind, RemedyVerdict, Resource, Undo,
};

impl RepairMachine {
    /// Takes in a remedy and what the gate said about it.
    pub(super) fn judged(&mut self, remedy: &Remedy, judgement: &Judgement) -> Taken {
        if let Phase::Due { what: Effect::Snapshot | Effect::Apply { .. }, .. } = self.phase {
            return self.judged_again(remedy, judgement);
        }
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        if self.ledger.exhausted().is_some() || !self.ledger.has_resets_for(remedy.kind) {
            return Err(Ignored::Exhausted);
        }
        if self.is_stuck() && remedy.kind != RemedyKind::HardReset {
            return Err(Ignored::NoProgress);
        }
        if !self.trials.may_try(remedy) {
            return Err(Ignored::NoNews);
        }
        let trial = Trial {
            remedy: remedy.clone(),
            authority: None,
            signature: self.symptom.signature,
            reach: TrialReach::Untouched,
            ground: TrialGround::Workspace,
            measured: None,
        };
        self.trials.current = Some(trial);
        match judgement.verdict {
            RemedyVerdict::Allow if self.trials.needs_word(remedy) => {
                self.ask(PersonQuestion::Remedy)
            }
            RemedyVerdict::Allow => self.begin(Authority::Gate),
            RemedyVerdict::Ask => self.ask(PersonQuestion::Remedy),
            RemedyVerdict::Deny => self.drop_trial(RemedyFate::Denied),
        }
        Ok(None)
    }

    /// Takes in that a remedy which the gate allowed, and which is due, is not allowed any more.
    fn judged_again(&mut self, remedy: &Remedy, judgement: &Judgement) -> Taken {
        let Some(trial) = &mut self.trials.current else { return Err(Ignored::Stale) };
        // A person's word stands, and the gate's is only ever taken back.
        let is_same = trial.remedy == *remedy && trial.authority == Some(Authority::Gate);
        match judgement.verdict {
            RemedyVerdict::Ask if is_same => {
                trial.authority = None;
                self.ask(PersonQuestion::Remedy);
            }
            RemedyVerdict::Deny if is_same => self.drop_trial(RemedyFate::Denied),
            RemedyVerdict::Allow | RemedyVerdict::Ask | RemedyVerdict::Deny => {
                return Err(Ignored::Stale);
            }
        }
        Ok(None)
    }

    /// Begins the trial on somebody's word.
    pub(super) fn begin(&mut self, authority: Authority) {
        let Some(trial) = &mut self.trials.current else { return };
        trial.authority = Some(authority);
        let (kind, undo) = (trial.remedy.kind, trial.remedy.undo);
        match (kind, undo) {
            (RemedyKind::Retry, _) => {
                self.due(Effect::Verify, backoff(&self.policy, self.attempt()))
            }
            (_, Undo::Snapshot) => self.due(Effect::Snapshot, 0),
            (_, Undo::Nothing) => self.due_apply(),
        }
    }

    /// Makes applying the allowed remedy the next effect.
    pub(super) fn due_apply(&mut self) {
        let Some((remedy, on)) =
            self.trials.current.as_ref().and_then(|t| Some((t.remedy.digest, t.authority?)))
        else {
            return;
        };
        self.due(Effect::Apply { remedy, on }, 0);
    }

    /// Takes in that nothing that fits is left.
    pub(super) fn nothing_left(&mut self) -> Taken {
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        match (self.trials.was_declined(), self.is_stuck()) {
            // The person who declined the last remedy knows; there is no second question.
            (true, _) => self.proceed(Then::End(IncidentOutcome::GivenUp)),
            (false, true) => self.ask(PersonQuestion::NoProgress),
            (false, false) => self.ask(PersonQuestion::NothingLeft),
        }
        Ok(None)
    }

    /// Takes in that the subject was run again while a person is waited for.
    ///
    /// It uses up nothing and answers nothing, but it ends a cooldown: what is asked then has been
    /// said already.
    pub(super) fn tried_again(&mut self) -> Taken {
        match self.phase {
            Phase::Asking { .. } => {}
            Phase::CoolingDown { .. } => {
                let resource = self.ledger.exhausted().unwrap_or(Resource::Attempts);
                self.ask(PersonQuestion::Exhausted(resource));
                if let Phase::Asking { told, .. } = &mut self.phase {
                    *told = Told::Yes;
                }
            }
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => return Err(Ignored::Stale),
        }
        Ok(None)
    }

    /// Takes in that the subject is well though nobody answered; what a remedy may have done to
    /// the files is still a person's to judge.
    pub(super) fn came_back(&mut self) -> Taken {
        match self.phase {
            Phase::Asking { .. } | Phase::CoolingDown { .. } if !self.trials.is_touched() => {
                self.trials.current = None;
                let from = later(self.clock, self.policy.watch_ms);
                let outcome = IncidentOutcome::Recovered(Proof::Transient);
                self.phase = Phase::Ending { outcome, from };
                Ok(None)
            }
            Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => Err(Ignored::Stale),
        }
    }

    /// Takes back what was asked because something else is proposed by now; nothing of it was done.
    pub(super) fn superseded(&mut self) -> Taken {
        match self.phase {
            Phase::Asking {
                question: PersonQuestion::Remedy | PersonQuestion::NothingLeft,
                ..
            } => {
                self.proceed(Then::Choose);
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
}

/// Returns the wait before a plain retry: it doubles with every attempt, up to an hour.
fn backoff(policy: &IncidentPolicy, attempt: u32) -> u64 {
    let doublings = attempt.saturating_sub(1).min(32);
    policy.backoff_ms.saturating_mul(1 << doublings).min(3_600_000)
}
