//! What came of trying a remedy.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Confidence;
use crate::event::Proof;
use crate::id::IncidentId;
use crate::scrub::Scrubbed;

/// After this long without a heal, confidence in a remedy has halved.
const HALF_LIFE_DAYS: f64 = 365.0;

/// One try of a remedy, who made it and what verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemedyTrial {
    /// When it was verified.
    pub at: Timestamp,
    /// Who tried it: a person, an agent, Salve.
    pub by: Scrubbed,
    /// The incident it was tried in, if it was in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentId>,
    /// The project it was tried in.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub project: Scrubbed,
    /// What verification found.
    pub proof: Proof,
}

pub(super) fn is_empty(text: &Scrubbed) -> bool {
    text.as_str().is_empty()
}

/// How often a remedy came out how, and when it last did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Times it healed.
    pub proven: u32,
    /// Times the failure would have gone away by itself.
    pub transient: u32,
    /// Times the subject was well and unwell by turns.
    pub flaky: u32,
    /// Times it only hid the failure.
    pub masked: u32,
    /// Times it did not help.
    pub failed: u32,
    /// Times it did not help or hid the failure since it last healed.
    pub losing: u32,
    /// When it was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// When it last healed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healed: Option<Timestamp>,
}

/// What a record says about trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordStanding {
    /// Nobody has seen how it comes out.
    Untried,
    /// It healed, and has not lost since as often as it takes to give it up.
    Works,
    /// It was tried, and neither healed nor failed.
    Undecided,
    /// It failed and never healed, or has kept failing since.
    Failed,
}

impl Record {
    /// Losses in a row after which a remedy that once healed is given up.
    const GIVEN_UP: u32 = 2;

    /// Adds one outcome.
    pub fn add(&mut self, proof: Proof, at: Timestamp) {
        let count = match proof {
            Proof::Proven => &mut self.proven,
            Proof::Transient => &mut self.transient,
            Proof::Flaky => &mut self.flaky,
            Proof::Masked => &mut self.masked,
            Proof::Failed => &mut self.failed,
        };
        *count = count.saturating_add(1);
        match proof {
            Proof::Proven => {
                self.losing = 0;
                self.healed = self.healed.max(Some(at));
            }
            Proof::Masked | Proof::Failed => self.losing = self.losing.saturating_add(1),
            Proof::Transient | Proof::Flaky => {}
        }
        self.last = self.last.max(Some(at));
    }

    /// Returns the record of these outcomes, given oldest first.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a RemedyTrial>) -> Self {
        let mut record = Self::default();
        outcomes.into_iter().for_each(|outcome| record.add(outcome.proof, outcome.at));
        record
    }

    /// Returns how often it was tried.
    pub fn tries(&self) -> u64 {
        [self.proven, self.transient, self.flaky, self.masked, self.failed]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    /// Returns what the record says about trying again.
    pub fn standing(&self) -> RecordStanding {
        let lost = self.failed > 0 || self.masked > 0;
        match self.proven {
            _ if self.tries() == 0 => RecordStanding::Untried,
            0 if lost => RecordStanding::Failed,
            0 => RecordStanding::Undecided,
            _ if self.losing >= Self::GIVEN_UP => RecordStanding::Failed,
            _ => RecordStanding::Works,
        }
    }

    /// Returns how sure it is that the remedy heals, as of `now`.
    ///
    /// One half for what nobody has tried. Only proven heals raise it; failures and masked ones
    /// lower it, flaky ones half as much, transient ones not at all; so does time since it last
    /// healed.
    pub fn confidence(&self, now: Timestamp) -> Confidence {
        let won = f64::from(self.proven);
        let lost = f64::from(self.failed) + f64::from(self.masked) + f64::from(self.flaky) / 2.0;
        let share = (1.0 + won) / (2.0 + won + lost);
        let idle = self.healed.map_or(0.0, |last| days_between(last, now));
        Confidence::from_share(share * (-idle / HALF_LIFE_DAYS).exp2())
    }
}

/// Returns the days from `then` to `now`, zero when a clock was set back.
fn days_between(then: Timestamp, now: Timestamp) -> f64 {
    (now.duration_since(then).as_secs_f64() / 86_400.0).max(0.0)
}
