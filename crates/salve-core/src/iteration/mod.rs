//! One loop of agents, from its task to its end.
//!
//! It is a list of steps ([`crate::steps`]) that is gone through again and again: each pass is an
//! iteration, and it is done when a promise is kept.
//!
//! A [`Loop`] is made of its journal entries alone and says what is next ([`Loop::next`]); it
//! never acts. An iteration does its steps in order: roles do their parts, Salve runs the tests,
//! and where these could not execute their infrastructure is recovered. What was finished is
//! never asked for again, whenever the process that drove it was killed.
//!
//! **Invariants:** a loop completes only by a promise, and only if Salve's own tests were green on
//! the very tree that was promised. A step that is done is not due again in its iteration. Every
//! loop ends, waits for a time, or waits for a person.

mod brief;
mod park;
mod seen;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use jiff::Timestamp;

use crate::event::{Entry, LoopEnd, LoopId, LoopStep, LoopTerms, Promise, TestsSeen, TestsVerdict};
use crate::scrub::Scrubbed;
use crate::steps::{EndRule, Skipping, StepMachine, StepMove, StepRule, StepTerms};

pub use crate::steps::StepsStanding;
pub use brief::{RoleBrief, RoleFile, brief, promised};
pub use park::until;
pub use seen::{TestsRun, seen};
pub(crate) use state::state;
pub use state::{LoopStateFile, Status};

/// How many iterations that left everything as it was make the planner be told.
pub const WARN_AT: u32 = 2;

/// A loop as its entries made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    id: LoopId,
    task: Scrubbed,
    terms: LoopTerms,
    /// The steps of its iterations, and where among them it is.
    steps: StepMachine,
    /// The last run of the tests in this iteration.
    tests: Option<TestsSeen>,
    /// The last run of the tests in the iteration before.
    earlier: Option<TestsSeen>,
    promise: Promise,
    /// Why the promise of the last iteration did not count.
    refused: Option<PromiseRefusal>,
    /// Whether the recovery at which it is has begun.
    recovering: bool,
}

/// Why a promise did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseRefusal {
    /// Tests failed.
    Red,
    /// The tests could not run, or did not.
    NotExecuted,
    /// What judges the task was weakened since the loop began.
    Weakened,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopMove {
    /// Look at the settings and begin this iteration.
    Begin(u32),
    /// Let a role do its part.
    Role {
        role: Scrubbed,
        /// How often it will have been asked in this iteration, from 1.
        attempt: u32,
    },
    /// Run the tests.
    Tests,
    /// Recover the infrastructure of the tests.
    Recover,
    /// Wait until then.
    Wait(Timestamp),
    /// Nothing, until whoever is named or somebody else lets it go on.
    Hold(Scrubbed),
    /// Write that the loop is over.
    End(LoopEnd),
    /// Nothing: a person has to do something and start it again.
    Person(Scrubbed),
    /// Nothing: it is over, or was stopped.
    Over,
}

/// Why entries make no loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal does not say how the loop `{0}` was started")]
pub struct NotStarted(pub LoopId);

impl Loop {
    /// Makes a loop of its entries; those of others are passed over.
    pub fn replay<'e>(
        id: &LoopId,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<Self, NotStarted> {
        let mut made: Option<Self> = None;
        for entry in entries {
            match &mut made {
                // What is refused stands in the journal and changes nothing.
                Some(known) => drop(known.step(entry)),
                None => made = Self::start(id, entry),
            }
        }
        made.ok_or_else(|| NotStarted(id.clone()))
    }

    /// Returns what is to be done next.
    pub fn next(&self, now: Timestamp) -> LoopMove {
        match self.steps.next(now) {
            StepMove::BeginPass(iteration) => LoopMove::Begin(iteration),
            StepMove::Step { step, attempt } => match self.terms.steps.get(step) {
                Some(LoopStep::Role(role)) => LoopMove::Role { role: role.clone(), attempt },
                Some(LoopStep::Tests) => LoopMove::Tests,
                Some(LoopStep::Recovery) => LoopMove::Recover,
                None => LoopMove::Over,
            },
            // What was promised has to be tested first.
            StepMove::Judge => LoopMove::Tests,
            StepMove::Wait(until) => LoopMove::Wait(until),
            StepMove::Hold(by) => LoopMove::Hold(by),
            StepMove::End(why) => LoopMove::End(why),
            StepMove::Person(reason) => LoopMove::Person(reason),
            StepMove::Over => LoopMove::Over,
        }
    }

    /// Returns whether the tests of this iteration could not execute.
    fn has_to_recover(&self) -> bool {
        let verdict = self.tests.as_ref().map(|tests| tests.verdict);
        match verdict {
            Some(TestsVerdict::NotExecuted) => true,
            Some(TestsVerdict::Green | TestsVerdict::Red) | None => false,
        }
    }
}

/// Returns what a loop's terms mean for its list of steps.
fn step_terms(terms: &LoopTerms) -> StepTerms {
    let rule = |step: &LoopStep| match step {
        LoopStep::Role(_) => {
            StepRule { attempts: terms.retries.saturating_add(1), skipping: Skipping::Allowed }
        }
        LoopStep::Tests | LoopStep::Recovery => {
            StepRule { attempts: u32::MAX, skipping: Skipping::Refused }
        }
    };
    let steps: Arc<[StepRule]> = terms.steps.iter().map(rule).collect();
    StepTerms {
        steps,
        limits: terms.limits,
        stuck_after: terms.stuck_after,
        parks: terms.parks,
        end: EndRule::Promise,
    }
}
