//! The way to a store for code that must not block: one thread owns it, everybody else asks.
//!
//! A [`Store`] is for one thread, and a busy disk may hold it up for seconds. The async edges (the
//! repair tools, proxies, the web page) hand their work over and wait without blocking, so that a
//! journal that is busy for a while delays one answer and never a protocol.
//!
//! **Invariant:** making a handle, cloning it and listening open no store; only work that asks for
//! the store does. Whatever is well can pass without touching it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use salve_core::event::Entry;
use tokio::sync::{broadcast, oneshot};

use super::{Store, StoreError, Stream};
use crate::project::Project;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// How often a project without a store is looked at.
const TICK: Duration = Duration::from_secs(1);

/// How many portions of news may wait for a slow listener before it misses some.
const NEWS: usize = 256;

/// What happened, as listeners get it: some entries, in the journal's order.
pub type JournalNews = Arc<[Entry]>;

/// Hears what is written to the journal; one that is too slow is told that it missed something.
pub type NewsListener = broadcast::Receiver<JournalNews>;

/// The store did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal is busy; call again")]
pub struct StoreBusy;

/// A project's store, opened when it is first asked for.
#[derive(Debug)]
pub struct StoreOnDemand {
    project: Project,
    store: Option<Store>,
}

impl StoreOnDemand {
    /// Returns the store if there is one by now.
    pub fn existing(&mut self) -> Result<Option<&Store>, StoreError> {
        if self.store.is_none() {
            self.store = Store::open_existing(&self.project)?;
        }
        Ok(self.store.as_ref())
    }

    /// Returns the store, making it if there is none.
    pub fn made(&mut self) -> Result<&Store, StoreError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.project)?,
        };
        Ok(self.store.insert(store))
    }
}

type StoreWork = Box<dyn FnOnce(&mut StoreOnDemand) + Send>;

/// The way to the thread that owns a project's store; clones lead to the same thread.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    project: Project,
    work: Sender<StoreWork>,
    news: broadcast::Sender<JournalNews>,
    following: Arc<Once>,
}

impl StoreHandle {
    /// Starts the thread; it ends when the last handle is gone.
    pub fn new(project: &Project) -> Self {
        let (work, orders) = mpsc::channel();
        let (news, _) = broadcast::channel(NEWS);
        let store = StoreOnDemand { project: project.clone(), store: None };
        thread::spawn(move || attend(store, &orders));
        Self { project: project.clone(), work, news, following: Arc::new(Once::new()) }
    }

    /// Hands `work` over and returns what came of it.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StoreOnDemand) -> T + Send + 'static,
    ) -> Result<T, StoreBusy> {
        self.ask_within(PATIENCE, work).await
    }

    async fn ask_within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut StoreOnDemand) -> T + Send + 'static,
    ) -> Result<T, StoreBusy> {
        let (reply, answer) = oneshot::channel();
        self.tell(move |store| {
            // Whoever asked may have left.
            let _gone = reply.send(work(store));
        });
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(StoreBusy),
        }
    }

    /// Hands `work` over without waiting.
    pub fn tell(&self, work: impl FnOnce(&mut StoreOnDemand) + Send + 'static) {
        // The thread ends only after the last handle.
        let _gone = self.work.send(Box::new(work));
    }

    /// Waits until all that was handed over until now is done, but no longer than `limit`.
    pub fn finish(&self, limit: Duration) {
        let (done, wait) = mpsc::channel();
        self.tell(move |_| {
            let _gone = done.send(());
        });
        // Whoever waits is about to end, with or without an answer.
        let _late = wait.recv_timeout(limit);
    }

    /// Returns what hears of everything that is written to the journal from now on, by whomever.
    pub fn listen(&self) -> NewsListener {
        let listener = self.news.subscribe();
        self.following.call_once(|| {
            let (project, news) = (self.project.clone(), self.news.clone());
            thread::spawn(move || follow(&project, &news));
        });
        listener
    }
}

fn attend(mut store: StoreOnDemand, orders: &Receiver<StoreWork>) {
    while let Ok(work) = orders.recv() {
        work(&mut store);
    }
}

/// Follows the journal for as long as the process lives.
///
/// A follower blocks, so it has a store of its own.
fn follow(project: &Project, news: &broadcast::Sender<JournalNews>) {
    let mut known = None;
    loop {
        // What stops us may pass: the disk may have room again, the store may be made again.
        let _passing = follow_store(project, news, &mut known);
        thread::sleep(TICK);
    }
}

/// Follows the store that is there, if there is one.
fn follow_store(
    project: &Project,
    news: &broadcast::Sender<JournalNews>,
    known: &mut Option<u64>,
) -> Result<(), StoreError> {
    let Some(store) = Store::open_existing(project)? else {
        // All of a store that appears later is news.
        known.get_or_insert(0);
        return Ok(());
    };
    let journal = store.journal();
    let after = match *known {
        Some(after) => after,
        None => journal.last_seq()?,
    };
    let mut follower = journal.follow(after, Stream::Project);
    loop {
        let entries = follower.next(TICK)?;
        *known = Some(follower.after());
        if !entries.is_empty() {
            // Nobody may be listening.
            let _nobody = news.send(entries.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use salve_core::event::{Actor, Draft, Event, NoteEvent};
    use salve_core::scrub::Scrubbed;

    use super::*;

    fn project() -> (tempfile::TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        (dir, project)
    }

    fn note(text: &'static str) -> Draft {
        let by = Actor::Person { name: Scrubbed::literal("ann") };
        let event = Event::Note(NoteEvent::Noted { text: Scrubbed::literal(text) });
        Draft { at: Timestamp::now(), by, incident: None, event }
    }

    #[tokio::test]
    async fn a_handle_leaves_no_trace_where_no_store_is_asked_for() {
        let (_dir, project) = project();
        let handle = StoreHandle::new(&project);
        let _listener = handle.listen();
        assert!(handle.ask(|store| store.existing().unwrap().is_none()).await.unwrap());
        assert!(!project.database().exists());
        handle
            .ask(|store| store.made().unwrap().journal().append(note("a")).unwrap())
            .await
            .unwrap();
        let last = handle.ask(|store| store.existing().unwrap().unwrap().journal().last_seq());
        assert_eq!(last.await.unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn what_anybody_writes_is_heard_through_every_handle() {
        let (_dir, project) = project();
        let store = Store::open(&project).unwrap();
        store.journal().append(note("before")).unwrap();
        let handle = StoreHandle::new(&project);
        let mut listener = handle.clone().listen();
        // The follower begins where the journal ends when it gets there, so write until it hears.
        let heard = loop {
            store.journal().append(note("a")).unwrap();
            let soon = Duration::from_millis(200);
            if let Ok(heard) = tokio::time::timeout(soon, listener.recv()).await {
                break heard.unwrap();
            }
        };
        assert!(heard.iter().all(|entry| entry.seq > 1));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_holds_nobody_up() {
        let (_dir, project) = project();
        let handle = StoreHandle::new(&project);
        let (go, held) = mpsc::channel::<()>();
        handle.tell(move |_| {
            let _released = held.recv();
        });
        assert_eq!(handle.ask_within(Duration::from_millis(1), |_| ()).await, Err(StoreBusy));
        drop(go);
        handle.finish(Duration::from_secs(20));
        assert_eq!(handle.ask(|_| 7).await, Ok(7));
    }
}
