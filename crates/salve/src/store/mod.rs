//! The project's store: the journal and the memory, behind interfaces.
//!
//! [`Journal`], [`Memory`] and [`JobQueue`] say what Salve needs of a store; an [`Engine`] is
//! something that has all three. The one engine that ships is [`sqlite`](self), a single file that any number of processes
//! use at once; a second one has to implement [`Engine`] and pass the tests in `contract`, and
//! nothing above this module changes.
//!
//! A [`Store`] is for one thread. Code that must not block reaches it through a [`StoreHandle`].
//!
//! **Invariant:** no type of an engine stands in a signature that leaves this module.

#[cfg(test)]
mod contract;
mod error;
mod fleet;
mod fleet_answers;
mod fleet_fixes;
mod fleet_flights;
mod fleet_news;
mod handle;
#[cfg(test)]
pub(crate) mod in_memory;
mod job_queue;
mod journal;
mod line;
mod memory;
#[cfg(feature = "fleet")]
mod nats;
mod sqlite;
mod stream;

use std::fs;
use std::path::PathBuf;

pub use error::{Cause, RawError, StoreError};
pub use fleet::{
    BadFleetName, Fleet, FleetError, FleetFile, FleetJob, FleetName, FleetOrder, FleetStanding,
    FleetTerms, JobSeen, PlacedOrder, StreamStanding, WorkerSeen,
};
pub use fleet_answers::{
    AnswerId, AnswerVerdict, BadFleetPerson, FleetAnswer, FleetAnswers, FleetPerson, FleetWord,
    PlacedAnswer, QuestionBinding,
};
pub use fleet_fixes::{FixAuthor, FixMessage, FixPortion, FleetFixes, SaidFix};
pub use fleet_flights::{
    Boarding, FleetFlights, FlightEnd, FlightError, FlightSeat, FlightTerms, fix_once,
};
pub use fleet_news::{FleetJobRow, FleetNews, FleetNewsSource, JobEvents};
pub use handle::{JournalNews, NewsListener, StoreBusy, StoreHandle, StoreOnDemand};
pub use job_queue::{ClaimStanding, ClaimToken, JobArtifact, JobClaim, JobQueue};
pub use journal::{Appended, Follower, Journal, StreamPosition};
pub use line::{LineError, parse_line, to_line};
pub use memory::{
    FailurePortion, FileBase, FileEdit, ItemChange, KeyedItem, LearnedItem, Memory, MemorySize,
    Near, Page, Portion, UnknownItem,
};
#[cfg(all(test, feature = "fleet"))]
pub(crate) use nats::test_server::TestServers;
pub use sqlite::{Mended, SavedEntries, StoreLockHolder};
pub use stream::Stream;

use crate::project::{Project, ProjectError};
use sqlite::Sqlite;

/// Who keeps the journal's copy, `events.jsonl`, up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Every append, before it returns.
    AtOnce,
    /// Somebody who follows the journal, a little later; see [`Store::update_copy`].
    Later,
}

/// What a store is built on: a journal, a memory, a queue of jobs, and the little that only some engines need.
pub trait Engine: std::fmt::Debug + Send {
    fn journal(&self) -> &dyn Journal;

    fn memory(&self) -> &dyn Memory;

    /// Returns its queue of jobs.
    fn queue(&self) -> &dyn JobQueue;

    /// Returns the fleet that it belongs to, if it is an engine of one.
    fn fleet(&self) -> Option<&dyn Fleet> {
        None
    }

    /// Returns, once, what the store had to be saved from since the last time.
    fn mended(&self) -> Vec<Mended> {
        Vec::new()
    }

    /// Says who keeps the journal's copy for people and scripts up to date, from now on.
    fn set_copying(&self, _copying: Copying) {}

    /// Brings the journal's copy for people and scripts up to date, if the engine keeps one.
    fn update_copy(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Leaves it to whoever opens the store next to tidy up, which takes time.
    fn leave_untidied(&self) {}
}

/// An open store.
///
/// It is for one thread; another thread opens its own.
#[derive(Debug)]
pub struct Store {
    project: Project,
    engine: Box<dyn Engine>,
}

impl Store {
    /// Opens the project's store, making it if there is none.
    ///
    /// A damaged store is mended first; see [`Store::mended`].
    pub fn open(project: &Project) -> Result<Self, StoreError> {
        Ok(Self::on(project, Sqlite::open(project)?))
    }

    /// Opens the project's store if there is one, if need be only for reading.
    pub fn open_existing(project: &Project) -> Result<Option<Self>, StoreError> {
        let there = |path: PathBuf| fs::symlink_metadata(path).is_ok();
        if !project.has_state_dir()? || !(there(project.database()) || there(project.events())) {
            return Ok(None);
        }
        match Self::open(project) {
            Err(
                StoreError::ReadOnly { .. }
                | StoreError::Denied { .. }
                | StoreError::Full { .. }
                | StoreError::Project(ProjectError::Make { .. }),
            ) if there(project.database()) => {
                Ok(Some(Self::on(project, Sqlite::open_to_read(project)?)))
            }
            opened => opened.map(Some),
        }
    }

    /// Opens the project's store with the queue of a fleet in the place of its own.
    #[cfg(feature = "fleet")]
    pub fn open_in_fleet(project: &Project, terms: &FleetTerms) -> Result<Self, StoreError> {
        Ok(Self::on(project, nats::FleetEngine::open(project, terms)?))
    }

    /// Opens the project's store with the queue of a fleet in the place of its own.
    #[cfg(not(feature = "fleet"))]
    pub fn open_in_fleet(_project: &Project, _terms: &FleetTerms) -> Result<Self, StoreError> {
        Err(FleetError::NotBuilt.into())
    }

    /// Looks at the servers of a fleet, and makes nothing there.
    #[cfg(feature = "fleet")]
    pub fn look_at_fleet(terms: &FleetTerms) -> Result<FleetStanding, FleetError> {
        nats::look(terms)
    }

    /// Looks at the servers of a fleet, and makes nothing there.
    #[cfg(not(feature = "fleet"))]
    pub fn look_at_fleet(_terms: &FleetTerms) -> Result<FleetStanding, FleetError> {
        Err(FleetError::NotBuilt)
    }

    /// Makes a store of a project on an engine.
    pub fn on(project: &Project, engine: impl Engine + 'static) -> Self {
        Self { project: project.clone(), engine: Box::new(engine) }
    }

    /// Looks at every page and row, and mends what is damaged or says something else than the copy.
    pub fn examine(project: &Project) -> Result<Option<Mended>, StoreError> {
        sqlite::examine(project)
    }

    /// Returns the project whose store this is.
    pub fn project(&self) -> &Project {
        &self.project
    }

    pub fn journal(&self) -> &dyn Journal {
        self.engine.journal()
    }

    pub fn memory(&self) -> &dyn Memory {
        self.engine.memory()
    }

    /// Returns the queue of jobs.
    pub fn queue(&self) -> &dyn JobQueue {
        self.engine.queue()
    }

    /// Returns the fleet whose queue it has, if it was opened in one.
    pub fn fleet(&self) -> Option<&dyn Fleet> {
        self.engine.fleet()
    }

    /// Returns, once, what this store had to be saved from since the last time.
    pub fn mended(&self) -> Vec<Mended> {
        self.engine.mended()
    }

    /// Says who keeps the journal's copy up to date, from now on.
    pub fn set_copying(&self, copying: Copying) {
        self.engine.set_copying(copying);
    }

    /// Brings the copy for people and scripts, `events.jsonl`, up to date.
    ///
    /// Every append does so by itself, unless that is left to another ([`Copying`]); but an append
    /// does not fail when only the copy cannot be written.
    pub fn update_copy(&self) -> Result<(), StoreError> {
        self.engine.update_copy()
    }

    /// Leaves it to whoever opens the store next to bring its file up to date, which takes time.
    pub fn leave_untidied(&self) {
        self.engine.leave_untidied();
    }
}
