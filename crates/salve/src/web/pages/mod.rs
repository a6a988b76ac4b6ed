//! The page's sections as HTML; what the browser shows between header and footer.

mod answer_link;
mod chart;
mod fleet;
mod incident;
mod incidents;
mod logs;
mod memory;
mod needs_you;
mod now;
mod parts;
mod settings;
mod statistics;
mod what_if;
mod work;

use std::time::Duration;

use maud::Markup;
use salve_core::event::SubjectKind;

pub(super) use answer_link::answer_card;
use incident::IncidentFiles;
pub(super) use incident::{ExportedIncident, export_page};
pub(super) use memory::memory_answer;
pub(super) use what_if::what_if_answer;

use super::views::{
    DayRange, IncidentQuery, LogLines, LogQuery, MemoryOwner, MemoryQuery, ProjectOverview,
    ProjectReader, StateFilter, ViewError,
};

/// How many incidents one page lists.
const ROWS: usize = 50;

/// The longest text that is searched for.
const LONGEST_SEARCH: usize = 200;

/// A section of the page, with what its address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageView {
    /// Everything at a glance.
    Now,
    /// What waits for a person.
    NeedsYou,
    /// All incidents.
    Incidents(IncidentQuery),
    /// One incident, by the first digits of its id.
    Incident(String),
    /// What is remembered.
    Memory(MemoryQuery),
    /// What all incidents add up to.
    Statistics(DayRange),
    /// What servers wrote.
    Logs(LogQuery),
    /// Jobs and loops.
    Work,
    /// Settings and rules.
    Settings,
}

impl PageView {
    /// Returns the section that an address means, if it means one.
    pub(super) fn parse(path: &str, query: &ViewQuery) -> Option<Self> {
        match path.trim_matches('/') {
            "" => Some(Self::Now),
            "needs-you" => Some(Self::NeedsYou),
            "incidents" => Some(Self::Incidents(query.incidents())),
            "memory" => Some(Self::Memory(query.memory())),
            "statistics" => Some(Self::Statistics(query.range())),
            "logs" => Some(Self::Logs(query.log())),
            "jobs" => Some(Self::Work),
            "settings" => Some(Self::Settings),
            other => {
                let id = other.strip_prefix("incidents/")?;
                let is_plain =
                    id.len() <= 40 && id.chars().all(|c| c == '-' || c.is_ascii_alphanumeric());
                is_plain.then(|| Self::Incident(id.to_owned()))
            }
        }
    }

    /// Returns how often the section is looked at though the journal is silent.
    pub(super) fn look(&self) -> Duration {
        match self {
            Self::Logs(_) => Duration::from_millis(500),
            Self::Now
            | Self::NeedsYou
            | Self::Incidents(_)
            | Self::Incident(_)
            | Self::Memory(_)
            | Self::Statistics(_)
            | Self::Work
            | Self::Settings => Duration::from_secs(5),
        }
    }

    /// Returns the section as HTML.
    pub(super) fn render(&self, reader: &mut ProjectReader) -> Result<Markup, ViewError> {
        Ok(match self {
            Self::Now => now::page(&ProjectOverview::read(reader)?),
            Self::NeedsYou => needs_you::page(&reader.needs().all()?),
            Self::Incidents(query) => incidents::page(query, &reader.incidents().page(query)?),
            Self::Incident(id) => {
                let details = reader.incidents().details(id)?;
                let evidence = reader.incident_files().evidence(id)?;
                let transcript = reader.incident_files().transcript(id)?;
                let diffs = reader
                    .incident_files()
                    .diffs(details.story.repair.repair_id)
                    .unwrap_or_default();
                let (evidence, transcript) = (evidence.as_ref(), transcript.as_ref());
                incident::page(&details, IncidentFiles { evidence, transcript, diffs: &diffs })
            }
            Self::Memory(query) => memory::page(query, &reader.memory().view(query)?),
            Self::Statistics(range) => statistics::page(*range, &reader.statistics(*range)?),
            Self::Logs(query) => logs::page(query, &reader.logs().view(query)?),
            Self::Work => work::page(&reader.work().view()?, reader.fleet().as_deref()),
            Self::Settings => settings::page(&reader.settings().view()?),
        })
    }
}

/// What the query of an address says.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub(super) struct ViewQuery {
    pub(super) project: Option<String>,
    state: Option<String>,
    subject: Option<String>,
    q: Option<String>,
    before: Option<u64>,
    limit: Option<usize>,
    whose: Option<String>,
    skip: Option<u64>,
    days: Option<u32>,
    server: Option<String>,
    show: Option<String>,
    pub(super) table: Option<String>,
}

impl ViewQuery {
    /// Returns the text that is searched for, cut to a length that is worth a search.
    fn text(&self) -> String {
        self.q.as_deref().unwrap_or_default().trim().chars().take(LONGEST_SEARCH).collect()
    }

    /// Returns what of memory is meant.
    pub(super) fn memory(&self) -> MemoryQuery {
        let owner = match self.whose.as_deref() {
            Some("user") => MemoryOwner::User,
            Some(_) | None => MemoryOwner::Project,
        };
        MemoryQuery { owner, text: self.text(), skip: self.skip.unwrap_or(0) }
    }

    /// Returns how far back the statistics look.
    pub(super) fn range(&self) -> DayRange {
        DayRange { days: self.days.filter(|days| *days > 0) }
    }

    /// Returns which lines of which log are meant.
    pub(super) fn log(&self) -> LogQuery {
        let lines = match self.show.as_deref() {
            Some("failures") => LogLines::Failures,
            Some(_) | None => LogLines::All,
        };
        LogQuery { server: self.server.clone(), text: self.text(), lines }
    }

    /// Returns which incidents are meant; what is not understood is left out.
    pub(super) fn incidents(&self) -> IncidentQuery {
        IncidentQuery {
            state: match self.state.as_deref() {
                Some("open") => Some(StateFilter::Open),
                Some("needs-you") => Some(StateFilter::NeedsYou),
                Some("recovered") => Some(StateFilter::Recovered),
                Some("not-healed") => Some(StateFilter::NotHealed),
                Some(_) | None => None,
            },
            subject: match self.subject.as_deref() {
                Some("server") => Some(SubjectKind::Server),
                Some("check") => Some(SubjectKind::Check),
                Some("tool") => Some(SubjectKind::Tool),
                Some("step") => Some(SubjectKind::Step),
                Some("iteration") => Some(SubjectKind::Iteration),
                Some(_) | None => None,
            },
            text: self.text(),
            before: self.before,
            limit: self.limit.unwrap_or(ROWS),
        }
    }
}
