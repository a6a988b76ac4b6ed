//! The settings, typed.
//!
//! Types and ranges here become the schema that editors use and that every layer is checked
//! against, so a file that an editor likes is one that Salve accepts. No default stands here:
//! all are in `data/defaults.toml`, whose comments repeat the first lines below (a test compares
//! them).

use std::collections::BTreeMap;
use std::time::Duration;

use salve_core::agent::TokenPrices;
use salve_core::fingerprint::{AnchorRow, ClassRow};
use salve_core::gate::{self, RawPolicy};
use salve_core::scrub::{BadPattern, Scrubber};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::checks::{CheckEntry, Heal, SpecialistEntry};
use super::command::CommandLine;
use super::jobs::{FleetSettings, JobSettings, TelemetrySettings};
use super::loops::LoopSettings;
use super::proxy::ProxySettings;
use super::rows::{AnchorSchema, ClassSchema};
use super::runtime::AgentRuntime;
use super::sandbox::SandboxSettings;
use super::servers::{ServerDefaults, ServerEntry};
use super::tools::{HealRuleEntry, ToolEntry};
use crate::scrub::scrubber;

/// Every setting of Salve.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of this file's shape
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What may run to recover from infrastructure failures
    pub recovery: RecoverySettings,
    /// How a crashed dev server is brought back
    pub repair: RepairSettings,
    /// How dev servers are cared for
    pub server: ServerDefaults,
    /// Dev servers by name; each has its command, and what differs from `[server]`
    pub servers: BTreeMap<String, ServerEntry>,
    /// How red checks are healed
    pub heal: Heal,
    /// Checks by name, in the order of their names unless `salve heal` is told otherwise
    pub checks: BTreeMap<String, CheckEntry>,
    /// Agents for certain kinds of failure, by name
    pub specialists: BTreeMap<String, SpecialistEntry>,
    /// How a coding agent takes part in repairs
    pub agent: AgentSettings,
    /// How agents work on a task, iteration by iteration
    pub r#loop: LoopSettings,
    /// What steps of jobs may take, by the names of the spec
    pub job: JobSettings,
    /// Jobs on many machines, on NATS JetStream
    pub fleet: FleetSettings,
    /// Where figures about jobs are sent
    pub telemetry: TelemetrySettings,
    /// Remedies that ship with Salve
    pub playbook: PlaybookSettings,
    /// Healing of failed tool calls
    pub auto_heal: AutoHealSettings,
    /// The tools that skills may call
    pub skills: SkillSettings,
    /// Finding out why tools fail
    pub debug: DebugSettings,
    /// Warnings about calls that are known to fail
    pub prevention: PreventionSettings,
    /// What is known about tools and commands, by a pattern of their names
    pub tools: BTreeMap<String, ToolEntry>,
    /// How servers behind `salve proxy` are supervised
    pub proxy: ProxySettings,
    /// Addresses that are told about events by HTTP POST
    pub webhooks: Webhooks,
    /// Notices on this machine
    pub notify: Notify,
    /// The page that `salve serve` gives
    pub page: PageSettings,
    /// Approvals that commands earn by helping
    pub earned: EarnedSettings,
    /// What is remembered about failures
    pub memory: MemorySettings,
    /// Secrets beyond those that Salve knows by itself
    pub scrub: Scrub,
    /// Failures beyond those that Salve knows by itself
    pub fingerprint: FingerprintSettings,
}

/// The recovery section, as the recovery spec has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoverySettings {
    /// Master switch: when off, every proposal is denied
    pub enabled: bool,
    /// Commands that may run without a person's approval, compared byte for byte
    pub auto_approve: Vec<String>,
    /// Patterns of commands that always need a person; `*` matches anything
    pub require_human: Vec<String>,
    /// Automatic recoveries in one run after which a person is asked
    #[schemars(range(max = 1000))]
    pub max_auto_recoveries_per_run: u32,
    /// Seconds that must pass between two automatic recoveries
    #[schemars(range(max = 604_800))]
    pub cooldown_seconds: u64,
    /// What happens to a command that no rule knows
    pub on_unknown: UnknownCommands,
    /// What happens in a loop whose run changed a manifest, lockfile or package manager's settings
    pub changed_manifest: ChangedManifest,
    /// How commands that heal are kept within bounds
    pub sandbox: SandboxSettings,
}

/// What happens in a loop whose run changed what is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangedManifest {
    /// A person is asked before any recovery command runs.
    Ask,
    /// The rules decide as ever.
    Allow,
}

/// What happens to a command that no rule knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownCommands {
    /// A person is asked.
    Escalate,
    /// It is refused.
    Deny,
    /// It runs.
    Allow,
}

impl From<&RecoverySettings> for RawPolicy {
    fn from(recovery: &RecoverySettings) -> Self {
        Self {
            enabled: recovery.enabled,
            auto_approve: recovery.auto_approve.clone(),
            require_human: recovery.require_human.clone(),
            max_auto_recoveries_per_run: recovery.max_auto_recoveries_per_run.into(),
            cooldown_seconds: recovery.cooldown_seconds,
            on_unknown: match recovery.on_unknown {
                UnknownCommands::Escalate => gate::OnUnknown::Escalate,
                UnknownCommands::Deny => gate::OnUnknown::Deny,
                UnknownCommands::Allow => gate::OnUnknown::Allow,
            },
        }
    }
}

/// The dev server's repair constants, as the dev server spec has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairSettings {
    /// Restarts tried before a repair counts as exhausted
    #[schemars(range(min = 1, max = 100), extend("x-env" = "REPAIR_MAX_ATTEMPTS"))]
    pub max_attempts: u32,
    /// Milliseconds before the first restart; doubles with each attempt
    #[serde(rename = "base_delay_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 3_600_000), extend("x-env" = "REPAIR_BASE_DELAY_MS"))]
    pub base_delay: Duration,
    /// Milliseconds that one health probe may take
    #[serde(rename = "health_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(
        with = "u64",
        range(min = 1, max = 3_600_000),
        extend("x-env" = "REPAIR_HEALTH_TIMEOUT_MS")
    )]
    pub health_timeout: Duration,
    /// Health probes before a restart counts as failed
    #[schemars(range(min = 1, max = 1000), extend("x-env" = "REPAIR_HEALTH_RETRIES"))]
    pub health_retries: u32,
    /// Milliseconds between two health probes
    #[serde(rename = "health_retry_delay_ms", deserialize_with = "milliseconds")]
    #[schemars(
        with = "u64",
        range(max = 3_600_000),
        extend("x-env" = "REPAIR_HEALTH_RETRY_DELAY_MS")
    )]
    pub health_retry_delay: Duration,
    /// Milliseconds without a write to wait for after a repair
    #[serde(rename = "quiet_period_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 3_600_000), extend("x-env" = "REPAIR_QUIET_PERIOD_MS"))]
    pub quiet_period: Duration,
    /// Files that a repair may change before a person is asked
    #[schemars(range(max = 100_000), extend("x-env" = "REPAIR_MAX_FILES"))]
    pub max_files: u32,
    /// Lines that a repair may change before a person is asked
    #[schemars(range(max = 10_000_000), extend("x-env" = "REPAIR_MAX_LOC"))]
    pub max_loc: u32,
    /// Milliseconds without automatic repair after an exhausted one
    #[serde(rename = "cooldown_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 604_800_000), extend("x-env" = "REPAIR_COOLDOWN_MS"))]
    pub cooldown: Duration,
}

/// The agent's part in repairs, as the dev server spec has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Whether an agent may repair code; when off, servers are only restarted
    #[schemars(extend("x-env" = "AGENT_REPAIR"))]
    pub repair: bool,
    /// Milliseconds to wait for an agent to take up a repair
    #[serde(rename = "engage_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000), extend("x-env" = "AGENT_ENGAGE_TIMEOUT_MS"))]
    pub engage_timeout: Duration,
    /// Milliseconds to wait for an agent to finish writing
    #[serde(rename = "write_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000), extend("x-env" = "AGENT_WRITE_TIMEOUT_MS"))]
    pub write_timeout: Duration,
    /// Whether Salve starts an agent by itself when none is there
    pub autostart: bool,
    /// Which agent that is
    pub runtime: Option<AgentRuntime>,
    /// Command of the agent, for the runtime "command"
    pub command: Option<CommandLine>,
    /// Model that the agent is asked to use
    pub model: Option<String>,
    /// Milliseconds that a started agent may take for one repair
    #[serde(rename = "wall_limit_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub wall_limit: Duration,
    /// Milliseconds that a started agent may show no sign of work
    #[serde(rename = "idle_limit_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub idle_limit: Duration,
    /// Tokens that agents may use for one incident
    #[schemars(range(max = 1_000_000_000))]
    pub max_tokens: u64,
    /// Money that agents may cost for one incident, in cents
    #[schemars(range(max = 10_000_000))]
    pub max_cents: u64,
    /// What the tokens of an agent cost that does not tell it, by runtime
    pub prices: BTreeMap<String, PriceEntry>,
    /// What becomes of a change that did not help
    pub on_failure: OnFailureSetting,
    /// Further directories that a started agent may write to, such as where it keeps what is its own
    pub state_dirs: Vec<String>,
}

/// What a million tokens cost, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceEntry {
    /// Those that the model reads and that were in no cache
    #[schemars(range(max = 1_000_000))]
    pub input_cents: u64,
    /// Those that it reads from a cache; as the others, if that is not said
    #[schemars(range(max = 1_000_000))]
    pub cached_cents: Option<u64>,
    /// Those that it writes
    #[schemars(range(max = 1_000_000))]
    pub output_cents: u64,
}

impl From<PriceEntry> for TokenPrices {
    fn from(entry: PriceEntry) -> Self {
        Self {
            input_cents: entry.input_cents,
            cached_cents: entry.cached_cents.unwrap_or(entry.input_cents),
            output_cents: entry.output_cents,
        }
    }
}

/// What becomes of a change that did not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailureSetting {
    /// It is undone before the next attempt.
    Undo,
    /// It stays.
    Keep,
}

impl From<OnFailureSetting> for salve_core::event::OnFailure {
    fn from(on_failure: OnFailureSetting) -> Self {
        match on_failure {
            OnFailureSetting::Undo => Self::Undo,
            OnFailureSetting::Keep => Self::Keep,
        }
    }
}

/// Remedies that ship with Salve.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaybookSettings {
    /// Which of them run without asking
    pub auto: PlaybookAuto,
}

/// Which shipped remedies run without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlaybookAuto {
    /// Those that only rebuild derived files, clear provably stale locks, end own orphans or
    /// restart.
    Safe,
    /// None.
    None,
}

/// Healing of failed tool calls, as the tools spec has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoHealSettings {
    /// Whether failed tool calls are healed at all
    pub enabled: bool,
    /// Times that a healed call is tried again
    #[schemars(range(max = 100))]
    pub max_retries: u32,
    /// Milliseconds that one fix may take
    #[serde(rename = "fix_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 100, max = 3_600_000))]
    pub fix_timeout: Duration,
    /// Program that brings the VPN up
    pub vpn_script: Option<String>,
    /// Kubernetes config file of each cluster, by the cluster's name
    pub clusters: BTreeMap<String, String>,
    /// What heals failed calls, the first that fits before all others
    pub rules: Vec<HealRuleEntry>,
}

/// The tools that skills may call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillSettings {
    /// Commands that start MCP servers whose tools skills may call, by the servers' names
    pub servers: BTreeMap<String, String>,
    /// Commands that are tools of skills, by the tools' names; arguments are in ARG_NAME
    pub commands: BTreeMap<String, String>,
}

/// Finding out why tools fail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebugSettings {
    /// Directories in which the source of tools is looked for, from the project's root on
    pub roots: Vec<String>,
}

/// Warnings about calls that are known to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreventionSettings {
    /// Whether mistakes in calling tools are learned and warned about
    pub enabled: bool,
    /// Whether a call is not made at all that a pattern of the strongest level warns about
    pub block: bool,
}

/// Addresses that are told about events by HTTP POST.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// Told when a person is needed
    pub on_escalation: Option<String>,
    /// Told when something has healed
    pub on_recovered: Option<String>,
    /// Told when every attempt has failed
    pub on_exhausted: Option<String>,
    /// Told when the settings changed
    pub on_config_change: Option<String>,
    /// Secrets by which messages are signed (Standard Webhooks), each `whsec_` and base64
    pub secrets: Vec<String>,
    /// Whether messages may go to private addresses, and by the environment's proxy
    pub allow_private: bool,
}

/// Notices on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// Whether a desktop notice appears when a person is needed, where there is a desktop
    pub desktop: bool,
    /// Which moments appear there; what healed within 30 s by one attempt never does
    pub desktop_moments: Vec<DesktopMoment>,
    /// Hours of the day in which nobody is told; questions are told when they are over
    pub quiet_hours: Option<String>,
}

/// A moment that deserves a notice on the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DesktopMoment {
    /// A person is needed.
    Escalation,
    /// Something healed.
    Recovered,
    /// It was given up.
    Exhausted,
}

/// The page that `salve serve` gives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageSettings {
    /// Another address that leads to the page, such as that of a proxy with TLS; messages link to it
    pub url: Option<String>,
}

/// Approvals that commands earn by helping.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarnedSettings {
    /// Proven successes of an approved command after which its approval is proposed; 0 is never
    #[schemars(range(max = 1000))]
    pub after: u32,
    /// Days that an accepted approval holds
    #[schemars(range(min = 1, max = 3650))]
    pub days: u32,
}

impl From<&EarnedSettings> for salve_core::earned::EarningTerms {
    fn from(earned: &EarnedSettings) -> Self {
        Self { after: earned.after, days: earned.days }
    }
}

/// What is remembered about failures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySettings {
    /// Whether remedies from the user's other projects are used here, and those from here there
    pub user: bool,
    /// Whose outcomes are taken from the fleet, and whether those from here are told to it
    pub fleet: FleetTrust,
    /// Where patches that healed are used again: in the same project, in all of the user's, or in all
    /// of the fleet's
    pub patches: PatchReach,
}

/// Whose word about remedies counts in a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetTrust {
    /// Nobody's, and nothing is told.
    Off,
    /// The user's own, from any machine, known by the key in `fleet.credentials`.
    Mine,
    /// That of everybody who may write to the fleet.
    Team,
}

impl FleetTrust {
    /// Returns the word of the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            FleetTrust::Off => "off",
            FleetTrust::Mine => "mine",
            FleetTrust::Team => "team",
        }
    }
}

/// Where patches that healed are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatchReach {
    /// In the project that they were made in.
    Project,
    /// In all of the user's projects in which they fit.
    User,
    /// In all projects of the fleet in which they fit, and in which they can be proven in a private
    /// layer first.
    Fleet,
}

/// Secrets beyond those that Salve knows by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    /// Patterns of further secrets, each looked for in every line
    pub patterns: Vec<ScrubPattern>,
}

impl Scrub {
    /// Returns the user's scrubber with these patterns too.
    ///
    /// # Errors
    ///
    /// When a pattern is none.
    pub fn scrubber(&self) -> Result<Scrubber, BadPattern> {
        scrubber().with_patterns(self.patterns.iter().map(|own| (&*own.kind, &*own.regex)))
    }
}

/// A pattern of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubPattern {
    /// What the mark in the secret's place calls it, in a-z, 0-9 and `-`
    pub kind: String,
    /// Regular expression; if it has a group, the first one is the secret
    pub regex: String,
}

/// Failures beyond those that Salve knows by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FingerprintSettings {
    /// Failures known by the shape of a line
    #[schemars(with = "Vec<AnchorSchema>")]
    pub anchors: Vec<AnchorRow>,
    /// Rules that classify what no anchor knows; the first that applies wins
    #[schemars(with = "Vec<ClassSchema>")]
    pub classes: Vec<ClassRow>,
}

pub(super) fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}
