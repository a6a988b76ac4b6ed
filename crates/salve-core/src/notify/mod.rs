//! Who is told what, when, and how often it is tried.
//!
//! A [`NoticeMoment`] is an entry of the journal that somebody outside may want to hear of. What is said
//! about it is a [`NoticeMessage`]: small, made of scrubbed parts, without a line of any log.

mod address;
mod links;
mod message;
mod quiet;
mod retry;
#[cfg(test)]
mod tests;

pub use address::is_public;
pub use links::{BadPublicAddress, NoticeLinks, PublicAddress};
pub use message::{Banner, NTFY_MARK, NoticeMessage, NtfyText, banner, is_worth_telling};
pub use quiet::{BadQuietHours, QuietHours};
pub use retry::{After, TargetAnswer, after};

use serde::{Deserialize, Serialize};

use crate::event::{ConfigEvent, Digest, Effect, Entry, Event, IncidentEvent, IncidentOutcome};

/// Something that somebody outside may want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeMoment {
    /// A person is needed.
    Escalation,
    /// Something has healed.
    Recovered,
    /// Every attempt has failed.
    Exhausted,
    /// The settings changed, wait for a person, or were refused.
    ConfigChange,
}

impl NoticeMoment {
    /// Returns which moment an entry is, if it is one.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Incident(IncidentEvent::Requested { what: Effect::Ask, .. }) => {
                Some(Self::Escalation)
            }
            Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Recovered(_) }) => {
                Some(Self::Recovered)
            }
            Event::Incident(IncidentEvent::Exhausted { .. }) => Some(Self::Exhausted),
            Event::Config(ConfigEvent::Changed { .. })
            | Event::Config(ConfigEvent::Pending { .. })
            | Event::Config(ConfigEvent::Rejected { .. }) => Some(Self::ConfigChange),
            _ => None,
        }
    }

    /// Returns the name of its setting without `on_`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Escalation => "escalation",
            Self::Recovered => "recovered",
            Self::Exhausted => "exhausted",
            Self::ConfigChange => "config_change",
        }
    }
}

/// Returns the id under which an entry is told, the same however often it is tried.
pub fn message_id(entry: &Entry) -> String {
    let incident = entry.incident.map(|id| id.to_string()).unwrap_or_default();
    let at = entry.at.as_microsecond().to_be_bytes();
    let parts = [b"notice", &at[..], &entry.seq.to_be_bytes(), incident.as_bytes()];
    let hash: String = Digest::of(&parts).to_string().chars().take(32).collect();
    format!("msg_{hash}")
}
