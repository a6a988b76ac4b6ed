//! The way from many requests to the one thread that owns a project's store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::MethodRouter;
use salve_core::scrub::Scrubber;
use tokio::sync::{oneshot, watch};

use super::problem::HttpProblem;
use super::views::ProjectReader;
use crate::config::Sources;
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};

/// How long an answer of the store may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a project without a store is looked at.
const LOOK: Duration = Duration::from_secs(1);

type ProjectWork = Box<dyn FnOnce(&mut ProjectReader) + Send>;

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
}

/// The way to a project's store.
#[derive(Clone, Debug)]
pub(super) struct ProjectHandle {
    /// The project's name in addresses.
    pub(super) name: String,
    /// Its directory.
    pub(super) root: PathBuf,
    work: Sender<ProjectWork>,
    last_seq: watch::Receiver<u64>,
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
        let (work, orders) = mpsc::channel();
        let (seq, last_seq) = watch::channel(0);
        let (project, root) = (watched.project.clone(), watched.project.root().to_owned());
        let reader = ProjectReader::new(name.clone(), watched);
        thread::spawn(move || obey(reader, &orders));
        thread::spawn(move || follow(&project, &seq));
        Self { name, root, work, last_seq }
    }

    /// Hands `work` to the thread that owns the store and returns what came of it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ProjectReader) -> T + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let busy = || {
            HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the journal is busy")
                .next("try again")
        };
        let (reply, answer) = oneshot::channel();
        let work: ProjectWork = Box::new(move |reader| {
            // Whoever asked may have left.
            let _gone = reply.send(work(reader));
        });
        self.work.send(work).map_err(|_| busy())?;
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

fn obey(mut reader: ProjectReader, orders: &Receiver<ProjectWork>) {
    while let Ok(work) = orders.recv() {
        work(&mut reader);
    }
}

/// Tells how far the journal has come, for as long as anybody listens.
fn follow(project: &Project, seq: &watch::Sender<u64>) {
    while !seq.is_closed() {
        // What stops us may pass: the disk may have room again, the store may be made anew.
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
