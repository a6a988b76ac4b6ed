//! Tool calls that failed: the fixes people and agents taught, and the statistics.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::class::Class;
use crate::tool::failure::{FailedCall, FailureCategory};

/// Returns the spec's type of a tool failure: `network`, `auth` or `unknown`.
///
/// The class knows best; where it is silent, the spec's own words in their place decide.
pub fn failure_type(class: Class, error: &str) -> &'static str {
    let by_class = class.categories().tool;
    if by_class != "unknown" || class != Class::Unknown {
        return by_class;
    }
    match FailedCall::new("", error, class).category {
        FailureCategory::Network => "network",
        FailureCategory::Auth => "auth",
        FailureCategory::Busy | FailureCategory::Other => "unknown",
    }
}

/// Returns whether a fix taught for `tool` and `pattern` speaks of this failure.
///
/// An empty tool or `*` is every tool. The pattern is plain text; case does not count. An empty
/// pattern matches nothing, because it would match everything.
pub fn fix_matches(tool: &str, pattern: &str, failed_tool: Option<&str>, error: &str) -> bool {
    let pattern = pattern.trim();
    is_of_tool(tool, failed_tool)
        && !pattern.is_empty()
        && error.to_lowercase().contains(&pattern.to_lowercase())
}

/// Returns whether a fix taught for `tool` may speak of a failure of `failed_tool`.
pub fn is_of_tool(tool: &str, failed_tool: Option<&str>) -> bool {
    tool.is_empty() || tool == "*" || failed_tool.is_none_or(|failed| failed == tool)
}

/// One failed call, as far as the statistics need it.
#[derive(Clone, Copy, Debug)]
pub struct FailedToolCall<'a> {
    /// When it failed.
    pub at: Timestamp,
    /// The type of failure.
    pub kind: &'a str,
    /// Whether Salve healed it without help.
    pub auto_healed: bool,
}

/// Failures in one day or week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Period {
    /// All failures.
    pub total: u64,
    /// Those Salve healed without help.
    pub auto_fixed: u64,
}

/// The statistics of `tool_failures.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolStatistics {
    /// All failures.
    pub total_failures: u64,
    /// Those Salve healed without help.
    pub auto_fixed: u64,
    /// Those it did not.
    pub manual_required: u64,
    /// The share it healed, to two digits; 0 when nothing failed.
    pub fix_rate: f64,
    /// Failures by type.
    pub by_type: BTreeMap<String, u64>,
    /// By day, as in `2026-01-26`, in UTC.
    pub daily: BTreeMap<String, Period>,
    /// By ISO week, as in `2026-W04`.
    pub weekly: BTreeMap<String, Period>,
}

impl ToolStatistics {
    /// Counts the calls.
    pub fn of<'a>(calls: impl IntoIterator<Item = FailedToolCall<'a>>) -> Self {
        let mut stats = Self::default();
        for call in calls {
            let healed = u64::from(call.auto_healed);
            stats.total_failures += 1;
            stats.auto_fixed += healed;
            *stats.by_type.entry(call.kind.to_owned()).or_default() += 1;
            let day = call.at.to_zoned(TimeZone::UTC).date();
            let week = day.iso_week_date();
            let week = format!("{:04}-W{:02}", week.year(), week.week());
            for period in [
                stats.daily.entry(day.to_string()).or_default(),
                stats.weekly.entry(week).or_default(),
            ] {
                period.total += 1;
                period.auto_fixed += healed;
            }
        }
        stats.manual_required = stats.total_failures - stats.auto_fixed;
        if stats.total_failures > 0 {
            let rate = stats.auto_fixed as f64 / stats.total_failures as f64;
            stats.fix_rate = (rate * 100.0).round() / 100.0;
        }
        stats
    }
}
