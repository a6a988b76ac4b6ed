//! Settings: read from files, environment and flags, checked once, and typed from then on.
//!
//! Layers, the strongest first: flags, environment, the project's `salve.toml` or `salve.json`,
//! the user's `config.toml`, and the shipped `defaults.toml`. Every layer becomes a tree whose
//! values know where they were written ([`tree`]), is checked against the schema that editors use
//! (`schema`), and is laid over the one below; the merged tree becomes [`Settings`].

mod check;
mod checks;
mod command;
mod jobs;
mod listing;
mod live;
mod load;
mod loops;
mod parse;
mod problem;
mod procfile;
mod proxy;
mod read;
mod rows;
mod rules;
mod runtime;
mod sandbox;
mod schema;
mod servers;
mod settings;
#[cfg(test)]
mod tests;
mod tools;
pub mod tree;
mod valid;
mod valid_checks;
mod valid_loops;
mod valid_servers;
mod valid_tools;
mod words;

pub use checks::{Breakers, CheckEntry, Heal, SpecialistEntry, TierTerms, Tiers};
pub use command::CommandLine;
pub use jobs::{
    FailureClassEntry, FailureRuleEntry, FleetSettings, JobSettings, TelemetrySettings,
};
pub use listing::{SettingRow, setting_rows};
pub use live::{LiveError, LiveSettings, Reload, changes, in_force};
pub use load::{Config, DEFAULTS, LoadError, Sources, defaults, load, load_file};
pub use loops::{LoopSettings, RECOVERY, RoleEntry, TESTS, WeakenedTests, shipped_prompt};
pub use problem::ConfigProblem;
pub use procfile::{PROCFILES, ProcfileError, is_name as is_server_name, procfile};
pub use proxy::ProxySettings;
pub use read::{SettingsReadError, read, read_from};
pub use runtime::AgentRuntime;
pub use sandbox::{Network, SandboxMode, SandboxSettings};
pub use schema::{SettingKey, keys, with_defaults};
pub use servers::{HealthEntry, HealthSettings, ServerDefaults, ServerEntry, ServerSettings};
pub use settings::*;
pub use tools::{CallEntry, HealRuleEntry, SharedFix, ToolEntry, WaitFor};
pub use words::{Environment, unknown_key};

use tree::{Layer, SettingsText};

/// Reads TOML as a project's settings file; made for fuzzing, it must never panic.
pub fn parse_toml(text: &str) -> Result<tree::SettingNode, Vec<ConfigProblem>> {
    let node = parse::toml(&SettingsText::new(Layer::Project, "salve.toml", text))?;
    let problems = check::check(schema::schema(), &node, "");
    if problems.is_empty() { Ok(node) } else { Err(problems) }
}

/// Reads JSON as a project's settings file; made for fuzzing, it must never panic.
pub fn parse_json(text: &str) -> Result<tree::SettingNode, Vec<ConfigProblem>> {
    let node = parse::json(&SettingsText::new(Layer::Project, "salve.json", text))?;
    let problems = check::check(schema::schema(), &node, "");
    if problems.is_empty() { Ok(node) } else { Err(problems) }
}
