//! What pages and the API show, read from a project's journal and files.

mod files;
mod fleet;
mod incidents;
mod logs;
mod memory;
mod needs;
mod notices;
mod overview;
mod servers;
mod settings;
mod what_if;
mod work;
mod work_card;

use std::io;
use std::time::Instant;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use salve_core::event::Entry;
use salve_core::overview::{IncidentIndex, Statistics};
use salve_core::scrub::Scrubber;

pub(super) use files::{AttemptDiff, ChangePlace, IncidentFileReader, TextTail};
pub(super) use fleet::{FleetJobCard, FleetQuestionCard, FleetView, FleetWorkerRow};
pub(super) use incidents::{
    IncidentDetails, IncidentPage, IncidentQuery, IncidentReader, IncidentRow, StateFilter,
};
pub(super) use logs::{LogLines, LogQuery, LogReader, LogView, LogViewLine};
pub(super) use memory::{
    KnownFailureRow, MemoryOwner, MemoryQuery, MemoryReader, MemoryView, PatternWarning,
    UsagePatternRow,
};
pub(super) use needs::{NeedsReader, PersonNeeds};
pub(super) use notices::{NoticeLine, NoticeReader};
pub(super) use overview::{DayRange, ProjectMood, ProjectOverview};
pub(super) use servers::ServerReader;
pub(super) use settings::{ConfigReader, SettingsView, WaitingSettings};
pub(super) use what_if::{WhatIfAnswer, WhatIfRequest, replay_incident};
pub(super) use work::{JobRow, JobStepRow, LoopRow, StepStanding, WorkReader, WorkView};
pub(super) use work_card::{WorkCard, WorkKind, WorkStanding};

use super::project_handle::WatchedProject;
use crate::heal::earned::EarnedHistory;
use crate::project::Project;
use crate::reading::IncidentNotFound;
use crate::store::{Store, StoreError, Stream};
use crate::workspace::WorkspaceError;

/// A shape that core defines, as the API's description has it: an object.
type JsonObject = serde_json::Map<String, serde_json::Value>;

/// How many entries are read at once.
const BATCH: usize = 1000;

/// How many entries go into the index at once: few enough that whoever asks meanwhile hardly waits.
const PORTION: usize = 4_000;

/// Whether an index has all that the journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexProgress {
    UpToDate,
    Behind,
}

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

/// The one reader of a project's journal; it lives on a thread of its own, and lends itself to the
/// readers of the parts.
#[derive(Debug)]
pub(in crate::web) struct ProjectReader {
    name: String,
    watched: WatchedProject,
    store: Option<Store>,
    index: IncidentIndex,
    /// How far the journal was read for the index.
    indexed_to: u64,
    earned: EarnedHistory,
    /// How much waits for a person, as it was counted last.
    waiting: usize,
    /// The journal's last entry then, and when that was.
    waiting_at: Option<(u64, Instant)>,
    /// How repairs stand, as JSON, and the journal's last entry then.
    repairs: Option<(u64, String)>,
}

impl ProjectReader {
    /// Makes a reader; a project without a store stays without.
    pub(in crate::web) fn new(name: String, watched: WatchedProject) -> Self {
        Self {
            name,
            watched,
            store: None,
            index: IncidentIndex::default(),
            indexed_to: 0,
            earned: EarnedHistory::default(),
            waiting: 0,
            waiting_at: None,
            repairs: None,
        }
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
        while self.index_portion()? == IndexProgress::Behind {}
        Ok(&self.index)
    }

    /// Takes the next portion of the journal into the index.
    pub(in crate::web) fn index_portion(&mut self) -> Result<IndexProgress, StoreError> {
        self.store()?;
        let Some(store) = &self.store else { return Ok(IndexProgress::UpToDate) };
        let journal = store.journal();
        let last = journal.last_seq()?;
        if last < self.indexed_to {
            // The store was replaced by an older one.
            (self.index, self.indexed_to) = (IncidentIndex::default(), 0);
        }
        if last == self.indexed_to {
            return Ok(IndexProgress::UpToDate);
        }
        let entries = journal.read(self.indexed_to, &Stream::IncidentCourses, PORTION)?;
        entries.iter().for_each(|entry| self.index.hear(entry));
        match entries.last().filter(|_| entries.len() >= PORTION) {
            Some(read) => {
                self.indexed_to = read.seq;
                Ok(IndexProgress::Behind)
            }
            None => {
                self.indexed_to = last;
                Ok(IndexProgress::UpToDate)
            }
        }
    }

    /// Tells whether the index has all that the journal says, or all but what was written lately.
    fn is_indexed(&mut self) -> Result<bool, StoreError> {
        Ok(self.last_seq()?.saturating_sub(self.indexed_to) < PORTION as u64)
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

    /// Returns what the incidents of a range of days add up to.
    pub(in crate::web) fn statistics(&mut self, range: DayRange) -> Result<Statistics, ViewError> {
        let since = match range.days {
            Some(days) => {
                let hours = i64::from(days).saturating_mul(24);
                let span = SignedDuration::from_hours(hours);
                Timestamp::now().checked_sub(span).unwrap_or(Timestamp::MIN)
            }
            None => Timestamp::MIN,
        };
        Ok(Statistics::of(self.index()?, since, &TimeZone::system()))
    }

    /// Returns what reads incidents.
    pub(in crate::web) fn incidents(&mut self) -> IncidentReader<'_> {
        IncidentReader::new(self)
    }

    /// Returns what reads what incidents left behind in files.
    pub(in crate::web) fn incident_files(&mut self) -> IncidentFileReader<'_> {
        IncidentFileReader::new(self)
    }

    /// Returns what reads what was said.
    pub(in crate::web) fn notices(&mut self) -> NoticeReader<'_> {
        NoticeReader::new(self)
    }

    /// Returns what reads what waits for a person.
    pub(in crate::web) fn needs(&mut self) -> NeedsReader<'_> {
        NeedsReader::new(self)
    }

    /// Returns what reads how servers stand.
    pub(in crate::web) fn servers(&mut self) -> ServerReader<'_> {
        ServerReader::new(self)
    }

    /// Returns what reads the servers' logs.
    pub(in crate::web) fn logs(&mut self) -> LogReader<'_> {
        LogReader::new(self)
    }

    /// Returns what reads how jobs and loops stand.
    pub(in crate::web) fn work(&mut self) -> WorkReader<'_> {
        WorkReader::new(self)
    }

    /// Returns what reads what is remembered.
    pub(in crate::web) fn memory(&mut self) -> MemoryReader<'_> {
        MemoryReader::new(self)
    }

    /// Returns what reads the settings.
    pub(in crate::web) fn settings(&mut self) -> ConfigReader<'_> {
        ConfigReader::new(self)
    }
}
