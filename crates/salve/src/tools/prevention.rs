//! The patterns of calls that fail: read for the checker, and kept when something was learned.

use jiff::Timestamp;
use salve_core::memory::usage::UsageRecord;
use salve_core::prevention::category::MistakeCategory;
use salve_core::prevention::index::{PatternIndex, UsagePatternEntry};
use salve_core::prevention::mistake::CallMistake;
use salve_core::prevention::session::UsageLesson;
use serde_json::Value;

use super::HealMeans;
use crate::learned::UsagePattern;

impl HealMeans {
    /// Reads the patterns of the project; there are none where nothing was learned yet.
    ///
    /// What a person changed in `usage_patterns.yaml` is taken in first.
    pub fn pattern_index(&self) -> PatternIndex {
        let patterns = self.with_existing_memory(|learned| {
            // A file that cannot be read leaves the last good state in force.
            let _ = learned.pull();
            learned.usage_patterns()
        });
        let patterns = patterns.unwrap_or_default();
        PatternIndex::new(patterns.iter().filter_map(entry_of).collect())
    }

    /// Keeps what was learned; returns whether anything was.
    pub fn take_in_lessons(&self, lessons: &[UsageLesson]) -> bool {
        let now = Timestamp::now();
        !lessons.is_empty()
            && self.with_memory(|learned| {
                // A call that works is not made to fail by what could not be kept.
                let is_kept = learned.take_in_lessons(lessons, now).is_ok();
                let _ = learned.sync();
                is_kept
            }) == Some(true)
    }
}

/// Returns a pattern as the checker takes it; nothing if calls cannot be checked by it.
pub fn entry_of(pattern: &UsagePattern) -> Option<UsagePatternEntry> {
    let mistake = CallMistake::from_value(&pattern.mistake_pattern)?;
    let generated = mistake.advice();
    let steps = steps_of(&pattern.prevention_steps);
    Some(UsagePatternEntry {
        id: pattern.id.clone(),
        tool: pattern.tool.clone(),
        category: MistakeCategory::parse(&pattern.error_category),
        mistake,
        steps: if steps == [generated] { Vec::new() } else { steps },
        record: UsageRecord::from(pattern),
    })
}

/// Reads what somebody wrote down to do: texts, or objects with an `action`.
fn steps_of(steps: &Value) -> Vec<String> {
    let text = |step: &Value| {
        let said = step.as_str().or_else(|| step.get("action")?.as_str())?;
        let line: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then(|| line.chars().take(200).collect())
    };
    match steps {
        Value::Array(steps) => steps.iter().take(5).filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    }
}
