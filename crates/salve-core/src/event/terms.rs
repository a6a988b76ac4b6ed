//! The terms of an incident: how much may be spent and how long things may take.

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

/// Something a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Tries of a remedy.
    Attempts,
    /// Tokens of models.
    Tokens,
    /// Money, in millionths of the currency unit.
    MoneyMicros,
    /// Time, in milliseconds.
    WallMs,
    /// Resets of a runtime or a workspace.
    Resets,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Self; 5] =
        [Self::Attempts, Self::Tokens, Self::MoneyMicros, Self::WallMs, Self::Resets];
}

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Amounts {
    /// Tries of a remedy.
    pub attempts: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// Money, in millionths of the currency unit.
    pub money_micros: u64,
    /// Time, in milliseconds.
    pub wall_ms: u64,
    /// Resets of a runtime or a workspace.
    pub resets: u64,
}

/// Returns a sum of millionths of a dollar as people write it; below a cent all its digits count.
pub fn dollars(micros: u64) -> String {
    const CENT: u64 = 10_000;
    if micros == 0 || micros >= CENT {
        return format!("${:.2}", micros as f64 / 1e6);
    }
    let digits = format!("{:.6}", micros as f64 / 1e6);
    format!("${}", digits.trim_end_matches('0'))
}

impl Amounts {
    /// Returns the amount of one resource.
    pub fn get(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Attempts => self.attempts,
            Resource::Tokens => self.tokens,
            Resource::MoneyMicros => self.money_micros,
            Resource::WallMs => self.wall_ms,
            Resource::Resets => self.resets,
        }
    }

    /// Returns both combined, resource by resource.
    pub fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            attempts: combine(self.attempts, other.attempts),
            tokens: combine(self.tokens, other.tokens),
            money_micros: combine(self.money_micros, other.money_micros),
            wall_ms: combine(self.wall_ms, other.wall_ms),
            resets: combine(self.resets, other.resets),
        }
    }

    /// Returns what models cost, in words: tokens, and money where it is known. Tokens without a price
    /// are not free; nobody told what they cost.
    pub fn cost_in_words(&self) -> Option<String> {
        let money = match (self.tokens, self.money_micros) {
            (0, 0) => return None,
            (_, 0) => "cost unknown".to_owned(),
            (_, micros) => dollars(micros),
        };
        Some(if self.tokens == 0 { money } else { format!("{} tokens, {money}", self.tokens) })
    }

    /// Returns the sum, stopping at the largest number.
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// Returns the larger of both, resource by resource.
    pub fn max(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }
}

/// A limit on each resource; an absent one is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// Tries of a remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Tokens of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in millionths of the currency unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
    /// Time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Resets of a runtime or a workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<u64>,
}

impl ResourceLimits {
    /// Returns the limit on one resource.
    pub fn get(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Attempts => self.attempts,
            Resource::Tokens => self.tokens,
            Resource::MoneyMicros => self.money_micros,
            Resource::WallMs => self.wall_ms,
            Resource::Resets => self.resets,
        }
    }
}

/// What becomes of a change that did not help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is undone before the next attempt.
    #[default]
    Undo,
    /// It stays.
    Keep,
}

/// What becomes of an incident when Salve knows nothing further to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtALoss {
    /// It waits for the named person.
    #[default]
    Ask,
    /// It closes as unhealed, and whoever runs the subject gets its failure.
    Close,
}

/// Who mends a subject that a restart does not: the dev-server spec's two modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairMode {
    /// Nobody: known remedies and restarts only.
    #[default]
    Legacy,
    Agent,
}

impl RepairMode {
    /// Tells whether this is the mode without an agent.
    pub fn is_legacy(&self) -> bool {
        *self == RepairMode::Legacy
    }
}

/// The terms of one incident, fixed when it opens so that replaying it needs nothing else.
///
/// All times are in milliseconds; zero means at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncidentPolicy {
    /// Who is asked when a person has to decide.
    pub person: Scrubbed,
    /// Whether an agent repairs.
    #[serde(default, skip_serializing_if = "RepairMode::is_legacy")]
    pub mode: RepairMode,
    /// The one agent that listens when the incident opens, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Scrubbed>,
    /// The agent that Salve starts if nobody who listens takes the repair up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Scrubbed>,
    /// What may be spent.
    pub limits: ResourceLimits,
    /// The first wait before a plain retry; it doubles with every attempt.
    pub backoff_ms: u64,
    /// How long an agent may take to begin.
    pub engage_ms: u64,
    /// How long an agent that has begun may take to finish.
    pub write_ms: u64,
    /// How long edits settle before the subject runs again.
    pub quiet_ms: u64,
    /// How long a verified subject is watched for a relapse.
    pub watch_ms: u64,
    /// How long nothing is tried once the budget is used up.
    pub cooldown_ms: u64,
    /// The most files a repair may change without a person.
    pub max_files: u32,
    /// The most lines a repair may change without a person.
    pub max_lines: u32,
    /// How often the same failure in the same tree may return; `None` for no such limit.
    pub no_progress_limit: Option<u32>,
    /// After how many failures in a row everything is undone; `None` for never.
    pub catastrophe_after: Option<u32>,
    /// What becomes of a change that did not help.
    pub on_failure: OnFailure,
    /// What becomes of the incident when nothing further is known to try.
    pub at_a_loss: AtALoss,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_nobody_told_is_unknown_and_small_sums_are_shown() {
        let cost = |tokens, money_micros| {
            Amounts { tokens, money_micros, ..Amounts::default() }.cost_in_words()
        };
        assert_eq!(cost(0, 0), None);
        assert_eq!(cost(1200, 0).unwrap(), "1200 tokens, cost unknown");
        assert_eq!(cost(1200, 3_100).unwrap(), "1200 tokens, $0.0031");
        assert_eq!(cost(1200, 250_000).unwrap(), "1200 tokens, $0.25");
        assert_eq!(cost(0, 10_000).unwrap(), "$0.01");
        assert_eq!([dollars(0), dollars(1), dollars(9_990)], ["$0.00", "$0.000001", "$0.00999"]);
    }
}
