//! The page's sections as HTML; what the browser shows between header and footer.

mod incident;
mod incidents;
mod needs_you;
mod now;
mod parts;

use maud::Markup;
use salve_core::event::SubjectKind;

use super::views::{IncidentQuery, ProjectReader, StateFilter, ViewError};

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
}

impl PageView {
    /// Returns the section that an address means, if it means one.
    pub(super) fn parse(path: &str, query: &ViewQuery) -> Option<Self> {
        match path.trim_matches('/') {
            "" => Some(Self::Now),
            "needs-you" => Some(Self::NeedsYou),
            "incidents" => Some(Self::Incidents(query.incidents())),
            other => {
                let id = other.strip_prefix("incidents/")?;
                let is_plain =
                    id.len() <= 40 && id.chars().all(|c| c == '-' || c.is_ascii_alphanumeric());
                is_plain.then(|| Self::Incident(id.to_owned()))
            }
        }
    }

    /// Returns the section as HTML.
    pub(super) fn render(&self, reader: &mut ProjectReader) -> Result<Markup, ViewError> {
        Ok(match self {
            Self::Now => now::page(&reader.overview()?),
            Self::NeedsYou => needs_you::page(&reader.open_incidents()?),
            Self::Incidents(query) => incidents::page(query, &reader.incidents(query)?),
            Self::Incident(id) => {
                let details = reader.incident(id)?;
                let evidence = reader.evidence(id)?;
                let diffs = reader.diffs(details.story.repair.repair_id);
                incident::page(&details, evidence.as_ref(), diffs.as_deref().unwrap_or_default())
            }
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
}

impl ViewQuery {
    /// Returns which incidents are meant; what is not understood is left out.
    pub(super) fn incidents(&self) -> IncidentQuery {
        let text: String = self.q.as_deref().unwrap_or_default().trim().chars().collect();
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
            text: text.chars().take(LONGEST_SEARCH).collect(),
            before: self.before,
            limit: self.limit.unwrap_or(ROWS),
        }
    }
}
