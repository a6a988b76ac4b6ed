//! Loops: what the settings say about roles, their order and what a run may take.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::command::CommandLine;
use super::runtime::AgentRuntime;
use super::settings::milliseconds;

/// The word for Salve's own run of the tests in the order of an iteration.
pub const TESTS: &str = "tests";

/// The word for the recovery of the tests in the order of an iteration.
pub const RECOVERY: &str = "recovery";

/// The prompts that ship with Salve, by the role's name.
const PROMPTS: [(&str, &str); 4] = [
    ("planner", include_str!("../../data/roles/planner.md")),
    ("implementer", include_str!("../../data/roles/implementer.md")),
    ("tester", include_str!("../../data/roles/tester.md")),
    ("reviewer", include_str!("../../data/roles/reviewer.md")),
];

/// How agents work on a task, iteration by iteration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopSettings {
    /// Command of the tests, if not the one that the project's own files name
    pub tests: Option<CommandLine>,
    /// Milliseconds that one run of the tests may take
    #[serde(rename = "tests_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub tests_timeout: Duration,
    /// What an iteration does in turn: roles by name, "tests" and "recovery"
    pub order: Vec<String>,
    /// Words by which the last role promises that the task is done
    pub promise: String,
    /// What happens to a promise where what judges the task was weakened: "refuse" or "allow"
    pub weakened_tests: WeakenedTests,
    /// Times that a role which did not do its part is asked again
    #[schemars(range(max = 10))]
    pub retries: u32,
    /// Iterations that leave the same files with the same failures before a loop is stopped
    #[schemars(range(min = 2, max = 100))]
    pub stuck_after: u32,
    /// Milliseconds that a loop is parked where an agent has no quota and does not say how long
    #[serde(rename = "park_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub park: Duration,
    /// Times in a row that a loop may be parked
    #[schemars(range(max = 1000))]
    pub max_parks: u32,
    /// Iterations of one run
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// Milliseconds that the roles and tests of one run may work
    #[schemars(range(min = 1, max = 2_592_000_000_u64))]
    pub max_wall_ms: u64,
    /// Tokens that one run may use
    #[schemars(range(max = 10_000_000_000_u64))]
    pub max_tokens: u64,
    /// Money that one run may cost, in cents
    #[schemars(range(max = 100_000_000))]
    pub max_cents: u64,
    /// Roles by name; what they leave open is as `[agent]` says
    pub roles: BTreeMap<String, RoleEntry>,
}

/// What happens to a promise where what judges the task was weakened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeakenedTests {
    /// It does not count.
    Refuse,
    /// It counts.
    Allow,
}

/// What the settings say about one role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleEntry {
    /// File with what it is told, from the project's directory; without one, what ships with Salve
    pub prompt: Option<String>,
    /// Which agent it is, if not `agent.runtime`
    pub runtime: Option<AgentRuntime>,
    /// Command of the agent, for the runtime "command"
    pub command: Option<CommandLine>,
    /// Model that it is asked to use
    pub model: Option<String>,
    /// Files that it must write in each turn, in the loop's directory
    #[serde(default)]
    pub writes: Vec<String>,
    /// Whether it may promise that the task is done
    #[serde(default)]
    pub promises: bool,
    /// Milliseconds that one turn may take
    #[schemars(range(min = 1, max = 86_400_000))]
    pub wall_limit_ms: Option<u64>,
    /// Milliseconds that it may show no sign of work
    #[schemars(range(min = 1, max = 86_400_000))]
    pub idle_limit_ms: Option<u64>,
    /// Tokens that one turn may use
    #[schemars(range(max = 1_000_000_000))]
    pub max_tokens: Option<u64>,
}

/// Returns what ships with Salve for a role, if anything does.
pub fn shipped_prompt(role: &str) -> Option<&'static str> {
    PROMPTS.iter().find(|(name, _)| *name == role).map(|(_, text)| *text)
}
