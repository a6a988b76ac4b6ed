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

mod answers;
mod blobs;
mod clock;
mod desk;
mod fixes;
mod flights;
mod link;
mod news;
mod orders;
mod presence;
mod queue;
mod reconciler;
mod record;
mod records;
mod signer;
mod streams;
#[cfg(test)]
pub(crate) mod test_server;
mod wake_ups;

use std::sync::Arc;

use super::fleet::{FleetError, FleetStanding, FleetTerms};
use super::sqlite::Sqlite;
use super::{Copying, Engine, Fleet, JobQueue, Journal, Memory, Mended, StoreError};
use crate::project::Project;
use link::{Connecting, NatsLink};
use queue::NatsQueue;
use signer::FixSigner;

/// Looks at the servers of a fleet.
pub(super) fn look(terms: &FleetTerms) -> Result<FleetStanding, FleetError> {
    let link = NatsLink::connect(terms, Connecting::Looks)?;
    let (context, names) = (link.context.clone(), link.names.clone());
    link.wait("looking at the servers", async move { names.look(&context).await })
}

/// A project's own journal and memory, with the queue of a fleet.
#[derive(Debug)]
pub(super) struct FleetEngine {
    local: Sqlite,
    queue: NatsQueue,
}

impl FleetEngine {
    /// Opens the project's own store and reaches the fleet.
    pub(super) fn open(project: &Project, terms: &FleetTerms) -> Result<Self, StoreError> {
        let link = Arc::new(NatsLink::connect(terms, Connecting::Makes)?);
        let queue = NatsQueue::new(link, FixSigner::of(terms.credentials.as_deref()))?;
        Ok(Self { local: Sqlite::open(project)?, queue })
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use salve_core::id::JobId;
    use salve_core::job::RetryTerms;
    use uuid::Uuid;

    use super::streams::StreamNames;
    use super::test_server::TestServers;
    use super::*;
    use crate::store::Store;

    /// How long servers may take to agree with one another, however busy the machine is.
    const AGREEING: Duration = Duration::from_secs(60);

    /// **Invariant:** What a fleet keeps never makes room for something else.
    #[test]
    fn a_fleet_without_room_says_so_and_keeps_what_it_has() {
        let Some(servers) = TestServers::one() else { return };
        let dir = tempfile::tempdir().unwrap();
        let begun = || {
            let terms = FleetTerms { storage_mb: 4, ..servers.new_fleet() };
            Store::open_in_fleet(&Project::at(dir.path()).unwrap(), &terms).unwrap()
        };
        let store = begun();
        let fleet = store.fleet().unwrap();
        let job = |number| JobId(Uuid::from_u128(number));
        let is_full = |error: &StoreError| {
            matches!(error, StoreError::Fleet(FleetError::Full { .. }))
                && !error.advice().is_empty()
        };
        for size in [100 * 1024, 600 * 1024] {
            let content = |number: usize| format!("{number} {}", "x".repeat(size)).into_bytes();
            let mut kept = Vec::new();
            let error = loop {
                assert!(kept.len() < 100, "it has no end");
                match fleet.keep_file(job(1), content(kept.len())) {
                    Ok(file) => kept.push(file),
                    Err(error) => break error,
                }
            };
            assert!(is_full(&error) && !kept.is_empty(), "{error:?} after {}", kept.len());
            for (number, file) in kept.iter().enumerate() {
                assert_eq!(fleet.file(job(1), file).unwrap(), content(number));
            }
        }
        let store = begun();
        let payload = "x".repeat(100 * 1024);
        let retry = RetryTerms { max_tries: 1, max_losses: 1, backoff_ms: 1 };
        let mut queued = 0;
        let error = loop {
            assert!(queued < 100, "it has no end");
            match store.queue().submit(job(queued), &payload, retry) {
                Ok(()) => queued += 1,
                Err(error) => break error,
            }
        };
        assert!(is_full(&error) && queued > 0, "{error:?}");
        assert_eq!(store.queue().queued(None).unwrap().len() as u128, queued);
    }

    #[test]
    fn a_look_at_a_fleet_makes_nothing_and_sees_on_which_servers_everything_is() {
        for servers in [TestServers::one, TestServers::three] {
            let Some(servers) = servers() else { return };
            let terms = servers.new_fleet();
            let since = Instant::now();
            let before = loop {
                match look(&terms) {
                    // They choose a leader first.
                    Err(error) if error.is_transient() && since.elapsed() < AGREEING => {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    seen => break seen.unwrap(),
                }
            };
            assert_eq!((before.streams.len(), before.missing.len()), (0, StreamNames::COUNT));
            assert_eq!(
                look(&terms).unwrap().missing.len(),
                StreamNames::COUNT,
                "a look makes nothing"
            );
            let dir = tempfile::tempdir().unwrap();
            let _store = Store::open_in_fleet(&Project::at(dir.path()).unwrap(), &terms).unwrap();
            let copies = usize::from(terms.replicas);
            let since = Instant::now();
            let seen = loop {
                let seen = look(&terms).unwrap();
                if seen.streams.iter().all(|stream| stream.current == copies) {
                    break seen;
                }
                assert!(since.elapsed() < AGREEING, "{seen:?}");
                std::thread::sleep(Duration::from_millis(100));
            };
            assert_eq!((seen.streams.len(), seen.missing.len()), (StreamNames::COUNT, 0));
            assert_eq!(seen.servers.len(), copies, "{:?}", seen.servers);
            for stream in seen.streams {
                assert_eq!(stream.replicas, copies, "{stream:?}");
                assert!(stream.max_bytes.is_some() && stream.refuses_new, "{stream:?}");
                assert!(stream.is_on_disk && !stream.forgets, "{stream:?}");
            }
        }
    }
}
