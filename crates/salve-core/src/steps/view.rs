//! What is known of a list of steps.

use jiff::Timestamp;

use super::{ProgressMark, StepMachine, StepPlace, StepTerms, StepsStanding};
use crate::event::{Amounts, Process, Resource};
use crate::scrub::Scrubbed;

impl StepMachine {
    /// Returns the terms in force.
    pub fn terms(&self) -> &StepTerms {
        &self.terms
    }

    /// Returns how it stands.
    pub fn standing(&self) -> &StepsStanding {
        &self.standing
    }

    /// Returns the last pass over the list that began; 0 before the first.
    pub fn pass(&self) -> u32 {
        self.pass
    }

    /// Returns how many passes this run has begun.
    pub fn passes(&self) -> u32 {
        self.pass.saturating_sub(self.before)
    }

    /// Returns the step that is due or at work, by its number from 0.
    pub fn at_step(&self) -> Option<usize> {
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
    pub fn is_between(&self) -> bool {
        self.place == StepPlace::Between
    }

    /// Returns what was wrong with each attempt at the present step.
    pub fn complaints(&self) -> &[Scrubbed] {
        match &self.place {
            StepPlace::At { short, .. } => short,
            StepPlace::Between | StepPlace::AllDone | StepPlace::Kept => &[],
        }
    }

    /// Returns whether the step that is due was cut off at its work before.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns how many of the marks are what the last one is, itself included.
    ///
    /// The same tree with the same failures counts wherever it was seen before: going to and fro
    /// is no progress. What could not be measured is never the same.
    pub fn unchanged(&self) -> u32 {
        let Some(last) = self.marks.last().filter(|mark| mark.tree.is_some()) else { return 0 };
        let same = self.marks.iter().filter(|mark| *mark == last).count();
        u32::try_from(same).unwrap_or(u32::MAX)
    }

    /// Returns how often a mark would have been left, itself included; see
    /// [`StepMachine::unchanged`].
    pub(crate) fn repeats(&self, mark: ProgressMark) -> u32 {
        if mark.tree.is_none() {
            return 0;
        }
        let same = self.marks.iter().filter(|known| **known == mark).count();
        u32::try_from(same).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns what this run has cost so far.
    pub fn spent(&self) -> Amounts {
        self.at_work.map_or(self.spent, |spent| self.spent.plus(spent))
    }

    /// Returns how much of a resource is left to this run; nothing where there is no limit.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        let spent = self.spent().get(resource);
        self.terms.limits.get(resource).map(|limit| limit.saturating_sub(spent))
    }

    /// Returns how often in a row it was parked.
    pub fn parks(&self) -> u32 {
        self.parks
    }

    /// Returns the journal's last entry before this run began.
    pub fn run_since(&self) -> u64 {
        self.run_since
    }

    /// Returns when the last pass began, or the whole, before the first.
    pub fn began(&self) -> Timestamp {
        self.began
    }

    /// Returns when it last came to stand as it does.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the latest time that it has seen; time goes on from there.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Returns the process that drives it, or did last, if one has said anything.
    pub fn driver(&self) -> Option<&Process> {
        self.driver.as_ref()
    }

    /// Returns who paused it, if somebody did.
    pub fn paused_by(&self) -> Option<&Scrubbed> {
        self.paused.as_ref()
    }

    /// Returns whether what runs for it now is to be ended: somebody ordered otherwise.
    pub fn is_called_off(&self) -> bool {
        match self.standing {
            StepsStanding::Stopped | StepsStanding::Waits { .. } | StepsStanding::Ended(_) => true,
            StepsStanding::Running | StepsStanding::Parked { .. } => self.wish.is_some(),
        }
    }

    /// Returns whether a step is at work, as far as the journal says.
    pub fn is_at_work(&self) -> bool {
        self.at_work.is_some()
    }

    /// Returns the last entry that it was made of.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}
