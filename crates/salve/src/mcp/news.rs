//! What of the journal's news concerns sessions.

use std::collections::BTreeSet;

use salve_core::event::{Entry, Event, IncidentEvent, TeamEvent};
use salve_core::id::IncidentId;

/// What changed by some entries, as far as sessions show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceChanges {
    /// The incidents that have new entries.
    pub(super) changed: BTreeSet<IncidentId>,
    /// Whether everybody should look: incidents were opened, issues reported, proposals wanted.
    pub(super) opened: bool,
    /// Whether what is open for the team changed.
    pub(super) team: bool,
}

impl ResourceChanges {
    /// Reads what changed.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let changed = entries.iter().filter_map(|entry| entry.incident).collect();
        let opened = entries.iter().any(|entry| {
            matches!(
                entry.event,
                Event::Incident(IncidentEvent::Opened { .. })
                    | Event::Team(TeamEvent::IssueReported { .. } | TeamEvent::FixWanted { .. })
            )
        });
        let is_teams = |entry: &Entry| matches!(entry.event, Event::Team(_));
        Self { changed, opened, team: opened || entries.iter().any(is_teams) }
    }
}
