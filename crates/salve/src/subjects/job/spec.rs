//! What a job is to do: the job file as people write it, in TOML, YAML or JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{CommandLine, FailureRuleEntry};

/// A job as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// What holds for the whole job
    #[serde(default)]
    pub job: JobSection,
    /// The steps, in order
    pub steps: Vec<StepEntry>,
}

/// What holds for a whole job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSection {
    /// What the job is for
    #[serde(default)]
    pub objective: String,
    /// Agent of steps that name none: claude, codex, gemini, or a command that gets the instruction on
    /// stdin [default: agent.runtime]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Model of steps that name neither an agent nor a model
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Ref of the repository to start from [default: HEAD]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Times that the workspace may be set back to its checkpoints
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_resets: Option<u32>,
    /// What every step may take that does not say otherwise
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<StepLimits>,
    /// Failures whose class you know better; the first that fits counts, those of the settings after
    /// these
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_rules: Vec<FailureRuleEntry>,
}

/// One step as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepEntry {
    /// Name of the step [default: its number]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What an agent is to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Command to run instead of an agent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// File of a skill to run instead of an agent, from where the steps run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// Inputs of the skill
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Agent: claude, codex, gemini, or a command that gets the instruction on stdin
    /// [default: job.runtime]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Model that the agent is asked to use
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How Salve itself verifies the step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyEntry>,
    /// What the step may take
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<StepLimits>,
}

/// How a step is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyEntry {
    /// Command that must exit with 0
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// Files that must be there
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Files that the step must change
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Whether an agent may weaken tests, their settings and scripts [default: false]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weakened_tests: bool,
    /// Whether an agent may leave everything as it was and verify nothing else [default: false]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_change_nothing: bool,
    /// The most files that the step may change
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<usize>,
    /// The most lines that the step may change
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u64>,
    /// Agent that reviews what the step did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<ReviewerEntry>,
}

/// An agent that reviews what a step did; it approves or the step has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewerEntry {
    /// What it is to look for, besides the step's own instruction
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Agent, as for a step [default: job.runtime]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Model that it is asked to use
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What a step may take; what is left open is as the settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepLimits {
    /// Attempts at the step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Seconds that an attempt may take
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
    /// Seconds that an attempt may show no sign of work
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// Times that the same failure may leave the same files
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_progress: Option<u32>,
}

/// What is wrong with a job file.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {message}")]
pub struct SpecError {
    at: String,
    message: String,
}

/// Returns what is wrong at a place of a job file.
pub(super) fn wrong(at: impl Into<String>, message: impl Into<String>) -> SpecError {
    SpecError { at: at.into(), message: message.into() }
}

impl JobFile {
    /// Reads a job file, whose name says how it is written: TOML, YAML or JSON.
    pub fn read(name: &str, text: &str) -> Result<Self, SpecError> {
        let is = |end: &str| name.rsplit('.').next().is_some_and(|e| e.eq_ignore_ascii_case(end));
        if is("json") {
            serde_json::from_str(text).map_err(|error| wrong(name, error.to_string()))
        } else if is("yaml") || is("yml") {
            serde_saphyr::from_str(text).map_err(|error| wrong(name, error.to_string()))
        } else {
            toml::from_str(text).map_err(|error| wrong(name, error.to_string()))
        }
    }

    /// Returns a job of commands.
    pub fn of_commands(commands: Vec<CommandLine>, limits: StepLimits) -> Self {
        let objective: Vec<String> = commands.iter().map(ToString::to_string).collect();
        let step = |command| StepEntry { command: Some(command), ..StepEntry::default() };
        let job = JobSection {
            objective: objective.join("; "),
            limits: Some(limits),
            ..JobSection::default()
        };
        Self { job, steps: commands.into_iter().map(step).collect() }
    }

    /// Has limits hold for all steps, whatever they say.
    pub fn override_limits(&mut self, limits: StepLimits) {
        let over = |known: &mut Option<StepLimits>| {
            let known = known.get_or_insert_default();
            known.attempts = limits.attempts.or(known.attempts);
            known.wall_seconds = limits.wall_seconds.or(known.wall_seconds);
            known.idle_seconds = limits.idle_seconds.or(known.idle_seconds);
            known.no_progress = limits.no_progress.or(known.no_progress);
        };
        over(&mut self.job.limits);
        self.steps.iter_mut().for_each(|step| over(&mut step.limits));
    }

    /// Returns the file that lies with the job, and by whose hash the journal knows it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Returns the JSON Schema of job files, for editors.
pub fn job_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft07();
    settings.into_generator().into_root_schema_for::<JobFile>().to_value()
}
