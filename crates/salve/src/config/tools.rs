//! Tool calls: what the settings say about healing them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// One rule on what heals failed calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealRuleEntry {
    /// Which tools or commands it is for; `*` matches anything
    pub tool: Option<String>,
    /// Regular expression that the error's text matches
    pub r#match: Option<String>,
    /// Class of the failure: network, auth, busy, or one of the fingerprint's
    pub class: Option<String>,
    /// Command that helps
    pub run: Option<String>,
    /// Tool of the same server that helps
    pub call: Option<CallEntry>,
    /// Whether the server is started again
    #[serde(default)]
    pub restart: bool,
    /// What is waited for
    pub wait: Option<WaitFor>,
    /// What the command may write to outside of the project
    #[serde(default)]
    pub writes: Vec<String>,
    /// Who all is helped by the command: this machine, or all machines of the fleet, where one runs it
    /// and the others wait for it
    #[serde(default)]
    pub shared: SharedFix,
}

/// Who all is helped by a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedFix {
    /// This machine, as by a login.
    #[default]
    Machine,
    /// All machines of the fleet, as by mending a cache that they share.
    Fleet,
}

/// A tool that helps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallEntry {
    /// Its name
    pub tool: String,
    /// Its arguments
    #[serde(default)]
    pub args: BTreeMap<String, String>,
}

/// What is waited for before a call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitFor {
    /// The time that the error names.
    RetryAfter,
}

/// What is known about a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// Whether calling it changes nothing
    #[serde(default)]
    pub read_only: bool,
    /// Whether calling it twice does no more than calling it once
    #[serde(default)]
    pub idempotent: bool,
    /// Cluster that it is about
    pub cluster: Option<String>,
    /// Command, or tool of the same server, that shows what a call did
    pub verify: Option<String>,
    /// Milliseconds that a call behind `salve proxy` may take without telling of progress
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
}
