//! What a job is to do: the job file as people write it, in TOML, YAML or JSON.

use std::time::Duration;

use salve_core::event::{FailureClass, JobStepTerms, JobTerms, Limits};
use salve_core::job::FailureRule;
use salve_core::scrub::Scrubber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::digest;
use crate::config::{CommandLine, JobSettings};

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
    /// Ref of the repository to start from [default: HEAD]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Times that the workspace may be set back to its checkpoints
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_resets: Option<u32>,
    /// What every step may take that does not say otherwise
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<StepLimits>,
    /// Failures whose class you know better; the first that fits counts
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
    /// Agent: claude, codex, gemini, or a command that gets the instruction on stdin
    /// [default: agent.runtime]
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
    /// The most files that the step may change
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<usize>,
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

/// A failure whose class the user knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureRuleEntry {
    /// Text that the failure's output has
    pub contains: String,
    /// "transient_runtime", "stuck_no_progress", "deterministic_contract", "deterministic_policy" or
    /// "deterministic_repo"
    pub class: String,
}

/// A job that can run.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// What the journal keeps of it.
    pub terms: JobTerms,
    /// The steps.
    pub steps: Vec<StepSpec>,
    /// Failures whose class the user knows.
    pub rules: Vec<FailureRule>,
}

/// A step that can run.
#[derive(Clone, Debug)]
pub struct StepSpec {
    /// Its name.
    pub id: String,
    /// What is done.
    pub work: StepWork,
    /// How it is verified.
    pub verify: VerifyEntry,
    /// How long an attempt may take.
    pub wall: Duration,
    /// How long it may show no sign of work.
    pub idle: Duration,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepWork {
    /// It runs a command.
    Command(CommandLine),
    /// An agent follows an instruction.
    Agent {
        /// What it is told.
        instruction: String,
        /// Which agent, if not the settings'.
        runtime: Option<String>,
        /// Which model, if not the settings'.
        model: Option<String>,
    },
}

/// What is wrong with a job file.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {message}")]
pub struct SpecError {
    at: String,
    message: String,
}

fn wrong(at: impl Into<String>, message: impl Into<String>) -> SpecError {
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

    /// Makes a job that can run.
    pub fn validate(
        &self,
        settings: &JobSettings,
        scrubber: &Scrubber,
    ) -> Result<JobSpec, SpecError> {
        if self.steps.is_empty() {
            return Err(wrong("steps", "a job has at least one step"));
        }
        let mut terms = Vec::new();
        let mut steps: Vec<StepSpec> = Vec::new();
        for (number, entry) in self.steps.iter().enumerate() {
            let step = self.step(number, entry, settings)?;
            if steps.iter().any(|known| known.id == step.id) {
                return Err(wrong("steps", format!("two steps are called `{}`", step.id)));
            }
            let limit = |of: fn(&StepLimits) -> Option<u32>, usual| self.limit(entry, of, usual);
            terms.push(JobStepTerms {
                id: scrubber.scrub(&step.id),
                attempts: limit(|l| l.attempts, settings.step_max_attempts)?,
                no_progress: limit(|l| l.no_progress, settings.step_no_progress_limit)?,
            });
            steps.push(step);
        }
        let rule = |entry: &FailureRuleEntry| match FailureClass::named(&entry.class) {
            Some(class) => Ok(FailureRule { contains: entry.contains.clone(), class }),
            None => Err(wrong("job.failure_rules", format!("no class `{}`", entry.class))),
        };
        let terms = JobTerms {
            objective: scrubber.scrub(self.job.objective.trim()),
            spec: digest(self.to_json().as_bytes()),
            steps: terms,
            resets: self.job.max_resets.unwrap_or(settings.job_self_heal_max_resets),
            parks: settings.max_parks,
            limits: Limits::default(),
        };
        let rules = self.job.failure_rules.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(JobSpec { terms, steps, rules })
    }

    fn step(
        &self,
        number: usize,
        entry: &StepEntry,
        settings: &JobSettings,
    ) -> Result<StepSpec, SpecError> {
        let id = entry.id.clone().unwrap_or_else(|| format!("step-{number}"));
        let at = format!("steps.{id}");
        if id.trim().is_empty() || id.chars().all(|c| c.is_ascii_digit()) {
            return Err(wrong(at, "a step's id is a word; its number is known anyway"));
        }
        let work = match (&entry.command, &entry.instruction) {
            (Some(command), None) if !command.is_empty() => StepWork::Command(command.clone()),
            (None, Some(text)) if !text.trim().is_empty() => StepWork::Agent {
                instruction: text.clone(),
                runtime: entry.runtime.clone(),
                model: entry.model.clone(),
            },
            _ => return Err(wrong(at, "a step has either `command` or `instruction`")),
        };
        let seconds = |of: fn(&StepLimits) -> Option<u64>, usual: u64| {
            let own = entry.limits.as_ref().and_then(of);
            let all = self.job.limits.as_ref().and_then(of);
            match own.or(all).unwrap_or(usual) {
                0 => Err(wrong(at.clone(), "a limit is at least 1")),
                seconds => Ok(Duration::from_secs(seconds)),
            }
        };
        Ok(StepSpec {
            work,
            verify: entry.verify.clone().unwrap_or_default(),
            wall: seconds(|l| l.wall_seconds, settings.step_timeout_seconds)?,
            idle: seconds(|l| l.idle_seconds, settings.step_idle_timeout_seconds)?,
            id,
        })
    }

    /// Returns a limit of a step: its own, the job's, or the settings'.
    fn limit(
        &self,
        entry: &StepEntry,
        of: fn(&StepLimits) -> Option<u32>,
        usual: u32,
    ) -> Result<u32, SpecError> {
        let own = entry.limits.as_ref().and_then(of);
        let all = self.job.limits.as_ref().and_then(of);
        match own.or(all).unwrap_or(usual) {
            0 => Err(wrong("limits", "a limit is at least 1")),
            limit => Ok(limit),
        }
    }
}

/// Returns the JSON Schema of job files, for editors.
pub fn job_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft07();
    settings.into_generator().into_root_schema_for::<JobFile>().to_value()
}
