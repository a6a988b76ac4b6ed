//! The engine of a fleet: a queue of jobs on NATS `JetStream`, beside the project's own journal and
//! memory.
//!
//! A queue message is only a wake-up: the server would take an acknowledgement from a worker that
//! lost its job long ago. The truth is one record per job, which is replaced at the revision that its
//! writer knew and at no other. Time is the server's ([`clock`]).
//!
//! The client is asynchronous and lives on a thread of its own behind a [`link`]; the interfaces of
//! the store stay as they are.
//!
//! **Invariant:** of two writers that know the same revision of a job, one is refused.

mod blobs;
mod clock;
mod desk;
mod link;
mod orders;
mod presence;
mod queue;
mod reconciler;
mod record;
mod records;
mod streams;
#[cfg(test)]
pub(super) mod test_server;
mod wake_ups;

use std::sync::Arc;

use super::fleet::FleetTerms;
use super::sqlite::Sqlite;
use super::{Copying, Engine, Fleet, JobQueue, Journal, Memory, Mended, StoreError};
use crate::project::Project;
use link::NatsLink;
use queue::NatsQueue;

/// A project's own journal and memory, with the queue of a fleet.
#[derive(Debug)]
pub(super) struct FleetEngine {
    local: Sqlite,
    queue: NatsQueue,
}

impl FleetEngine {
    /// Opens the project's own store and reaches the fleet.
    pub(super) fn open(project: &Project, terms: &FleetTerms) -> Result<Self, StoreError> {
        let link = Arc::new(NatsLink::connect(terms)?);
        Ok(Self { local: Sqlite::open(project)?, queue: NatsQueue::new(link)? })
    }
}

impl Engine for FleetEngine {
    fn journal(&self) -> &dyn Journal {
        self.local.journal()
    }

    fn memory(&self) -> &dyn Memory {
        self.local.memory()
    }

    fn queue(&self) -> &dyn JobQueue {
        &self.queue
    }

    fn fleet(&self) -> Option<&dyn Fleet> {
        Some(&self.queue)
    }

    fn mended(&self) -> Vec<Mended> {
        self.local.mended()
    }

    fn set_copying(&self, copying: Copying) {
        self.local.set_copying(copying);
    }

    fn update_copy(&self) -> Result<(), StoreError> {
        self.local.update_copy()
    }

    fn leave_untidied(&self) {
        self.local.leave_untidied();
    }
}
