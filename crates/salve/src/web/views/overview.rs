//! A project at one moment: its servers, what is being healed, and what was said last.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Actor, Draft, Event, PageFailure, PersonQuestion, ServerEvent};
use salve_core::id::IncidentId;
use salve_core::incident::RepairPhase;
use salve_core::overview::Statistics;
use salve_core::repair::{self, BrowserError, QuestionDetail, RepairStanding, Server, ServerState};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    AttemptDiff, BATCH, IncidentDetails, IncidentQuery, IncidentRow, JsonObject, ProjectReader,
    ViewError, WaitingSettings, WorkCard, WorkStanding,
};
use crate::heal::rule_list::RuleListRow;
use crate::process;
use crate::reading::{RepairMoment, incident_view, servers_under_care};
use crate::subjects::server::cared_for;

/// Something that was said about an incident, for the list of notices and for toasts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct NoticeLine {
    pub(in crate::web) seq: u64,
    #[schemars(with = "String")]
    pub(in crate::web) at: Timestamp,
    #[schemars(with = "String")]
    pub(in crate::web) incident: IncidentId,
    pub(in crate::web) name: String,
    #[schemars(with = "String")]
    pub(in crate::web) phase: RepairPhase,
    pub(in crate::web) message: String,
}

/// Everything that waits for a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct PersonNeeds {
    /// The incidents that are not over; some of them ask.
    open: Vec<IncidentDetails>,
    /// What was changed in those that ask about a change.
    diffs: BTreeMap<IncidentId, Vec<AttemptDiff>>,
    /// A change of the settings.
    pub(in crate::web) settings: Option<WaitingSettings>,
    /// Approvals that commands have earned.
    pub(in crate::web) rules: Vec<RuleListRow>,
    /// Jobs and loops that wait for something that no incident asks.
    pub(in crate::web) work: Vec<WorkCard>,
}

impl PersonNeeds {
    /// Returns the incidents that ask, each with its question.
    pub(in crate::web) fn questions(&self) -> impl Iterator<Item = AskingIncident<'_>> {
        self.open.iter().filter_map(|details| {
            let kept = self.diffs.get(&details.story.repair.repair_id);
            let diffs = kept.map_or(&[][..], Vec::as_slice);
            Some(AskingIncident { question: details.question.as_ref()?, details, diffs })
        })
    }

    /// Returns how much waits.
    pub(in crate::web) fn count(&self) -> usize {
        let others = usize::from(self.settings.is_some()) + self.rules.len() + self.work.len();
        self.questions().count() + others
    }
}

/// An incident that asks a person.
#[derive(Clone, Copy, Debug)]
pub(in crate::web) struct AskingIncident<'n> {
    pub(in crate::web) details: &'n IncidentDetails,
    pub(in crate::web) question: &'n QuestionDetail,
    /// What was changed, where the question is about a change.
    pub(in crate::web) diffs: &'n [AttemptDiff],
}

/// How far back the statistics look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::web) struct DayRange {
    /// How many days; all of them if absent.
    pub(in crate::web) days: Option<u32>,
}

/// How a project stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum ProjectMood {
    /// A person has to decide or do something.
    Asking,
    /// Salve is at it.
    Healing,
    /// Something failed that was not healed.
    Unwell,
    /// Nothing is or was under care.
    Empty,
    Well,
}

/// A project's state at one moment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct ProjectOverview {
    pub(in crate::web) project: String,
    pub(in crate::web) root: String,
    pub(in crate::web) last_seq: u64,
    /// How much waits for a person.
    pub(in crate::web) waiting: usize,
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) servers: Vec<Server>,
    /// The names of those that some salve runs now.
    pub(in crate::web) run_servers: Vec<String>,
    /// The last incident of each server that had one, by the server's name.
    pub(in crate::web) last_incidents: BTreeMap<String, IncidentRow>,
    pub(in crate::web) open: Vec<IncidentDetails>,
    pub(in crate::web) recent: Vec<IncidentRow>,
    /// The last incident of each check and tool that had one lately.
    pub(in crate::web) checks: Vec<IncidentRow>,
    /// Jobs and loops that are under way, or were lately.
    pub(in crate::web) work: Vec<WorkCard>,
    pub(in crate::web) notices: Vec<NoticeLine>,
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) browser_errors: Vec<BrowserError>,
}

impl ProjectOverview {
    /// Tells how it all stands, in one word.
    pub(in crate::web) fn mood(&self) -> ProjectMood {
        if self.waiting > 0 {
            ProjectMood::Asking
        } else if self.open.iter().any(IncidentDetails::is_being_healed) {
            ProjectMood::Healing
        } else if self.has_trouble() {
            ProjectMood::Unwell
        } else if self.servers.is_empty() && self.recent.is_empty() && self.work.is_empty() {
            ProjectMood::Empty
        } else {
            ProjectMood::Well
        }
    }

    /// Tells whether something failed that nobody healed since.
    fn has_trouble(&self) -> bool {
        let is_unhealed = |row: &IncidentRow| {
            matches!(row.state, RepairStanding::GivenUp | RepairStanding::Unhealed)
        };
        let is_down = |server: &Server| {
            let last = self.last_incidents.get(&server.server);
            server.state == ServerState::Stopped && last.is_some_and(is_unhealed)
        };
        self.open.iter().any(IncidentDetails::is_idle)
            || self.servers.iter().any(is_down)
            || self.checks.iter().any(is_unhealed)
            || self.work.iter().any(|card| card.standing == WorkStanding::Failed)
    }

    /// Returns the incidents that wait for a person.
    pub(in crate::web) fn questions(&self) -> impl Iterator<Item = &IncidentDetails> {
        self.open.iter().filter(|details| details.question.is_some())
    }
}

impl ProjectReader {
    /// Returns the servers under care, each with where it answers.
    pub(in crate::web) fn servers(&mut self) -> Result<Vec<Server>, ViewError> {
        let (urls, scrubber) = (self.watched.urls.clone(), self.scrubber().clone());
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let mut servers = servers_under_care(store.journal(), &urls, &scrubber)?;
        servers.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(servers)
    }

    /// Returns what was said since the entry `after`, in its order, and how far was read.
    pub(in crate::web) fn notices_after(
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

    /// Returns how the servers' repairs stand, as `canvas_get_repair_status` says it; one answer
    /// serves everybody who asks until the journal has more.
    pub(in crate::web) fn repair_status(&mut self) -> Result<String, ViewError> {
        let last = self.last_seq()?;
        if let Some((seq, known)) = &self.repairs
            && *seq == last
        {
            return Ok(known.clone());
        }
        let moment = self.repair_moment()?;
        let status = repair::status(&moment.repairs, &moment.scene(None));
        let told = serde_json::to_string(&status).unwrap_or_default();
        self.repairs = Some((last, told.clone()));
        Ok(told)
    }

    fn repair_moment(&mut self) -> Result<RepairMoment, ViewError> {
        let (urls, scrubber) = (self.watched.urls.clone(), self.scrubber().clone());
        let Some(store) = self.store()? else { return Ok(RepairMoment::default()) };
        Ok(RepairMoment::read(store.journal(), &urls, &scrubber)?)
    }

    /// Returns what failed in the browser since the servers were started last.
    fn browser_errors(&mut self) -> Result<Vec<BrowserError>, ViewError> {
        let moment = self.repair_moment()?;
        Ok(repair::browser_errors(&moment.page_failures, &moment.scene(None)))
    }

    /// Writes what a page of a server reports.
    pub(in crate::web) fn keep_page_failure(
        &mut self,
        failure: PageFailure,
    ) -> Result<(), ViewError> {
        let by = Actor::Salve(process::this(self.scrubber()));
        let event = Event::Server(ServerEvent::PageFailed(failure));
        let Some(store) = self.store()? else { return Ok(()) };
        store.journal().append(Draft { at: Timestamp::now(), by, incident: None, event })?;
        Ok(())
    }

    /// Returns everything that waits for a person.
    pub(in crate::web) fn person_needs(&mut self) -> Result<PersonNeeds, ViewError> {
        let mut needs = self.needs_without_diffs()?;
        for details in &needs.open {
            // What runs before it is allowed has changed nothing yet.
            let is_about_change = details
                .question
                .as_ref()
                .is_some_and(|question| question.ask.question != PersonQuestion::Remedy);
            if is_about_change {
                let id = details.story.repair.repair_id;
                // Snapshots that cannot be read cost the diff, not the question.
                needs.diffs.insert(id, self.diffs(id).unwrap_or_default());
            }
        }
        Ok(needs)
    }

    /// Returns how much waits for a person.
    pub(super) fn count_needs(&mut self) -> Result<usize, ViewError> {
        Ok(self.needs_without_diffs()?.count())
    }

    fn needs_without_diffs(&mut self) -> Result<PersonNeeds, ViewError> {
        let open = self.open_incidents()?;
        let (settings, rules) = (self.waiting_settings()?, self.proposed_rules()?);
        let mut work = self.work_cards()?;
        work.retain(|card| card.standing == WorkStanding::Waits);
        Ok(PersonNeeds { open, diffs: BTreeMap::new(), settings, rules, work })
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

    /// Returns the project's state.
    pub(in crate::web) fn overview(&mut self) -> Result<ProjectOverview, ViewError> {
        const RECENT: usize = 8;
        const NOTICES: usize = 12;
        let query = IncidentQuery { limit: RECENT, ..IncidentQuery::default() };
        let open = self.open_incidents()?;
        let recent = self.incidents(&query)?.incidents;
        let servers = self.servers()?;
        // Where that cannot be read, nobody is known to run one.
        let run_servers = cared_for(self.project(), self.scrubber()).unwrap_or_default();
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
            waiting: self.waiting()?,
            last_incidents: self.last_incidents(&servers)?,
            run_servers,
            servers,
            browser_errors: self.browser_errors()?,
            checks: self.last_of_checks()?,
            work: self.work_cards()?,
            open,
            recent,
            notices,
        })
    }
}
