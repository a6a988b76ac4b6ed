//! The lines of a loop's `events.jsonl`.

use jiff::Timestamp;
use serde::Serialize;

use crate::gate::{Category, Confidence};
use crate::id::IncidentId;
use crate::scrub::Scrubbed;

/// One line: the recovery format's event with its fields, and when and where it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// What happened.
    pub event: &'static str,
    /// What kind of infrastructure is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// On whose word: `auto` or `human`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    /// The command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Scrubbed>,
    /// How sure its proposer says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// How it ended: `null` if by a signal or its time-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<Option<i32>>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Scrubbed>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Scrubbed>,
    /// Who is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaiting: Option<&'static str>,
    /// Who settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    /// How it was settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// What was remarked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Scrubbed>,
    /// The role of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Scrubbed>,
    /// How it came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'static str>,
    /// What changed, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Scrubbed>,
    /// When.
    pub timestamp: Timestamp,
    /// The loop.
    pub loop_id: String,
    /// Its iteration, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The incident, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentId>,
    /// The journal's entry.
    pub seq: u64,
}
