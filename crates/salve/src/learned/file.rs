//! Which files there are.

use serde_json::Value;

use crate::store::Item;

/// One of the learned files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum File {
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

impl File {
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
            File::HealingPatterns => "healing-patterns.json",
            File::ToolFixes => "tool_fixes.yaml",
            File::ToolFailures => "tool_failures.yaml",
            File::Patterns => "patterns.yaml",
            File::UsagePatterns => "usage_patterns.yaml",
        }
    }

    /// Returns the key under which the items are listed.
    pub(super) const fn root(self) -> &'static str {
        match self {
            File::HealingPatterns | File::Patterns => "patterns",
            File::ToolFixes => "tool_fixes",
            File::ToolFailures => "failures",
            File::UsagePatterns => "usage_patterns",
        }
    }

    /// Returns an item's keys in the order of the specs; a person's own keys follow them.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            File::HealingPatterns => &[
                "error_signature",
                "error_type",
                "normalized_error",
                "fixes_attempted",
                "successful_fix",
                "first_seen",
                "last_seen",
            ],
            File::ToolFixes => &[
                "tool_name",
                "error_pattern",
                "root_cause",
                "fix_description",
                "discovered_at",
                "confidence",
            ],
            File::ToolFailures => {
                &["timestamp", "tool", "error", "context", "resolution", "auto_healed"]
            }
            File::Patterns => &["category", "pattern", "fix"],
            File::UsagePatterns => &[
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
            File::HealingPatterns => &["error_signature"],
            File::ToolFixes => &["tool_name", "error_pattern"],
            File::ToolFailures => &["timestamp", "tool", "error"],
            File::Patterns => &["category", "pattern"],
            File::UsagePatterns => &["id"],
        }
    }

    /// Returns the most items the file shows; the store may have more.
    pub(super) const fn most(self) -> u64 {
        match self {
            File::ToolFailures => 500,
            File::HealingPatterns => 2_000,
            File::ToolFixes | File::Patterns | File::UsagePatterns => 10_000,
        }
    }

    /// Returns what tells this item from the others of the file.
    pub(super) fn key_of(self, item: &Item) -> String {
        let part = |name: &&str| match item.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        self.identity().iter().map(part).collect::<Vec<_>>().join("\n")
    }
}
