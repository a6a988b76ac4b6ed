//! What people order a list of steps to do: `CONTROL.md`'s words, and `salve pause`, `resume` and
//! `abort`.
//!
//! A pause lets what runs come to its end and begins nothing else. Everything else acts at once: a
//! step at work is ended first, so that what it cost is counted.

use super::position::StepPlace;
use super::{EntryTaken, NotTaken, Skipping, StepMachine, StepMove, StepWish, StepsStanding};
use crate::event::{Actor, PersonOrder};
use crate::scrub::Scrubbed;

/// Returns who gives an order, if they may: a person anything, Salve itself only a pause.
pub(crate) fn orders_as(by: &Actor, order: PersonOrder) -> Result<Scrubbed, NotTaken> {
    match (by.person_in_history(), order) {
        (Some(name), _) => Ok(name.clone()),
        // Salve itself may hold everything; only a person lets it go on.
        (None, PersonOrder::Pause) if by.process().is_some() => Ok(Scrubbed::literal("salve")),
        (None, _) => Err(NotTaken::NotTheirs),
    }
}

impl StepMachine {
    /// Returns what is next while nothing may begin, if it is paused.
    pub(super) fn held(&self, next: StepMove) -> StepMove {
        let Some(by) = &self.paused else { return next };
        match next {
            StepMove::BeginPass(_) | StepMove::Step { .. } | StepMove::Judge => {
                StepMove::Hold(by.clone())
            }
            StepMove::Wait(_)
            | StepMove::Hold(_)
            | StepMove::End(_)
            | StepMove::Person(_)
            | StepMove::Over => next,
        }
    }

    /// Takes an order of somebody named.
    pub(crate) fn ordered(&mut self, name: &Scrubbed, order: PersonOrder) -> EntryTaken {
        if let StepsStanding::Ended(_) = self.standing {
            return Err(NotTaken::Unexpected);
        }
        match order {
            PersonOrder::Pause => self.paused = Some(name.clone()),
            PersonOrder::Resume if self.paused.is_none() => return Err(NotTaken::Unexpected),
            PersonOrder::Resume => self.paused = None,
            PersonOrder::Abort => return self.abort(),
            PersonOrder::Escalate => return self.escalate(),
            PersonOrder::Skip => return self.skip(),
            PersonOrder::Retry => return Err(NotTaken::Unexpected),
        }
        Ok(())
    }

    fn abort(&mut self) -> EntryTaken {
        match self.standing {
            StepsStanding::Running | StepsStanding::Parked { .. } | StepsStanding::Waits { .. } => {
                self.standing = StepsStanding::Stopped;
                Ok(())
            }
            StepsStanding::Stopped | StepsStanding::Ended(_) => Err(NotTaken::Unexpected),
        }
    }

    /// Stops for a person.
    fn escalate(&mut self) -> EntryTaken {
        if !self.goes_on() {
            return Err(NotTaken::Unexpected);
        }
        match self.costs.at_work {
            Some(_) => self.wish = Some(StepWish::Ask),
            None => self.ask(),
        }
        Ok(())
    }

    /// Returns whether it goes on by itself, now or when there is quota.
    fn goes_on(&self) -> bool {
        match self.standing {
            StepsStanding::Running | StepsStanding::Parked { .. } => true,
            StepsStanding::Waits { .. } | StepsStanding::Stopped | StepsStanding::Ended(_) => false,
        }
    }

    fn ask(&mut self) {
        let reason = Scrubbed::literal("a person wanted to be asked before it goes on");
        self.standing = StepsStanding::Waits { reason };
    }

    /// Leaves the step out that is due, if it may be.
    fn skip(&mut self) -> EntryTaken {
        let StepPlace::At { step, .. } = self.position.place else {
            return Err(NotTaken::Unexpected);
        };
        let skipping = self.terms.steps.get(step).map(|rule| rule.skipping);
        if !self.goes_on() || skipping != Some(Skipping::Allowed) {
            return Err(NotTaken::Unexpected);
        }
        match self.costs.at_work {
            Some(_) => self.wish = Some(StepWish::Skip),
            None => self.leave_out(step),
        }
        Ok(())
    }

    fn leave_out(&mut self, step: usize) {
        self.standing = StepsStanding::Running;
        self.interrupted = false;
        self.advance(step + 1);
    }

    /// Does what was ordered about the work on `step`, which has ended.
    pub(super) fn heed_wish(&mut self, step: usize) {
        let is_there = self.position.at_step() == Some(step);
        match self.wish.take() {
            Some(StepWish::Skip) if is_there => self.leave_out(step),
            Some(StepWish::Ask) if self.standing != StepsStanding::Stopped => self.ask(),
            Some(StepWish::Skip | StepWish::Ask) | None => {}
        }
    }
}
