//! A failure that was given up: why nothing is tried, for how long, and what ends that.

use jiff::Timestamp;
use serde::Serialize;

use super::notice::resource_text;
use crate::event::{Resource, SubjectKind};
use crate::incident::{Incident, Phase};

/// A cooldown in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CooldownNotice {
    /// When it is over by itself.
    pub until: Timestamp,
    /// Why nothing is tried.
    pub reason: String,
    /// What ends it before its time.
    pub ended_by: String,
}

impl CooldownNotice {
    /// Returns what is said of an incident that cools down; nothing of any other.
    pub fn of(incident: &Incident) -> Option<Self> {
        let Phase::CoolingDown { until } = incident.phase() else { return None };
        let reason = match (incident.ledger().exhausted(), incident.policy().limits.attempts) {
            (Some(Resource::Attempts) | None, Some(1)) => "its one repair attempt failed".into(),
            (Some(Resource::Attempts) | None, Some(most)) => {
                format!("all {most} repair attempts failed")
            }
            (None, None) => "nothing that was tried has helped".into(),
            (Some(resource), _) => {
                let text = resource_text(resource);
                let lower = text.chars().take(1).flat_map(char::to_lowercase);
                format!("{} used up", lower.chain(text.chars().skip(1)).collect::<String>())
            }
        };
        let ended_by = match incident.subject().kind {
            SubjectKind::Server => "a saved file, salve start, salve restart, a new salve dev",
            SubjectKind::Check | SubjectKind::Tool | SubjectKind::Step | SubjectKind::Iteration => {
                "salve refill"
            }
        };
        Some(Self { until, reason, ended_by: ended_by.into() })
    }

    /// Returns how much of it is left at `now`, in words.
    pub fn left(&self, now: Timestamp) -> String {
        match self.until.duration_since(now).as_secs().max(0) {
            left @ 120.. => format!("{} min", left / 60),
            left => format!("{left} s"),
        }
    }
}
