//! A job file, checked: what can run.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::time::Duration;

use salve_core::event::{JobStepTerms, JobTerms, ResourceLimits};
use salve_core::job::FailureRule;
use salve_core::scrub::Scrubber;

use super::digest;
use super::spec::{
    JobFile, ReviewerEntry, SpecError, StepEntry, StepLimits, VerifyEntry, wrong as wrong_at,
};
use crate::config::{CommandLine, JobSettings};

/// What is said of a limit that lets nothing happen.
const TOO_SMALL: &str = "a limit is at least 1";

/// A job that can run.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// What the journal keeps of it.
    pub terms: JobTerms,
    pub steps: Vec<StepSpec>,
    /// Failures whose class the user knows: the job's own rules, then the settings'.
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
    /// Who reviews it, if somebody does.
    pub reviewer: Option<StepReviewer>,
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
    /// It runs a skill.
    Skill(StepSkill),
    /// An agent follows an instruction.
    Agent {
        /// What it is told.
        instruction: String,
        agent: NamedAgent,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSkill {
    /// Its file, from where the steps run.
    pub file: String,
    pub inputs: BTreeMap<String, String>,
}

/// The agent that a step or its review names; what it leaves open is as the settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedAgent {
    /// Which agent.
    pub runtime: Option<String>,
    pub model: Option<String>,
}

/// An agent that reviews a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReviewer {
    /// What it looks for besides the step's own instruction.
    pub question: Option<String>,
    pub agent: NamedAgent,
}

impl StepWork {
    /// Returns the command that does it, unless an agent does.
    pub fn argv(&self) -> Option<Vec<OsString>> {
        match self {
            Self::Command(line) => Some(line.argv()),
            Self::Skill(StepSkill { file, inputs }) => {
                let salve = std::env::current_exe().unwrap_or_else(|_| "salve".into());
                let words = ["--project", ".", "skill", "run", file].map(OsString::from);
                let input = |(name, value): (&String, &String)| {
                    ["--input".into(), OsString::from(format!("{name}={value}"))]
                };
                let inputs = inputs.iter().flat_map(input);
                Some([salve.into_os_string()].into_iter().chain(words).chain(inputs).collect())
            }
            Self::Agent { .. } => None,
        }
    }

    /// Returns the command that does it as one writes it, unless an agent does.
    pub fn line(&self) -> Option<String> {
        match self {
            Self::Command(line) => Some(line.to_string()),
            Self::Skill(skill) => Some(format!("salve skill run {}", skill.file)),
            Self::Agent { .. } => None,
        }
    }

    /// Returns whether an agent does it, whose word is no evidence.
    pub fn is_by_agent(&self) -> bool {
        match self {
            Self::Agent { .. } => true,
            Self::Command(_) | Self::Skill(_) => false,
        }
    }

    /// Returns what it is to do, in words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Command(line) => format!("Run `{line}`."),
            Self::Skill(skill) => format!("Run the skill {}.", skill.file),
            Self::Agent { instruction, .. } => instruction.clone(),
        }
    }
}

impl JobFile {
    /// Makes a job that can run.
    pub fn validate(
        &self,
        settings: &JobSettings,
        scrubber: &Scrubber,
    ) -> Result<JobSpec, SpecError> {
        if self.steps.is_empty() {
            return Err(wrong_at("steps", "a job has at least one step"));
        }
        let mut terms = Vec::new();
        let mut steps: Vec<StepSpec> = Vec::new();
        let mut known = HashSet::new();
        for (number, entry) in self.steps.iter().enumerate() {
            let step = self.step(number, entry, settings)?;
            if !known.insert(step.id.clone()) {
                return Err(wrong_at("steps", format!("two steps are called `{}`", step.id)));
            }
            let at = format!("steps.{}", step.id);
            let limit = |of: fn(&StepLimits) -> Option<u32>, usual| {
                self.limit(entry, of, usual).ok_or_else(|| wrong_at(at.clone(), TOO_SMALL))
            };
            terms.push(JobStepTerms {
                id: scrubber.scrub(&step.id),
                attempts: limit(|l| l.attempts, settings.step_max_attempts)?,
                no_progress: limit(|l| l.no_progress, settings.step_no_progress_limit)?,
            });
            steps.push(step);
        }
        if self.job.max_resets == Some(0) {
            return Err(wrong_at("job.max_resets", TOO_SMALL));
        }
        let terms = JobTerms {
            objective: scrubber.scrub(self.job.objective.trim()),
            spec: digest(self.to_json().as_bytes()),
            steps: terms,
            resets: self.job.max_resets.unwrap_or(settings.job_self_heal_max_resets),
            parks: settings.max_parks,
            limits: ResourceLimits::default(),
        };
        let rules = self.job.failure_rules.iter().chain(&settings.failure_rules);
        Ok(JobSpec { terms, steps, rules: rules.map(FailureRule::from).collect() })
    }

    fn step(
        &self,
        number: usize,
        entry: &StepEntry,
        settings: &JobSettings,
    ) -> Result<StepSpec, SpecError> {
        let id = entry.id.clone().unwrap_or_else(|| format!("step-{}", number + 1));
        let at = format!("steps.{id}");
        if id.trim().is_empty() || id.chars().all(|c| c.is_ascii_digit()) {
            return Err(wrong_at(at, "a step's id is a word; its number is known anyway"));
        }
        let seconds = |of: fn(&StepLimits) -> Option<u64>, usual: u64| {
            let own = entry.limits.as_ref().and_then(of);
            let all = self.job.limits.as_ref().and_then(of);
            match own.or(all).unwrap_or(usual) {
                0 => Err(wrong_at(at.clone(), TOO_SMALL)),
                seconds => Ok(Duration::from_secs(seconds)),
            }
        };
        let verify = entry.verify.clone().unwrap_or_default();
        let reviewer = |wanted: &ReviewerEntry| StepReviewer {
            question: wanted.instruction.clone(),
            agent: self.agent(wanted.runtime.as_ref(), wanted.model.as_ref()),
        };
        Ok(StepSpec {
            work: self.work(&at, entry)?,
            reviewer: verify.reviewer.as_ref().map(reviewer),
            verify,
            wall: seconds(|l| l.wall_seconds, settings.step_timeout_seconds)?,
            idle: seconds(|l| l.idle_seconds, settings.step_idle_timeout_seconds)?,
            id,
        })
    }

    /// Returns what a step does.
    fn work(&self, at: &str, entry: &StepEntry) -> Result<StepWork, SpecError> {
        if entry.skill.is_none() && !entry.inputs.is_empty() {
            return Err(wrong_at(at, "only a skill has `inputs`"));
        }
        match (&entry.command, &entry.skill, &entry.instruction) {
            (Some(command), None, None) if !command.is_empty() => {
                Ok(StepWork::Command(command.clone()))
            }
            (None, Some(file), None) if !file.trim().is_empty() => {
                Ok(StepWork::Skill(StepSkill { file: file.clone(), inputs: entry.inputs.clone() }))
            }
            (None, None, Some(text)) if !text.trim().is_empty() => Ok(StepWork::Agent {
                instruction: text.clone(),
                agent: self.agent(entry.runtime.as_ref(), entry.model.as_ref()),
            }),
            _ => Err(wrong_at(at, "a step has one of `command`, `instruction` and `skill`")),
        }
    }

    /// Returns the agent that is meant; the job's model is none of an agent that a step names.
    fn agent(&self, runtime: Option<&String>, model: Option<&String>) -> NamedAgent {
        let usual = self.job.model.as_ref().filter(|_| runtime.is_none());
        NamedAgent {
            runtime: runtime.or(self.job.runtime.as_ref()).cloned(),
            model: model.or(usual).cloned(),
        }
    }

    /// Returns a limit of a step, its own, the job's, or the settings', unless it lets nothing happen.
    fn limit(
        &self,
        entry: &StepEntry,
        of: fn(&StepLimits) -> Option<u32>,
        usual: u32,
    ) -> Option<u32> {
        let own = entry.limits.as_ref().and_then(of);
        let all = self.job.limits.as_ref().and_then(of);
        Some(own.or(all).unwrap_or(usual)).filter(|limit| *limit > 0)
    }
}
