//! What pages and the API show, read from a project's journal and files.

mod beside;
mod files;
mod incidents;
mod logs;
mod memory;
mod overview;
mod settings;
mod what_if;
mod work;

use std::io;
use std::time::{Duration, Instant};

use salve_core::event::Entry;
use salve_core::overview::IncidentIndex;
use salve_core::repair::{self, IncidentStory, QuestionDetail, RepairScene, RepairStanding};
use salve_core::scrub::Scrubber;
use salve_core::view::{IncidentView, RemedyTried};
use schemars::JsonSchema;
use serde::Serialize;

pub(super) use beside::{WorkCard, WorkKind, WorkStanding};
pub(super) use files::{AttemptDiff, ChangePlace, TextTail};
pub(super) use incidents::{IncidentPage, IncidentQuery, IncidentRow, StateFilter};
pub(super) use logs::{LogLines, LogQuery, LogView, LogViewLine};
pub(super) use memory::{
    KnownFailureRow, MemoryOwner, MemoryQuery, MemoryView, PatternWarning, UsagePatternRow,
};
pub(super) use overview::{DayRange, NoticeLine, PersonNeeds, ProjectMood, ProjectOverview};
pub(super) use settings::{SettingsView, WaitingSettings};
pub(super) use what_if::{WhatIfAnswer, WhatIfRequest};
pub(super) use work::{JobRow, JobStepRow, LoopRow, StepStanding, WorkView};

use super::project_handle::WatchedProject;
use crate::project::Project;
use crate::reading::{IncidentNotFound, deserted, find_incident, has_owner, incident_view};
use crate::store::{Store, StoreError, Stream};
use crate::workspace::WorkspaceError;

/// A shape that core defines, as the API's description has it: an object.
type JsonObject = serde_json::Map<String, serde_json::Value>;

/// How many entries are read at once.
const BATCH: usize = 1000;

/// How long a count of what waits is good though the journal is silent: settings are in files.
const STALE: Duration = Duration::from_secs(2);

/// How many open incidents are replayed for one page; more than that need `salve incidents`.
const MOST_OPEN: usize = 100;

/// Why a view cannot be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::web) enum ViewError {
    /// The store cannot be read.
    #[error("cannot read the journal: {0}")]
    Store(#[from] StoreError),
    /// There is no such incident, or not only one.
    #[error(transparent)]
    Incident(#[from] IncidentNotFound),
    /// The snapshots cannot be read.
    #[error("cannot read the snapshots: {0}")]
    Workspace(#[from] WorkspaceError),
    /// A file cannot be read.
    #[error("cannot read {0}")]
    File(String, #[source] io::Error),
    /// The settings are wrong, or do not take this.
    #[error("{0}")]
    Settings(String),
}

/// The one reader of a project's journal; it lives on a thread of its own.
#[derive(Debug)]
pub(in crate::web) struct ProjectReader {
    name: String,
    watched: WatchedProject,
    store: Option<Store>,
    index: IncidentIndex,
    /// How much waits for a person, as it was counted last.
    waiting: usize,
    /// The journal's last entry then, and when that was.
    waiting_at: Option<(u64, Instant)>,
    /// How repairs stand, as JSON, and the journal's last entry then.
    repairs: Option<(u64, String)>,
}

/// One incident with everything that its page shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct IncidentDetails {
    /// The whole story.
    #[schemars(with = "JsonObject")]
    pub(in crate::web) story: IncidentStory,
    /// The remedies, each with what the gate said and what came of it.
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) remedies: Vec<RemedyTried>,
    /// What a person is asked now.
    #[schemars(with = "Option<JsonObject>")]
    pub(in crate::web) question: Option<QuestionDetail>,
    /// Whether a person has paused it.
    pub(in crate::web) is_paused: bool,
    /// Whether a running Salve acts on it.
    pub(in crate::web) is_cared_for: bool,
    /// The number of its last entry.
    pub(in crate::web) last_seq: u64,
}

impl IncidentDetails {
    /// Tells whether somebody is at it.
    pub(in crate::web) fn is_being_healed(&self) -> bool {
        let state = self.story.repair.state;
        matches!(state, RepairStanding::Healing | RepairStanding::AwaitingAgent)
    }

    /// Tells whether it is not over, and nothing is done about it now.
    pub(in crate::web) fn is_idle(&self) -> bool {
        matches!(self.story.repair.state, RepairStanding::Cooldown | RepairStanding::Deserted)
    }
}

impl ProjectReader {
    /// Makes a reader; a project without a store stays without.
    pub(in crate::web) fn new(name: String, watched: WatchedProject) -> Self {
        let index = IncidentIndex::default();
        Self { name, watched, store: None, index, waiting: 0, waiting_at: None, repairs: None }
    }

    pub(in crate::web) fn project(&self) -> &Project {
        &self.watched.project
    }

    pub(in crate::web) fn scrubber(&self) -> &Scrubber {
        &self.watched.scrubber
    }

    /// Returns the store if there is one by now.
    pub(in crate::web) fn store(&mut self) -> Result<Option<&Store>, StoreError> {
        if self.store.is_none() {
            self.store = Store::open_existing(&self.watched.project)?;
        }
        Ok(self.store.as_ref())
    }

    /// Brings the index up to date and returns it.
    pub(in crate::web) fn index(&mut self) -> Result<&IncidentIndex, StoreError> {
        self.store()?;
        let Some(store) = &self.store else { return Ok(&self.index) };
        let journal = store.journal();
        if journal.last_seq()? < self.index.heard_to() {
            // The store was replaced by an older one.
            self.index = IncidentIndex::default();
        }
        loop {
            let entries = journal.read(self.index.heard_to(), &Stream::IncidentCourses, BATCH)?;
            entries.iter().for_each(|entry| self.index.hear(entry));
            if entries.len() < BATCH {
                return Ok(&self.index);
            }
        }
    }

    /// Returns the number of the last entry.
    pub(in crate::web) fn last_seq(&mut self) -> Result<u64, StoreError> {
        self.store()?.map_or(Ok(0), |store| store.journal().last_seq())
    }

    /// Returns up to `limit` entries after a number.
    pub(in crate::web) fn entries_after(
        &mut self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        store.journal().read(after, &Stream::Project, limit)
    }

    /// Returns the incident whose id begins with `given`.
    pub(in crate::web) fn incident_view(&mut self, given: &str) -> Result<IncidentView, ViewError> {
        let unknown = || IncidentNotFound::Unknown(given.chars().take(60).collect());
        let Some(store) = self.store()? else { return Err(unknown().into()) };
        let id = find_incident(store.journal(), given)?;
        Ok(incident_view(store.journal(), id)?.ok_or_else(unknown)?)
    }

    /// Returns everything about one incident.
    pub(in crate::web) fn incident(&mut self, given: &str) -> Result<IncidentDetails, ViewError> {
        let view = self.incident_view(given)?;
        Ok(self.details(&view))
    }

    fn details(&self, view: &IncidentView) -> IncidentDetails {
        let deserted = deserted(view, self.scrubber());
        let scene = RepairScene { deserted: deserted.as_slice(), ..RepairScene::default() };
        IncidentDetails {
            story: IncidentStory::of(view, &scene),
            remedies: view.remedies().to_vec(),
            question: repair::question_detail(view),
            is_paused: view.incident().paused_by().is_some(),
            is_cared_for: has_owner(view.incident(), self.scrubber()),
            last_seq: view.incident().last_seq(),
        }
    }

    /// Returns all incidents that are not over, the newest first.
    pub(in crate::web) fn open_incidents(&mut self) -> Result<Vec<IncidentDetails>, ViewError> {
        let ids: Vec<_> = self.index()?.open().take(MOST_OPEN).map(|row| row.id).collect();
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let mut views = Vec::new();
        for id in ids {
            views.extend(incident_view(store.journal(), id)?);
        }
        Ok(views.iter().map(|view| self.details(view)).collect())
    }

    /// Returns how much waits for a person; one answer serves everybody who asks meanwhile.
    pub(in crate::web) fn waiting(&mut self) -> Result<usize, ViewError> {
        let last = self.last_seq()?;
        if self.waiting_at.is_none_or(|(seq, at)| seq != last || at.elapsed() >= STALE) {
            self.waiting = self.count_needs()?;
            self.waiting_at = Some((last, Instant::now()));
        }
        Ok(self.waiting)
    }
}
