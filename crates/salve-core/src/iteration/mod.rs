//! One loop of agents, from its task to its end.
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
mod orders;
mod park;
mod seen;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod view;

use jiff::Timestamp;

use crate::event::{
    Amounts, Digest, Entry, LoopEnd, LoopId, LoopStep, LoopTerms, Process, Promise, Resource,
    TestsSeen, TestsVerdict,
};
use crate::scrub::Scrubbed;

pub use brief::{Brief, RoleFile, brief, promised};
pub use park::until;
pub use seen::{Run, seen};
pub use state::{Now, State, Status, state};

/// How many iterations that left everything as it was make the planner be told.
pub const WARN_AT: u32 = 2;

/// A loop as its entries made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    id: LoopId,
    task: Scrubbed,
    terms: LoopTerms,
    standing: Standing,
    /// The last iteration that began; 0 before the first.
    iteration: u32,
    /// The last iteration before this run of the loop.
    before: u32,
    place: Place,
    /// The last run of the tests in this iteration.
    tests: Option<TestsSeen>,
    /// The last run of the tests in the iteration before.
    earlier: Option<TestsSeen>,
    promise: Promise,
    /// Why the promise of the last iteration did not count.
    refused: Option<Refusal>,
    /// What was spent in this run, the role at work excepted.
    spent: Amounts,
    role: Option<AtWork>,
    /// Whether a role was cut off at its work.
    interrupted: bool,
    /// What each iteration of this run left.
    marks: Vec<Mark>,
    parks: u32,
    /// Who paused it.
    paused: Option<Scrubbed>,
    /// What was ordered about the role at work.
    wish: Option<Wish>,
    /// The process that drives it, or did.
    driver: Option<Process>,
    /// The last entry before this run of the loop.
    run_since: u64,
    /// When the last iteration began.
    began: Timestamp,
    since: Timestamp,
    /// The latest time that it has seen.
    clock: Timestamp,
    last_seq: u64,
}

/// How a loop stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It goes on.
    Running,
    /// It waits until a role can work again.
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

/// Where in an iteration a loop is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Between two iterations.
    Between,
    /// At a step that is not done.
    At {
        /// Its number, from 0.
        step: usize,
        /// What was wrong with each attempt at it.
        short: Vec<Scrubbed>,
        /// Whether its recovery has begun.
        recovering: bool,
    },
    /// All steps are done, and the promised tree has yet to be tested.
    Confirming,
    /// The promise holds.
    Kept,
}

/// What becomes of a role at work once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// It is left out.
    Skip,
    /// A person is needed.
    Ask,
}

/// A role at work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AtWork {
    name: Scrubbed,
    spent: Amounts,
}

/// Why a promise did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Tests failed.
    Red,
    /// The tests could not run, or did not.
    NotExecuted,
    /// What judges the task was weakened since the loop began.
    Weakened,
}

/// What an iteration left: the tree and what failed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    tree: Option<Digest>,
    failing: Digest,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Look at the settings and begin this iteration.
    Begin(u32),
    /// Let a role do its part.
    Role {
        /// The role.
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
    pub fn next(&self, now: Timestamp) -> Move {
        match &self.standing {
            Standing::Ended(_) | Standing::Stopped => return Move::Over,
            Standing::Waits { reason } => return Move::Person(reason.clone()),
            Standing::Parked { reason, .. } if self.parks > self.terms.parks => {
                return Move::End(LoopEnd::Failed { reason: reason.clone() });
            }
            Standing::Parked { until, .. } if now < *until => return Move::Wait(*until),
            Standing::Parked { .. } | Standing::Running => {}
        }
        let next = match &self.place {
            Place::Kept => Move::End(LoopEnd::Completed),
            Place::Confirming => Move::Tests,
            Place::Between => self.between(),
            Place::At { step, short, .. } => self.at(*step, short),
        };
        self.held(next)
    }

    fn between(&self) -> Move {
        let done = self.iteration.saturating_sub(self.before);
        let most = self.terms.limits.attempts;
        if self.iteration > self.before && self.unchanged() >= self.terms.stuck_after {
            Move::End(LoopEnd::Stuck)
        } else if let Some(resource) = self.over() {
            Move::End(LoopEnd::Limit(resource))
        } else if most.is_some_and(|most| u64::from(done) >= most) {
            Move::End(LoopEnd::Limit(Resource::Attempts))
        } else {
            Move::Begin(self.iteration.saturating_add(1))
        }
    }

    fn at(&self, step: usize, short: &[Scrubbed]) -> Move {
        if let Some(resource) = self.over() {
            return Move::End(LoopEnd::Limit(resource));
        }
        match self.terms.steps.get(step) {
            Some(LoopStep::Role(role)) => {
                let asked = u32::try_from(short.len()).unwrap_or(u32::MAX);
                match short.last() {
                    Some(reason) if asked > self.terms.retries => {
                        Move::End(LoopEnd::Failed { reason: reason.clone() })
                    }
                    Some(_) | None => {
                        Move::Role { role: role.clone(), attempt: asked.saturating_add(1) }
                    }
                }
            }
            Some(LoopStep::Tests) => Move::Tests,
            Some(LoopStep::Recovery) => Move::Recover,
            // An iteration without steps is over when it begins; see `Loop::advance`.
            None => Move::Over,
        }
    }

    /// Returns what is used up, iterations excepted.
    fn over(&self) -> Option<Resource> {
        let spent = self.spent();
        let counted = [Resource::Tokens, Resource::MoneyMicros, Resource::WallMs];
        counted.into_iter().find(|resource| {
            self.terms.limits.get(*resource).is_some_and(|limit| spent.get(*resource) >= limit)
        })
    }

    /// Returns how many iterations of this run left what the last one left, itself included.
    ///
    /// The same tree with the same failures counts wherever it was seen before: going to and fro
    /// is no progress. What could not be measured is never the same.
    pub fn unchanged(&self) -> u32 {
        let Some(last) = self.marks.last().filter(|mark| mark.tree.is_some()) else { return 0 };
        let same = self.marks.iter().filter(|mark| *mark == last).count();
        u32::try_from(same).unwrap_or(u32::MAX)
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
