//! The memory of remedies that the machines of a fleet share.
//!
//! What comes out here is put into an outbox on this machine and goes to the fleet beside the work,
//! and what others told is folded into a memory of its own on this machine, from which alone is read:
//! no repair waits for the network. That memory is apart from the project's and the user's, so that
//! whoever trusts the fleet no more has nothing of it left in theirs.
//!
//! **Invariant:** whatever others told, it is the gate and the proof in a layer that decide.

mod sync;

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use salve_core::event::SubjectKind;
use salve_core::id::Signature;
use salve_core::memory::fleet::{FixNews, FixSource, FixTold, UnusableFix};
use salve_core::memory::{Knowledge, RememberedKind};
use salve_core::scrub::{Scrubbed, Scrubber};
use serde_json::Value;

use crate::config::{FleetTrust, PatchReach, Settings};
use crate::dirs;
use crate::files::make_directories;
use crate::process;
use crate::project::Project;
use crate::store::{FileEdit, FleetTerms, ItemChange, KeyedItem, Store, StoreError};

pub use sync::SyncSummary;

/// What waits to be sent, among the items of the memory.
const OUTBOX: &str = "fleet-outbox";

/// How long the end of a run that has something to tell waits until it is told.
const PARTING: Duration = Duration::from_secs(5);

/// Why the fleet's memory could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum FleetMemoryError {
    /// The fleet or the local memory could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody's messages can be known to be the user's own.
    #[error("`memory.fleet = \"mine\"` needs a key, and `fleet.credentials` has none")]
    NoKey,
    /// There is no place for it on this machine.
    #[error("the fleet's memory has no place on this machine: {0}")]
    NoPlace(String),
}

/// What a fleet's memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetMemoryTerms {
    /// Whose word counts.
    pub trust: FleetTrust,
    /// Where patches are used again.
    pub patches: PatchReach,
}

/// The memory of a fleet on this machine.
#[derive(Debug)]
pub struct FleetMemory {
    terms: FleetMemoryTerms,
    fleet: Arc<FleetTerms>,
    dir: PathBuf,
    person: Scrubbed,
    scrubber: Scrubber,
    /// The exchange that this run began last, if it has something to tell.
    parting: Mutex<Option<Receiver<()>>>,
}

impl FleetMemory {
    /// Returns the memory that the settings ask for: nothing where they trust nobody, or there is no
    /// fleet.
    pub fn of(settings: &Settings, person: &str, scrubber: &Scrubber) -> Option<Self> {
        let fleet = settings.fleet.terms().ok().flatten()?;
        Self::in_fleet(settings, fleet, person, scrubber)
    }

    /// Returns the memory of this fleet, unless the settings trust nobody.
    pub fn in_fleet(
        settings: &Settings,
        fleet: FleetTerms,
        person: &str,
        scrubber: &Scrubber,
    ) -> Option<Self> {
        let terms =
            FleetMemoryTerms { trust: settings.memory.fleet, patches: settings.memory.patches };
        let is_used = cfg!(feature = "fleet") && terms.trust != FleetTrust::Off;
        let data = dirs::data().filter(|_| is_used)?;
        let which = salve_core::event::Digest::of(&[fleet.url.as_bytes()]).to_string();
        let which: String = which.chars().take(8).collect();
        let place = format!("{}-{which}-{}", fleet.name, terms.trust.as_str());
        Some(Self {
            terms,
            fleet: Arc::new(fleet),
            dir: data.join("fleet").join(place),
            person: scrubber.scrub(person),
            scrubber: scrubber.clone(),
            parting: Mutex::new(None),
        })
    }

    fn project(&self) -> Project {
        Project::of_user(self.dir.clone())
    }

    /// Returns what is known here of what the fleet knows about a failure.
    pub fn recall(&self, signature: Signature) -> Result<Option<Knowledge>, StoreError> {
        match self.store()? {
            Some(store) => store.memory().recall(signature),
            None => Ok(None),
        }
    }

    /// Returns what is known here of what the fleet knows, if anything was ever read of it.
    pub fn store(&self) -> Result<Option<Store>, StoreError> {
        Store::open_existing(&self.project())
    }

    /// Tells whether a remedy that others told is used against a failure of such a subject: a patch
    /// only where it has to help in a private layer before anything of it is in the tree.
    pub fn serves(&self, kind: RememberedKind, subject: SubjectKind) -> bool {
        match kind {
            RememberedKind::Command => true,
            RememberedKind::Patch => {
                self.terms.patches == PatchReach::Fleet && subject.shows_in_layer()
            }
            RememberedKind::Instruction => false,
        }
    }

    /// Puts something into the outbox; what does not leave this machine is left out.
    pub fn tell(&self, project: Scrubbed, told: FixTold) -> Result<(), FleetMemoryError> {
        if let FixTold::Tried { remedy, .. } = &told {
            let leaves = match remedy.kind {
                RememberedKind::Command => true,
                RememberedKind::Patch => self.terms.patches == PatchReach::Fleet,
                RememberedKind::Instruction => false,
            };
            if !leaves {
                return Ok(());
            }
        }
        let machine = process::this(&self.scrubber).host;
        let source = FixSource { person: self.person.clone(), machine, project };
        let news = FixNews::new(source, told);
        match news.is_usable() {
            Ok(()) => {}
            // Nobody would use it.
            Err(
                UnusableFix::TooLong
                | UnusableFix::Malformed(_)
                | UnusableFix::Newer(_)
                | UnusableFix::Sealed(_)
                | UnusableFix::Instruction,
            ) => return Ok(()),
        }
        make_directories(&self.dir)
            .map_err(|error| FleetMemoryError::NoPlace(error.to_string()))?;
        let store = Store::open(&self.project())?;
        let item = [("news".to_owned(), Value::String(news.to_text()))].into_iter().collect();
        let keyed = KeyedItem { key: news.id().to_string(), item };
        let items = vec![ItemChange::Put(keyed)];
        store.memory().edit_file(&FileEdit { items, ..FileEdit::of(OUTBOX) })?;
        Ok(())
    }

    /// Exchanges news with the fleet beside the work; one that cannot be reached is asked again by
    /// whoever starts next.
    pub fn sync_aside(&self) {
        drop(self.begin_sync());
    }

    /// Does the same, and has the end of this run wait a little for it: something was put into the
    /// outbox, and a machine may be gone after its run.
    pub fn sync_before_parting(&self) {
        let begun = self.begin_sync();
        *self.parting.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    fn begin_sync(&self) -> Receiver<()> {
        let (tell, told) = mpsc::channel();
        let (project, fleet) = (self.project(), Arc::clone(&self.fleet));
        let (trust, scrubber) = (self.terms.trust, self.scrubber.clone());
        process::spawn_thread("fleet memory", move || {
            // `salve memory sync` says what is wrong.
            let _later = sync::sync(&project, &fleet, trust, &scrubber);
            let _gone = tell.send(());
        });
        told
    }

    /// Exchanges news with the fleet and returns what came of it.
    pub fn sync(&self) -> Result<SyncSummary, FleetMemoryError> {
        sync::sync(&self.project(), &self.fleet, self.terms.trust, &self.scrubber)
    }
}

impl Drop for FleetMemory {
    fn drop(&mut self) {
        let begun = self.parting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begun) = begun {
            // What is not told now is told by whoever starts next.
            let _late = begun.recv_timeout(PARTING);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "fleet")]
mod tests;
