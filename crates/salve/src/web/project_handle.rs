//! The way from many requests to the one thread that owns a project's store.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::MethodRouter;
use salve_core::scrub::Scrubber;
use tokio::sync::{oneshot, watch};

use super::fleet_watch::FleetWatch;
use super::live_feed::LiveFeed;
use super::problem::HttpProblem;
use super::views::{IndexProgress, ProjectReader};
use crate::config::Sources;
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};

/// How long an answer of the store may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a project without a store is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How many asking streams are a crowd, which is shown what was made for one of it.
const CROWD: usize = 16;

type ProjectWork = Box<dyn FnOnce(&mut ProjectDesk) + Send>;

/// What the thread that owns a project's store works with.
struct ProjectDesk {
    reader: ProjectReader,
    feed: LiveFeed,
}

/// A project that is shown, and what the settings say about it.
#[derive(Clone, Debug)]
pub struct WatchedProject {
    pub project: Project,
    /// What takes secrets out of what is shown and written.
    pub scrubber: Scrubber,
    /// Where the settings come from.
    pub sources: Sources,
    /// Where servers answer by the settings, by their names.
    pub urls: BTreeMap<String, String>,
    /// What answers agents who use the project's repair tools.
    pub tools: MethodRouter,
    /// The fleet that its jobs may be sent to, if there is one.
    pub fleet: Option<FleetWatch>,
}

/// The way to a project's store.
#[derive(Clone, Debug)]
pub(super) struct ProjectHandle {
    /// The project's name in addresses.
    pub(super) name: String,
    /// Its directory.
    pub(super) root: PathBuf,
    /// Its fleet, if it has one.
    pub(super) fleet: Option<FleetWatch>,
    work: Arc<WorkSender<ProjectWork>>,
    last_seq: watch::Receiver<u64>,
}

/// Who asks the thread that owns a project's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Somebody who waits for one answer.
    Request,
    /// One of many streams, which can wait until requests are answered.
    Stream,
}

/// Tells whether many streams wait to be told the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamCrowd {
    /// Each may have an answer of its own.
    Few,
    /// They have to share.
    Many,
}

/// What waits to be done on a project's store: streams wait for requests, never the other way.
struct WaitingWork<W> {
    requests: VecDeque<W>,
    streams: VecDeque<W>,
    is_over: bool,
}

impl<W> WaitingWork<W> {
    fn next(&mut self) -> Option<W> {
        self.requests.pop_front().or_else(|| self.streams.pop_front())
    }
}

struct WorkQueue<W> {
    waiting: Mutex<WaitingWork<W>>,
    changed: Condvar,
}

impl<W> WorkQueue<W> {
    fn new() -> Self {
        let (requests, streams) = (VecDeque::new(), VecDeque::new());
        let waiting = Mutex::new(WaitingWork { requests, streams, is_over: false });
        Self { waiting, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingWork<W>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next piece of work; there is none any more once nobody can ask.
    fn next(&self) -> Option<W> {
        let mut waiting = self.lock();
        loop {
            if let Some(work) = waiting.next() {
                return Some(work);
            }
            if waiting.is_over {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the next piece of work if one is there.
    fn next_now(&self) -> Option<W> {
        self.lock().next()
    }

    fn crowd(&self) -> StreamCrowd {
        if self.lock().streams.len() < CROWD { StreamCrowd::Few } else { StreamCrowd::Many }
    }
}

/// The end of a queue where work comes in; the thread at the other end ends with it.
struct WorkSender<W>(Arc<WorkQueue<W>>);

impl<W> fmt::Debug for WorkSender<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkSender")
    }
}

impl<W> WorkSender<W> {
    fn send(&self, asking: Asking, work: W) {
        let mut waiting = self.0.lock();
        match asking {
            Asking::Request => waiting.requests.push_back(work),
            Asking::Stream => waiting.streams.push_back(work),
        }
        drop(waiting);
        self.0.changed.notify_one();
    }
}

impl<W> Drop for WorkSender<W> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl ProjectHandle {
    /// Opens all projects, each under a name of its own.
    pub(super) fn open_all(projects: Vec<WatchedProject>) -> Vec<Self> {
        let mut handles: Vec<Self> = Vec::new();
        for watched in projects {
            let name = free_name(&watched.project, &handles);
            handles.push(Self::open(name, watched));
        }
        handles
    }

    fn open(name: String, watched: WatchedProject) -> Self {
        let orders = Arc::new(WorkQueue::new());
        let work = Arc::new(WorkSender(orders.clone()));
        let (seq, last_seq) = watch::channel(0);
        let (project, root) = (watched.project.clone(), watched.project.root().to_owned());
        let (seq, fleet) = (Arc::new(seq), watched.fleet.clone());
        if let Some(fleet) = &fleet {
            let seq = seq.clone();
            // Streams look again, though the journal has nothing new.
            fleet.start(project.clone(), move || {
                seq.send_modify(|_| {});
                !seq.is_closed()
            });
        }
        let reader = ProjectReader::new(name.clone(), watched);
        let desk = ProjectDesk { reader, feed: LiveFeed::default() };
        thread::spawn(move || obey(desk, &orders));
        thread::spawn(move || follow(&project, &seq));
        Self { name, root, fleet, work, last_seq }
    }

    /// Hands `work` to the thread that owns the store and returns what came of it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ProjectReader) -> T + Send + 'static,
    ) -> Result<T, HttpProblem> {
        self.hand_over(Asking::Request, move |desk| work(&mut desk.reader)).await
    }

    /// The same for streams, which share what they are told and wait until requests are answered.
    pub(super) async fn ask_feed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveFeed, &mut ProjectReader, StreamCrowd) -> T + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let queue = self.work.0.clone();
        let work = move |desk: &mut ProjectDesk| {
            let ProjectDesk { reader, feed } = desk;
            work(feed, reader, queue.crowd())
        };
        self.hand_over(Asking::Stream, work).await
    }

    async fn hand_over<T: Send + 'static>(
        &self,
        asking: Asking,
        work: impl FnOnce(&mut ProjectDesk) -> T + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let busy = || {
            HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the journal is long or busy")
                .next("try again")
        };
        let (reply, answer) = oneshot::channel();
        let work: ProjectWork = Box::new(move |desk| {
            // Whoever asked may have left, while it waited or meanwhile.
            if !reply.is_closed() {
                let _gone = reply.send(work(desk));
            }
        });
        self.work.send(asking, work);
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }

    /// Returns what tells how far the journal has come.
    pub(super) fn last_seq(&self) -> watch::Receiver<u64> {
        self.last_seq.clone()
    }
}

/// Returns the directory's name, with a number where another project has it already.
fn free_name(project: &Project, taken: &[ProjectHandle]) -> String {
    let dir = project.root().file_name().map(|name| name.to_string_lossy().into_owned());
    let plain: String = dir
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    let plain = if plain.is_empty() { "project".to_owned() } else { plain };
    let is_free = |name: &String| taken.iter().all(|handle| handle.name != *name);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or(plain)
}

fn obey(mut desk: ProjectDesk, orders: &WorkQueue<ProjectWork>) {
    // A long history takes a moment to read: best while the browser still opens, and while nobody
    // waits. What stands in the way of it is told to whoever asks.
    while matches!(desk.reader.index_portion(), Ok(IndexProgress::Behind)) {
        while let Some(work) = orders.next_now() {
            work(&mut desk);
        }
    }
    while let Some(work) = orders.next() {
        work(&mut desk);
    }
}

/// Tells how far the journal has come, for as long as anybody listens.
fn follow(project: &Project, seq: &watch::Sender<u64>) {
    while !seq.is_closed() {
        // What stops us may pass: the disk may have room again, the store may be made again.
        let _passing = follow_store(project, seq);
        thread::sleep(LOOK);
    }
}

fn follow_store(project: &Project, seq: &watch::Sender<u64>) -> Result<(), StoreError> {
    let Some(store) = Store::open_existing(project)? else { return Ok(()) };
    let journal = store.journal();
    let last = journal.last_seq()?;
    seq.send_if_modified(|known| std::mem::replace(known, last) != last);
    let mut follower = journal.follow(last, Stream::Project);
    while !seq.is_closed() {
        let entries = follower.next(LOOK)?;
        if let Some(entry) = entries.last() {
            seq.send_replace(entry.seq);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_before_streams_and_the_queue_ends_with_its_last_sender() {
        let queue = Arc::new(WorkQueue::new());
        let sender = WorkSender(queue.clone());
        for number in 0..20 {
            sender.send(Asking::Stream, number);
        }
        assert_eq!(queue.crowd(), StreamCrowd::Many);
        sender.send(Asking::Request, 100);
        sender.send(Asking::Request, 101);
        assert_eq!(queue.next_now(), Some(100));
        sender.send(Asking::Request, 102);
        drop(sender);
        let served: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(served, [101, 102].into_iter().chain(0..20).collect::<Vec<_>>());
        assert_eq!((queue.crowd(), queue.next_now()), (StreamCrowd::Few, None));
    }
}
