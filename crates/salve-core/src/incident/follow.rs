//! What follows when an effect comes back, or never will.

use super::machine::RepairMachine;
use super::step::Taken;
use super::{Ignored, Phase, RemedyFate, Then, Told, TrialReach, change};
use crate::event::{
    AtALoss, Breaker, Change, Digest, Effect, EffectReport, IncidentOutcome, OnFailure,
    PersonQuestion, Proof, RemedyKind, Repeat, Scope, Symptom,
};

impl RepairMachine {
    /// Takes in the result of an effect.
    pub(super) fn finished(&mut self, effect: u32, report: &EffectReport) -> Taken {
        if let Phase::Asking { told: told @ Told::Telling(_), .. } = &mut self.phase
            && *told == Told::Telling(effect)
        {
            *told = Told::Yes;
            return Ok(None);
        }
        let Phase::Doing { effect: running, what, .. } = self.phase else {
            return Err(Ignored::Stale);
        };
        if running != effect {
            return Err(Ignored::Stale);
        }
        self.follow(what, report)?;
        self.heed_wish();
        Ok(None)
    }

    /// Moves on from an effect by what it reports; a report that does not fit changes nothing.
    fn follow(&mut self, what: Effect, report: &EffectReport) -> Result<(), Ignored> {
        use {Effect as E, EffectReport as R};
        match (what, report) {
            (E::Snapshot, R::Done) => {
                self.kept = true;
                self.due_apply();
            }
            (E::Snapshot, R::Failed { .. } | R::TimedOut) => {
                self.ask(PersonQuestion::SnapshotFailed)
            }
            (E::Apply { .. }, R::Done) => self.applied(),
            (E::Apply { .. }, R::NoAgent) if self.trials.kind() == Some(RemedyKind::Agent) => {
                self.applied()
            }
            (E::Apply { .. }, R::Failed { .. } | R::TimedOut) => self.fail(None),
            (E::Measure, R::Measured(measured)) => self.measured(*measured),
            // It went with the run of Salve that had laid it.
            (E::Measure, R::Failed { .. } | R::TimedOut) if self.trials.is_in_layer() => {
                self.fail(None)
            }
            (E::Measure, R::Failed { .. } | R::TimedOut) => {
                self.ask(PersonQuestion::ChangeTooLarge)
            }
            (E::VerifyInLayer, report) => return follow_trial_in_layer(self, report),
            (E::TakeOver, report) => return follow_take_over(self, report),
            (E::Verify, R::Verified { proof, symptom }) => {
                self.verified(*proof, symptom.as_deref())
            }
            // It ended by itself, as it should: no failure, and no proof that it is well either.
            (E::Verify, R::Done) => self.stop_now(Then::End(IncidentOutcome::Aborted)),
            (E::Verify, R::Failed { .. } | R::TimedOut) => unverified(self),
            (E::RollBack(_), R::Done) => {
                self.trials.current = None;
                self.proceed(self.then);
            }
            (E::RollBack(_), R::Failed { .. } | R::TimedOut) => {
                self.trials.current = None;
                self.ask(PersonQuestion::RollBackFailed);
            }
            // Failing to record or to let go must not keep an incident open for ever.
            (E::Record, R::Done | R::Failed { .. } | R::TimedOut) => self.due(E::Release, 0),
            (E::Release, R::Done | R::Failed { .. } | R::TimedOut) => {
                self.phase = Phase::Closed(self.outcome.unwrap_or(IncidentOutcome::Aborted));
            }
            (
                E::Snapshot
                | E::Apply { .. }
                | E::Measure
                | E::Verify
                | E::RollBack(_)
                | E::Ask
                | E::Record
                | E::Release,
                _,
            ) => return Err(Ignored::WrongReport),
        }
        Ok(())
    }

    /// Moves on from a change whose size is known.
    fn measured(&mut self, measured: Change) {
        if let Some(trial) = &mut self.trials.current {
            trial.measured = Some(measured);
        }
        let reported = self.agent.reported(self.attempt());
        if change::is_small(change::larger(measured, reported), &self.policy) {
            try_change(self);
        } else {
            self.ask(PersonQuestion::ChangeTooLarge);
        }
    }

    /// Does what was ordered while an effect was running.
    fn heed_wish(&mut self) {
        let Some(wish) = self.wish.take() else { return };
        let settled = wish == Then::End(IncidentOutcome::Resolved);
        match self.phase {
            // It came out well, or is over: there is nothing left to stop.
            Phase::Ending { .. } | Phase::Closed(_) => {}
            // What could not be undone has to be looked at, unless a person has.
            Phase::Asking { question: PersonQuestion::RollBackFailed, .. } if !settled => {}
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. } => self.stop_now(wish),
        }
    }

    /// Moves on from a remedy that has been applied, or has to be taken for it.
    pub(super) fn applied(&mut self) {
        let edits = self.trials.kind().is_some_and(RemedyKind::edits);
        self.due(if edits { Effect::Measure } else { Effect::Verify }, 0);
    }

    fn verified(&mut self, proof: Proof, symptom: Option<&Symptom>) {
        match proof {
            // A change that does not hold is none to keep, and whoever repeats it pays for luck.
            Proof::Flaky if self.trials.has_change() => {
                self.trials.note(RemedyFate::Failed);
                self.undo(Scope::Attempt, Then::Ask(PersonQuestion::Flaky));
            }
            Proof::Proven | Proof::Transient | Proof::Flaky => {
                let from = super::later(self.clock, self.policy.watch_ms);
                self.phase = Phase::Ending { outcome: IncidentOutcome::Recovered(proof), from };
            }
            Proof::Masked => {
                self.trials.note(RemedyFate::Failed);
                self.undo(Scope::Attempt, Then::Ask(PersonQuestion::Masked));
            }
            Proof::Failed => self.fail(symptom),
        }
    }

    /// Counts a failed trial and undoes it; a relapse counts against the trial that seemed to help.
    pub(super) fn fail(&mut self, symptom: Option<&Symptom>) {
        // What a kill cut short shows nothing about the remedy.
        let is_cut_short = self.trials.is_cut_short();
        let fate = if is_cut_short { RemedyFate::CutShort } else { RemedyFate::Failed };
        self.trials.note(fate);
        if let Some(symptom) = symptom {
            if !is_cut_short {
                self.history.see(symptom);
            }
            if symptom.signature != self.symptom.signature {
                self.findings.clear();
            }
            self.symptom = symptom.clone();
        }
        if !is_cut_short {
            self.failures_in_row = self.failures_in_row.saturating_add(1);
        }
        let then = if self.subject.must_not_repeat(&self.symptom) {
            Then::Ask(PersonQuestion::MayHaveActed)
        } else {
            Then::Choose
        };
        if self.policy.catastrophe_after.is_some_and(|limit| self.failures_in_row >= limit) {
            self.failures_in_row = 0;
            self.undo(Scope::Incident, then);
        } else {
            self.undo(Scope::Attempt, then);
        }
    }

    /// Remembers how the trial fared and chooses again; nothing of it has been done.
    pub(super) fn drop_trial(&mut self, fate: RemedyFate) {
        self.trials.note(fate);
        self.proceed(Then::Choose);
    }

    /// Undoes what there is to undo, then goes on with `then`.
    ///
    /// What may be somebody else's work as well stays, unless a check showed that it is no repair: a person
    /// takes it back. Then only the present attempt can be undone, for the others lie below it.
    pub(super) fn undo(&mut self, scope: Scope, then: Then) {
        // A weakened judge never stays, nor what broke other things, whatever the policy keeps.
        let never_stays = [PersonQuestion::Masked, PersonQuestion::Tripped(Breaker::NewErrors)];
        let is_kept = !never_stays.map(Then::Ask).contains(&then);
        let keep = self.policy.on_failure == OnFailure::Keep && is_kept;
        let is_none =
            [PersonQuestion::Masked, PersonQuestion::Flaky].map(Then::Ask).contains(&then);
        let is_known = is_none || self.trials.is_attributable();
        self.trials.has_left_edits |= !is_known && self.trials.is_touched();
        let scope = if self.trials.has_left_edits { Scope::Attempt } else { scope };
        let due = match scope {
            Scope::Attempt => self.trials.can_be_undone() && self.kept && is_known,
            Scope::Incident => self.kept,
        };
        if due && !keep {
            self.then = then;
            self.due(Effect::RollBack(scope), 0);
        } else {
            self.trials.current = None;
            self.proceed(then);
        }
    }

    /// Undoes the present attempt on a person's word, whoever made the change.
    pub(super) fn undo_by_word(&mut self, then: Then) {
        if self.trials.can_be_undone() && self.kept {
            self.then = then;
            self.due(Effect::RollBack(Scope::Attempt), 0);
        } else {
            self.undo(Scope::Attempt, then);
        }
    }

    /// Goes on with what was to follow.
    pub(super) fn proceed(&mut self, then: Then) {
        match then {
            Then::Choose => {
                self.trials.current = None;
                self.phase = Phase::Choosing;
            }
            Then::Ask(question) => self.ask(question),
            Then::End(outcome) => self.phase = Phase::Ending { outcome, from: self.clock },
        }
    }

    /// Asks the named person; the answer is bound to this question and to what it is about.
    ///
    /// Where nobody is to be asked, an incident that knows nothing further closes instead.
    pub(super) fn ask(&mut self, question: PersonQuestion) {
        if self.policy.at_a_loss == AtALoss::Close && is_loss(question) {
            return self.undo(Scope::Attempt, Then::End(IncidentOutcome::Unhealed));
        }
        self.questions = self.questions.saturating_add(1);
        let number = self.questions;
        let digest = match (&self.trials.current, question) {
            (Some(trial), PersonQuestion::Remedy) => trial.remedy.digest,
            (_, _) => Digest::of(&[self.id.0.as_bytes(), &number.to_le_bytes()]),
        };
        self.phase = Phase::Asking { number, question, digest, told: Told::No };
    }

    /// Decides about an effect whose owner is gone: it may have happened or not.
    ///
    /// What is harmless to repeat is due again. A remedy is never applied again: it is taken for
    /// applied, measured and verified. A subject that must not run twice is a person's decision.
    pub(super) fn resume(&mut self) {
        if let Phase::Asking { told: told @ Told::Telling(_), .. } = &mut self.phase {
            *told = Told::No;
        }
        let Phase::Doing { what, .. } = self.phase else { return };
        match what {
            Effect::Snapshot
            | Effect::Measure
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => self.due(what, 0),
            // The layer went with its owner; there is nothing in the workspace.
            Effect::Apply { .. } if self.trials.is_in_layer() => self.applied(),
            Effect::Apply { .. } => {
                self.trials.set_reach(TrialReach::Unsure);
                self.applied();
            }
            // What was taken over in part is known by what was kept before.
            Effect::TakeOver => {
                self.trials.set_reach(TrialReach::Unsure);
                self.due(what, 0);
            }
            Effect::VerifyInLayer | Effect::Verify => match self.subject.repeat {
                Repeat::Safe => self.due(what, 0),
                Repeat::Unsafe => self.ask(PersonQuestion::MayHaveActed),
            },
        }
        self.heed_wish();
    }
}

/// Moves on from what the subject showed in the layer, and without the change.
fn follow_trial_in_layer(repair: &mut RepairMachine, report: &EffectReport) -> Result<(), Ignored> {
    use EffectReport as R;
    match report {
        R::Done => repair.due(Effect::TakeOver, 0),
        // Proven is only what is well where the user works.
        R::Verified { proof: Proof::Proven, .. }
        | R::NoAgent
        | R::Measured(_)
        | R::Conflict { .. } => return Err(Ignored::WrongReport),
        R::Verified { proof, symptom } => repair.verified(*proof, symptom.as_deref()),
        R::Failed { .. } | R::TimedOut => unverified(repair),
    }
    Ok(())
}

/// Moves on from bringing the change into the workspace.
fn follow_take_over(repair: &mut RepairMachine, report: &EffectReport) -> Result<(), Ignored> {
    use EffectReport as R;
    match report {
        R::Done => {
            repair.trials.set_reach(TrialReach::Applied);
            repair.due(Effect::Verify, repair.policy.quiet_ms);
        }
        R::Conflict { .. } => repair.ask(PersonQuestion::Conflict),
        R::Failed { .. } | R::TimedOut => {
            repair.trials.set_reach(TrialReach::Unsure);
            repair.fail(None);
        }
        R::NoAgent | R::Measured(_) | R::Verified { .. } => return Err(Ignored::WrongReport),
    }
    Ok(())
}

/// Goes on with a change that may stay if it helps.
pub(super) fn try_change(repair: &mut RepairMachine) {
    let shows_in_layer = repair.subject.kind.shows_in_layer();
    match (repair.trials.is_in_layer(), shows_in_layer) {
        (true, true) => repair.due(Effect::VerifyInLayer, 0),
        (true, false) => repair.due(Effect::TakeOver, 0),
        (false, _) => repair.due(Effect::Verify, repair.policy.quiet_ms),
    }
}

/// Moves on from a run of the subject that showed nothing.
fn unverified(repair: &mut RepairMachine) {
    match repair.subject.repeat {
        Repeat::Safe => repair.fail(None),
        Repeat::Unsafe => repair.ask(PersonQuestion::MayHaveActed),
    }
}

/// Tells whether a question means that nothing further is known, rather than what may be done.
fn is_loss(question: PersonQuestion) -> bool {
    match question {
        PersonQuestion::Exhausted(_)
        | PersonQuestion::NothingLeft
        | PersonQuestion::NoProgress
        | PersonQuestion::MayHaveActed => true,
        PersonQuestion::Remedy
        | PersonQuestion::ChangeTooLarge
        | PersonQuestion::Conflict
        | PersonQuestion::RollBackFailed
        | PersonQuestion::SnapshotFailed
        | PersonQuestion::Masked
        | PersonQuestion::Flaky
        | PersonQuestion::Tripped(_)
        | PersonQuestion::Ordered => false,
    }
}
