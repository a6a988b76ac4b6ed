//! What a loop does in an iteration, made of the settings when it begins.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use salve_core::event::{LoopId, LoopTerms, SubjectKind};
use salve_core::scrub::Scrubbed;

use crate::config::WeakenedTests;
use crate::heal::agents::AgentPlan;
use crate::heal::run::{CommandPlan, CommandRun};

use super::RecoveryTerms;

/// What one iteration does.
#[derive(Clone, Debug)]
pub struct LoopPlan {
    /// The terms, as the journal keeps them.
    pub terms: LoopTerms,
    pub roles: Vec<RolePlan>,
    /// How the tests are run.
    pub tests: TestsPlan,
    /// The words of the promise.
    pub promise: String,
    /// What happens to a promise where what judges the task was weakened.
    pub weakened_tests: WeakenedTests,
    /// How long it is parked where an agent does not say.
    pub park: SignedDuration,
    /// How tests that could not execute are recovered.
    pub recovery: RecoveryTerms,
}

impl LoopPlan {
    /// Returns the role of a name.
    pub fn role(&self, name: &str) -> Option<&RolePlan> {
        self.roles.iter().find(|role| role.name == name)
    }
}

/// How one role does its part.
#[derive(Clone, Debug)]
pub struct RolePlan {
    pub name: String,
    /// What every agent in it is told.
    pub prompt: String,
    /// How its agent is started.
    pub agent: AgentPlan,
    /// Tokens that one turn may use, if that is limited.
    pub tokens: Option<u64>,
    /// The files that it must write in each turn, in the loop's directory.
    pub writes: Vec<String>,
    /// Whether it may promise that the task is done.
    pub promises: bool,
    /// Whether it may propose a recovery: it comes after the tests and before their recovery.
    pub proposes: bool,
}

/// How the tests are run.
#[derive(Clone, Debug)]
pub struct TestsPlan {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What runs, for people.
    pub command: Scrubbed,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables it gets besides Salve's own.
    pub env: Vec<(OsString, OsString)>,
    /// How long one run may take.
    pub limit: Duration,
}

impl TestsPlan {
    /// Returns the command by which a loop is judged.
    pub fn command_plan(&self, of: &LoopId) -> CommandPlan {
        let Self { argv, command, dir, env, limit } = self.clone();
        let (kind, name) = (SubjectKind::Iteration, of.to_string());
        let limit_setting = Some("loop.tests_timeout_ms".to_owned());
        CommandPlan { kind, name, argv, command, dir, env, limit, limit_setting, input: None }
    }

    /// Returns what is to run for a loop.
    pub fn command_run(&self, name: &str) -> CommandRun {
        let Self { argv, dir, env, limit, .. } = self.clone();
        CommandRun { name: name.to_owned(), argv, dir, env, limit, input: None }
    }
}
