//! A loop under care: its roles do their parts in turn, its tests are run by Salve itself.
//!
//! [`Driver::run`] asks core what is next and does it: one thread, one inbox. What takes time (a
//! role's agent, the tests) runs on a thread of its own and answers by the inbox. Everything that
//! happened is in the journal before the next thing begins, so whoever is killed leaves a loop
//! that the next run goes on with.
//!
//! Where the tests could not execute, whoever started the driver recovers them ([`Recover`]).

mod driver;
mod files;
mod plan;
mod report;
mod role;
mod trial;
mod verifier;

use std::sync::mpsc::{Receiver, Sender};

use salve_core::event::{Entry, LoopEnd, LoopId};
use salve_core::fingerprint::Rules;
use salve_core::iteration::Loop;
use salve_core::scrub::Scrubbed;

pub use driver::recall;
pub use files::Folder;
pub use plan::{Plan, RolePlan, TestsPlan};
pub use report::why;

use crate::agent::AgentEvent;
use crate::config::{Config, Live};
use crate::heal::loops::{Recovery, Sought};
use crate::heal::run::Ran;
use crate::heal::{Desk, Presence};
use crate::process::Care;
use crate::project::Project;
use crate::store::StoreError;

/// Something that reached a loop's driver.
#[derive(Debug)]
pub enum Input {
    /// The tests came to their end.
    Ran(Ran),
    /// The agent of the role at work did something.
    Agent(AgentEvent),
    /// Something was written to the journal about a loop.
    News,
    /// Something that a person should know.
    Note(String),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// What whoever drives a loop needs when its tests could not execute.
pub trait Recover {
    /// Takes over settings that hold from this iteration on.
    fn take_over(&mut self, config: &Config) -> Result<(), StoreError>;

    /// Takes the tests of a loop, known by its id, to where they execute, or to a person.
    ///
    /// A recovery that an earlier run of Salve began is gone on with first.
    fn recover(
        &mut self,
        of: (&LoopId, &TestsPlan),
        sought: Sought,
    ) -> Result<Recovery, StoreError>;
}

/// What is shown to whoever runs a loop.
pub trait Face {
    /// The loop took in an entry.
    fn entry(&mut self, of: &Loop, entry: &Entry);
    /// Something that a person should know.
    fn note(&mut self, text: &Scrubbed);
}

/// How a run of a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The loop is over.
    Over(LoopEnd),
    /// A person has to do something first.
    NeedsPerson(Scrubbed),
    /// A person called it off.
    CalledOff,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}

/// Why a run of a loop could not go on.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The loop's files could not be written.
    #[error(transparent)]
    Write(#[from] crate::atomic::WriteError),
}

/// Makes a plan of settings, or says what is missing.
pub type Planner<'a> = dyn Fn(&Config) -> Result<Plan, String> + 'a;

/// Drives one loop.
pub struct Driver<'a> {
    /// The project.
    pub project: Project,
    /// The loop's directory.
    pub folder: Folder,
    /// Where the loop meets the journal.
    pub desk: Desk<'a>,
    /// What starts and ends processes.
    pub care: Care,
    /// What recognises failures.
    pub rules: &'a Rules,
    /// The settings, looked at anew for each iteration.
    pub live: Live<'a>,
    /// What makes a plan of them.
    pub planner: &'a Planner<'a>,
    /// The plan of this iteration.
    pub plan: Plan,
    /// What recovers the tests.
    pub recover: &'a mut dyn Recover,
    /// Where everything arrives, and how to get there.
    pub inbox: (Sender<Input>, Receiver<Input>),
    /// Who is shown what happens.
    pub face: &'a mut dyn Face,
    /// Whether somebody is there.
    pub presence: Presence,
}
