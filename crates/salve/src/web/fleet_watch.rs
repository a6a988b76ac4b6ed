//! The fleet as the page shows it: one thread follows it for all who look, and carries what people
//! say to it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::oneshot;

use super::problem::HttpProblem;
use super::views::FleetView;
use crate::project::Project;
use crate::store::{FleetTerms, Store};
use crate::subjects::job::{FleetBoard, FleetJobError};

/// How long the fleet may be silent before requests are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often it is asked which workers are there.
const WORKERS: Duration = Duration::from_secs(2);

/// How long to wait before a fleet that cannot be reached is tried again.
const AGAIN: Duration = Duration::from_secs(3);

/// How long an answer of the fleet may take.
const PATIENCE: Duration = Duration::from_secs(10);

type FleetWork = Box<dyn FnOnce(&Store, &FleetBoard) + Send>;

/// The way to the fleet of a project.
#[derive(Clone)]
pub struct FleetWatch(Arc<WatchedFleet>);

struct WatchedFleet {
    terms: FleetTerms,
    work: Sender<FleetWork>,
    /// What waits to be done, until the thread takes it.
    waiting: Mutex<Option<Receiver<FleetWork>>>,
    seen: Mutex<Arc<FleetView>>,
    /// How often what is seen has changed.
    changes: AtomicU64,
}

impl fmt::Debug for FleetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetWatch").field(&self.0.terms.url).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FleetWatch {
    /// Prepares to watch a fleet.
    pub fn new(terms: FleetTerms) -> Self {
        let (work, waiting) = mpsc::channel();
        let seen = Mutex::new(Arc::new(FleetView::unknown(&terms.url)));
        let (waiting, changes) = (Mutex::new(Some(waiting)), AtomicU64::new(0));
        Self(Arc::new(WatchedFleet { terms, work, waiting, seen, changes }))
    }

    /// Watches it on a thread of its own, for as long as `tell` says that somebody looks.
    pub(super) fn start(&self, project: Project, tell: impl Fn() -> bool + Send + 'static) {
        let Some(waiting) = lock(&self.0.waiting).take() else { return };
        let watch = self.clone();
        thread::spawn(move || {
            while tell() {
                let ended = watch.follow(&project, &waiting, &tell);
                if let Err(error) = ended {
                    watch.show(FleetView::unreached(&watch.0.terms.url, &error.to_string()));
                }
                // Whoever asked meanwhile is told that nobody answers.
                while waiting.try_recv().is_ok() {}
                thread::sleep(AGAIN);
            }
        });
    }

    fn follow(
        &self,
        project: &Project,
        waiting: &Receiver<FleetWork>,
        tell: &impl Fn() -> bool,
    ) -> Result<(), FleetJobError> {
        let store = Store::open_in_fleet(project, &self.0.terms)?;
        let mut board = FleetBoard::open(&store)?;
        let mut asked_at: Option<Instant> = None;
        let mut has_changed = true;
        loop {
            if asked_at.is_none_or(|at| at.elapsed() >= WORKERS) {
                asked_at = Some(Instant::now());
                has_changed = true;
            }
            if has_changed {
                let workers = store.fleet().map(|fleet| fleet.workers()).transpose()?;
                let is_new = self.show(FleetView::of(
                    &self.0.terms.url,
                    &board,
                    &workers.unwrap_or_default(),
                ));
                if is_new && !tell() {
                    return Ok(());
                }
            }
            has_changed = board.follow(&store, LOOK)?;
            while let Ok(work) = waiting.try_recv() {
                work(&store, &board);
            }
        }
    }

    /// Shows something; tells whether it is something else than before.
    fn show(&self, view: FleetView) -> bool {
        let mut seen = lock(&self.0.seen);
        let is_new = **seen != view;
        if is_new {
            *seen = Arc::new(view);
            self.0.changes.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    /// Returns what is seen of the fleet now.
    pub(super) fn seen(&self) -> Arc<FleetView> {
        lock(&self.0.seen).clone()
    }

    /// Returns how often that has changed.
    pub(super) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Has the thread do something with the fleet, and returns what came of it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &FleetBoard) -> T + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let away = || {
            HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the fleet does not answer")
                .next("try again")
        };
        let (reply, answer) = oneshot::channel();
        let work: FleetWork = Box::new(move |store, board| {
            // Whoever asked may have left.
            let _gone = reply.send(work(store, board));
        });
        self.0.work.send(work).map_err(|_| away())?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(away()),
        }
    }
}
