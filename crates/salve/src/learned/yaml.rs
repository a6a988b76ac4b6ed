//! Reading the files: strictly what the spec's keys hold, freely what else a person wrote.

use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use super::Malformed;
use super::file::LearnedFile;
use super::items::{HealingPattern, LearnedPattern, ToolFailure, ToolFixItem, UsagePattern};
use crate::files::{YamlError, parse_yaml};
use crate::store::LearnedItem;

/// The largest file that is read.
pub(super) const LARGEST: usize = 16 << 20;

/// A file's content.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    /// The items in the order of the file.
    pub(super) items: Vec<LearnedItem>,
    /// Other keys at the top, but not those that Salve computes.
    pub(super) others: Map<String, Value>,
}

/// Says whether `text` has the shape of the learned file named `name`; never panics.
pub fn check_text(name: &str, text: &str) -> Result<usize, Malformed> {
    let file = LearnedFile::ALL.into_iter().find(|file| file.name() == name);
    let file = file.unwrap_or(LearnedFile::ToolFixes);
    parse(file, Path::new(name), text).map(|document| document.items.len())
}

/// Reads a file's text.
pub(super) fn parse(file: LearnedFile, path: &Path, text: &str) -> Result<Document, Malformed> {
    let refused = |reason: String| Malformed { path: path.into(), line: 1, column: 1, reason };
    if text.len() > LARGEST {
        return Err(refused(format!("larger than {} MiB", LARGEST >> 20)));
    }
    if text.trim().is_empty() {
        let hint = format!("empty; write `{}: []` if nothing is meant", file.root());
        return Err(refused(hint));
    }
    match file {
        LearnedFile::HealingPatterns => json::<HealingDocument>(path, text)?,
        LearnedFile::ToolFixes => yaml::<Fixes>(path, text).map(|_| ())?,
        LearnedFile::ToolFailures => yaml::<Failures>(path, text).map(|_| ())?,
        LearnedFile::Patterns => yaml::<Patterns>(path, text).map(|_| ())?,
        LearnedFile::UsagePatterns => yaml::<UsagePatterns>(path, text).map(|_| ())?,
    }
    let mut others: Map<String, Value> = match file {
        LearnedFile::HealingPatterns => {
            serde_json::from_str(text).map_err(|e| refused(e.to_string()))?
        }
        LearnedFile::ToolFixes
        | LearnedFile::ToolFailures
        | LearnedFile::Patterns
        | LearnedFile::UsagePatterns => yaml(path, text)?,
    };
    let items = match others.remove(file.root()) {
        Some(Value::Array(items)) => items,
        Some(_) | None => Vec::new(),
    };
    if file == LearnedFile::ToolFailures {
        others.remove("stats");
    }
    let items = items.into_iter().filter_map(|item| match item {
        Value::Object(item) => Some(item),
        _ => None,
    });
    Ok(Document { items: items.collect(), others })
}

/// Reads YAML within limits that no honest file reaches.
pub(super) fn yaml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Malformed> {
    parse_yaml(text, LARGEST).map_err(|YamlError { line, column, reason }| Malformed {
        path: path.into(),
        line,
        column,
        reason,
    })
}

fn json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<(), Malformed> {
    serde_json::from_str::<T>(text).map(|_| ()).map_err(|error| {
        let (line, column) = (error.line().max(1) as u64, error.column().max(1) as u64);
        let said = error.to_string();
        let reason = said.rsplit_once(" at line ").map_or(said.as_str(), |(reason, _)| reason);
        Malformed { path: path.into(), line, column, reason: first_line(reason) }
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[derive(Deserialize)]
struct HealingDocument {
    #[serde(rename = "patterns")]
    _patterns: Vec<HealingPattern>,
}

#[derive(Deserialize)]
struct Fixes {
    #[serde(rename = "tool_fixes")]
    _fixes: Vec<ToolFixItem>,
}

#[derive(Deserialize)]
struct Failures {
    #[serde(rename = "failures")]
    _failures: Vec<ToolFailure>,
    #[serde(default, rename = "stats")]
    _stats: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Patterns {
    #[serde(rename = "patterns")]
    _patterns: Vec<LearnedPattern>,
}

#[derive(Deserialize)]
struct UsagePatterns {
    #[serde(rename = "usage_patterns")]
    _patterns: Vec<UsagePattern>,
}
