//! The tools spec's `memory_stats`, and which taught fixes speak of an error.

use jiff::Timestamp;
use salve_core::fingerprint::Hints;
use salve_core::memory::tool::{fix_matches, is_of_tool};
use salve_core::memory::usage::{PatternStage, UsageRecord};
use serde::Serialize;

use super::failures::FailedCalls;
use super::{Learned, LearnedPattern, ToolFailure, ToolFixItem};
use crate::store::StoreError;

/// Failures shown as recent.
const RECENT: usize = 10;
/// The shortest pattern that may stand for a whole error.
const WHOLE_ERROR: usize = 8;

/// How much healing of tools has helped, in the spec's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryHealth {
    /// The share of failed calls that were healed without help.
    pub auto_heal_rate: f64,
    /// Usage patterns that warn.
    pub patterns_active: u64,
    /// Fixes that were taught, and remedies that were proven.
    pub fixes_learned: u64,
    /// The latest failures, oldest first.
    pub recent_failures: Vec<ToolFailure>,
}

/// What is known about an error of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KnownIssues {
    /// Fixes that somebody taught for this very error of this tool.
    pub fixes: Vec<ToolFixItem>,
    /// Texts in the error that say what kind of error it is.
    pub patterns: Vec<LearnedPattern>,
}

impl Learned<'_> {
    /// Counts how much healing of tools has helped.
    pub fn memory_health(&self, now: Timestamp) -> Result<MemoryHealth, StoreError> {
        let mut recent = self.failures()?;
        let patterns = self.usage_patterns()?;
        let is_active = |usage: &UsageRecord| usage.stage(now) == PatternStage::Active;
        Ok(MemoryHealth {
            auto_heal_rate: FailedCalls::of(self).statistics()?.fix_rate,
            patterns_active: patterns.iter().map(UsageRecord::from).filter(is_active).count()
                as u64,
            fixes_learned: self.fixes()?.len() as u64 + self.store.memory().counts()?.proven,
            recent_failures: recent.split_off(recent.len().saturating_sub(RECENT)),
        })
    }

    /// Returns what is known about an error of a tool: by the text that a fix names, or because a
    /// fix was taught for an error with the same fingerprint.
    pub fn known_issues(&self, tool: Option<&str>, error: &str) -> Result<KnownIssues, StoreError> {
        let print = |text: &str| self.rules.fingerprint(text, &Hints::default()).signature;
        let signature = print(error);
        let speaks = |fix: &ToolFixItem| {
            let pattern = fix.error_pattern.trim();
            fix_matches(&fix.tool_name, pattern, tool, error)
                || (is_of_tool(&fix.tool_name, tool)
                    && pattern.len() >= WHOLE_ERROR
                    && print(pattern) == signature)
        };
        let mut fixes = self.fixes()?;
        fixes.retain(speaks);
        let mut patterns = self.patterns()?;
        patterns.retain(|pattern| fix_matches("*", &pattern.pattern, None, error));
        Ok(KnownIssues { fixes, patterns })
    }
}
