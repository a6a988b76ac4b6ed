//! What a loop does, as the settings and the command line say.

use jiff::SignedDuration;
use salve_core::event::{LoopStep, LoopTerms, ResourceLimits};
use salve_core::scrub::Scrubber;

use super::super::CliError;
use super::super::dev::agents::for_role;
use super::super::heal::{incident_limits, use_agent};
use crate::agent::Mcp;
use crate::config::{
    self, CommandLine, Config, ConfigProblem, LoopSettings, RECOVERY, RoleEntry, TESTS,
    shipped_prompt,
};
use crate::detect;
use crate::project::Project;
use crate::subjects::iteration::{LoopPlan, RecoveryTerms, RolePlan, TestsPlan};

/// Returns how tests that could not execute are recovered.
pub(super) fn recovery_terms(config: &Config) -> RecoveryTerms {
    let heal = &config.settings.heal;
    RecoveryTerms {
        limits: incident_limits(config),
        no_progress_limit: heal.no_progress_limit,
        rollback_after: heal.rollback_after,
        changed_manifest: config.settings.recovery.changed_manifest,
    }
}

/// What it takes to make a plan of settings.
pub(super) struct SettingsPlanner<'a> {
    pub(super) project: &'a Project,
    pub(super) scrubber: &'a Scrubber,
    pub(super) mcp: Mcp,
    /// What the command line sets.
    pub(super) agent: Option<&'a str>,
    pub(super) tests: Option<&'a str>,
    pub(super) iterations: Option<u32>,
}

impl SettingsPlanner<'_> {
    /// Makes a plan, or says what is missing.
    pub(super) fn plan(&self, config: &Config) -> Result<LoopPlan, CliError> {
        let mut config = config.clone();
        if let Some(agent) = self.agent {
            use_agent(&mut config, agent);
        }
        let wanted = &config.settings.r#loop;
        let named = wanted.order.iter().filter(|step| *step != TESTS && *step != RECOVERY);
        let roles = named.map(|name| self.role(name, &config)).collect::<Result<_, _>>()?;
        Ok(LoopPlan {
            terms: self.terms(wanted),
            roles,
            tests: self.tests(wanted)?,
            promise: wanted.promise.trim().to_owned(),
            weakened_tests: wanted.weakened_tests,
            park: SignedDuration::try_from(wanted.park).unwrap_or(SignedDuration::MAX),
            recovery: recovery_terms(&config),
        })
    }

    fn terms(&self, wanted: &LoopSettings) -> LoopTerms {
        let some = |limit: u64| (limit > 0).then_some(limit);
        let step = |name: &String| match name.as_str() {
            TESTS => LoopStep::Tests,
            RECOVERY => LoopStep::Recovery,
            role => LoopStep::Role(self.scrubber.scrub(role)),
        };
        LoopTerms {
            steps: wanted.order.iter().map(step).collect(),
            limits: ResourceLimits {
                attempts: Some(u64::from(self.iterations.unwrap_or(wanted.max_iterations).max(1))),
                tokens: some(wanted.max_tokens),
                money_micros: some(wanted.max_cents.saturating_mul(10_000)),
                wall_ms: some(wanted.max_wall_ms),
                resets: None,
            },
            retries: wanted.retries,
            stuck_after: wanted.stuck_after,
            parks: wanted.max_parks,
        }
    }

    fn role(&self, name: &str, config: &Config) -> Result<RolePlan, CliError> {
        let wanted = &config.settings.r#loop;
        let entry = wanted.roles.get(name).cloned().unwrap_or_default();
        let place = |word: &str| wanted.order.iter().position(|step| step == word);
        let here = place(name);
        Ok(RolePlan {
            name: name.to_owned(),
            prompt: self.prompt(name, &entry)?,
            agent: for_role(name, &entry, &config.settings.agent, &self.mcp)?,
            tokens: entry.max_tokens,
            promises: entry.promises,
            proposes: here > place(TESTS) && place(RECOVERY).is_some() && here < place(RECOVERY),
            writes: entry.writes,
        })
    }

    fn prompt(&self, name: &str, entry: &RoleEntry) -> Result<String, CliError> {
        let missing = || CliError::usage(format!("there is no prompt for the role `{name}`"));
        match &entry.prompt {
            None => shipped_prompt(name).map(str::to_owned).ok_or_else(missing),
            Some(file) => {
                let root = self.project.root();
                let text = config::read(&root.join(file), Some(root))
                    .map_err(|error| missing().because(error))?;
                text.filter(|text| !text.trim().is_empty())
                    .ok_or_else(|| missing().hint(format!("write it to {file}")))
            }
        }
    }

    fn tests(&self, wanted: &LoopSettings) -> Result<TestsPlan, CliError> {
        let root = self.project.root();
        let found = || {
            let checks = detect::checks(root);
            checks.into_iter().find(|check| check.name == "test").map(|check| check.command)
        };
        let given = self.tests.map(|line| CommandLine::Line(line.to_owned()));
        let command =
            given.or_else(|| wanted.tests.clone()).or_else(|| found().map(CommandLine::Line));
        let command = command.ok_or_else(|| {
            CliError::usage("there is no command that runs the tests")
                .hint("say which: salve loop run --tests \"npm test\"; or set loop.tests")
        })?;
        Ok(TestsPlan {
            argv: command.argv(),
            command: self.scrubber.scrub(&command.to_string()),
            dir: root.to_path_buf(),
            env: Vec::new(),
            limit: wanted.tests_timeout,
        })
    }

    /// Returns why a loop that runs with `roles` could not go on with settings.
    pub(super) fn wrong(&self, config: &Config, roles: &[String]) -> Vec<ConfigProblem> {
        let at = |key: &str, message: String| {
            let origin = config.tree.get(key).map(|node| node.origin.clone());
            ConfigProblem { origin, key: Some(key.to_owned()), message }
        };
        let order = &config.settings.r#loop.order;
        let gone = roles.iter().filter(|role| !order.contains(role)).map(|role| {
            at("loop.order", format!("the loop that is running needs the role `{role}`"))
        });
        let mut wrong: Vec<ConfigProblem> = gone.collect();
        if let Err(error) = self.plan(config) {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            let text = format!("the loop that is running could not go on: {error}");
            wrong.push(at("loop", format!("{text}{}", cause.unwrap_or_default())));
        }
        wrong
    }
}
