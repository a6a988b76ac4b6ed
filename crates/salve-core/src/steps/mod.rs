//! The machine of a list of steps: which step is due, how often it may be tried, when it is over.
//!
//! It knows nothing of what a step does. Two things are made of it: a loop of agents
//! ([`crate::iteration`]), which goes over its list again and again until a promise holds, and a
//! job, which goes over it once. Both hand it what their journal entries mean
//! for the list, and ask it what is next ([`StepMachine::next`]); it never acts.
//!
//! **Invariants:** a step that is done is not due again in its pass. In a pause nothing begins.
//! Every list ends, waits for a time, or waits for a person.

mod costs;
mod follow;
mod orders;
mod position;
mod progress;
mod stamps;
mod view;

use std::sync::Arc;

use jiff::Timestamp;

pub(crate) use follow::Beginning;
pub(crate) use orders::orders_as;
pub use progress::ProgressMark;
pub(crate) use progress::ProgressMarks;
pub use stamps::StepStamps;

pub(crate) use costs::StepCosts;
use position::{StepPlace, StepPosition};

use crate::event::{Actor, Entry, LoopEnd, Resource, ResourceLimits};
use crate::scrub::Scrubbed;

/// A list of steps under way, as its entries made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepMachine {
    terms: StepTerms,
    standing: StepsStanding,
    /// Which step is due, in which pass.
    pub(crate) position: StepPosition,
    pub(crate) costs: StepCosts,
    /// Whether a step was cut off at its work.
    interrupted: bool,
    /// What each pass of this run left, or each attempt at the present step.
    pub(crate) progress: ProgressMarks,
    parks: u32,
    /// Who paused it.
    paused: Option<Scrubbed>,
    /// What was ordered about the step at work.
    wish: Option<StepWish>,
    /// When it was last heard of, and who drives it.
    pub(crate) stamps: StepStamps,
}

/// The terms under which a list of steps is gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTerms {
    /// The steps, in order. Shared, since a list may have thousands and the machine is copied for
    /// every entry that it tries.
    pub steps: Arc<[StepRule]>,
    /// What one run may take; attempts are passes.
    pub limits: ResourceLimits,
    /// How many passes may leave everything as it was.
    pub stuck_after: u32,
    /// How often in a row it may be parked.
    pub parks: u32,
    /// When it is done.
    pub end: EndRule,
}

/// What holds for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRule {
    /// How often it is tried at most.
    pub attempts: u32,
    /// Whether a person may leave it out.
    pub skipping: Skipping,
}

/// Whether a person may leave a step out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipping {
    /// They may.
    Allowed,
    /// What follows rests on it.
    Refused,
}

/// When a list of steps is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRule {
    /// Passes follow one another until a promise that was made in one of them is kept.
    Promise,
    /// There is one pass, and it is done with its last step.
    LastStep,
}

/// How a list of steps stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepsStanding {
    /// It goes on.
    Running,
    /// It waits until a step can be worked on again.
    Parked {
        /// Until when.
        until: Timestamp,
        /// Why.
        reason: Scrubbed,
    },
    /// It waits for a person, and goes on when it is started again.
    Waits {
        /// What a person has to do.
        reason: Scrubbed,
    },
    /// The user stopped it; it goes on when it is started again.
    Stopped,
    /// It is over.
    Ended(LoopEnd),
}

/// What becomes of a step at work once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepWish {
    /// It is left out.
    Skip,
    /// A person is needed.
    Ask,
}

/// What is to be done next with a list of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepMove {
    BeginPass(u32),
    /// Work on a step.
    Step {
        /// Its number, from 0.
        step: usize,
        /// How often it will have been tried in this pass, from 1.
        attempt: u32,
    },
    /// Judge the promise: all steps are done.
    Judge,
    /// Wait until then.
    Wait(Timestamp),
    /// Nothing, until whoever is named or somebody else lets it go on.
    Hold(Scrubbed),
    /// Write that it is over.
    End(LoopEnd),
    /// Nothing: a person has to do something and start it again.
    Person(Scrubbed),
    /// Nothing: it is over, or was stopped.
    Over,
}

/// Why an entry changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It is of another list, or older than what is known.
    NotOurs,
    /// Only Salve says such things, and only a person starts a list or gives orders.
    NotTheirs,
    /// It does not follow from where the list is.
    Unexpected,
}

/// What came of an entry.
pub type EntryTaken = Result<(), NotTaken>;

impl StepMachine {
    /// Makes a machine of the entry that starts its list.
    pub(crate) fn start(terms: StepTerms, entry: &Entry) -> Self {
        Self {
            terms,
            standing: StepsStanding::Running,
            position: StepPosition::start(),
            costs: StepCosts::default(),
            interrupted: false,
            progress: ProgressMarks::default(),
            parks: 0,
            paused: None,
            wish: None,
            stamps: StepStamps::start(entry),
        }
    }

    /// Returns what is to be done next.
    pub fn next(&self, now: Timestamp) -> StepMove {
        match &self.standing {
            StepsStanding::Ended(_) | StepsStanding::Stopped => return StepMove::Over,
            StepsStanding::Waits { reason } => return StepMove::Person(reason.clone()),
            StepsStanding::Parked { reason, .. } if self.parks > self.terms.parks => {
                return StepMove::End(LoopEnd::Failed { reason: reason.clone() });
            }
            StepsStanding::Parked { until, .. } if now < *until => return StepMove::Wait(*until),
            StepsStanding::Parked { .. } | StepsStanding::Running => {}
        }
        let next = match &self.position.place {
            StepPlace::Kept => StepMove::End(LoopEnd::Completed),
            StepPlace::AllDone => StepMove::Judge,
            StepPlace::Between => self.between(),
            StepPlace::At { step, short } => self.at(*step, short),
        };
        self.held(next)
    }

    fn between(&self) -> StepMove {
        let done = self.position.passes();
        let most = self.terms.limits.attempts;
        if done > 0 && self.progress.unchanged() >= self.terms.stuck_after {
            StepMove::End(LoopEnd::Stuck)
        } else if let Some(resource) = self.costs.used_up(&self.terms.limits) {
            StepMove::End(LoopEnd::Limit(resource))
        } else if most.is_some_and(|most| u64::from(done) >= most) {
            StepMove::End(LoopEnd::Limit(Resource::Attempts))
        } else {
            StepMove::BeginPass(self.position.next_pass())
        }
    }

    fn at(&self, step: usize, short: &[Scrubbed]) -> StepMove {
        if let Some(resource) = self.costs.used_up(&self.terms.limits) {
            return StepMove::End(LoopEnd::Limit(resource));
        }
        let tried = u32::try_from(short.len()).unwrap_or(u32::MAX);
        let most = self.terms.steps.get(step).map_or(0, |rule| rule.attempts);
        match short.last() {
            Some(reason) if tried >= most => {
                StepMove::End(LoopEnd::Failed { reason: reason.clone() })
            }
            Some(_) | None => StepMove::Step { step, attempt: tried.saturating_add(1) },
        }
    }
}

/// Returns whether somebody may start a list of steps: a person, or Salve where nobody is known.
pub(crate) fn may_start(by: &Actor) -> bool {
    match by {
        Actor::Salve(_) => true,
        Actor::Person { .. } | Actor::Unproven { .. } => by.person_in_history().is_some(),
        Actor::Forged { .. } | Actor::Agent { .. } => false,
    }
}
