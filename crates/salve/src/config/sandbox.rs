//! The sandbox: what the settings say about how commands are kept within bounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How commands that heal are kept within bounds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxSettings {
    /// Whether a command must be held by the sandbox to run without asking
    pub mode: SandboxMode,
    /// What commands reach by network, unless a list below says otherwise
    pub network: Network,
    /// Commands that get no network, compared byte for byte
    pub offline: Vec<String>,
    /// Commands that get at least the web, compared byte for byte
    pub web: Vec<String>,
    /// Commands that get any network, compared byte for byte
    pub online: Vec<String>,
    /// Directories outside of the project that commands may write to, absolute or below `~/`
    pub caches: Vec<String>,
    /// Sockets of other programs that commands may connect to, absolute or below `~/`
    pub sockets: Vec<String>,
    /// Variables that commands get besides the usual ones, such as a registry's token
    pub env: Vec<String>,
}

/// Whether a command must be held by the sandbox to run without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// It must; where it cannot be, a person is asked first.
    Require,
    /// There is no sandbox.
    Off,
}

/// What a command reaches by network; the later, the more.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    None,
    /// The web's ports, and those of the proxies and registries that are set up.
    Web,
    /// Everything.
    Any,
}

impl Network {
    /// Returns the word for it in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Web => "web",
            Self::Any => "any",
        }
    }
}

impl SandboxSettings {
    /// Returns what a command reaches: the lists `web` and `online` only add to the default, and
    /// `offline` wins over all.
    pub fn network(&self, command: &str) -> Network {
        let has = |list: &[String]| list.iter().any(|entry| entry == command);
        if has(&self.offline) {
            return Network::None;
        }
        let web = has(&self.web).then_some(Network::Web);
        let any = has(&self.online).then_some(Network::Any);
        [Some(self.network), web, any].into_iter().flatten().max().unwrap_or(self.network)
    }
}
