//! The engine that ships: one SQLite file, `.salve/salve.db`, that any number of processes use.
//!
//! [`Sqlite`] is put together of a journal, a memory and a queue of jobs, each of which keeps its own
//! tables in one [`Database`].

mod database;
mod error;
mod export;
mod follow;
mod items;
mod job_queue;
mod journal;
mod lock;
mod memory;
mod near;
mod open;
mod own;
mod patience;
mod salvage;
mod schema;
mod words;

use std::sync::Arc;

pub use lock::StoreLockHolder;
pub use salvage::{Mended, SavedEntries};

use super::{Copying, Engine, JobQueue, Journal, Memory, StoreError};
use crate::project::Project;
use database::Database;
use job_queue::SqliteQueue;
use journal::SqliteJournal;
use memory::SqliteMemory;

/// What an append must survive once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process, however sudden.
    Process,
    /// A power cut too.
    Power,
}

/// An open database, and the parts that keep their tables in it.
#[derive(Debug)]
pub(super) struct Sqlite {
    database: Arc<Database>,
    journal: SqliteJournal,
    memory: SqliteMemory,
    queue: SqliteQueue,
}

impl Sqlite {
    /// Opens the project's database, making it if there is none, mending it if it is damaged.
    pub(super) fn open(project: &Project) -> Result<Self, StoreError> {
        Ok(Self::on(Database::open(project)?))
    }

    /// Opens the project's database where nothing can be written.
    pub(super) fn open_to_read(project: &Project) -> Result<Self, StoreError> {
        Ok(Self::on(Database::open_to_read(project)?))
    }

    fn on(database: Database) -> Self {
        let database = Arc::new(database);
        Self {
            journal: SqliteJournal::new(&database),
            memory: SqliteMemory::new(&database),
            queue: SqliteQueue::new(&database),
            database,
        }
    }
}

impl Engine for Sqlite {
    fn journal(&self) -> &dyn Journal {
        &self.journal
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn queue(&self) -> &dyn JobQueue {
        &self.queue
    }

    fn mended(&self) -> Vec<Mended> {
        self.database.mended()
    }

    fn set_copying(&self, copying: Copying) {
        self.journal.set_copying(copying);
    }

    fn update_copy(&self) -> Result<(), StoreError> {
        export::update(&self.journal)
    }

    fn leave_untidied(&self) {
        self.database.leave_untidied();
    }
}

/// Looks at every page and row of a project's database, and mends it if need be.
pub(super) fn examine(project: &Project) -> Result<Option<Mended>, StoreError> {
    salvage::mend(project)
}
