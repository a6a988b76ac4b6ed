//! Dev servers: what the settings say about all of them and about each one.
//!
//! `[server]` holds for every server; `[servers.NAME]` adds a command and wins where both speak.

use std::collections::BTreeMap;
use std::time::Duration;

use salve_core::server::health::{Expect, StatusRange};
use salve_core::server::url::LocalUrl;
use schemars::JsonSchema;
use serde::Deserialize;

use super::command::CommandLine;
use super::settings::{Settings, milliseconds};

/// How dev servers are cared for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerDefaults {
    /// Address that is probed, if not the one the server prints
    pub url: Option<String>,
    /// Whether servers get a terminal of their own
    pub pty: bool,
    /// What a healthy answer is
    pub health: HealthSettings,
    /// Milliseconds until a started server must answer
    #[serde(rename = "startup_timeout_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400_000))]
    pub startup_timeout: Duration,
    /// Whether servers that answered are asked again and again, so that a hang is noticed
    pub liveness: bool,
    /// Milliseconds between two looks at a server that answers
    #[serde(rename = "liveness_interval_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(min = 10, max = 86_400_000))]
    pub liveness_interval: Duration,
    /// Milliseconds without a good answer after which a server counts as hung
    #[serde(rename = "liveness_grace_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub liveness_grace: Duration,
    /// Milliseconds after a heal in which a new crash counts against the same incident
    #[serde(rename = "flap_window_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub flap_window: Duration,
    /// Milliseconds a server has to end by itself before it is killed
    #[serde(rename = "stop_grace_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 3_600_000))]
    pub stop_grace: Duration,
    /// Last lines of output that are kept as evidence
    #[schemars(range(min = 10, max = 100_000))]
    pub log_lines: u32,
    /// Kilobytes after which a server's log file is put aside and a new one begun
    #[schemars(range(min = 16, max = 10_000_000))]
    pub log_kb: u32,
    /// Log files of a server that are kept
    #[schemars(range(min = 1, max = 1000))]
    pub log_files: u32,
    /// Days after which old crash logs are removed
    #[schemars(range(max = 36_500))]
    pub crash_log_days: u32,
}

/// What a healthy answer is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthSettings {
    /// Path that is asked for
    pub path: Option<String>,
    /// Status codes that are healthy: one, or a range such as 200-399
    pub status: Option<String>,
    /// Text that the answer must contain
    pub body: Option<String>,
    /// Milliseconds that a healed server must stay well before it counts as healed
    #[serde(rename = "soak_ms", deserialize_with = "milliseconds")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub soak: Duration,
}

/// What the settings say about one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Command that starts it: a line for the shell, or a program and its arguments
    pub command: Option<CommandLine>,
    /// Directory it runs in, from the project's
    pub dir: Option<String>,
    /// Variables it gets besides Salve's own
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Servers that must be well before it starts
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// Address that is probed, if not the one it prints
    pub url: Option<String>,
    /// Whether it gets a terminal of its own
    pub pty: Option<bool>,
    /// What a healthy answer is
    #[serde(default)]
    pub health: HealthEntry,
    /// Milliseconds until it must answer once started
    #[schemars(range(min = 1, max = 86_400_000))]
    pub startup_timeout_ms: Option<u64>,
    /// Whether it is asked again and again, so that a hang is noticed
    pub liveness: Option<bool>,
    /// Milliseconds it has to end by itself before it is killed
    #[schemars(range(max = 3_600_000))]
    pub stop_grace_ms: Option<u64>,
}

/// What a healthy answer of one server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthEntry {
    /// Path that is asked for
    pub path: Option<String>,
    /// Status codes that are healthy: one, or a range such as 200-399
    pub status: Option<String>,
    /// Text that the answer must contain
    pub body: Option<String>,
    /// Milliseconds that it must stay well before it counts as healed
    #[schemars(range(max = 86_400_000))]
    pub soak_ms: Option<u64>,
}

/// One server with everything that holds for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// What starts it.
    pub command: CommandLine,
    /// Where it runs, from the project's directory.
    pub dir: Option<String>,
    /// Variables it gets besides Salve's own.
    pub env: BTreeMap<String, String>,
    /// Servers that must be well before it starts.
    pub depends_on: Vec<String>,
    /// Where it answers, if the settings say so; with the health path, if there is one.
    pub url: Option<LocalUrl>,
    /// The path that is asked for at an address that the server told itself.
    pub path: Option<String>,
    /// What a good answer is, if the settings say so.
    pub expect: Option<Expect>,
    /// Whether it gets a terminal of its own.
    pub pty: bool,
    /// How long it must stay well before it counts as healed.
    pub soak: Duration,
    /// How long it may take until it answers.
    pub startup_timeout: Duration,
    /// Whether it is asked again and again.
    pub liveness: bool,
    /// How long it has to end by itself.
    pub stop_grace: Duration,
}

impl Settings {
    /// Returns the configured servers, each after those it depends on, else by name.
    pub fn servers_in_order(&self) -> Vec<ServerSettings> {
        let mut names = Vec::new();
        for name in self.servers.keys() {
            self.visit(name, &mut names);
        }
        let entry = |name: &String| Some(self.server_with(name, self.servers.get(name)?));
        names.iter().filter_map(entry).collect()
    }

    /// Returns one server with what `[server]` says where its own entry is silent.
    pub fn server_with(&self, name: &str, entry: &ServerEntry) -> ServerSettings {
        let (all, own) = (&self.server, &entry.health);
        let path = own.path.clone().or_else(|| all.health.path.clone());
        let url = entry.url.as_deref().or(all.url.as_deref()).and_then(LocalUrl::at_start);
        let url = match (url, &path) {
            (Some(url), Some(path)) => Some(url.with_path(path)),
            (url, _) => url,
        };
        let status = own.status.as_deref().or(all.health.status.as_deref());
        let body = own.body.clone().or_else(|| all.health.body.clone());
        let expect = (status.is_some() || body.is_some()).then(|| Expect {
            status: status.and_then(StatusRange::parse).unwrap_or_default(),
            body,
        });
        let ms = |own: Option<u64>, all| own.map_or(all, Duration::from_millis);
        ServerSettings {
            name: name.to_owned(),
            command: entry.command.clone().unwrap_or_default(),
            dir: entry.dir.clone(),
            env: entry.env.clone(),
            depends_on: entry.depends_on.clone(),
            url,
            path,
            expect,
            pty: entry.pty.unwrap_or(all.pty),
            soak: ms(own.soak_ms, all.health.soak),
            startup_timeout: ms(entry.startup_timeout_ms, all.startup_timeout),
            liveness: entry.liveness.unwrap_or(all.liveness),
            stop_grace: ms(entry.stop_grace_ms, all.stop_grace),
        }
    }

    /// Adds a server after those it depends on; the settings have no cycle once they are valid.
    fn visit(&self, name: &str, names: &mut Vec<String>) {
        // One name too many would mean a cycle, which ends here instead of nowhere.
        if names.iter().any(|known| known == name) || names.len() > self.servers.len() {
            return;
        }
        let Some(entry) = self.servers.get(name) else { return };
        for needed in entry.depends_on.iter().filter(|needed| *needed != name) {
            self.visit(needed, names);
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
}
