//! Where in its list a machine is, and which pass over it this is.

use super::{EndRule, EntryTaken, NotTaken, StepTerms};
use crate::scrub::Scrubbed;

/// A pass over a list, and the step in it that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepPosition {
    /// The last pass over the list that began; 0 before the first.
    pass: u32,
    /// The last pass before this run of the list.
    before: u32,
    pub(super) place: StepPlace,
}

/// Where in its list a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepPlace {
    /// Between two passes.
    Between,
    /// At a step that is not done.
    At {
        /// Its number, from 0.
        step: usize,
        /// What was wrong with each attempt at it.
        short: Vec<Scrubbed>,
    },
    /// All steps are done, and whoever owns the list has to judge the promise.
    AllDone,
    /// The end rule is met.
    Kept,
}

impl StepPosition {
    /// Stands before the first pass.
    pub(super) fn start() -> Self {
        Self { pass: 0, before: 0, place: StepPlace::Between }
    }

    /// Begins another run of the list, whose next pass follows those there were.
    pub(super) fn begin_run(&mut self) {
        self.before = self.pass;
        self.place = StepPlace::Between;
    }

    /// Begins a pass, if it is the next one and its turn has come.
    pub(super) fn begin_pass(&mut self, pass: u32) -> EntryTaken {
        if self.place != StepPlace::Between || pass != self.next_pass() {
            return Err(NotTaken::Unexpected);
        }
        self.pass = pass;
        Ok(())
    }

    /// Begins the next pass in the midst of the present one.
    pub(super) fn branch_off(&mut self) {
        self.pass = self.next_pass();
    }

    /// Goes to a step, or behind the last one.
    pub(super) fn go_to(&mut self, step: usize, terms: &StepTerms) {
        let is_there = step < terms.steps.len();
        self.place = match terms.end {
            EndRule::Promise | EndRule::LastStep if is_there => {
                StepPlace::At { step, short: Vec::new() }
            }
            EndRule::Promise => StepPlace::AllDone,
            EndRule::LastStep => StepPlace::Kept,
        };
    }

    /// Forgets what was wrong with the attempts at the present step.
    pub(super) fn forgive(&mut self) {
        if let StepPlace::At { short, .. } = &mut self.place {
            short.clear();
        }
    }

    /// Returns the number of the pass that follows.
    pub(super) fn next_pass(&self) -> u32 {
        self.pass.saturating_add(1)
    }

    /// Returns the last pass over the list that began; 0 before the first.
    pub(crate) fn pass(&self) -> u32 {
        self.pass
    }

    /// Returns how many passes this run has begun.
    pub(crate) fn passes(&self) -> u32 {
        self.pass.saturating_sub(self.before)
    }

    /// Returns the step that is due or at work, by its number from 0.
    pub(crate) fn at_step(&self) -> Option<usize> {
        match self.place {
            StepPlace::At { step, .. } => Some(step),
            StepPlace::Between | StepPlace::AllDone | StepPlace::Kept => None,
        }
    }

    /// Returns whether all steps are done and the promise is to be judged.
    pub(crate) fn is_all_done(&self) -> bool {
        self.place == StepPlace::AllDone
    }

    /// Returns whether the last pass that began is over.
    pub(crate) fn is_between(&self) -> bool {
        self.place == StepPlace::Between
    }

    /// Returns what was wrong with each attempt at the present step.
    pub(crate) fn complaints(&self) -> &[Scrubbed] {
        match &self.place {
            StepPlace::At { short, .. } => short,
            StepPlace::Between | StepPlace::AllDone | StepPlace::Kept => &[],
        }
    }
}
