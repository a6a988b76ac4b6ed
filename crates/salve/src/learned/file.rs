//! Which files there are.

use serde_json::Value;

use crate::store::LearnedItem;

/// One of the learned files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LearnedFile {
    /// Failures with the remedies tried on them.
    HealingPatterns,
    /// Fixes for tool errors that people and agents taught.
    ToolFixes,
    /// Tool calls that failed, and statistics.
    ToolFailures,
    /// Texts in errors that say what kind of error it is.
    Patterns,
    /// Mistakes in calling tools.
    UsagePatterns,
}

impl LearnedFile {
    /// Every file.
    pub const ALL: [Self; 5] = [
        Self::HealingPatterns,
        Self::ToolFixes,
        Self::ToolFailures,
        Self::Patterns,
        Self::UsagePatterns,
    ];

    /// Returns the file's name.
    pub const fn name(self) -> &'static str {
        match self {
            LearnedFile::HealingPatterns => "healing-patterns.json",
            LearnedFile::ToolFixes => "tool_fixes.yaml",
            LearnedFile::ToolFailures => "tool_failures.yaml",
            LearnedFile::Patterns => "patterns.yaml",
            LearnedFile::UsagePatterns => "usage_patterns.yaml",
        }
    }

    /// Returns the key under which the items are listed.
    pub(super) const fn root(self) -> &'static str {
        match self {
            LearnedFile::HealingPatterns | LearnedFile::Patterns => "patterns",
            LearnedFile::ToolFixes => "tool_fixes",
            LearnedFile::ToolFailures => "failures",
            LearnedFile::UsagePatterns => "usage_patterns",
        }
    }

    /// Returns an item's keys in the order of the specs; a person's own keys follow them.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            LearnedFile::HealingPatterns => &[
                "error_signature",
                "error_type",
                "normalized_error",
                "fixes_attempted",
                "successful_fix",
                "first_seen",
                "last_seen",
            ],
            LearnedFile::ToolFixes => &[
                "tool_name",
                "error_pattern",
                "root_cause",
                "fix_description",
                "discovered_at",
                "confidence",
            ],
            LearnedFile::ToolFailures => {
                &["timestamp", "tool", "error", "context", "resolution", "auto_healed"]
            }
            LearnedFile::Patterns => &["category", "pattern", "fix"],
            LearnedFile::UsagePatterns => &[
                "id",
                "tool",
                "error_category",
                "mistake_pattern",
                "root_cause",
                "prevention_steps",
                "observations",
                "warnings",
                "success_after_prevention",
                "false_positives",
                "confidence",
                "first_seen",
                "last_seen",
            ],
        }
    }

    /// Returns the keys that tell one item from another.
    const fn identity(self) -> &'static [&'static str] {
        match self {
            LearnedFile::HealingPatterns => &["error_signature"],
            LearnedFile::ToolFixes => &["tool_name", "error_pattern"],
            LearnedFile::ToolFailures => &["timestamp", "tool", "error"],
            LearnedFile::Patterns => &["category", "pattern"],
            LearnedFile::UsagePatterns => &["id"],
        }
    }

    /// Returns the most items the file shows; the store may have more.
    pub(super) const fn most(self) -> u64 {
        match self {
            LearnedFile::ToolFailures => 500,
            LearnedFile::HealingPatterns => 2_000,
            LearnedFile::ToolFixes | LearnedFile::Patterns | LearnedFile::UsagePatterns => 10_000,
        }
    }

    /// Returns what tells this item from the others of the file.
    pub(super) fn key_of(self, item: &LearnedItem) -> String {
        let part = |name: &&str| match item.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        self.identity().iter().map(part).collect::<Vec<_>>().join("\n")
    }
}
