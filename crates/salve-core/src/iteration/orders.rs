//! What people order a loop to do: `CONTROL.md`'s words, and `salve pause`, `resume` and `abort`.
//!
//! A pause lets what runs come to its end and begins nothing else. Everything else acts at once: a
//! role at work is ended first, so that what it cost is counted.

use super::step::{Ignored, Taken};
use super::{Loop, Move, Place, Standing, Wish};
use crate::event::{LoopStep, Order};
use crate::scrub::Scrubbed;

impl Loop {
    /// Returns what is next while nothing may begin, if it is paused.
    pub(super) fn held(&self, next: Move) -> Move {
        let Some(by) = &self.paused else { return next };
        match next {
            Move::Begin(_) | Move::Role { .. } | Move::Tests | Move::Recover => {
                Move::Hold(by.clone())
            }
            Move::Wait(_) | Move::Hold(_) | Move::End(_) | Move::Person(_) | Move::Over => next,
        }
    }

    /// Takes an order of somebody named.
    pub(super) fn ordered(&mut self, name: &Scrubbed, order: Order) -> Taken {
        if let Standing::Ended(_) = self.standing {
            return Err(Ignored::Unexpected);
        }
        match order {
            Order::Pause => self.paused = Some(name.clone()),
            Order::Resume if self.paused.is_none() => return Err(Ignored::Unexpected),
            Order::Resume => self.paused = None,
            Order::Abort => return self.abort(),
            Order::Escalate => return self.escalate(),
            Order::Skip => return self.skip(),
            Order::Retry => return Err(Ignored::Unexpected),
        }
        Ok(())
    }

    fn abort(&mut self) -> Taken {
        match self.standing {
            Standing::Running | Standing::Parked { .. } | Standing::Waits { .. } => {
                self.standing = Standing::Stopped;
                Ok(())
            }
            Standing::Stopped | Standing::Ended(_) => Err(Ignored::Unexpected),
        }
    }

    /// Stops for a person; a recovery under way asks by itself.
    fn escalate(&mut self) -> Taken {
        if !self.goes_on() || self.is_recovering() {
            return Err(Ignored::Unexpected);
        }
        match self.role {
            Some(_) => self.wish = Some(Wish::Ask),
            None => self.ask(),
        }
        Ok(())
    }

    /// Returns whether it goes on by itself, now or when there is quota.
    fn goes_on(&self) -> bool {
        match self.standing {
            Standing::Running | Standing::Parked { .. } => true,
            Standing::Waits { .. } | Standing::Stopped | Standing::Ended(_) => false,
        }
    }

    fn ask(&mut self) {
        let reason = Scrubbed::literal("a person wanted to be asked before it goes on");
        self.standing = Standing::Waits { reason };
    }

    /// Leaves the role out whose turn it is; nothing else of an iteration can be.
    fn skip(&mut self) -> Taken {
        let Place::At { step, .. } = self.place else { return Err(Ignored::Unexpected) };
        let is_role = matches!(self.terms.steps.get(step), Some(LoopStep::Role(_)));
        if !self.goes_on() || !is_role {
            return Err(Ignored::Unexpected);
        }
        match self.role {
            Some(_) => self.wish = Some(Wish::Skip),
            None => self.leave_out(step),
        }
        Ok(())
    }

    fn leave_out(&mut self, step: usize) {
        self.standing = Standing::Running;
        self.interrupted = false;
        self.advance(step + 1);
    }

    /// Does what was ordered about the role at `step`, which has ended.
    pub(super) fn heed_wish(&mut self, step: usize) {
        let is_there = matches!(self.place, Place::At { step: now, .. } if now == step);
        match self.wish.take() {
            Some(Wish::Skip) if is_there => self.leave_out(step),
            Some(Wish::Ask) if self.standing != Standing::Stopped => self.ask(),
            Some(Wish::Skip | Wish::Ask) | None => {}
        }
    }
}
