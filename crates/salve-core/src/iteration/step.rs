//! How entries change a loop.

use crate::event::{
    Actor, Entry, Event, LoopEvent, LoopId, LoopStep, LoopTerms, LoopTurn, PersonOrder, Promise,
    RecoveryEnd, RoleEnd, TestsSeen, TestsVerdict,
};
use crate::scrub::Scrubbed;
use crate::steps::{
    Beginning, EntryTaken, NotTaken, ProgressMark, StepMachine, StepsStanding, may_start, orders_as,
};

use super::{Loop, PromiseRefusal, step_terms};

impl Loop {
    /// Begins a loop with the entry that starts it.
    pub(super) fn start(id: &LoopId, entry: &Entry) -> Option<Self> {
        let Event::Loop(LoopEvent::Turned {
            id: of, what: LoopTurn::Started { terms, task }, ..
        }) = &entry.event
        else {
            return None;
        };
        if of != id || !may_start(&entry.by) {
            return None;
        }
        Some(Self {
            id: id.clone(),
            task: task.clone(),
            terms: LoopTerms::clone(terms),
            steps: StepMachine::start(step_terms(terms), entry),
            tests: None,
            earlier: None,
            promise: Promise::None,
            refused: None,
            recovering: false,
        })
    }

    /// Takes one entry in; what is refused changes nothing.
    pub fn step(&mut self, entry: &Entry) -> EntryTaken {
        let Event::Loop(LoopEvent::Turned { id, iteration, what }) = &entry.event else {
            return Err(NotTaken::NotOurs);
        };
        if *id != self.id {
            return Err(NotTaken::NotOurs);
        }
        let mut ahead = self.clone();
        ahead.steps.stamps.stamp(entry)?;
        match (what, &entry.by) {
            (LoopTurn::Started { terms, task }, by) if may_start(by) => {
                ahead.steps.stamps.driven_by(by.process());
                ahead.go_on(entry, terms, task);
            }
            (LoopTurn::Started { .. }, _) => return Err(NotTaken::NotTheirs),
            (LoopTurn::Ordered { order }, by) => ahead.ordered(&orders_as(by, *order)?, *order)?,
            (_, Actor::Salve(process)) => {
                ahead.steps.stamps.driven_by(Some(process));
                ahead.hear(entry, *iteration, what)?;
            }
            (
                _,
                Actor::Person { .. }
                | Actor::Unproven { .. }
                | Actor::Forged { .. }
                | Actor::Agent { .. },
            ) => return Err(NotTaken::NotTheirs),
        }
        if !matches!(what, LoopTurn::Charged { .. }) {
            ahead.steps.stamps.stands_since(entry);
        }
        *self = ahead;
        Ok(())
    }

    /// Continues where it was left; what is over begins again with the next iteration.
    fn go_on(&mut self, entry: &Entry, terms: &LoopTerms, task: &Scrubbed) {
        self.task = task.clone();
        self.steps.settle_wishes();
        self.pass_over();
        if let StepsStanding::Ended(_) = self.steps.standing() {
            self.terms = terms.clone();
            self.recovering = false;
        } else {
            // What an iteration does is fixed when it begins.
            let steps =
                if self.is_between() { terms.steps.clone() } else { self.terms.steps.clone() };
            self.terms = LoopTerms { steps, ..terms.clone() };
        }
        self.steps.go_on(entry, step_terms(&self.terms));
    }

    /// Takes an order of somebody named.
    fn ordered(&mut self, name: &Scrubbed, order: PersonOrder) -> EntryTaken {
        // A recovery under way asks by itself.
        if order == PersonOrder::Escalate && self.recovering {
            return Err(NotTaken::Unexpected);
        }
        self.steps.ordered(name, order)?;
        self.pass_over();
        Ok(())
    }

    fn hear(&mut self, entry: &Entry, iteration: u32, what: &LoopTurn) -> EntryTaken {
        self.steps.admits(match what {
            LoopTurn::Began { .. } | LoopTurn::RoleBegan { .. } | LoopTurn::RecoveryBegan {} => {
                Beginning::Yes
            }
            LoopTurn::Started { .. }
            | LoopTurn::Charged { .. }
            | LoopTurn::RoleEnded { .. }
            | LoopTurn::TestsRan { .. }
            | LoopTurn::RecoveryEnded { .. }
            | LoopTurn::Stopped {}
            | LoopTurn::Ended { .. }
            | LoopTurn::Ordered { .. } => Beginning::No,
        })?;
        if let LoopTurn::Began { terms } = what {
            return self.iteration_began(entry, iteration, terms);
        }
        if iteration != self.iteration() {
            return Err(NotTaken::Unexpected);
        }
        match what {
            LoopTurn::RoleBegan { role, .. } => {
                let step = self.role_step(role)?;
                self.steps.step_began(step)
            }
            LoopTurn::Charged { role, spent } => {
                self.role_step(role)?;
                self.steps.costs.charge(*spent)
            }
            LoopTurn::RoleEnded { role, end, spent, promise } => {
                self.role_step(role)?;
                self.steps.costs.charge(*spent)?;
                self.role_ended(end, *promise);
                Ok(())
            }
            LoopTurn::TestsRan { tests } => self.tests_ran(tests),
            LoopTurn::RecoveryBegan {} => self.recovery_began(),
            LoopTurn::RecoveryEnded { how, took_ms } => self.recovery_ended(*how, *took_ms),
            LoopTurn::Stopped {} => {
                self.steps.stopped();
                Ok(())
            }
            LoopTurn::Ended { why } => {
                self.steps.ended(why.clone());
                Ok(())
            }
            LoopTurn::Started { .. } | LoopTurn::Began { .. } | LoopTurn::Ordered { .. } => {
                Err(NotTaken::Unexpected)
            }
        }
    }

    fn iteration_began(&mut self, entry: &Entry, iteration: u32, terms: &LoopTerms) -> EntryTaken {
        self.steps.pass_began(iteration, step_terms(terms), entry)?;
        self.terms = terms.clone();
        self.earlier = self.tests.take().or(self.earlier.take());
        self.promise = Promise::None;
        self.recovering = false;
        self.pass_over();
        Ok(())
    }

    /// Returns the number of the step that is due, if it is this role's.
    fn role_step(&self, role: &Scrubbed) -> Result<usize, NotTaken> {
        match (self.steps.position.at_step(), self.role()) {
            (Some(step), Some(due)) if due == role => Ok(step),
            (Some(_) | None, _) => Err(NotTaken::Unexpected),
        }
    }

    fn role_ended(&mut self, end: &RoleEnd, promise: Promise) {
        if *end == RoleEnd::Done && !promise.is_none() {
            self.promise = promise;
        }
        self.steps.step_ended(end);
        self.pass_over();
    }

    fn tests_ran(&mut self, tests: &TestsSeen) -> EntryTaken {
        if self.steps.position.is_all_done() {
            self.took(tests);
            self.close(Confirmed::Now);
            return Ok(());
        }
        match (self.step_kind(), self.steps.position.at_step()) {
            (Some(LoopStep::Tests), Some(step)) => {
                self.took(tests);
                self.steps.advance(step + 1);
                self.pass_over();
                Ok(())
            }
            // They are run again while their infrastructure is recovered.
            (Some(LoopStep::Recovery), _) if self.recovering => {
                // Its time is part of the recovery's.
                self.tests = Some(tests.clone());
                Ok(())
            }
            (Some(LoopStep::Recovery), _) => {
                self.took(tests);
                self.pass_over();
                Ok(())
            }
            (Some(LoopStep::Role(_) | LoopStep::Tests) | None, _) => Err(NotTaken::Unexpected),
        }
    }

    fn took(&mut self, tests: &TestsSeen) {
        self.steps.costs.spend_time(tests.took_ms);
        self.tests = Some(tests.clone());
    }

    fn recovery_began(&mut self) -> EntryTaken {
        match self.step_kind() {
            Some(LoopStep::Recovery) => {
                self.recovering = true;
                Ok(())
            }
            Some(LoopStep::Role(_) | LoopStep::Tests) | None => Err(NotTaken::Unexpected),
        }
    }

    fn recovery_ended(&mut self, how: RecoveryEnd, took_ms: u64) -> EntryTaken {
        let Some(step) = self.steps.position.at_step().filter(|_| self.recovering) else {
            return Err(NotTaken::Unexpected);
        };
        self.steps.costs.spend_time(took_ms);
        match how {
            RecoveryEnd::NeedsPerson => {
                let reason = Scrubbed::literal("the recovery of the tests needs your decision");
                self.steps.wait_for_person(reason);
            }
            RecoveryEnd::Well | RecoveryEnd::NotInfrastructure | RecoveryEnd::Rejected => {
                self.recovering = false;
                self.steps.advance(step + 1);
                self.pass_over();
            }
        }
        Ok(())
    }

    /// Goes over steps that are not due, and ends an iteration whose steps are all done.
    fn pass_over(&mut self) {
        while let (Some(LoopStep::Recovery), Some(step)) =
            (self.step_kind(), self.steps.position.at_step())
            && !self.recovering
            && !self.has_to_recover()
        {
            self.steps.advance(step + 1);
        }
        if self.steps.position.is_all_done() {
            self.close(Confirmed::Earlier);
        }
    }

    /// Ends the iteration, unless what was promised has to be tested first.
    fn close(&mut self, confirmed: Confirmed) {
        let verdict = self.tests.as_ref().map(|tests| tests.verdict);
        let tested = self.tests.as_ref().and_then(|tests| tests.tree);
        let refusal = match (self.promise, verdict, confirmed) {
            (Promise::None, _, _) => None,
            (Promise::Weakened, _, _) => Some(PromiseRefusal::Weakened),
            (Promise::Made { .. }, Some(TestsVerdict::Green), Confirmed::Now) => {
                self.steps.promise_kept();
                return;
            }
            (Promise::Made { tree }, Some(TestsVerdict::Green), Confirmed::Earlier) => {
                // Something may have changed since the tests ran; then they run again.
                if tree.is_some() && tree == tested {
                    self.steps.promise_kept();
                }
                return;
            }
            (Promise::Made { .. }, Some(TestsVerdict::Red), _) => Some(PromiseRefusal::Red),
            (Promise::Made { .. }, Some(TestsVerdict::NotExecuted) | None, _) => {
                Some(PromiseRefusal::NotExecuted)
            }
        };
        self.refused = refusal;
        let left = self.tests.as_ref();
        let left = left.map(|tests| ProgressMark { tree: tests.tree, failing: tests.failing });
        self.steps.pass_ended(left);
    }
}

/// When the tests ran that a promise is judged by.
#[derive(Clone, Copy)]
enum Confirmed {
    /// Before it was made.
    Earlier,
    /// After it was made.
    Now,
}
