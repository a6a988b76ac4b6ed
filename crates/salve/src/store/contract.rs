//! What every engine has to do: the tests of [`Journal`], [`Memory`] and [`JobQueue`], run against each of them.
//!
//! A new engine is plugged in with one more line in [`for_every_engine`].

mod job_queue;
mod journal;
mod memory;

use tempfile::TempDir;

use super::Store;
use super::in_memory::InMemory;
use crate::project::Project;

/// The content of a store that can be opened any number of times.
pub(super) struct ContractBench<'a> {
    project: Project,
    open: &'a (dyn Fn(&Project) -> Store + Sync),
    _dir: TempDir,
}

impl<'a> ContractBench<'a> {
    fn new(open: &'a (dyn Fn(&Project) -> Store + Sync)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { project: Project::at(dir.path()).unwrap(), open, _dir: dir }
    }

    /// Opens the store as another process would.
    pub(super) fn open(&self) -> Store {
        (self.open)(&self.project)
    }
}

/// Runs a test on a fresh queue of every engine there is: beside all stores, those of a fleet on one
/// server and on three.
pub(super) fn for_every_queue(test: impl Fn(&ContractBench<'_>)) {
    for_every_engine(&test);
    #[cfg(feature = "fleet")]
    {
        use super::nats::test_server::TestServers;
        for servers in [TestServers::one, TestServers::three] {
            let Some(servers) = servers() else { continue };
            let terms = servers.new_fleet();
            let open = |project: &Project| Store::open_in_fleet(project, &terms).unwrap();
            test(&ContractBench::new(&open));
        }
    }
}

/// Runs a test on a fresh store of every engine there is.
pub(super) fn for_every_engine(test: impl Fn(&ContractBench<'_>)) {
    test(&ContractBench::new(&|project| Store::open(project).unwrap()));
    let shared = InMemory::default();
    test(&ContractBench::new(&move |project| Store::on(project, shared.clone())));
}
