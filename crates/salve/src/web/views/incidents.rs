//! Incidents: one of them with all that its page shows, and all in rows, filtered, searched and page
//! by page.

use std::collections::BTreeMap;

use jiff::Timestamp;
use salve_core::event::{Amounts, IncidentOutcome, Proof, SubjectKind};
use salve_core::id::{IncidentId, Signature};
use salve_core::overview::IndexedIncident;
use salve_core::repair::{
    self, IncidentStory, QuestionDetail, RepairScene, RepairStanding, Server,
};
use salve_core::view::{IncidentView, RemedyTried};
use schemars::JsonSchema;
use serde::Serialize;

use super::{JsonObject, ProjectReader, ViewError};
use crate::reading::{
    IncidentNotFound, deserted, find_incident, has_owner, incident_view, newest_rows, repair_state,
};

/// How many open incidents are replayed for one page; more than that need `salve incidents`.
const MOST_OPEN: usize = 100;

/// How many checks and tools are shown.
const MOST_CHECKS: usize = 8;

/// How many incidents are looked through for them.
const LOOKED_THROUGH: usize = 5_000;

/// How many of an incident's rows one page shows at most.
const MOST_ROWS: usize = 200;

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

/// One incident in a row of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct IncidentRow {
    #[schemars(with = "String")]
    pub(in crate::web) id: IncidentId,
    pub(in crate::web) opened_seq: u64,
    #[schemars(with = "String")]
    pub(in crate::web) subject: SubjectKind,
    pub(in crate::web) name: String,
    pub(in crate::web) class: String,
    #[schemars(with = "String")]
    pub(in crate::web) signature: Signature,
    pub(in crate::web) key_line: String,
    #[schemars(with = "String")]
    pub(in crate::web) state: RepairStanding,
    #[schemars(with = "Option<String>")]
    pub(in crate::web) proof: Option<Proof>,
    #[schemars(with = "String")]
    pub(in crate::web) opened_at: Timestamp,
    #[schemars(with = "Option<String>")]
    pub(in crate::web) ended_at: Option<Timestamp>,
    pub(in crate::web) applied: u32,
    #[schemars(with = "JsonObject")]
    pub(in crate::web) spent: Amounts,
}

/// Which incidents are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::web) struct IncidentQuery {
    /// Only those in this state.
    pub(in crate::web) state: Option<StateFilter>,
    /// Only those of this kind.
    pub(in crate::web) subject: Option<SubjectKind>,
    /// Only those that mention this text.
    pub(in crate::web) text: String,
    /// Only those that opened before the entry of this number.
    pub(in crate::web) before: Option<u64>,
    /// How many at most.
    pub(in crate::web) limit: usize,
}

/// How listed incidents stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::web) enum StateFilter {
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
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct IncidentPage {
    pub(in crate::web) incidents: Vec<IncidentRow>,
    /// What `before` is for the next page, if there is one.
    pub(in crate::web) next_before: Option<u64>,
}

/// Reads incidents: one of them, those that are not over, and all of them page by page.
#[derive(Debug)]
pub(in crate::web) struct IncidentReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> IncidentReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the incident whose id begins with `given`.
    pub(in crate::web) fn view(&mut self, given: &str) -> Result<IncidentView, ViewError> {
        let unknown = || IncidentNotFound::Unknown(given.chars().take(60).collect());
        let Some(store) = self.reader.store()? else { return Err(unknown().into()) };
        let id = find_incident(store.journal(), given)?;
        Ok(incident_view(store.journal(), id)?.ok_or_else(unknown)?)
    }

    /// Returns everything about one incident.
    pub(in crate::web) fn details(&mut self, given: &str) -> Result<IncidentDetails, ViewError> {
        let view = self.view(given)?;
        Ok(self.details_of(&view))
    }

    fn details_of(&self, view: &IncidentView) -> IncidentDetails {
        let deserted = deserted(view, self.reader.scrubber());
        let scene = RepairScene { deserted: deserted.as_slice(), ..RepairScene::default() };
        IncidentDetails {
            story: IncidentStory::of(view, &scene),
            remedies: view.remedies().to_vec(),
            question: repair::question_detail(view),
            is_paused: view.incident().paused_by().is_some(),
            is_cared_for: has_owner(view.incident(), self.reader.scrubber()),
            last_seq: view.incident().last_seq(),
        }
    }

    /// Returns all incidents that are not over, the newest first.
    pub(in crate::web) fn open(&mut self) -> Result<Vec<IncidentDetails>, ViewError> {
        let ids: Vec<_> = self.reader.index()?.open().take(MOST_OPEN).map(|row| row.id).collect();
        let Some(store) = self.reader.store()? else { return Ok(Vec::new()) };
        let mut views = Vec::new();
        for id in ids {
            views.extend(incident_view(store.journal(), id)?);
        }
        Ok(views.iter().map(|view| self.details_of(view)).collect())
    }

    /// Returns one page of incidents, the newest first.
    pub(in crate::web) fn page(
        &mut self,
        query: &IncidentQuery,
    ) -> Result<IncidentPage, ViewError> {
        let limit = query.limit.clamp(1, MOST_ROWS);
        let wanted: Vec<IndexedIncident> = if query.is_plain() && !self.reader.is_indexed()? {
            // The first page of a long history waits for nothing.
            let Some(store) = self.reader.store()? else {
                return Ok(IncidentPage { incidents: Vec::new(), next_before: None });
            };
            newest_rows(store.journal(), query.before.unwrap_or(u64::MAX), limit + 1)?
        } else {
            let index = self.reader.index()?;
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

    /// Returns the last incident of each of these servers that had one, by the server's name.
    pub(super) fn last_of_servers(
        &mut self,
        servers: &[Server],
    ) -> Result<BTreeMap<String, IncidentRow>, ViewError> {
        let mut last = BTreeMap::new();
        for Server { server, .. } in servers {
            let is_its =
                |row: &&IndexedIncident| row.subject == SubjectKind::Server && row.name == *server;
            let newest = self.reader.index()?.before(u64::MAX).find(is_its).cloned();
            if let Some(row) = newest {
                last.insert(server.clone(), self.row(&row)?);
            }
        }
        Ok(last)
    }

    /// Returns the last incident of each check and tool that had one lately, the newest first.
    pub(super) fn last_of_checks(&mut self) -> Result<Vec<IncidentRow>, ViewError> {
        let mut last: Vec<IndexedIncident> = Vec::new();
        for row in self.reader.index()?.before(u64::MAX).take(LOOKED_THROUGH) {
            let is_meant = matches!(row.subject, SubjectKind::Check | SubjectKind::Tool);
            let is_known =
                last.iter().any(|one| (one.subject, &one.name) == (row.subject, &row.name));
            if is_meant && !is_known {
                last.push(row.clone());
            }
            if last.len() == MOST_CHECKS {
                break;
            }
        }
        last.iter().map(|row| self.row(row)).collect()
    }

    /// Returns a row; an incident that is not over is replayed to tell how it stands.
    fn row(&mut self, row: &IndexedIncident) -> Result<IncidentRow, ViewError> {
        let (state, proof) = match row.ending.map(|ending| ending.outcome) {
            Some(IncidentOutcome::Recovered(proof)) => (RepairStanding::Recovered, Some(proof)),
            Some(outcome) => (RepairStanding::of_outcome(outcome), None),
            None => {
                let view = match self.reader.store()? {
                    Some(store) => incident_view(store.journal(), row.id)?,
                    None => None,
                };
                let now = view.map(|view| repair_state(&view, self.reader.scrubber()));
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
}

impl IncidentQuery {
    /// Tells whether all incidents are wanted.
    fn is_plain(&self) -> bool {
        self.state.is_none() && self.subject.is_none() && self.text.is_empty()
    }

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
