//! The way of sessions to the repair tools: through the handle of the project's store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use salve_core::event::Process;

use super::repair_tools::Clients;
use super::{RepairTools, RepairToolsPlace};
use crate::process;
use crate::store::{NewsListener, StoreBusy, StoreHandle, StoreOnDemand};

/// How often it is looked at whether clients are still there.
const TICK: Duration = Duration::from_secs(1);

/// How long the last word may take when the process ends.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What all sessions of this process share.
#[derive(Clone, Debug)]
pub(super) struct ToolAccess {
    handle: StoreHandle,
    shared: Arc<SharedToolAccess>,
}

#[derive(Debug)]
struct SharedToolAccess {
    place: RepairToolsPlace,
    me: Process,
    /// Only work on the store's thread locks it, so nobody ever waits here.
    clients: Mutex<Clients>,
}

impl ToolAccess {
    /// Makes the way to a project's repair tools; nothing is opened yet.
    pub(super) fn new(place: RepairToolsPlace) -> Self {
        let handle = StoreHandle::new(&place.project);
        let me = process::this(&place.scrubber);
        Self { handle, shared: Arc::new(SharedToolAccess { place, me, clients: Mutex::default() }) }
    }

    /// Returns what the tools are for.
    pub(super) fn place(&self) -> &RepairToolsPlace {
        &self.shared.place
    }

    /// Hands `work` over and returns what came of it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RepairTools<'_>) -> T + Send + 'static,
    ) -> Result<T, StoreBusy> {
        let shared = self.shared.clone();
        self.handle.ask(move |store| shared.with_room(store, work)).await
    }

    /// Hands `work` over without waiting.
    pub(super) fn tell(&self, work: impl FnOnce(&mut RepairTools<'_>) + Send + 'static) {
        let shared = self.shared.clone();
        self.handle.tell(move |store| shared.with_room(store, work));
    }

    /// Returns what hears of changes from now on.
    pub(super) fn listen(&self) -> NewsListener {
        self.handle.listen()
    }

    /// Keeps the journal's word about who is there up to date; it never comes back.
    pub(super) async fn tend(&self) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            self.tell(|room| room.tend());
        }
    }

    /// Says that all clients have left, and waits until that is written.
    pub(super) fn close(&self) {
        self.tell(|room| room.leave());
        // The process ends anyway; the journal tells by the process that it is gone.
        self.handle.finish(LAST_WORD);
    }
}

impl SharedToolAccess {
    fn with_room<T>(
        &self,
        store: &mut StoreOnDemand,
        work: impl FnOnce(&mut RepairTools<'_>) -> T,
    ) -> T {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { place, me, .. } = self;
        work(&mut RepairTools { place, me, clients: &mut clients, store })
    }
}
