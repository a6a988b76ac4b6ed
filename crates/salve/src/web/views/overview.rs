//! A project at one moment: its servers, what is being healed, and what was said last.

use std::collections::BTreeMap;

use salve_core::repair::{BrowserError, RepairStanding, Server, ServerState};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    IncidentDetails, IncidentQuery, IncidentRow, JsonObject, NoticeLine, ProjectReader, ViewError,
    WorkCard, WorkStanding,
};
use crate::subjects::server::cared_for;

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
    /// Reads the project's state.
    pub(in crate::web) fn read(reader: &mut ProjectReader) -> Result<Self, ViewError> {
        const RECENT: usize = 8;
        const NOTICES: usize = 12;
        let query = IncidentQuery { limit: RECENT, ..IncidentQuery::default() };
        let open = reader.incidents().open()?;
        let recent = reader.incidents().page(&query)?.incidents;
        let servers = reader.servers().list()?;
        // Where that cannot be read, nobody is known to run one.
        let run_servers = cared_for(reader.project(), reader.scrubber()).unwrap_or_default();
        let mut notices = Vec::new();
        for row in &recent {
            notices.extend(reader.notices().of(row.id)?);
        }
        notices.sort_by_key(|notice| std::cmp::Reverse(notice.seq));
        notices.truncate(NOTICES);
        Ok(Self {
            project: reader.name.clone(),
            root: reader.project().root().display().to_string(),
            last_seq: reader.last_seq()?,
            waiting: reader.needs().count()?,
            last_incidents: reader.incidents().last_of_servers(&servers)?,
            run_servers,
            servers,
            browser_errors: reader.servers().browser_errors()?,
            checks: reader.incidents().last_of_checks()?,
            work: reader.work().cards()?,
            open,
            recent,
            notices,
        })
    }

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
