//! A loop under care: its roles do their parts in turn, its tests are run by Salve itself.
//!
//! [`LoopDriver::run`] asks core what is next and does it: one thread, one inbox. What takes time (a
//! role's agent, the tests) runs on a thread of its own and answers by the inbox. Everything that
//! happened is in the journal before the next thing begins, so whoever is killed leaves a loop
//! that the next run goes on with.
//!
//! Where the tests could not execute, their `recovery` is an incident like any other: the loop has
//! the driver care for it, on the same inbox.

mod driver;
mod files;
mod plan;
mod recovery;
mod report;
mod role;
mod trial;
mod verifier;

use salve_core::event::{Entry, LoopEnd};
use salve_core::iteration::Loop;
use salve_core::scrub::Scrubbed;

pub use files::Folder;
pub use plan::{LoopPlan, RolePlan, TestsPlan};
pub use recovery::{RecoverySubject, RecoveryTerms, RecoveryTests};
pub use report::why;

use crate::agent::AgentEvent;
use crate::config::{Config, LiveSettings};
use crate::heal::RunBase;
use crate::heal::inbox::NewsQueue;
use crate::heal::records::Records;
use crate::heal::run::CommandRunEnd;
use crate::store::StoreError;

/// Something that happened to a loop.
#[derive(Debug)]
pub enum LoopNews {
    /// The tests came to their end.
    Ran(CommandRunEnd),
    /// The agent of the role at work did something.
    Agent(AgentEvent),
    /// Somebody ordered something of a loop.
    Ordered,
    /// Something that a person should know.
    Note(String),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// What is shown to whoever runs a loop.
pub trait LoopReporter {
    /// The loop took in an entry.
    fn entry(&mut self, of: &Loop, entry: &Entry);
    /// Something that a person should know.
    fn note(&mut self, text: &Scrubbed);
}

/// How a run of a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnding {
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
pub type LoopPlanner<'a> = dyn Fn(&Config) -> Result<LoopPlan, String> + 'a;

/// Takes over settings that hold from an iteration on.
pub type SettingsTakeOver<'a> = dyn FnMut(&Config, &mut RunBase<'a>) -> Result<(), StoreError> + 'a;

/// Drives one loop.
pub struct LoopDriver<'a> {
    /// What the loop's run stands on; recoveries of its tests stand on it too.
    pub base: RunBase<'a>,
    /// The loop's directory.
    pub folder: Folder,
    /// The settings, looked at again for each iteration.
    pub live: LiveSettings<'a>,
    /// What makes a plan of them.
    pub planner: &'a LoopPlanner<'a>,
    /// What takes them over.
    pub take_over: &'a mut SettingsTakeOver<'a>,
    /// The plan of this iteration.
    pub plan: LoopPlan,
    /// What is kept of recoveries beside the journal.
    pub records: Records,
    /// What happens to the loop.
    pub news: NewsQueue<LoopNews>,
    /// Who is shown what happens.
    pub reporter: &'a mut dyn LoopReporter,
}
