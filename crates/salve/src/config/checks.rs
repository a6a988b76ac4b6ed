//! Checks: what the settings say about healing tests, types, lint and build.

use std::collections::BTreeMap;
use std::time::Duration;

use salve_core::incident::Tier;
use schemars::JsonSchema;
use serde::Deserialize;

use super::command::CommandLine;
use super::runtime::AgentRuntime;
use super::settings::milliseconds;

/// How red checks are healed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heal {
    /// Attempts at healing one failure
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Milliseconds that one run of a check may take
    #[serde(rename = "timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub timeout: Duration,
    /// Times that a check which may be flaky is run again before anything is changed
    #[schemars(range(max = 10))]
    pub reruns: u32,
    /// Whether a heal is proven by running the state before it once more
    pub proof: bool,
    /// Times that the same failure may come back in the same files before healing stops
    #[schemars(range(min = 1, max = 100))]
    pub no_progress_limit: u32,
    /// Failed attempts in a row after which everything is undone
    #[schemars(range(min = 1, max = 100))]
    pub rollback_after: u32,
    /// Tokens that healing one failure may use before a person is asked to go on
    #[schemars(range(max = 1_000_000_000))]
    pub max_tokens: u64,
    /// Tokens that all heals of one run may use together before a person is asked to go on
    #[schemars(range(max = 1_000_000_000))]
    pub run_max_tokens: u64,
    /// Money that one run of `salve heal` may cost, in cents
    #[schemars(range(max = 10_000_000))]
    pub run_max_cents: u64,
    /// Milliseconds in which attached agents may propose a fix; 0 asks nobody
    #[serde(rename = "broadcast_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub broadcast: Duration,
    /// Days that attempts are kept for a later look
    #[schemars(range(max = 36_500))]
    pub attempt_days: u32,
    /// When healing stops by itself
    pub breakers: Breakers,
    /// What each attempt by an agent may take
    pub tiers: Tiers,
}

/// When healing stops by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Breakers {
    /// Incidents with the same unhealed failure after which none is begun
    #[schemars(range(min = 1, max = 1000))]
    pub same_error: u32,
    /// Changes of one file by heals after which a person has to look
    #[schemars(range(min = 1, max = 1000))]
    pub file_changes: u32,
    /// Processes left behind after which all healing pauses
    #[schemars(range(min = 1, max = 1000))]
    pub orphans: u32,
    /// Different failures of one subject within five minutes after which a person has to look
    #[schemars(range(min = 2, max = 1000))]
    pub many_failures: u32,
}

/// What each attempt by an agent may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// The first two attempts
    pub simple: TierTerms,
    /// The third and fourth
    pub context: TierTerms,
    /// The fifth and later
    pub deep: TierTerms,
}

impl Tiers {
    /// Returns what an attempt of a tier may take.
    pub fn terms(&self, tier: Tier) -> &TierTerms {
        match tier {
            Tier::Simple => &self.simple,
            Tier::Context => &self.context,
            Tier::Deep => &self.deep,
        }
    }
}

/// What an attempt of one tier may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierTerms {
    /// What the agent is told to aim for
    pub strategy: String,
    /// Tokens that the work of one turn may take, beside what the agent is told at its start
    #[schemars(range(max = 1_000_000_000))]
    pub max_tokens: u64,
    /// Kilobytes of context that the agent is told
    #[schemars(range(min = 1, max = 10_000))]
    pub context_kb: u32,
    /// Model by runtime; without one, that of `agent.model`
    pub models: BTreeMap<String, String>,
}

/// What the settings say about one check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckEntry {
    /// Command that runs it: a line for the shell, or a program and its arguments
    pub command: Option<CommandLine>,
    /// Directory it runs in, from the project's
    pub dir: Option<String>,
    /// Variables it gets besides Salve's own
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Milliseconds that one run may take
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
}

/// An agent for certain kinds of failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpecialistEntry {
    /// Which agent it is, if not `agent.runtime`
    pub runtime: Option<AgentRuntime>,
    /// Command of the agent, for the runtime "command"
    pub command: Option<CommandLine>,
    /// Model that it is asked to use
    pub model: Option<String>,
    /// What it is told besides the failure
    pub prompt: Option<String>,
    /// Classes of failure that it is called for
    #[serde(default)]
    pub classes: Vec<String>,
}
