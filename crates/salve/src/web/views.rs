//! What pages and the API show, read from a project's journal and files.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use jiff::Timestamp;
use salve_core::event::{Amounts, Entry, IncidentOutcome, Proof, SubjectKind};
use salve_core::id::{IncidentId, Signature};
use salve_core::incident::RepairPhase;
use salve_core::overview::{IncidentIndex, IndexedIncident};
use salve_core::repair::{self, IncidentStory, QuestionDetail, RepairStanding, Scene, Server};
use salve_core::scrub::Scrubber;
use salve_core::view::{IncidentView, RemedyTried};
use serde::Serialize;

use super::project_handle::WatchedProject;
use crate::project::Project;
use crate::reading::{
    IncidentNotFound, deserted, find_incident, incident_view, repair_state, servers_under_care,
};
use crate::store::{Store, StoreError, Stream};
use crate::workspace::{self, Name, Workspace, WorkspaceError};

/// How many entries are read at once.
const BATCH: usize = 1000;

/// How many open incidents are replayed for one page; more than that need `salve incidents`.
const MOST_OPEN: usize = 100;

/// How many of an incident's rows one page shows at most.
pub(super) const MOST_ROWS: usize = 200;

/// How much of the end of a log is shown.
const LOG_BYTES: u64 = 128 * 1024;

/// Why a view cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ViewError {
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
}

/// The one reader of a project's journal; it lives on a thread of its own.
#[derive(Debug)]
pub(super) struct ProjectReader {
    name: String,
    watched: WatchedProject,
    store: Option<Store>,
    index: IncidentIndex,
}

/// One incident with everything that its page shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentDetails {
    /// The whole story.
    pub(super) story: IncidentStory,
    /// The remedies, each with what the gate said and what came of it.
    pub(super) remedies: Vec<RemedyTried>,
    /// What a person is asked now.
    pub(super) question: Option<QuestionDetail>,
    /// The number of its last entry.
    pub(super) last_seq: u64,
}

/// One incident in a row of a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentRow {
    pub(super) id: IncidentId,
    pub(super) opened_seq: u64,
    pub(super) subject: SubjectKind,
    pub(super) name: String,
    pub(super) class: String,
    pub(super) signature: Signature,
    pub(super) key_line: String,
    pub(super) state: RepairStanding,
    pub(super) proof: Option<Proof>,
    pub(super) opened_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) applied: u32,
    pub(super) spent: Amounts,
}

/// Which incidents are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IncidentQuery {
    /// Only those that stand so.
    pub(super) state: Option<StateFilter>,
    /// Only those of this kind.
    pub(super) subject: Option<SubjectKind>,
    /// Only those that mention this text.
    pub(super) text: String,
    /// Only those that opened before the entry of this number.
    pub(super) before: Option<u64>,
    /// How many at most.
    pub(super) limit: usize,
}

/// How listed incidents stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateFilter {
    /// Not over.
    Open,
    /// Waiting for a person.
    NeedsYou,
    /// Over, and healed.
    Recovered,
    /// Over, and not healed.
    NotHealed,
}

/// One page of a list of incidents.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentPage {
    pub(super) incidents: Vec<IncidentRow>,
    /// What `before` is for the next page, if there is one.
    pub(super) next_before: Option<u64>,
}

/// Something that was said about an incident, for the list of notices and for toasts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NoticeLine {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) incident: IncidentId,
    pub(super) name: String,
    pub(super) phase: RepairPhase,
    pub(super) message: String,
}

/// A project's state at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProjectOverview {
    pub(super) project: String,
    pub(super) root: String,
    pub(super) last_seq: u64,
    pub(super) servers: Vec<Server>,
    pub(super) open: Vec<IncidentDetails>,
    pub(super) recent: Vec<IncidentRow>,
    pub(super) notices: Vec<NoticeLine>,
}

impl ProjectOverview {
    /// Returns the incidents that wait for a person.
    pub(super) fn questions(&self) -> impl Iterator<Item = &IncidentDetails> {
        self.open.iter().filter(|details| details.question.is_some())
    }
}

/// The end of a log or of evidence, line by line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TextTail {
    /// The file, from the project's root.
    pub(super) path: String,
    /// Whether the beginning is left out.
    pub(super) is_cut: bool,
    pub(super) lines: Vec<String>,
}

/// What one attempt changed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptDiff {
    pub(super) attempt: u32,
    /// The change as a patch, without secrets.
    pub(super) patch: String,
}

impl ProjectReader {
    /// Makes a reader; a project without a store stays without.
    pub(super) fn new(name: String, watched: WatchedProject) -> Self {
        Self { name, watched, store: None, index: IncidentIndex::default() }
    }

    /// Returns the project.
    pub(super) fn project(&self) -> &Project {
        &self.watched.project
    }

    /// Returns the scrubber.
    pub(super) fn scrubber(&self) -> &Scrubber {
        &self.watched.scrubber
    }

    /// Returns the store if there is one by now.
    pub(super) fn store(&mut self) -> Result<Option<&Store>, StoreError> {
        if self.store.is_none() {
            self.store = Store::open_existing(&self.watched.project)?;
        }
        Ok(self.store.as_ref())
    }

    /// Brings the index up to date and returns it.
    pub(super) fn index(&mut self) -> Result<&IncidentIndex, StoreError> {
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
    pub(super) fn last_seq(&mut self) -> Result<u64, StoreError> {
        self.store()?.map_or(Ok(0), |store| store.journal().last_seq())
    }

    /// Returns up to `limit` entries after a number.
    pub(super) fn entries_after(
        &mut self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        store.journal().read(after, &Stream::Project, limit)
    }

    /// Returns the incident whose id begins with `given`.
    pub(super) fn incident_view(&mut self, given: &str) -> Result<IncidentView, ViewError> {
        let unknown = || IncidentNotFound::Unknown(given.chars().take(60).collect());
        let Some(store) = self.store()? else { return Err(unknown().into()) };
        let id = find_incident(store.journal(), given)?;
        Ok(incident_view(store.journal(), id)?.ok_or_else(unknown)?)
    }

    /// Returns everything about one incident.
    pub(super) fn incident(&mut self, given: &str) -> Result<IncidentDetails, ViewError> {
        let view = self.incident_view(given)?;
        Ok(self.details(&view))
    }

    fn details(&self, view: &IncidentView) -> IncidentDetails {
        let deserted = deserted(view, self.scrubber());
        let scene = Scene { deserted: deserted.as_slice(), ..Scene::default() };
        IncidentDetails {
            story: IncidentStory::of(view, &scene),
            remedies: view.remedies().to_vec(),
            question: repair::question_detail(view),
            last_seq: view.incident().last_seq(),
        }
    }

    /// Returns all incidents that are not over, the newest first.
    pub(super) fn open_incidents(&mut self) -> Result<Vec<IncidentDetails>, ViewError> {
        let ids: Vec<_> = self.index()?.open().take(MOST_OPEN).map(|row| row.id).collect();
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let mut views = Vec::new();
        for id in ids {
            views.extend(incident_view(store.journal(), id)?);
        }
        Ok(views.iter().map(|view| self.details(view)).collect())
    }

    /// Returns how many incidents wait for a person.
    pub(super) fn waiting(&mut self) -> Result<usize, ViewError> {
        let open = self.open_incidents()?;
        Ok(open.iter().filter(|details| details.question.is_some()).count())
    }

    /// Returns one page of incidents, the newest first.
    pub(super) fn incidents(&mut self, query: &IncidentQuery) -> Result<IncidentPage, ViewError> {
        let limit = query.limit.clamp(1, MOST_ROWS);
        let wanted: Vec<IndexedIncident> = {
            let index = self.index()?;
            let before = query.before.unwrap_or(u64::MAX);
            let fits = |row: &&IndexedIncident| query.may_fit(row);
            // One more than is shown tells whether there is another page. Of open ones some may
            // drop out below, once they are replayed.
            let is_open_only = matches!(query.state, Some(StateFilter::NeedsYou));
            let most = if is_open_only { usize::MAX } else { limit + 1 };
            index.before(before).filter(fits).take(most).cloned().collect()
        };
        let mut rows = Vec::new();
        for row in &wanted {
            let row = self.row(row)?;
            if query.state.is_none_or(|state| state.is(row.state)) {
                rows.push(row);
            }
            if rows.len() > limit {
                break;
            }
        }
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_before = rows.last().filter(|_| more).map(|row| row.opened_seq);
        Ok(IncidentPage { incidents: rows, next_before })
    }

    /// Returns a row; an incident that is not over is replayed to tell how it stands.
    fn row(&mut self, row: &IndexedIncident) -> Result<IncidentRow, ViewError> {
        let (state, proof) = match row.ending.map(|ending| ending.outcome) {
            Some(IncidentOutcome::Recovered(proof)) => (RepairStanding::Recovered, Some(proof)),
            Some(outcome) => (RepairStanding::of_outcome(outcome), None),
            None => {
                let view = match self.store()? {
                    Some(store) => incident_view(store.journal(), row.id)?,
                    None => None,
                };
                let now = view.map(|view| repair_state(&view, self.scrubber()));
                now.map_or((RepairStanding::Healing, None), |now| (now.state, now.proof))
            }
        };
        Ok(IncidentRow {
            id: row.id,
            opened_seq: row.opened_seq,
            subject: row.subject,
            name: row.name.clone(),
            class: row.class.to_string(),
            signature: row.signature,
            key_line: row.key_line.clone(),
            state,
            proof,
            opened_at: row.opened_at,
            ended_at: row.ending.map(|ending| ending.at),
            applied: row.applied,
            spent: row.spent(),
        })
    }

    /// Returns the servers under care, each with where it answers.
    pub(super) fn servers(&mut self) -> Result<Vec<Server>, ViewError> {
        let (urls, scrubber) = (self.watched.urls.clone(), self.scrubber().clone());
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let mut servers = servers_under_care(store.journal(), &urls, &scrubber)?;
        servers.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(servers)
    }

    /// Returns what was said since the entry `after`, in its order, and how far was read.
    pub(super) fn notices_after(
        &mut self,
        after: u64,
    ) -> Result<(Vec<NoticeLine>, u64), ViewError> {
        let entries = self.entries_after(after, BATCH)?;
        let read_to = entries.last().map_or(after, |entry| entry.seq);
        let mut ids: Vec<IncidentId> = entries.iter().filter_map(|entry| entry.incident).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut notices = Vec::new();
        for id in ids {
            let is_new = |notice: &NoticeLine| (after + 1..=read_to).contains(&notice.seq);
            notices.extend(self.notices_of(id)?.into_iter().filter(is_new));
        }
        notices.sort_by_key(|notice| notice.seq);
        Ok((notices, read_to))
    }

    fn notices_of(&mut self, id: IncidentId) -> Result<Vec<NoticeLine>, ViewError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let Some(view) = incident_view(store.journal(), id)? else { return Ok(Vec::new()) };
        let name = view.subject().name.to_string();
        let said = view.notices().map(|(line, notice)| NoticeLine {
            seq: line.entry.seq,
            at: line.entry.at,
            incident: id,
            name: name.clone(),
            phase: notice.phase,
            message: notice.message.clone(),
        });
        Ok(said.collect())
    }

    /// Returns the project's state.
    pub(super) fn overview(&mut self) -> Result<ProjectOverview, ViewError> {
        const RECENT: usize = 8;
        const NOTICES: usize = 12;
        let query = IncidentQuery { limit: RECENT, ..IncidentQuery::default() };
        let open = self.open_incidents()?;
        let recent = self.incidents(&query)?.incidents;
        let mut notices = Vec::new();
        for row in &recent {
            notices.extend(self.notices_of(row.id)?);
        }
        notices.sort_by_key(|notice| std::cmp::Reverse(notice.seq));
        notices.truncate(NOTICES);
        Ok(ProjectOverview {
            project: self.name.clone(),
            root: self.project().root().display().to_string(),
            last_seq: self.last_seq()?,
            servers: self.servers()?,
            open,
            recent,
            notices,
        })
    }

    /// Returns the end of what a failure left behind, if it is still there.
    pub(super) fn evidence(&mut self, given: &str) -> Result<Option<TextTail>, ViewError> {
        let view = self.incident_view(given)?;
        let path = repair::evidence_path(view.subject().kind, view.id());
        self.tail(&self.project().root().join(&path), path)
    }

    /// Returns the end of a server's log, if there is one.
    pub(super) fn server_log(&self, server: &str) -> Result<Option<TextTail>, ViewError> {
        let path = self.project().log(server);
        let shown = path.strip_prefix(self.project().root()).unwrap_or(&path);
        self.tail(&path, shown.display().to_string())
    }

    fn tail(&self, path: &Path, shown: String) -> Result<Option<TextTail>, ViewError> {
        match read_tail(path) {
            Ok((text, is_cut)) => {
                let text = self.scrubber().scrub(&text).into_string();
                let lines = text.lines().map(str::to_owned).collect();
                Ok(Some(TextTail { path: shown, is_cut, lines }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ViewError::File(shown, error)),
        }
    }

    /// Returns what each attempt of an incident changed, as far as snapshots are kept.
    pub(super) fn diffs(&mut self, id: IncidentId) -> Result<Vec<AttemptDiff>, ViewError> {
        let kept = Workspace::open(self.project())?;
        let mut diffs = Vec::new();
        for after in kept.names(id)?.iter().filter(|one| one.moment == workspace::Moment::After) {
            let before = kept.load(Name::before(id, after.attempt))?;
            let (Some(before), Some(after)) = (before, kept.load(*after)?) else { continue };
            let patch = self.scrubber().scrub(&kept.diff(&before, &after)?).into_string();
            if !patch.is_empty() {
                diffs.push(AttemptDiff { attempt: before.name().attempt, patch });
            }
        }
        Ok(diffs)
    }
}

impl IncidentQuery {
    /// Tells whether a row may be wanted; how an open one stands is only known once replayed.
    fn may_fit(&self, row: &IndexedIncident) -> bool {
        let state_may_fit = match (self.state, row.ending) {
            (None, _) => true,
            (Some(filter), Some(ending)) => filter.is(RepairStanding::of_outcome(ending.outcome)),
            (Some(StateFilter::Open | StateFilter::NeedsYou), None) => true,
            (Some(StateFilter::Recovered | StateFilter::NotHealed), None) => false,
        };
        state_may_fit
            && self.subject.is_none_or(|kind| kind == row.subject)
            && (self.text.is_empty() || row.mentions(&self.text))
    }
}

impl StateFilter {
    /// Tells whether a state is meant.
    fn is(self, state: RepairStanding) -> bool {
        let (is_over, is_healed) = (state.is_over(), state == RepairStanding::Recovered);
        match self {
            StateFilter::Open => !is_over,
            StateFilter::NeedsYou => state == RepairStanding::NeedsHuman,
            StateFilter::Recovered => is_healed,
            StateFilter::NotHealed => is_over && !is_healed,
        }
    }
}

/// Reads the end of a regular file, and tells whether its beginning was left out.
fn read_tail(path: &Path) -> io::Result<(String, bool)> {
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_file() {
        // A link here could lead to any file of the user's.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut file = File::open(path)?;
    let from = meta.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match (from > 0, text.split_once('\n')) {
        (true, Some((_, whole_lines))) => Ok((whole_lines.to_owned(), true)),
        (is_cut, _) => Ok((text, is_cut)),
    }
}
