//! Exchanging news with a fleet: the outbox goes out, and what is new comes in.
//!
//! **Invariant:** a message that makes no sense is counted and passed over; it stops nothing.

use std::fs::{File, OpenOptions};

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use salve_core::id::Signature;
use salve_core::memory::KnowledgeEdit;
use salve_core::memory::fleet::{FixFold, FixNews, FixStep};
use salve_core::scrub::{Scrubbed, Scrubber};
use serde::Serialize;
use serde_json::Value;

use super::{FleetMemoryError, OUTBOX};
use crate::config::FleetTrust;
use crate::files::make_directories;
use crate::project::Project;
use crate::store::{
    FileBase, FileEdit, FixAuthor, FixMessage, FleetError, FleetFixes, FleetTerms, ItemChange,
    KeyedItem, SaidFix, Store, StoreError,
};

/// What was read so far, among the items of the memory.
const FOLDED: &str = "fleet-folded";

/// What the keys of messages that were read begin with, and those of failures to forget.
const TAKEN: &str = "id ";
const FORGOTTEN: &str = "forgotten ";

/// How many changes are written at once.
const PORTION: usize = 500;

/// How much of a key is shown.
const SHOWN_KEY: usize = 8;

/// What an exchange brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncSummary {
    pub version: u32,
    /// How many messages were sent.
    pub sent: u64,
    /// How many outcomes were learned.
    pub learned: u64,
    /// How many failures were forgotten.
    pub forgotten: u64,
    /// How many messages are nobody's whose word counts here.
    pub others: u64,
    /// How many messages make no sense, or say what is not taken from others.
    pub unusable: u64,
}

/// Exchanges news; whoever does so already is waited for.
pub(super) fn sync(
    project: &Project,
    terms: &FleetTerms,
    trust: FleetTrust,
    scrubber: &Scrubber,
) -> Result<SyncSummary, FleetMemoryError> {
    let no_place = |error: std::io::Error| FleetMemoryError::NoPlace(error.to_string());
    make_directories(project.root()).map_err(no_place)?;
    let _one_at_a_time = locked(project).map_err(no_place)?;
    let store = Store::open_in_fleet(project, terms)?;
    let fixes = store.fleet().ok_or(StoreError::Fleet(FleetError::NotBuilt))?.fixes();
    if trust == FleetTrust::Mine && !fixes.has_key() {
        return Err(FleetMemoryError::NoKey);
    }
    let mut summary = SyncSummary { version: 1, ..SyncSummary::default() };
    let sent = send(&store, fixes, &mut summary);
    // What others told is of use even where there is no room for more.
    Folding::new(&store, trust, scrubber, &mut summary)?.fold(fixes)?;
    sent?;
    Ok(summary)
}

fn locked(project: &Project) -> std::io::Result<File> {
    let path = project.root().join("sync.lock");
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Sends what is in the outbox; what was sent is in it no more.
fn send(
    store: &Store,
    fixes: &dyn FleetFixes,
    summary: &mut SyncSummary,
) -> Result<(), StoreError> {
    for KeyedItem { key, item } in store.memory().file_items(OUTBOX, u64::MAX)? {
        let body = item.get("news").and_then(Value::as_str).unwrap_or_default();
        if let Ok(news) = serde_json::from_str::<FixNews>(body) {
            fixes.tell_fix(&news.place(), body)?;
            summary.sent += 1;
        }
        let items = vec![ItemChange::Drop { key }];
        store.memory().edit_file(&FileEdit { items, ..FileEdit::of(OUTBOX) })?;
    }
    Ok(())
}

/// What is read and not written yet.
struct Folding<'f> {
    store: &'f Store,
    trust: FleetTrust,
    scrubber: &'f Scrubber,
    summary: &'f mut SyncSummary,
    fold: FixFold,
    knowledge: Vec<KnowledgeEdit>,
    items: Vec<ItemChange>,
}

impl<'f> Folding<'f> {
    fn new(
        store: &'f Store,
        trust: FleetTrust,
        scrubber: &'f Scrubber,
        summary: &'f mut SyncSummary,
    ) -> Result<Self, StoreError> {
        let items = store.memory().file_items(FOLDED, u64::MAX)?;
        let taken = items.iter().filter_map(|one| one.key.strip_prefix(TAKEN)?.parse().ok());
        let forgotten = items.iter().filter_map(|one| {
            let signature = one.key.strip_prefix(FORGOTTEN)?.parse().ok()?;
            Some((signature, one.item.get("at")?.as_str()?.parse().ok()?))
        });
        let fold = FixFold::new(taken, forgotten);
        let (knowledge, items) = (Vec::new(), Vec::new());
        Ok(Self { store, trust, scrubber, summary, fold, knowledge, items })
    }

    /// Reads all that is new.
    fn fold(mut self, fixes: &dyn FleetFixes) -> Result<(), StoreError> {
        let before = self.store.memory().file_digest(FOLDED)?;
        let portion = fixes.fixes_after(before.as_deref())?;
        for message in portion.messages {
            match message {
                FixMessage::Said(said) => self.take(&said)?,
                FixMessage::Garbage => self.summary.unusable += 1,
            }
        }
        self.write(Some(portion.next))
    }

    fn take(&mut self, said: &SaidFix) -> Result<(), StoreError> {
        let counts = match (self.trust, &said.author) {
            (FleetTrust::Off, _) => false,
            (FleetTrust::Mine, author) => *author == FixAuthor::Me,
            (FleetTrust::Team, FixAuthor::Me | FixAuthor::Key(_) | FixAuthor::Unknown) => true,
        };
        if !counts {
            self.summary.others += 1;
            return Ok(());
        }
        let Ok(news) = FixNews::read(&said.body, self.scrubber) else {
            self.summary.unusable += 1;
            return Ok(());
        };
        let (by, now) = (self.who(&news, &said.author), Timestamp::now());
        match self.fold.take(&news, &by, now) {
            FixStep::Known => return Ok(()),
            FixStep::Learn(edit) => {
                self.knowledge.push(*edit);
                self.summary.learned += 1;
            }
            FixStep::Forget { signature, at } => self.forget(signature, at)?,
        }
        self.items.push(put(format!("{TAKEN}{}", news.id()), None));
        if self.items.len() >= PORTION { self.write(None) } else { Ok(()) }
    }

    /// Forgets what is known of a failure: first that, then that it was read, so that one who is
    /// killed in between does it again.
    fn forget(&mut self, signature: Signature, at: Timestamp) -> Result<(), StoreError> {
        self.write(None)?;
        self.store.memory().forget(signature)?;
        self.summary.forgotten += 1;
        self.items.push(put(format!("{FORGOTTEN}{signature}"), Some(at)));
        Ok(())
    }

    /// Writes what was read so far, all of it or nothing.
    fn write(&mut self, next: Option<String>) -> Result<(), StoreError> {
        let base = next.map(|digest| FileBase { digest, items: Vec::new() });
        if base.is_none() && self.items.is_empty() {
            return Ok(());
        }
        let (knowledge, items) =
            (std::mem::take(&mut self.knowledge), std::mem::take(&mut self.items));
        let edit = FileEdit { knowledge, items, base, ..FileEdit::of(FOLDED) };
        self.store.memory().edit_file(&edit)
    }

    /// Says who told something, and whether that is proven.
    fn who(&self, news: &FixNews, author: &FixAuthor) -> Scrubbed {
        let (person, machine) = (&news.source.person, &news.source.machine);
        let proven = match author {
            FixAuthor::Me => "your own key".to_owned(),
            FixAuthor::Key(key) => {
                format!("key {}", key.chars().take(SHOWN_KEY).collect::<String>())
            }
            FixAuthor::Unknown => "not signed".to_owned(),
        };
        self.scrubber.scrub(&format!("{person} on {machine} ({proven})"))
    }
}

fn put(key: String, at: Option<Timestamp>) -> ItemChange {
    let at = at.map(|at| ("at".to_owned(), Value::String(at.to_string())));
    ItemChange::Put(KeyedItem { key, item: at.into_iter().collect() })
}
