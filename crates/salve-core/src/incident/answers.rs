//! What people's answers and orders lead to.

use super::machine::RepairMachine;
use super::step::Taken;
use super::{ConsideredRemedy, Ignored, Phase, RemedyFate, Then};
use crate::event::{
    Acted, Amounts, Authority, Breaker, Digest, Effect, IncidentOutcome, PersonQuestion, Scope,
};

/// Returns the open question if the answer is to exactly it.
pub(super) fn answered(
    repair: &RepairMachine,
    answer_to: u32,
    about: Digest,
) -> Result<PersonQuestion, Ignored> {
    match repair.phase {
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

pub(super) fn approved(repair: &mut RepairMachine, question: PersonQuestion, seq: u64) -> Taken {
    match question {
        PersonQuestion::Remedy => repair.begin(Authority::Approval(seq)),
        PersonQuestion::ChangeTooLarge => super::follow::try_change(repair),
        PersonQuestion::Conflict => repair.due(Effect::TakeOver, 0),
        PersonQuestion::SnapshotFailed => repair.due(Effect::Snapshot, 0),
        PersonQuestion::MayHaveActed => {
            repair.symptom.acted = Acted::No;
            match repair.trials.current {
                Some(_) if repair.trials.is_in_layer() => repair.due(Effect::VerifyInLayer, 0),
                Some(_) => repair.due(Effect::Verify, 0),
                None => repair.proceed(Then::Choose),
            }
        }
        // A yes is no refill: only a stated amount raises a budget.
        PersonQuestion::Exhausted(_) => return Err(Ignored::Exhausted),
        PersonQuestion::NoProgress => {
            repair.history.forgive();
            repair.proceed(Then::Choose);
        }
        PersonQuestion::NothingLeft
        | PersonQuestion::RollBackFailed
        | PersonQuestion::Masked
        | PersonQuestion::Flaky
        | PersonQuestion::Tripped(_)
        | PersonQuestion::Ordered => repair.proceed(Then::Choose),
    }
    Ok(None)
}

pub(super) fn rejected(repair: &mut RepairMachine, question: PersonQuestion) -> Taken {
    match question {
        PersonQuestion::Remedy | PersonQuestion::Conflict => {
            repair.trials.note(RemedyFate::Declined);
            repair.stop_now(Then::Choose);
        }
        PersonQuestion::ChangeTooLarge => {
            repair.trials.note(RemedyFate::Declined);
            repair.undo_by_word(Then::Choose);
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
        | PersonQuestion::Ordered => repair.stop_now(Then::End(IncidentOutcome::GivenUp)),
    }
    Ok(None)
}

pub(super) fn refilled(repair: &mut RepairMachine, granted: Amounts) -> Taken {
    if granted == Amounts::default() {
        return Err(Ignored::NoNews);
    }
    repair.ledger.refill(granted);
    let waits = match repair.phase {
        Phase::CoolingDown { .. }
        | Phase::Asking { question: PersonQuestion::Exhausted(_), .. } => true,
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Asking { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => false,
    };
    if waits && repair.ledger.exhausted().is_none() {
        repair.proceed(Then::Choose);
    }
    Ok(None)
}

pub(super) fn skip(repair: &mut RepairMachine) -> Taken {
    if repair.trials.current.is_none() || matches!(repair.phase, Phase::Ending { .. }) {
        return Err(Ignored::Stale);
    }
    let digest = repair.trials.current.as_ref().map(|trial| trial.remedy.digest);
    let taken = repair.stop(Then::Choose)?;
    let signature = repair.symptom.signature;
    repair.trials.tried.extend(digest.map(|digest| ConsideredRemedy {
        digest,
        signature,
        fate: RemedyFate::Declined,
    }));
    Ok(taken)
}

pub(super) fn retry(repair: &mut RepairMachine, seq: u64) -> Taken {
    match repair.phase {
        Phase::CoolingDown { .. } => Err(Ignored::Exhausted),
        Phase::Asking {
            question:
                PersonQuestion::Remedy | PersonQuestion::ChangeTooLarge | PersonQuestion::Conflict,
            ..
        } => Err(Ignored::Stale),
        Phase::Asking { question, .. } => approved(repair, question, seq),
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => Err(Ignored::Stale),
    }
}

impl RepairMachine {
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
