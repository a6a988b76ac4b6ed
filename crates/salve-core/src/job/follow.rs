//! How entries change a job.

use std::sync::Arc;

use super::{FailedAttempt, Job, JobEnding, PendingReset, RecoveryRequest, step_terms};
use crate::event::{
    Actor, Amounts, AttemptEnd, Entry, Event, HealStrategy, JobEvent, JobOrder, JobTerms, JobTurn,
    LoopEnd, PersonOrder, ResetCause, ResetEnd, RoleEnd, StepFailure,
};
use crate::id::JobId;
use crate::scrub::Scrubbed;
use crate::steps::{
    Beginning, EntryTaken, NotTaken, StepMachine, StepsStanding, may_start, orders_as,
};

impl Job {
    /// Begins a job with the entry that starts it.
    pub(super) fn start(id: JobId, entry: &Entry) -> Option<Self> {
        let Event::Job(JobEvent::Advanced { id: of, what: JobTurn::Started { terms } }) =
            &entry.event
        else {
            return None;
        };
        if *of != id || !may_start(&entry.by) {
            return None;
        }
        let mut steps = StepMachine::start(step_terms(terms), entry);
        steps.pass_began(1, step_terms(terms), entry).ok()?;
        Some(Self {
            id,
            terms: Arc::new(JobTerms::clone(terms)),
            steps,
            failures: Vec::new(),
            checkpoints: Vec::new(),
            resets: 0,
            pending: None,
            undone: None,
            ending: None,
            strategy: HealStrategy::None,
            called_off: false,
            recovery: None,
            cancelled: false,
        })
    }

    /// Takes one entry in; what is refused changes nothing.
    pub fn step(&mut self, entry: &Entry) -> EntryTaken {
        let Event::Job(JobEvent::Advanced { id, what }) = &entry.event else {
            return Err(NotTaken::NotOurs);
        };
        if *id != self.id {
            return Err(NotTaken::NotOurs);
        }
        // Only the machine is tried on a copy: a job of ten thousand steps has as many checkpoints.
        let before = self.steps.clone();
        let taken = self.steps.stamps.stamp(entry).and_then(|()| self.hear(entry, what));
        if taken.is_err() {
            self.steps = before;
        } else if !matches!(what, JobTurn::Charged { .. } | JobTurn::Warned { .. }) {
            self.steps.stamps.stands_since(entry);
        }
        taken
    }

    /// Takes in what happened. **Invariant:** whatever may be refused is refused before anything but
    /// the machine is changed.
    fn hear(&mut self, entry: &Entry, what: &JobTurn) -> EntryTaken {
        match (what, &entry.by) {
            (JobTurn::Started { .. }, _) => Err(NotTaken::Unexpected),
            (JobTurn::Resumed {}, by) if may_start(by) => self.resumed(by),
            (JobTurn::Ordered { order }, by) => self.ordered(entry, by, *order),
            // Another process has the job go on by now: what this one still says is too late.
            (_, Actor::Salve(process))
                if self.steps.stamps.driver().is_some_and(|by| by != process) =>
            {
                Err(NotTaken::NotTheirs)
            }
            (_, Actor::Salve(process)) => {
                self.steps.stamps.driven_by(Some(process));
                self.went_on(what)
            }
            (
                _,
                Actor::Person { .. }
                | Actor::Unproven { .. }
                | Actor::Forged { .. }
                | Actor::Agent { .. },
            ) => Err(NotTaken::NotTheirs),
        }
    }

    fn went_on(&mut self, what: &JobTurn) -> EntryTaken {
        self.steps.admits(match what {
            JobTurn::StepBegan { .. } | JobTurn::ResetBegan { .. } | JobTurn::Remedied { .. } => {
                Beginning::Yes
            }
            JobTurn::Started { .. }
            | JobTurn::Resumed {}
            | JobTurn::Warned { .. }
            | JobTurn::Charged { .. }
            | JobTurn::StepEnded { .. }
            | JobTurn::ResetEnded { .. }
            | JobTurn::Asked { .. }
            | JobTurn::Ordered { .. }
            | JobTurn::Honored { .. }
            | JobTurn::Stopped {}
            | JobTurn::Ended { .. } => Beginning::No,
        })?;
        match what {
            JobTurn::StepBegan { step, attempt, .. } => self.step_began(*step, *attempt),
            JobTurn::Warned { step, .. } => self.due(*step).map(drop),
            JobTurn::Charged { spent } => self.steps.costs.charge(*spent),
            JobTurn::StepEnded { step, attempt, end, spent } => {
                self.due(*step)?;
                self.step_ended(*attempt, end, *spent)
            }
            JobTurn::ResetBegan { step, .. } => match self.pending {
                Some(_) => self.due(*step).map(drop),
                None => Err(NotTaken::Unexpected),
            },
            JobTurn::ResetEnded { step, end } => self.reset_ended(*step, end),
            JobTurn::Remedied { .. } => self.remedied(),
            JobTurn::Asked { reason } => self.asked(reason),
            JobTurn::Honored { order } => self.honored(*order),
            JobTurn::Stopped {} => {
                self.steps.stopped();
                Ok(())
            }
            JobTurn::Ended { why, retryable } => {
                self.steps.ended(why.clone());
                self.ending = Some(JobEnding { why: why.clone(), retryable: *retryable });
                Ok(())
            }
            JobTurn::Started { .. } | JobTurn::Resumed {} | JobTurn::Ordered { .. } => {
                Err(NotTaken::Unexpected)
            }
        }
    }

    /// Returns the step that is due, if it is this one.
    fn due(&self, step: u32) -> Result<usize, NotTaken> {
        let due = self.steps.position.at_step().filter(|due| u32::try_from(*due) == Ok(step));
        due.ok_or(NotTaken::Unexpected)
    }

    /// Goes on where it was left, with its counters at zero if it had come to an end.
    fn resumed(&mut self, by: &Actor) -> EntryTaken {
        if *self.steps.standing() == StepsStanding::Ended(LoopEnd::Completed) {
            return Err(NotTaken::Unexpected);
        }
        self.steps.stamps.driven_by(by.process());
        // A worker that claimed it just before it was called off does not take that back.
        self.cancelled &= by.person_in_history().is_none();
        let has_failed = matches!(self.steps.standing(), StepsStanding::Ended(_));
        // One that cannot pass by itself may have been mended where it is.
        let is_tried_again = has_failed && self.ending.as_ref().is_some_and(|end| end.retryable);
        let cause = match (self.steps.reopen(), is_tried_again) {
            // Whatever it had done by then may be half done.
            (true, _) => Some(ResetCause::Interrupted),
            (false, true) => Some(ResetCause::Retried),
            (false, false) => None,
        };
        self.ending = None;
        self.called_off = false;
        let due = self.steps.position.at_step().zip(cause);
        let due = due.map(|(step, cause)| PendingReset { step, cause });
        self.pending = self.pending.or(self.undone.take()).or(due);
        self.apply_resume_from();
        Ok(())
    }

    fn step_began(&mut self, step: u32, attempt: u32) -> EntryTaken {
        let step = self.due(step)?;
        let tried = u32::try_from(self.steps.position.complaints().len()).unwrap_or(u32::MAX);
        if self.pending.is_some() || self.ending.is_some() || attempt != tried.saturating_add(1) {
            return Err(NotTaken::Unexpected);
        }
        self.steps.step_began(step)?;
        self.called_off = false;
        Ok(())
    }

    fn step_ended(&mut self, attempt: u32, end: &AttemptEnd, spent: Amounts) -> EntryTaken {
        self.steps.costs.charge(spent)?;
        self.called_off = false;
        match end {
            AttemptEnd::Done { checkpoint } => {
                self.steps.step_ended(&RoleEnd::Done);
                self.checkpoints.push(*checkpoint);
                self.failures.clear();
                self.strategy = HealStrategy::None;
                // What was ordered about it came too late.
                self.pending = self.pending.filter(|p| p.cause == ResetCause::ResumeFrom);
            }
            AttemptEnd::Failed { failure, strategy } => self.failed(attempt, failure, *strategy),
            AttemptEnd::Away { until, reason } => {
                self.steps.step_ended(&RoleEnd::Away { until: *until, reason: reason.clone() });
            }
            AttemptEnd::Unable { reason } => {
                self.steps.step_ended(&RoleEnd::Unable { reason: reason.clone() });
            }
            AttemptEnd::Stopped => self.steps.step_ended(&RoleEnd::Stopped),
        }
        self.apply_resume_from();
        Ok(())
    }

    fn failed(&mut self, attempt: u32, failure: &StepFailure, strategy: HealStrategy) {
        let reason = failure.summary.clone();
        self.steps.step_ended(&RoleEnd::Short { reason: reason.clone() });
        self.steps.progress.leave(super::heal::mark(failure));
        self.failures.push(FailedAttempt { attempt, failure: failure.clone(), strategy });
        self.strategy = strategy;
        let end = |retryable| {
            Some(JobEnding { why: LoopEnd::Failed { reason: reason.clone() }, retryable })
        };
        // What a person ordered meanwhile comes first.
        if self.pending.is_some() {
            return;
        }
        match strategy {
            HealStrategy::SoftReset => {}
            HealStrategy::HardReset => {
                self.resets = self.resets.saturating_add(1);
                let step = self.steps.position.at_step();
                let cause = ResetCause::Controller;
                self.pending = step.map(|step| PendingReset { step, cause });
            }
            HealStrategy::QueueRetry => self.ending = end(true),
            HealStrategy::None => self.ending = end(false),
            HealStrategy::OperatorRequest => self.steps.wait_for_person(reason.clone()),
        }
    }

    fn reset_ended(&mut self, step: u32, end: &ResetEnd) -> EntryTaken {
        self.due(step)?;
        let Some(pending) = self.pending else { return Err(NotTaken::Unexpected) };
        self.pending = None;
        if let ResetEnd::Failed { reason } = end {
            self.undone = Some(pending);
            let why = LoopEnd::Failed { reason: reason.clone() };
            self.ending = Some(JobEnding { why, retryable: false });
        }
        Ok(())
    }

    /// Takes in that what made the last attempt fail was remedied: it may be tried again, even where
    /// trying it again could not have helped.
    fn remedied(&mut self) -> EntryTaken {
        let is_ordered = self.pending.is_some_and(|p| p.cause != ResetCause::Controller);
        if self.failures.is_empty() || self.steps.is_at_work() || is_ordered {
            return Err(NotTaken::Unexpected);
        }
        self.ending = None;
        if self.pending.take().is_some() {
            // The reset that was due is not done.
            self.resets = self.resets.saturating_sub(1);
        }
        self.strategy = HealStrategy::SoftReset;
        Ok(())
    }

    fn asked(&mut self, reason: &Scrubbed) -> EntryTaken {
        if self.failures.is_empty() || self.steps.is_at_work() {
            return Err(NotTaken::Unexpected);
        }
        self.ending = None;
        self.steps.wait_for_person(reason.clone());
        Ok(())
    }

    fn honored(&mut self, order: u64) -> EntryTaken {
        match &mut self.recovery {
            Some(known) if known.seq == order && !known.honored => {
                known.honored = true;
                Ok(())
            }
            Some(_) | None => Err(NotTaken::Unexpected),
        }
    }

    /// Takes an order; a step at work is ended first.
    fn ordered(&mut self, entry: &Entry, by: &Actor, order: JobOrder) -> EntryTaken {
        let general = match order {
            JobOrder::Pause => PersonOrder::Pause,
            JobOrder::Resume => PersonOrder::Resume,
            JobOrder::Cancel => PersonOrder::Abort,
            JobOrder::RetryStep | JobOrder::HardResetStep | JobOrder::ResumeFromStep { .. } => {
                PersonOrder::Retry
            }
        };
        let name = orders_as(by, general)?;
        if general != PersonOrder::Retry {
            return self.ordered_in_general(&name, general);
        }
        let step = self.ordered_step(order)?;
        (self.cancelled, self.undone) = (false, None);
        self.steps.try_afresh();
        let at_work = self.steps.is_at_work();
        self.ending = None;
        self.called_off = at_work;
        self.pending = match order {
            JobOrder::HardResetStep => Some(PendingReset { step, cause: ResetCause::Operator }),
            JobOrder::ResumeFromStep { .. } => {
                Some(PendingReset { step, cause: ResetCause::ResumeFrom })
            }
            JobOrder::RetryStep | JobOrder::Pause | JobOrder::Resume | JobOrder::Cancel => None,
        };
        let (seq, at) = (entry.seq, entry.at);
        self.recovery = Some(RecoveryRequest { seq, order, step, at, by: name, honored: false });
        if !at_work {
            self.apply_resume_from();
        }
        Ok(())
    }

    /// Takes an order that is about the job as a whole.
    fn ordered_in_general(&mut self, name: &Scrubbed, order: PersonOrder) -> EntryTaken {
        match order {
            PersonOrder::Abort => {
                let waits_for_worker = match self.steps.standing() {
                    StepsStanding::Stopped => true,
                    StepsStanding::Ended(_) => self.ending.as_ref().is_some_and(|e| e.retryable),
                    StepsStanding::Running
                    | StepsStanding::Parked { .. }
                    | StepsStanding::Waits { .. } => false,
                };
                if !waits_for_worker || self.cancelled {
                    self.steps.ordered(name, order)?;
                }
                self.cancelled = true;
                Ok(())
            }
            PersonOrder::Resume if self.cancelled => {
                self.cancelled = false;
                Ok(())
            }
            PersonOrder::Pause
            | PersonOrder::Resume
            | PersonOrder::Escalate
            | PersonOrder::Skip
            | PersonOrder::Retry => self.steps.ordered(name, order),
        }
    }

    /// Returns the step that an order is about, if it can be followed.
    fn ordered_step(&self, order: JobOrder) -> Result<usize, NotTaken> {
        match order {
            JobOrder::ResumeFromStep { step } => {
                let step = usize::try_from(step).map_err(|_| NotTaken::Unexpected)?;
                // Every step before it must have left its checkpoint.
                let is_known = step < self.terms.steps.len() && step <= self.checkpoints.len();
                is_known.then_some(step).ok_or(NotTaken::Unexpected)
            }
            JobOrder::RetryStep
            | JobOrder::HardResetStep
            | JobOrder::Pause
            | JobOrder::Resume
            | JobOrder::Cancel => self.steps.position.at_step().ok_or(NotTaken::Unexpected),
        }
    }

    /// Goes back to the step that a person wants it to go on from, on a new branch of the run.
    fn apply_resume_from(&mut self) {
        let Some(PendingReset { step, cause: ResetCause::ResumeFrom }) = self.pending else {
            return;
        };
        if self.steps.position.at_step() != Some(step) {
            self.steps.branch(step);
            self.checkpoints.truncate(step);
        }
        self.failures.clear();
        self.strategy = HealStrategy::None;
    }
}

impl Job {
    /// Returns the name under which an order is given, for those who ask before they give it.
    pub fn would_take(&self, order: JobOrder, by: &Scrubbed) -> EntryTaken {
        let by = Actor::Person { name: by.clone() };
        let event = JobEvent::Advanced { id: self.id, what: JobTurn::Ordered { order } }.into();
        let seq = self.steps.stamps.last_seq().saturating_add(1);
        let entry =
            Entry { seq, at: self.steps.stamps.clock(), by, incident: None, event, seal: None };
        self.clone().step(&entry)
    }
}
