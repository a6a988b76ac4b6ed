//! Jobs: what their steps may take unless a job says otherwise.

use schemars::JsonSchema;
use serde::Deserialize;

/// What steps of jobs may take, by the names of the spec.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSettings {
    /// Attempts at one step
    #[schemars(range(min = 1, max = 1000))]
    pub step_max_attempts: u32,
    /// Seconds that one attempt may take
    #[schemars(range(min = 1, max = 604_800))]
    pub step_timeout_seconds: u64,
    /// Seconds that one attempt may show no sign of work
    #[schemars(range(min = 1, max = 604_800))]
    pub step_idle_timeout_seconds: u64,
    /// Times that the same failure may leave the same files
    #[schemars(range(min = 1, max = 1000))]
    pub step_no_progress_limit: u32,
    /// Times that a job's workspace is set back to its checkpoints by Salve itself
    #[schemars(range(min = 1, max = 1000))]
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
