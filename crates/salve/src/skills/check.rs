//! Looks at a skill before it runs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use minijinja::Environment;
use serde::Serialize;
use serde_json::Value;

use super::file::{OnStepError, Skill, SkillStep};

/// Words of Python that are no names of steps.
const PYTHON_WORDS: &str = "and as assert async await break class continue def del elif else except \
    finally for from global if import in is lambda nonlocal not or pass raise return try while with \
    yield True False None abs all any bin bool bytes chr dict dir divmod enumerate filter float \
    format frozenset getattr hasattr hash hex id int isinstance iter len list map max min next \
    object oct ord pow print range repr reversed round set setattr slice sorted str sum tuple type \
    zip Exception ValueError KeyError TypeError IndexError result";

/// Something found in a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillFinding {
    /// The line, from 1.
    pub line: u64,
    /// How bad it is.
    pub severity: FindingSeverity,
    /// What was found, and what to do.
    pub text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// It cannot work.
    Error,
    /// It may not do what is meant.
    Warning,
}

/// Returns what is wrong with a skill, by lines.
pub fn check_skill(skill: &Skill) -> Vec<SkillFinding> {
    let mut checker = SkillChecker { skill, findings: Vec::new(), known: BTreeSet::new() };
    checker.known.extend(skill.inputs.iter().map(|input| input.name.clone()));
    for (at, step) in skill.steps.iter().enumerate() {
        checker.step(at, step);
    }
    checker.reaches_out();
    checker.findings.sort_by_key(|finding| finding.line);
    checker.findings
}

struct SkillChecker<'a> {
    skill: &'a Skill,
    findings: Vec<SkillFinding>,
    /// The names that have a value by now.
    known: BTreeSet<String>,
}

impl SkillChecker<'_> {
    fn step(&mut self, at: usize, step: &SkillStep) {
        let line = step.line;
        if self.skill.steps[..at].iter().any(|earlier| earlier.id == step.id) {
            self.error(line, format!("a step before is called `{}`, too", step.id));
        }
        match (&step.tool, &step.compute) {
            (Some(_), Some(_)) => {
                self.error(line, format!("`{}` has both `tool` and `compute`", step.id));
            }
            (None, None) => {
                self.warn(line, format!("`{}` does nothing: give it a `tool`", step.id));
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        if let Some(condition) = &step.condition {
            self.condition(at, step, condition);
        }
        for value in step.args.values() {
            self.template(step, value);
        }
        self.missing_on_error(at, step);
        self.known.insert(step.id.clone());
        self.known.extend(step.output.clone());
    }

    fn condition(&mut self, at: usize, step: &SkillStep, condition: &str) {
        if matches!(condition.trim(), "False" | "false" | "None" | "0" | "''" | "\"\"" | "") {
            self.error(
                step.line,
                format!("`{}` is never reached: its condition is false", step.id),
            );
        }
        for name in names_in(condition) {
            if !self.known.contains(&name) {
                let later = self.skill.steps[at..].iter().any(|later| {
                    later.id == name || later.output.as_deref() == Some(name.as_str())
                });
                let why =
                    if later { "comes later" } else { "is the name of no step, output or input" };
                let text = format!("the condition of `{}` names `{name}`, which {why}", step.id);
                self.error(step.line, text);
            }
            let source = self.skill.steps[..at].iter().find(|earlier| earlier.id == name);
            let ends = source.is_some_and(|source| {
                source.tool.is_some() && source.on_error != Some(OnStepError::Continue)
            });
            if ends && condition.contains('❌') {
                let text = format!(
                    "`{}` is never reached: `{name}` ends the skill when it fails; give it \
                     `on_error: continue`",
                    step.id
                );
                self.error(step.line, text);
            }
        }
    }

    fn template(&mut self, step: &SkillStep, value: &Value) {
        match value {
            Value::String(text) => {
                let environment = Environment::new();
                match environment.template_from_str(text) {
                    Err(error) => {
                        let text = format!("a template of `{}` is wrong: {error}", step.id);
                        self.error(step.line, text);
                    }
                    Ok(template) => {
                        let unknown = template.undeclared_variables(false).into_iter();
                        // Inputs that nobody declared may still be given.
                        let is_step = |name: &String| {
                            self.skill
                                .steps
                                .iter()
                                .any(|step| step.id == *name || step.output.as_ref() == Some(name))
                        };
                        let unknown = unknown.filter(|name| !self.known.contains(name));
                        for name in unknown.filter(is_step).collect::<Vec<_>>() {
                            let text = format!(
                                "a template of `{}` names `{name}`, which comes later",
                                step.id
                            );
                            self.error(step.line, text);
                        }
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.template(step, value)),
            Value::Object(values) => values.values().for_each(|value| self.template(step, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Warns where a later step wants to look at a failure that ends the skill.
    fn missing_on_error(&mut self, at: usize, step: &SkillStep) {
        let is_looked_at = self.skill.steps[at + 1..].iter().any(|later| {
            later.condition.as_deref().is_some_and(|text| names_in(text).contains(&step.id))
        });
        if step.tool.is_some() && step.on_error.is_none() && is_looked_at {
            let text = format!(
                "`{}` has no `on_error`, so that a failure ends the skill before a later step can \
                 look at it; give it `on_error: continue`",
                step.id
            );
            self.warn(step.line, text);
        }
    }

    /// Warns where tools are called and nothing heals their failures, and offers the block.
    fn reaches_out(&mut self) {
        let skill = self.skill;
        let Some(step) = skill.steps.iter().find(|step| step.tool.is_some()) else { return };
        if skill.heals_itself() {
            return;
        }
        let (id, tool) = (&step.id, step.tool.as_deref().unwrap_or_default());
        let text = format!(
            "`{id}` reaches out and no step heals its failure; Salve's own healing applies. To heal \
             it here, give it `on_error: continue` and add:\n\
             \x20 - id: detect_failure\n\
             \x20   condition: \"{id} and '❌' in str({id})\"\n\
             \x20   compute: |\n\
             \x20     error_text = str({id})[:300].lower()\n\
             \x20     result = {{\"needs_vpn\": 'no route' in error_text, \"needs_auth\": '401' in error_text}}\n\
             \x20   output: failure_info\n\
             \x20 - id: retry_{id}\n\
             \x20   condition: \"failure_info\"\n\
             \x20   tool: {tool}"
        );
        self.warn(step.line, text);
    }

    fn error(&mut self, line: u64, text: String) {
        self.findings.push(SkillFinding { line, severity: FindingSeverity::Error, text });
    }

    fn warn(&mut self, line: u64, text: String) {
        self.findings.push(SkillFinding { line, severity: FindingSeverity::Warning, text });
    }
}

/// Returns the names that an expression of Python uses, but not its own words and variables.
fn names_in(code: &str) -> BTreeSet<String> {
    static WORDS: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| PYTHON_WORDS.split_whitespace().collect());
    let words = words_in(code);
    let mut own: BTreeSet<&str> = BTreeSet::new();
    for pair in words.windows(2) {
        if matches!(pair[0].as_str(), "for" | "lambda" | "as") {
            own.insert(&pair[1]);
        }
    }
    let is_name = |word: &&String| !WORDS.contains(word.as_str()) && !own.contains(word.as_str());
    words.iter().filter(is_name).cloned().collect()
}

/// Returns the words of a code in their order, without texts, numbers and attributes.
fn words_in(code: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut quote: Option<char> = None;
    let mut word = String::new();
    let mut before = ' ';
    let mut is_attribute = false;
    for c in code.chars().chain(std::iter::once(' ')) {
        if let Some(open) = quote {
            if c == open && before != '\\' {
                quote = None;
            }
        } else if c.is_alphanumeric() || c == '_' {
            if word.is_empty() {
                is_attribute = before == '.';
            }
            word.push(c);
        } else {
            let done = std::mem::take(&mut word);
            let is_number = done.starts_with(|c: char| c.is_ascii_digit());
            if !done.is_empty() && !is_attribute && !is_number {
                words.push(done);
            }
            if c == '\'' || c == '"' {
                quote = Some(c);
            }
        }
        before = c;
    }
    words
}
