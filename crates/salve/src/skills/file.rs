//! The file of a skill.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::files::{YamlError, parse_yaml};

/// The largest file of a skill.
const LARGEST: usize = 1 << 20;

/// A skill that is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// Its inputs and what they are where nobody gives them.
    pub inputs: Vec<SkillInput>,
    /// Its steps, in their order.
    pub steps: Vec<SkillStep>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SkillInput {
    pub name: String,
    /// Whether it has to be given.
    pub is_required: bool,
    /// What it is where nobody gives it.
    pub default: Value,
}

/// What becomes of a skill when a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStepError {
    /// It goes on; the step's value is the error.
    Continue,
    /// It ends.
    Fail,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SkillStep {
    /// Its name.
    pub id: String,
    /// Its line in the file, from 1.
    pub line: u64,
    /// The tool that it calls.
    pub tool: Option<String>,
    /// What the tool is called with; texts may hold `{{ }}`.
    pub args: Map<String, Value>,
    /// Python that says whether it runs.
    pub condition: Option<String>,
    /// Python that sets `result`.
    pub compute: Option<String>,
    /// Another name for its value.
    pub output: Option<String>,
    /// What a failure does, if the file says so.
    pub on_error: Option<OnStepError>,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// Why a file is no skill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SkillError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub reason: String,
}

#[derive(Deserialize)]
struct SkillDocument {
    #[serde(default)]
    inputs: Vec<RawSkillInput>,
    steps: Vec<Spanned<RawSkillStep>>,
}

#[derive(Deserialize)]
struct RawSkillInput {
    name: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    default: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSkillStep {
    id: String,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    args: Map<String, Value>,
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    compute: Option<String>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    on_error: Option<OnStepError>,
    #[serde(default)]
    timeout: Option<u64>,
}

/// Reads the text of a skill.
pub fn parse_skill(text: &str) -> Result<Skill, SkillError> {
    if text.len() > LARGEST {
        return Err(SkillError { line: 1, reason: "the file is larger than 1 MiB".to_owned() });
    }
    let read: Result<SkillDocument, _> = parse_yaml(text, LARGEST);
    let document = read.map_err(|YamlError { line, reason, .. }| SkillError { line, reason })?;
    let input = |raw: RawSkillInput| SkillInput {
        name: raw.name,
        is_required: raw.required,
        default: raw.default,
    };
    let step = |raw: Spanned<RawSkillStep>| {
        let (line, raw) = (raw.referenced.line(), raw.value);
        SkillStep {
            id: raw.id,
            line,
            tool: raw.tool,
            args: raw.args,
            condition: raw.condition,
            compute: raw.compute,
            output: raw.output,
            on_error: raw.on_error,
            timeout: raw.timeout.map(Duration::from_secs),
        }
    };
    Ok(Skill {
        inputs: document.inputs.into_iter().map(input).collect(),
        steps: document.steps.into_iter().map(step).collect(),
    })
}

/// Says whether a text is a skill, and what is found in it; made for fuzzing, it must never panic.
pub fn check_skill_text(text: &str) -> Result<usize, SkillError> {
    parse_skill(text).map(|skill| super::check_skill(&skill).len())
}

impl Skill {
    /// Returns whether the skill heals by its own steps: a call whose failure does not end it is
    /// made again under a condition.
    pub fn heals_itself(&self) -> bool {
        self.steps.iter().enumerate().any(|(at, step)| {
            step.tool.is_some()
                && step.on_error == Some(OnStepError::Continue)
                && self.steps[at + 1..]
                    .iter()
                    .any(|later| later.tool == step.tool && later.condition.is_some())
        })
    }
}
