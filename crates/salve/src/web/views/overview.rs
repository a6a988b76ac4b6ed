//! A project at one moment: its servers, what is being healed, and what was said last.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use salve_core::id::IncidentId;
use salve_core::incident::RepairPhase;
use salve_core::overview::Statistics;
use salve_core::repair::{QuestionDetail, Server};
use serde::Serialize;

use super::{
    BATCH, IncidentDetails, IncidentQuery, IncidentRow, ProjectReader, ViewError, WaitingSettings,
};
use crate::heal::rule_list::RuleListRow;
use crate::reading::{incident_view, servers_under_care};

/// Something that was said about an incident, for the list of notices and for toasts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct NoticeLine {
    pub(in crate::web) seq: u64,
    pub(in crate::web) at: Timestamp,
    pub(in crate::web) incident: IncidentId,
    pub(in crate::web) name: String,
    pub(in crate::web) phase: RepairPhase,
    pub(in crate::web) message: String,
}

/// Everything that waits for a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct PersonNeeds {
    /// The incidents that are not over; some of them ask.
    open: Vec<IncidentDetails>,
    /// A change of the settings.
    pub(in crate::web) settings: Option<WaitingSettings>,
    /// Approvals that commands have earned.
    pub(in crate::web) rules: Vec<RuleListRow>,
}

impl PersonNeeds {
    /// Returns the incidents that ask, each with its question.
    pub(in crate::web) fn questions(
        &self,
    ) -> impl Iterator<Item = (&IncidentDetails, &QuestionDetail)> {
        self.open.iter().filter_map(|details| Some((details, details.question.as_ref()?)))
    }

    /// Returns how much waits.
    pub(in crate::web) fn count(&self) -> usize {
        self.questions().count() + usize::from(self.settings.is_some()) + self.rules.len()
    }
}

/// How far back the statistics look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::web) struct DayRange {
    /// How many days; all of them if absent.
    pub(in crate::web) days: Option<u32>,
}

/// A project's state at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct ProjectOverview {
    pub(in crate::web) project: String,
    pub(in crate::web) root: String,
    pub(in crate::web) last_seq: u64,
    pub(in crate::web) servers: Vec<Server>,
    pub(in crate::web) open: Vec<IncidentDetails>,
    pub(in crate::web) recent: Vec<IncidentRow>,
    pub(in crate::web) notices: Vec<NoticeLine>,
}

impl ProjectOverview {
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

    /// Returns everything that waits for a person.
    pub(in crate::web) fn person_needs(&mut self) -> Result<PersonNeeds, ViewError> {
        let open = self.open_incidents()?;
        let settings = self.waiting_settings()?;
        Ok(PersonNeeds { open, settings, rules: self.proposed_rules()? })
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
}
