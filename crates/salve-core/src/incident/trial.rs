//! Taking up a remedy: whether it may be tried, and on whose word.

use super::step::Taken;
use super::{
    ConsideredRemedy, Ignored, Incident, Phase, RemedyFate, Then, Told, Trial, TrialReach, later,
};
use crate::event::{
    Authority, Effect, IncidentOutcome, Judgement, PersonQuestion, Proof, Remedy, RemedyKind,
    RemedyVerdict, Repeat, Resource, Undo,
};

impl Incident {
    /// Takes in a remedy and what the gate said about it.
    pub(super) fn judged(&mut self, remedy: &Remedy, judgement: &Judgement) -> Taken {
        if let Phase::Due { what: Effect::Snapshot | Effect::Apply { .. }, .. } = self.phase {
            return self.judged_again(remedy, judgement);
        }
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        if self.ledger.exhausted().is_some() || !self.has_resets_for(remedy.kind) {
            return Err(Ignored::Exhausted);
        }
        if self.is_stuck() && remedy.kind != RemedyKind::HardReset {
            return Err(Ignored::NoProgress);
        }
        if !self.may_try(remedy) {
            return Err(Ignored::NoNews);
        }
        let trial = Trial {
            remedy: remedy.clone(),
            authority: None,
            signature: self.symptom.signature,
            reach: TrialReach::Untouched,
            measured: None,
        };
        self.trial = Some(trial);
        match judgement.verdict {
            RemedyVerdict::Allow => self.begin(Authority::Gate),
            RemedyVerdict::Ask => self.ask(PersonQuestion::Remedy),
            RemedyVerdict::Deny => self.drop_trial(RemedyFate::Denied),
        }
        Ok(None)
    }

    /// Takes in that a remedy which the gate allowed, and which is due, is not allowed any more.
    fn judged_again(&mut self, remedy: &Remedy, judgement: &Judgement) -> Taken {
        let Some(trial) = &mut self.trial else { return Err(Ignored::Stale) };
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

    /// Tells whether a remedy may be tried after all that was tried before.
    pub(super) fn may_try(&self, remedy: &Remedy) -> bool {
        let same = |tried: &&ConsideredRemedy| tried.digest == remedy.digest;
        self.tried.iter().filter(same).all(|tried| match tried.fate {
            RemedyFate::Denied | RemedyFate::Declined => false,
            RemedyFate::Failed => remedy.repeat == Repeat::Safe,
        })
    }

    /// Tells whether the budget has a reset left, if the remedy is one.
    pub(super) fn has_resets_for(&self, kind: RemedyKind) -> bool {
        let left = || self.ledger.left(Resource::Resets) != Some(0);
        match kind {
            RemedyKind::HardReset => left(),
            RemedyKind::Retry
            | RemedyKind::Command
            | RemedyKind::Patch
            | RemedyKind::Agent
            | RemedyKind::SoftReset => true,
        }
    }

    /// Begins the trial on somebody's word.
    pub(super) fn begin(&mut self, authority: Authority) {
        let Some(trial) = &mut self.trial else { return };
        trial.authority = Some(authority);
        let (kind, undo) = (trial.remedy.kind, trial.remedy.undo);
        match (kind, undo) {
            (RemedyKind::Retry, _) => self.due(Effect::Verify, self.backoff()),
            (_, Undo::Snapshot) => self.due(Effect::Snapshot, 0),
            (_, Undo::Nothing) => self.due_apply(),
        }
    }

    /// Makes applying the allowed remedy the next effect.
    pub(super) fn due_apply(&mut self) {
        let Some((remedy, on)) =
            self.trial.as_ref().and_then(|t| Some((t.remedy.digest, t.authority?)))
        else {
            return;
        };
        self.due(Effect::Apply { remedy, on }, 0);
    }

    /// Returns the wait before a plain retry: it doubles with every attempt, up to an hour.
    fn backoff(&self) -> u64 {
        let doublings = self.attempt().saturating_sub(1).min(32);
        self.policy.backoff_ms.saturating_mul(1 << doublings).min(3_600_000)
    }

    /// Takes in that nothing that fits is left.
    pub(super) fn nothing_left(&mut self) -> Taken {
        if self.phase != Phase::Choosing {
            return Err(Ignored::Stale);
        }
        let declined = self.tried.last().is_some_and(|tried| tried.fate == RemedyFate::Declined);
        match (declined, self.is_stuck()) {
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
        let is_touched =
            self.trial.as_ref().is_some_and(|trial| trial.reach != TrialReach::Untouched);
        match self.phase {
            Phase::Asking { .. } | Phase::CoolingDown { .. } if !is_touched => {
                self.trial = None;
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
