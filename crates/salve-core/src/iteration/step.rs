//! How entries change a loop.

use crate::event::{
    Actor, Amounts, Entry, Event, LoopEvent, LoopId, LoopStep, LoopTerms, Order, Promise,
    RecoveryEnd, RoleEnd, TestsSeen, TestsVerdict, Turn,
};
use crate::scrub::Scrubbed;

use super::{AtWork, Loop, Mark, Place, Refusal, Standing, Wish};

/// Why an entry changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is of another loop, or older than what is known.
    NotOurs,
    /// Only Salve says such things, and only a person starts a loop.
    NotTheirs,
    /// It does not follow from where the loop is.
    Unexpected,
}

/// What came of an entry.
pub(super) type Taken = Result<(), Ignored>;

impl Loop {
    /// Begins a loop with the entry that starts it.
    pub(super) fn start(id: &LoopId, entry: &Entry) -> Option<Self> {
        let Event::Loop(LoopEvent::Turned { id: of, what: Turn::Started { terms, task }, .. }) =
            &entry.event
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
            standing: Standing::Running,
            iteration: 0,
            before: 0,
            place: Place::Between,
            tests: None,
            earlier: None,
            promise: Promise::None,
            refused: None,
            spent: Amounts::default(),
            role: None,
            interrupted: false,
            marks: Vec::new(),
            parks: 0,
            paused: None,
            wish: None,
            driver: entry.by.process().cloned(),
            run_since: entry.seq.saturating_sub(1),
            began: entry.at,
            since: entry.at,
            clock: entry.at,
            last_seq: entry.seq,
        })
    }

    /// Takes one entry in; what is refused changes nothing.
    pub fn step(&mut self, entry: &Entry) -> Taken {
        let Event::Loop(LoopEvent::Turned { id, iteration, what }) = &entry.event else {
            return Err(Ignored::NotOurs);
        };
        if *id != self.id || entry.seq <= self.last_seq {
            return Err(Ignored::NotOurs);
        }
        let mut ahead = self.clone();
        ahead.last_seq = entry.seq;
        ahead.clock = ahead.clock.max(entry.at);
        match (what, &entry.by) {
            (Turn::Started { terms, task }, by) if may_start(by) => {
                ahead.driver = by.process().cloned();
                ahead.go_on(entry, terms, task);
            }
            (Turn::Started { .. }, _) => return Err(Ignored::NotTheirs),
            (Turn::Ordered { order }, by) => match (by.person(), order) {
                (Some(name), order) => ahead.ordered(name, *order)?,
                // Salve itself may hold everything; only a person lets it go on.
                (None, Order::Pause) if by.process().is_some() => {
                    ahead.ordered(&Scrubbed::literal("salve"), Order::Pause)?;
                }
                (None, _) => return Err(Ignored::NotTheirs),
            },
            (_, Actor::Salve(process)) => {
                ahead.driver = Some(process.clone());
                ahead.hear(*iteration, what)?;
                if let Turn::Began { .. } = what {
                    ahead.began = entry.at;
                }
            }
            (_, Actor::Person { .. } | Actor::Agent { .. }) => return Err(Ignored::NotTheirs),
        }
        if !matches!(what, Turn::Charged { .. }) {
            ahead.since = entry.at;
        }
        *self = ahead;
        Ok(())
    }

    /// Goes on where it was left; what is over begins anew with the next iteration.
    fn go_on(&mut self, entry: &Entry, terms: &LoopTerms, task: &Scrubbed) {
        self.task = task.clone();
        self.parks = 0;
        self.interrupted |= self.role.is_some();
        if let (Some(Wish::Skip), &Place::At { step, .. }) = (self.wish, &self.place) {
            self.settle();
            self.heed_wish(step);
        }
        self.wish = None;
        if let Standing::Ended(_) = self.standing {
            self.terms = terms.clone();
            self.before = self.iteration;
            self.run_since = entry.seq.saturating_sub(1);
            self.place = Place::Between;
            self.spent = Amounts::default();
            self.role = None;
            self.interrupted = false;
            self.marks.clear();
        } else {
            // What an iteration does is fixed when it begins.
            let steps = match self.place {
                Place::Between => terms.steps.clone(),
                Place::At { .. } | Place::Confirming | Place::Kept => self.terms.steps.clone(),
            };
            self.terms = LoopTerms { steps, ..terms.clone() };
        }
        self.standing = Standing::Running;
    }

    fn hear(&mut self, iteration: u32, what: &Turn) -> Taken {
        if let Standing::Ended(_) = self.standing {
            return Err(Ignored::Unexpected);
        }
        let is_held = matches!(self.standing, Standing::Stopped | Standing::Waits { .. });
        let begins =
            matches!(what, Turn::Began { .. } | Turn::RoleBegan { .. } | Turn::RecoveryBegan {});
        if is_held && begins {
            // Whoever stopped it was faster.
            return Err(Ignored::Unexpected);
        }
        if let Turn::Began { terms } = what {
            return self.iteration_began(iteration, terms);
        }
        if iteration != self.iteration {
            return Err(Ignored::Unexpected);
        }
        match what {
            Turn::RoleBegan { role, .. } => self.role_began(role),
            Turn::Charged { role, spent } => self.charged(role, *spent),
            Turn::RoleEnded { role, end, spent, promise } => {
                self.charged(role, *spent)?;
                self.role_ended(end, *promise);
                Ok(())
            }
            Turn::TestsRan { tests } => self.tests_ran(tests),
            Turn::RecoveryBegan {} => self.recovery_began(),
            Turn::RecoveryEnded { how, took_ms } => self.recovery_ended(*how, *took_ms),
            Turn::Stopped {} => {
                self.standing = Standing::Stopped;
                Ok(())
            }
            Turn::Ended { why } => {
                self.standing = Standing::Ended(why.clone());
                self.settle();
                Ok(())
            }
            Turn::Started { .. } | Turn::Began { .. } | Turn::Ordered { .. } => {
                Err(Ignored::Unexpected)
            }
        }
    }

    fn iteration_began(&mut self, iteration: u32, terms: &LoopTerms) -> Taken {
        if self.place != Place::Between || iteration != self.iteration.saturating_add(1) {
            return Err(Ignored::Unexpected);
        }
        self.iteration = iteration;
        self.terms = terms.clone();
        self.earlier = self.tests.take().or(self.earlier.take());
        self.promise = Promise::None;
        self.standing = Standing::Running;
        self.advance(0);
        Ok(())
    }

    fn role_began(&mut self, role: &Scrubbed) -> Taken {
        let Place::At { step, .. } = &self.place else { return Err(Ignored::Unexpected) };
        if self.terms.steps.get(*step) != Some(&LoopStep::Role(role.clone())) {
            return Err(Ignored::Unexpected);
        }
        // What an attempt that was cut off has cost stays.
        self.settle();
        self.standing = Standing::Running;
        self.interrupted = false;
        self.role = Some(AtWork { name: role.clone(), spent: Amounts::default() });
        Ok(())
    }

    fn charged(&mut self, role: &Scrubbed, spent: Amounts) -> Taken {
        match &mut self.role {
            Some(known) if known.name == *role => {
                known.spent = known.spent.max(spent);
                Ok(())
            }
            Some(_) | None => Err(Ignored::Unexpected),
        }
    }

    fn role_ended(&mut self, end: &RoleEnd, promise: Promise) {
        self.settle();
        let Place::At { step, short, .. } = &mut self.place else { return };
        let at = *step;
        match end {
            RoleEnd::Done => {
                self.parks = 0;
                if !promise.is_none() {
                    self.promise = promise;
                }
                self.advance(at + 1);
            }
            RoleEnd::Short { reason } => short.push(reason.clone()),
            // Whoever stopped it meanwhile wants it to stay so.
            RoleEnd::Away { .. } | RoleEnd::Unable { .. } if self.standing == Standing::Stopped => {
            }
            RoleEnd::Away { until, reason } => {
                self.parks = self.parks.saturating_add(1);
                self.standing = Standing::Parked { until: *until, reason: reason.clone() };
            }
            RoleEnd::Unable { reason } => {
                self.standing = Standing::Waits { reason: reason.clone() };
            }
            RoleEnd::Stopped => self.interrupted = true,
        }
        self.heed_wish(at);
    }

    /// Books what the role at work has cost.
    fn settle(&mut self) {
        if let Some(role) = self.role.take() {
            self.spent = self.spent.plus(role.spent);
        }
    }

    fn tests_ran(&mut self, tests: &TestsSeen) -> Taken {
        let step = match &self.place {
            Place::At { step, .. } => *step,
            Place::Confirming => {
                self.took(tests);
                self.close(Confirmed::Now);
                return Ok(());
            }
            Place::Between | Place::Kept => return Err(Ignored::Unexpected),
        };
        match self.terms.steps.get(step) {
            Some(LoopStep::Tests) => {
                self.took(tests);
                self.advance(step + 1);
                Ok(())
            }
            // They are run again while their infrastructure is recovered.
            Some(LoopStep::Recovery) if self.is_recovering() => {
                // Its time is part of the recovery's.
                self.tests = Some(tests.clone());
                Ok(())
            }
            Some(LoopStep::Recovery) => {
                self.took(tests);
                self.advance(step);
                Ok(())
            }
            Some(LoopStep::Role(_)) | None => Err(Ignored::Unexpected),
        }
    }

    fn count(&mut self, wall_ms: u64) {
        self.spent = self.spent.plus(Amounts { wall_ms, ..Amounts::default() });
    }

    fn took(&mut self, tests: &TestsSeen) {
        self.count(tests.took_ms);
        self.tests = Some(tests.clone());
    }

    fn recovery_began(&mut self) -> Taken {
        match &mut self.place {
            Place::At { step, recovering, .. }
                if self.terms.steps.get(*step) == Some(&LoopStep::Recovery) =>
            {
                *recovering = true;
                Ok(())
            }
            Place::At { .. } | Place::Between | Place::Confirming | Place::Kept => {
                Err(Ignored::Unexpected)
            }
        }
    }

    fn recovery_ended(&mut self, how: RecoveryEnd, took_ms: u64) -> Taken {
        let Place::At { step, recovering: true, .. } = self.place else {
            return Err(Ignored::Unexpected);
        };
        self.count(took_ms);
        match how {
            RecoveryEnd::NeedsPerson if self.standing == Standing::Stopped => {}
            RecoveryEnd::NeedsPerson => {
                let reason = Scrubbed::literal("the recovery of the tests needs your decision");
                self.standing = Standing::Waits { reason };
            }
            RecoveryEnd::Well | RecoveryEnd::NotInfrastructure | RecoveryEnd::Rejected => {
                self.advance(step + 1);
            }
        }
        Ok(())
    }

    /// Goes to a step, or over those that are not due, or ends the iteration.
    pub(super) fn advance(&mut self, mut step: usize) {
        while self.terms.steps.get(step) == Some(&LoopStep::Recovery) && !self.has_to_recover() {
            step += 1;
        }
        match step < self.terms.steps.len() {
            true => self.place = Place::At { step, short: Vec::new(), recovering: false },
            false => self.close(Confirmed::Earlier),
        }
    }

    /// Ends the iteration, unless what was promised has to be tested first.
    fn close(&mut self, confirmed: Confirmed) {
        let verdict = self.tests.as_ref().map(|tests| tests.verdict);
        let tested = self.tests.as_ref().and_then(|tests| tests.tree);
        let refusal = match (self.promise, verdict, confirmed) {
            (Promise::None, _, _) => None,
            (Promise::Weakened, _, _) => Some(Refusal::Weakened),
            (Promise::Made { .. }, Some(TestsVerdict::Green), Confirmed::Now) => {
                self.place = Place::Kept;
                return;
            }
            (Promise::Made { tree }, Some(TestsVerdict::Green), Confirmed::Earlier) => {
                // Something may have changed since the tests ran.
                let is_same = tree.is_some() && tree == tested;
                self.place = if is_same { Place::Kept } else { Place::Confirming };
                return;
            }
            (Promise::Made { .. }, Some(TestsVerdict::Red), _) => Some(Refusal::Red),
            (Promise::Made { .. }, Some(TestsVerdict::NotExecuted) | None, _) => {
                Some(Refusal::NotExecuted)
            }
        };
        self.refused = refusal;
        if let Some(tests) = &self.tests {
            self.marks.push(Mark { tree: tests.tree, failing: tests.failing });
        }
        self.place = Place::Between;
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

/// Returns whether somebody may start a loop: a person, or Salve where nobody is known.
fn may_start(by: &Actor) -> bool {
    match by {
        Actor::Salve(_) => true,
        Actor::Person { .. } => by.person().is_some(),
        Actor::Agent { .. } => false,
    }
}
