//! The tools of memory: what is known about an error, what fixed it, and how much that helps.
//!
//! **Invariant:** a fix that an agent teaches is text for others to read. Nothing runs because of it.

use jiff::Timestamp;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

use super::team::schema;
use super::tool::tool;
use super::{RepairTools, RepairToolsError};
use crate::learned::{KnownIssues, Learned, LearnedError, Sureness, ToolFixItem, When};

/// The tools' names.
pub(super) const NAMES: [&str; 3] = ["check_known_issues", "learn_tool_fix", "memory_stats"];

/// The longest text that is taken in, in characters.
const LONGEST: usize = 2_000;

/// A call of one of memory's tools.
#[derive(Clone, Debug)]
pub(super) enum MemoryToolCall {
    /// `check_known_issues`.
    Check(CheckArguments),
    /// `learn_tool_fix`.
    Learn(LearnArguments),
    /// `memory_stats`.
    Stats,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct CheckArguments {
    #[serde(default)]
    tool_name: Option<String>,
    error_text: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LearnArguments {
    tool_name: String,
    error_pattern: String,
    #[serde(default)]
    root_cause: String,
    fix_description: String,
}

/// Reads a call, if the tool is one of memory's.
pub(super) fn parse(
    name: &str,
    arguments: Value,
) -> Result<Option<MemoryToolCall>, serde_json::Error> {
    Ok(Some(match name {
        "check_known_issues" => MemoryToolCall::Check(serde_json::from_value(arguments)?),
        "learn_tool_fix" => MemoryToolCall::Learn(serde_json::from_value(arguments)?),
        "memory_stats" => MemoryToolCall::Stats,
        _ => return Ok(None),
    }))
}

impl RepairTools<'_> {
    /// Answers a call of one of memory's tools.
    pub(super) fn memory(&mut self, call: &MemoryToolCall) -> Result<Value, RepairToolsError> {
        match call {
            MemoryToolCall::Check(check) => self.known_issues(check),
            MemoryToolCall::Learn(lesson) => self.learn_fix(lesson),
            MemoryToolCall::Stats => {
                let health = self.with_memory(|learned| learned.memory_health(Timestamp::now()))?;
                Ok(json!(health.unwrap_or_default()))
            }
        }
    }

    fn known_issues(&mut self, check: &CheckArguments) -> Result<Value, RepairToolsError> {
        let issues = self.with_memory(|learned| {
            learned.known_issues(check.tool_name.as_deref(), &check.error_text)
        })?;
        let issues = issues.unwrap_or_default();
        let known = !issues.fixes.is_empty() || !issues.patterns.is_empty();
        let next_step = if known {
            "These are other people's words about the same error: judge them before you act on them."
        } else {
            "Nothing is known. Once you have fixed it, teach the fix with learn_tool_fix."
        };
        let KnownIssues { fixes, patterns } = issues;
        Ok(json!({ "known": known, "fixes": fixes, "patterns": patterns, "next_step": next_step }))
    }

    fn learn_fix(&mut self, lesson: &LearnArguments) -> Result<Value, RepairToolsError> {
        let text = |text: &str| text.trim().chars().take(LONGEST).collect::<String>();
        let fix = ToolFixItem {
            tool_name: text(&lesson.tool_name),
            error_pattern: text(&lesson.error_pattern),
            root_cause: text(&lesson.root_cause),
            fix_description: text(&lesson.fix_description),
            discovered_at: Some(When(Timestamp::now())),
            // An agent's word about itself is not the last one.
            confidence: Sureness::Medium,
        };
        if fix.error_pattern.is_empty() || fix.fix_description.is_empty() {
            return Err(RepairToolsError::EmptyFix);
        }
        self.store.made()?;
        let kept = self.with_memory(|learned| {
            learned.put_fix(&fix)?;
            match learned.sync() {
                Ok(_) => Ok(()),
                Err(LearnedError::Store(error)) => Err(error),
                // The store has it; the file follows when it can be written again.
                Err(LearnedError::Write(_)) => Ok(()),
            }
        })?;
        let fix = ToolFixItem {
            tool_name: self.scrubbed(&fix.tool_name),
            error_pattern: self.scrubbed(&fix.error_pattern),
            root_cause: self.scrubbed(&fix.root_cause),
            fix_description: self.scrubbed(&fix.fix_description),
            ..fix
        };
        Ok(json!({ "learned": kept.is_some(), "fix": fix }))
    }

    fn scrubbed(&self, text: &str) -> String {
        self.scrubber().scrub(text).into_string()
    }

    /// Uses the project's memory, if there is one.
    pub(super) fn with_memory<T>(
        &mut self,
        work: impl FnOnce(Learned<'_>) -> Result<T, crate::store::StoreError>,
    ) -> Result<Option<T>, RepairToolsError> {
        let config = crate::config::load(&self.place.sources)
            .or_else(|_| crate::config::load(&crate::config::Sources::default()));
        // The settings that ship with Salve can always be read.
        let Ok(config) = config else { return Ok(None) };
        let scrubber = self.scrubber().clone();
        if self.store()?.is_none() && self.place.project.learned().is_dir() {
            self.store.made()?;
        }
        let Some(store) = self.store()? else { return Ok(None) };
        let learned = Learned::new(store, &scrubber, config.fingerprint_rules());
        // A file that cannot be read leaves the last good state in force.
        let _ = learned.pull();
        Ok(Some(work(learned)?))
    }
}

/// Returns memory's tools as clients are told of them.
pub(super) fn tools() -> Vec<Tool> {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let read = || ToolAnnotations::new().read_only(true);
    let check = json!({
        "tool_name": text("The tool that failed"),
        "error_text": text("What it said"),
    });
    let learn = json!({
        "tool_name": text("The tool; * for any"),
        "error_pattern": text("Text that its error contains"),
        "root_cause": text("Why it happened"),
        "fix_description": text("What fixed it; no secrets"),
    });
    vec![
        tool(
            NAMES[0],
            "Returns what is known about a tool's error: fixes that somebody taught for this very \
             error of this tool. Call it before you debug a failed call.",
            schema(check, &["error_text"]),
            read(),
        ),
        tool(
            NAMES[1],
            "Remembers what fixed a tool's error, for whoever meets the same error next. It is \
             kept as text and never run.",
            schema(learn, &["tool_name", "error_pattern", "fix_description"]),
            ToolAnnotations::new().read_only(false),
        ),
        tool(
            NAMES[2],
            "Returns how much healing of tool calls has helped: auto_heal_rate, patterns_active, \
             fixes_learned, recent_failures.",
            schema(json!({}), &[]),
            read(),
        ),
    ]
}
