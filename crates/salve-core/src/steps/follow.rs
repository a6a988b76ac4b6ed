//! How what happens changes a list of steps.

use crate::event::{Amounts, Entry, LoopEnd, RoleEnd};
use crate::scrub::Scrubbed;

use super::position::StepPlace;
use super::{
    EndRule, EntryTaken, NotTaken, ProgressMark, StepCosts, StepMachine, StepTerms, StepWish,
    StepsStanding,
};

impl StepMachine {
    /// Does what was ordered about a step whose process is gone; it is being started again.
    pub(crate) fn settle_wishes(&mut self) {
        self.parks = 0;
        self.interrupted |= self.costs.at_work.is_some();
        if let (Some(StepWish::Skip), &StepPlace::At { step, .. }) =
            (self.wish, &self.position.place)
        {
            self.costs.settle();
            self.heed_wish(step);
        }
        self.wish = None;
    }

    /// Continues where it was left; what is over begins again with the next pass.
    pub(crate) fn go_on(&mut self, entry: &Entry, terms: StepTerms) {
        if let StepsStanding::Ended(_) = self.standing {
            self.position.begin_run();
            self.stamps.run_since = entry.seq.saturating_sub(1);
            self.costs = StepCosts::default();
            self.interrupted = false;
            self.progress.marks.clear();
        }
        self.terms = terms;
        self.standing = StepsStanding::Running;
    }

    /// Refuses what cannot be said of a list as it stands: nothing of one that is over, and no
    /// beginning of one that somebody has just stopped.
    pub(crate) fn admits(&self, beginning: Beginning) -> EntryTaken {
        match (&self.standing, beginning) {
            (StepsStanding::Ended(_), _) => Err(NotTaken::Unexpected),
            // Whoever stopped it was faster.
            (StepsStanding::Stopped | StepsStanding::Waits { .. }, Beginning::Yes) => {
                Err(NotTaken::Unexpected)
            }
            (StepsStanding::Stopped | StepsStanding::Waits { .. }, Beginning::No)
            | (StepsStanding::Running | StepsStanding::Parked { .. }, _) => Ok(()),
        }
    }

    /// Begins a pass, with the terms that hold from here on.
    pub(crate) fn pass_began(&mut self, pass: u32, terms: StepTerms, entry: &Entry) -> EntryTaken {
        self.position.begin_pass(pass)?;
        self.terms = terms;
        self.standing = StepsStanding::Running;
        self.stamps.began = entry.at;
        self.advance(0);
        Ok(())
    }

    /// Ends a pass whose promise was not kept, or that made none.
    pub(crate) fn pass_ended(&mut self, left: Option<ProgressMark>) {
        self.progress.marks.extend(left);
        self.position.place = StepPlace::Between;
    }

    /// Takes in that the promise is kept.
    pub(crate) fn promise_kept(&mut self) {
        self.position.place = StepPlace::Kept;
    }

    /// Takes in that a step is being worked on.
    pub(crate) fn step_began(&mut self, step: usize) -> EntryTaken {
        if self.position.at_step() != Some(step) {
            return Err(NotTaken::Unexpected);
        }
        // What an attempt that was cut off has cost stays.
        self.costs.settle();
        self.standing = StepsStanding::Running;
        self.interrupted = false;
        self.costs.at_work = Some(Amounts::default());
        Ok(())
    }

    /// Takes in how work on a step ended.
    pub(crate) fn step_ended(&mut self, end: &RoleEnd) {
        self.costs.settle();
        let StepPlace::At { step, short } = &mut self.position.place else { return };
        let at = *step;
        match end {
            RoleEnd::Done => {
                self.parks = 0;
                self.advance(at + 1);
            }
            RoleEnd::Short { reason } => short.push(reason.clone()),
            // Whoever stopped it meanwhile wants it to stay so.
            RoleEnd::Away { .. } | RoleEnd::Unable { .. }
                if self.standing == StepsStanding::Stopped => {}
            RoleEnd::Away { until, reason } => {
                self.parks = self.parks.saturating_add(1);
                self.standing = StepsStanding::Parked { until: *until, reason: reason.clone() };
            }
            RoleEnd::Unable { reason } => self.wait_for_person(reason.clone()),
            RoleEnd::Stopped => self.interrupted = true,
        }
        self.heed_wish(at);
    }

    /// Waits for a person, unless somebody stopped it, who wants it to stay so.
    pub(crate) fn wait_for_person(&mut self, reason: Scrubbed) {
        if self.standing != StepsStanding::Stopped {
            self.standing = StepsStanding::Waits { reason };
        }
    }

    /// Takes in that the user stopped it.
    pub(crate) fn stopped(&mut self) {
        self.standing = StepsStanding::Stopped;
    }

    /// Takes in that it is over.
    pub(crate) fn ended(&mut self, why: LoopEnd) {
        self.standing = StepsStanding::Ended(why);
        self.costs.settle();
    }

    /// Lets what was cut off or given up go on; tells whether a step was cut off at its work.
    ///
    /// What had come to an end, or waited for a person, is tried with its counters at zero.
    pub(crate) fn reopen(&mut self) -> bool {
        let was_cut_off = self.interrupted || self.costs.at_work.is_some();
        self.costs.settle();
        self.wish = None;
        self.parks = 0;
        match self.standing {
            StepsStanding::Ended(_) | StepsStanding::Waits { .. } => self.try_afresh(),
            StepsStanding::Running | StepsStanding::Parked { .. } | StepsStanding::Stopped => {}
        }
        self.standing = StepsStanding::Running;
        self.interrupted = was_cut_off;
        was_cut_off
    }

    /// Sets the counters of the present step to zero and lets it be tried, however it stood.
    pub(crate) fn try_afresh(&mut self) {
        self.position.forgive();
        self.progress.marks.clear();
        self.parks = 0;
        self.standing = StepsStanding::Running;
    }

    /// Goes back to a step, in a pass of its own.
    pub(crate) fn branch(&mut self, step: usize) {
        self.position.branch_off();
        self.interrupted = false;
        self.standing = StepsStanding::Running;
        self.advance(step);
    }

    /// Goes to a step, or behind the last one.
    pub(crate) fn advance(&mut self, step: usize) {
        if self.terms.end == EndRule::LastStep {
            // They are of the attempts at one step.
            self.progress.marks.clear();
        }
        self.position.go_to(step, &self.terms);
    }
}

/// Whether an entry says that something begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// It does.
    Yes,
    /// It does not.
    No,
}
