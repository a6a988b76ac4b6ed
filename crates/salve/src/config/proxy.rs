//! Proxies in front of tool servers: what the settings say about their supervision.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::settings::milliseconds;

/// How servers behind `salve proxy` are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// Milliseconds after which a server hangs that owes an answer, is silent and does nothing
    #[serde(rename = "hang_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 100, max = 86_400_000))]
    pub hang_timeout: Duration,
    /// Milliseconds before a server that died is started again; each next pause is twice as long
    #[serde(rename = "restart_delay_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 3_600_000))]
    pub restart_delay: Duration,
    /// Milliseconds that such a pause lasts at most
    #[serde(rename = "longest_restart_delay_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub longest_restart_delay: Duration,
    /// Milliseconds after which a living server's earlier deaths no longer count
    #[serde(rename = "settled_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub settled: Duration,
    /// Milliseconds that a request may wait for a server that is being started
    #[serde(rename = "hold_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 3_600_000))]
    pub hold: Duration,
    /// Milliseconds that a server may go on with its work when its client sends no more
    #[serde(rename = "finish_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 3_600_000))]
    pub finish: Duration,
}
