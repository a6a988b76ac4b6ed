//! Finds the patterns that a call fits, before it is made.
//!
//! Patterns are looked up by tool, parameter and value, so that ten thousand of them cost a call no
//! more than ten.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use regex_automata::meta::Regex;
use serde_json::Value;

use super::category::MistakeCategory;
use super::form::{FormKind, ValueForm};
use super::mistake::{CallArguments, CallMistake};
use crate::memory::Confidence;
use crate::memory::usage::{Level, UsageRecord};

/// The most warnings that one call gets.
const MOST_WARNINGS: usize = 3;
/// How much memory an expression from a file may need.
const LARGEST_REGEX: usize = 1 << 20;

/// A pattern that calls are checked against.
#[derive(Clone, Debug, PartialEq)]
pub struct UsagePatternEntry {
    /// Its name.
    pub id: String,
    pub tool: String,
    /// The kind of mistake.
    pub category: Option<MistakeCategory>,
    /// How it is recognised.
    pub mistake: CallMistake,
    /// What somebody wrote down to do instead; empty where the mistake says it.
    pub steps: Vec<String>,
    /// What happened around it so far.
    pub record: UsageRecord,
}

impl UsagePatternEntry {
    /// Returns what to do instead.
    pub fn advice(&self) -> String {
        if self.steps.is_empty() { self.mistake.advice() } else { self.steps.join(" ") }
    }
}

/// What a call is told that fits a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageWarning {
    /// The pattern's name.
    pub id: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// How loudly it speaks.
    pub level: Level,
    /// The warning, in one sentence or two.
    pub text: String,
}

/// What has worked in a session before a call.
#[derive(Clone, Debug, Default)]
pub struct WorkedBefore<'a> {
    pub tools: HashSet<&'a str>,
    /// Whether this very call.
    pub same_call: bool,
}

/// All patterns of a project, ready for calls to be checked.
#[derive(Debug, Default)]
pub struct PatternIndex {
    patterns: Vec<UsagePatternEntry>,
    tools: HashMap<String, ToolPatterns>,
}

/// The patterns of one tool, by their places.
#[derive(Debug, Default)]
struct ToolPatterns {
    parameters: HashMap<String, ParameterPatterns>,
    missing: Vec<(String, usize)>,
    /// Those about the call as a whole.
    whole: Vec<usize>,
}

#[derive(Debug, Default)]
struct ParameterPatterns {
    /// By the value as JSON.
    values: HashMap<String, Vec<usize>>,
    forms: HashMap<FormKind, Vec<usize>>,
    valid: Vec<(Regex, usize)>,
    unaccepted: Vec<usize>,
}

impl PatternIndex {
    /// Prepares patterns; one whose expression is not understood warns of nothing.
    pub fn new(patterns: Vec<UsagePatternEntry>) -> Self {
        let mut index = Self { patterns, tools: HashMap::new() };
        for (place, pattern) in index.patterns.iter().enumerate() {
            index.tools.entry(pattern.tool.clone()).or_default().add(&pattern.mistake, place);
        }
        index
    }

    /// Returns whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns all patterns.
    pub fn patterns(&self) -> &[UsagePatternEntry] {
        &self.patterns
    }

    /// Returns the pattern of a name.
    pub fn find(&self, id: &str) -> Option<&UsagePatternEntry> {
        self.patterns.iter().find(|pattern| pattern.id == id)
    }

    /// Returns whether anything is known about a tool.
    pub fn knows(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Returns the patterns that a call fits, however sure they are.
    pub fn matching(
        &self,
        tool: &str,
        arguments: &CallArguments,
        worked: &WorkedBefore<'_>,
    ) -> Vec<&UsagePatternEntry> {
        let Some(patterns) = self.tools.get(tool) else { return Vec::new() };
        let mut places = Vec::new();
        patterns.collect(arguments, &mut places);
        places.extend(patterns.whole.iter().copied());
        let fits = |pattern: &&UsagePatternEntry| match &pattern.mistake {
            CallMistake::Form { parameter, written, wanted } => {
                let form = arguments.get(parameter).map(ValueForm::of);
                form.is_some_and(|form| form.kind == *written && form != *wanted)
            }
            CallMistake::Unprepared { first } => !worked.tools.contains(first.as_str()),
            CallMistake::Again => worked.same_call,
            CallMistake::Value { .. }
            | CallMistake::Invalid { .. }
            | CallMistake::Missing { .. }
            | CallMistake::Unaccepted { .. }
            | CallMistake::WrongTool { .. } => true,
        };
        places.into_iter().filter_map(|place| self.patterns.get(place)).filter(fits).collect()
    }

    /// Returns the warnings that a call gets, the surest first.
    pub fn check(
        &self,
        tool: &str,
        arguments: &CallArguments,
        worked: &WorkedBefore<'_>,
        now: Timestamp,
    ) -> Vec<UsageWarning> {
        let found = self.matching(tool, arguments, worked).into_iter();
        let mut warnings: Vec<UsageWarning> =
            found.filter_map(|pattern| warning(pattern, now)).collect();
        warnings.sort_by(|a, b| b.confidence.cmp(&a.confidence).then_with(|| a.id.cmp(&b.id)));
        warnings.truncate(MOST_WARNINGS);
        warnings
    }

    /// Returns what an agent should know before its first call, by tool, the surest first.
    ///
    /// Nothing that a tool ever wrote is in it: only names, forms and quoted values.
    pub fn advice_before_calls(&self, most: usize, now: Timestamp) -> Vec<PrimedAdvice<'_>> {
        let mut active: Vec<(&UsagePatternEntry, UsageWarning)> = self
            .patterns
            .iter()
            .filter_map(|pattern| Some((pattern, warning(pattern, now)?)))
            .collect();
        active.sort_by(|(a, x), (b, y)| {
            y.confidence.cmp(&x.confidence).then_with(|| a.id.cmp(&b.id))
        });
        let advice = |(pattern, _): (&'_ UsagePatternEntry, UsageWarning)| pattern.advice();
        active
            .into_iter()
            .take(most)
            .map(|found| PrimedAdvice { tool: &found.0.tool, advice: advice(found) })
            .collect()
    }
}

/// What an agent is told about a tool before it calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimedAdvice<'a> {
    pub tool: &'a str,
    /// What to do, in a sentence.
    pub advice: String,
}

fn warning(pattern: &UsagePatternEntry, now: Timestamp) -> Option<UsageWarning> {
    let record = &pattern.record;
    let level = record.level(now);
    if level == Level::Quiet || record.is_expired(now) {
        return None;
    }
    let (confidence, seen) = (record.confidence(now), record.observations);
    let times = if seen == 1 { "once".to_owned() } else { format!("{seen} times") };
    let text =
        format!("{} Calls like this have failed {times} ({confidence} sure).", pattern.advice());
    Some(UsageWarning { id: pattern.id.clone(), confidence, level, text })
}

impl ToolPatterns {
    fn add(&mut self, mistake: &CallMistake, place: usize) {
        match mistake {
            CallMistake::Value { parameter, value } => {
                let values = &mut self.parameter(parameter).values;
                values.entry(value.to_string()).or_default().push(place);
            }
            CallMistake::Form { parameter, written, .. } => {
                self.parameter(parameter).forms.entry(*written).or_default().push(place);
            }
            CallMistake::Invalid { parameter, valid } => {
                let config = Regex::config().nfa_size_limit(Some(LARGEST_REGEX));
                if let Ok(regex) = Regex::builder().configure(config).build(valid) {
                    self.parameter(parameter).valid.push((regex, place));
                }
            }
            CallMistake::Missing { parameter } => self.missing.push((parameter.clone(), place)),
            CallMistake::Unaccepted { parameter } => {
                self.parameter(parameter).unaccepted.push(place);
            }
            CallMistake::Unprepared { .. } | CallMistake::Again | CallMistake::WrongTool { .. } => {
                self.whole.push(place);
            }
        }
    }

    fn parameter(&mut self, name: &str) -> &mut ParameterPatterns {
        self.parameters.entry(name.to_owned()).or_default()
    }

    fn collect(&self, arguments: &CallArguments, places: &mut Vec<usize>) {
        for (name, value) in arguments {
            let Some(known) = self.parameters.get(name) else { continue };
            places.extend(&known.unaccepted);
            if !known.values.is_empty() {
                places.extend(known.values.get(&value.to_string()).into_iter().flatten());
            }
            if !known.forms.is_empty() {
                places.extend(known.forms.get(&ValueForm::of(value).kind).into_iter().flatten());
            }
            for (regex, place) in &known.valid {
                let is_valid = match value {
                    Value::String(text) => regex.is_match(text.as_str()),
                    other => regex.is_match(other.to_string().as_str()),
                };
                places.extend((!is_valid).then_some(*place));
            }
        }
        let is_missing = |name: &str| arguments.get(name).is_none_or(Value::is_null);
        places.extend(self.missing.iter().filter(|(name, _)| is_missing(name)).map(|(_, at)| *at));
    }
}
