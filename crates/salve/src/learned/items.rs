//! The items of each file, in the shapes of the specs.
//!
//! These types say what an item must have; what a person adds to it is kept beside them.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use salve_core::memory::Confidence;

/// A time as the specs write it; without a zone it is UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When(pub Timestamp);

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0.as_second();
        let whole = Timestamp::from_second(second).unwrap_or(self.0);
        write!(f, "{whole}")
    }
}

impl Serialize for When {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let zoneless = || {
            let time = text.parse::<DateTime>().ok()?;
            time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        };
        text.parse().ok().or_else(zoneless).map(Self).ok_or_else(|| {
            let example = "2026-01-20T10:00:00Z";
            serde::de::Error::custom(format!("`{text}` is not a time such as {example}"))
        })
    }
}

/// Writes a time to the microsecond: equal failures of many calls within one second are as many.
fn exact<S: serde::Serializer>(when: &When, serializer: S) -> Result<S::Ok, S::Error> {
    let micros = Timestamp::from_microsecond(when.0.as_microsecond()).unwrap_or(when.0);
    serializer.collect_str(&micros)
}

/// How sure a taught fix is, in the spec's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// It has helped, or somebody who should know says so.
    High,
    /// It may help.
    #[default]
    Medium,
    /// It is a guess.
    Low,
}

/// One entry of `tool_fixes.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFixItem {
    /// The tool; empty or `*` for any.
    pub tool_name: String,
    /// Text that the error contains.
    pub error_pattern: String,
    /// Why it happens.
    #[serde(default)]
    pub root_cause: String,
    /// What to do.
    pub fix_description: String,
    /// When it was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<When>,
    /// How sure it is.
    #[serde(default)]
    pub confidence: Sureness,
}

/// One entry of `tool_failures.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// When it failed.
    #[serde(serialize_with = "exact")]
    pub timestamp: When,
    pub tool: String,
    pub error: String,
    /// What the call was about.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// What was done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// Whether Salve healed it without help.
    #[serde(default)]
    pub auto_healed: bool,
}

/// One entry of `patterns.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedPattern {
    /// What kind of error it is: `network`, `auth` or another word.
    pub category: String,
    /// Text that the error contains.
    pub pattern: String,
    /// What helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// One entry of `usage_patterns.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsagePattern {
    /// Its name.
    pub id: String,
    pub tool: String,
    /// The kind of mistake.
    #[serde(default)]
    pub error_category: String,
    /// How the mistake is recognised.
    #[serde(default)]
    pub mistake_pattern: Value,
    /// Why it is made.
    #[serde(default)]
    pub root_cause: String,
    /// What to do instead.
    #[serde(default)]
    pub prevention_steps: Value,
    /// Failures seen.
    #[serde(default)]
    pub observations: u64,
    /// Warned calls whose end is known; without it, as many as were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<u64>,
    /// Warned calls that were changed and worked.
    #[serde(default)]
    pub success_after_prevention: u64,
    /// Warned calls that went on unchanged and worked.
    #[serde(default)]
    pub false_positives: u64,
    /// How sure the pattern is; computed, whatever the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// When it was first seen.
    pub first_seen: When,
    /// When it was last seen.
    pub last_seen: When,
}

/// What came of a fix, in `healing-patterns.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixResult {
    /// It healed.
    Success,
    /// It did not help.
    Failed,
    /// It neither healed nor failed: the failure went away by itself or comes and goes.
    Inconclusive,
}

/// One fix of a healing pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixAttempt {
    /// What was tried: a command, or `patch: …`, or `instruction: …`.
    pub description: String,
    /// What came of it.
    pub result: FixResult,
}

/// One entry of `healing-patterns.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealingPattern {
    /// The failure's signature.
    pub error_signature: String,
    /// Its class.
    #[serde(default)]
    pub error_type: String,
    /// What the signature is of.
    pub normalized_error: String,
    /// What was tried.
    #[serde(default)]
    pub fixes_attempted: Vec<FixAttempt>,
    /// What to do.
    #[serde(default)]
    pub successful_fix: Option<String>,
    /// When it was first seen.
    pub first_seen: When,
    /// When it was last seen.
    pub last_seen: When,
}
