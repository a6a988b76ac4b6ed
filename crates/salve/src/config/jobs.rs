//! Jobs: what their steps may take unless a job says otherwise.

use std::path::PathBuf;

use salve_core::event::FailureClass;
use salve_core::job::FailureRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{BadFleetName, BadFleetPerson, FleetPerson, FleetTerms};

/// What steps of jobs may take, by the names of the spec.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSettings {
    /// Attempts at one step
    #[schemars(range(min = 1, max = 1000), extend("x-env" = "STEP_MAX_ATTEMPTS"))]
    pub step_max_attempts: u32,
    /// Seconds that one attempt may take
    #[schemars(range(min = 1, max = 604_800), extend("x-env" = "STEP_TIMEOUT_SECONDS"))]
    pub step_timeout_seconds: u64,
    /// Seconds that one attempt may show no sign of work
    #[schemars(range(min = 1, max = 604_800), extend("x-env" = "STEP_IDLE_TIMEOUT_SECONDS"))]
    pub step_idle_timeout_seconds: u64,
    /// Times that the same failure may leave the same files
    #[schemars(range(min = 1, max = 1000), extend("x-env" = "STEP_NO_PROGRESS_LIMIT"))]
    pub step_no_progress_limit: u32,
    /// Times that a job's workspace is set back to its checkpoints by Salve itself
    #[schemars(range(min = 1, max = 1000), extend("x-env" = "JOB_SELF_HEAL_MAX_RESETS"))]
    pub job_self_heal_max_resets: u32,
    /// Times in a row that a job may be parked where an agent has no quota
    #[schemars(range(max = 1000))]
    pub max_parks: u32,
    /// Times that a job in the queue is tried before it is dead
    #[schemars(range(min = 1, max = 1000))]
    pub queue_max_tries: u32,
    /// Seconds before it is tried again; they double with each failure
    #[schemars(range(max = 86_400))]
    pub queue_backoff_seconds: u64,
    /// Seconds without a sign of its worker after which another one takes a job over
    #[schemars(range(min = 1, max = 86_400))]
    pub queue_lease_seconds: u64,
    /// Failures whose class you know better; the first that fits counts
    pub failure_rules: Vec<FailureRuleEntry>,
}

/// A failure whose class the user knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureRuleEntry {
    /// Text that the failure's output has, whatever its case
    pub contains: String,
    /// What kind of failure it is
    pub class: FailureClassEntry,
}

/// What kind a failure is said to be, by the words of the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClassEntry {
    /// It may pass by itself.
    TransientRuntime,
    /// Trying it again in the same workspace leads nowhere.
    StuckNoProgress,
    /// The step asks for something that cannot be had.
    DeterministicContract,
    /// A rule or a permission forbids it.
    DeterministicPolicy,
    /// The repository itself is in the way.
    DeterministicRepo,
}

impl From<&FailureRuleEntry> for FailureRule {
    fn from(entry: &FailureRuleEntry) -> Self {
        let class = match entry.class {
            FailureClassEntry::TransientRuntime => FailureClass::TransientRuntime,
            FailureClassEntry::StuckNoProgress => FailureClass::StuckNoProgress,
            FailureClassEntry::DeterministicContract => FailureClass::DeterministicContract,
            FailureClassEntry::DeterministicPolicy => FailureClass::DeterministicPolicy,
            FailureClassEntry::DeterministicRepo => FailureClass::DeterministicRepo,
        };
        Self { contains: entry.contains.clone(), class }
    }
}

/// Where figures about jobs are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Address of a StatsD server, as in "127.0.0.1:8125"; without one nothing is sent
    pub statsd: Option<String>,
    /// What the names of all figures begin with
    pub prefix: String,
}

/// How the fleet is reached: jobs on many machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSettings {
    /// Addresses of its servers, with commas between them; without one there is no fleet
    pub url: Option<String>,
    /// Name of the fleet: small letters, digits and hyphens; several fleets can share servers
    pub name: String,
    /// File with the credentials that the servers want (NATS `.creds`)
    pub credentials: Option<String>,
    /// Whether a connection without TLS is refused
    pub tls: bool,
    /// File of the authority that the servers' certificates are of, if it is not a known one
    pub tls_ca: Option<String>,
    /// Addresses of its servers' monitoring, for `salve doctor --fleet`, with commas between them
    pub monitor: Option<String>,
    /// People whose answers count for what workers ask here: NAME:KEY, as `salve fleet key` prints it
    pub people: Vec<String>,
    /// Hours that a question of a fleet's job can be answered
    #[schemars(range(min = 1, max = 8_760))]
    pub answer_hours: u32,
    /// Servers that keep each thing when a fleet is begun: 1, or 3 where there are three
    #[schemars(range(min = 1, max = 5))]
    pub replicas: u8,
    /// Megabytes that all that is kept may take when a fleet is begun
    #[schemars(range(min = 64, max = 1_048_576))]
    pub storage_mb: u32,
}

impl FleetSettings {
    /// Returns the people whose answers count.
    pub fn people(&self) -> Result<Vec<FleetPerson>, BadFleetPerson> {
        self.people.iter().map(|one| one.parse()).collect()
    }

    /// Returns how the fleet is reached, if there is one.
    pub fn terms(&self) -> Result<Option<FleetTerms>, BadFleetName> {
        let Some(url) = &self.url else { return Ok(None) };
        Ok(Some(FleetTerms {
            url: url.clone(),
            name: self.name.parse()?,
            credentials: self.credentials.as_ref().map(PathBuf::from),
            requires_tls: self.tls,
            tls_ca: self.tls_ca.as_ref().map(PathBuf::from),
            replicas: self.replicas,
            storage_mb: self.storage_mb,
        }))
    }
}
