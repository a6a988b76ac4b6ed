//! How each agent is run: data, filled in with the task.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use salve_core::agent::{Dialect, TokenPrices};
use serde::Deserialize;
use tempfile::TempDir;

use super::home::Home;
use super::{EditReach, Task};

/// The profiles that ship with Salve.
const SHIPPED: &str = include_str!("../../data/agents.toml");

/// The version of the profiles that is read.
const VERSION: u32 = 1;

/// How one agent is run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The program.
    pub program: String,
    /// How its output is read.
    pub dialect: Dialect,
    /// What its tokens cost, as the settings say.
    #[serde(skip)]
    pub prices: Option<TokenPrices>,
    /// Its arguments, with places to be filled in.
    pub args: Vec<String>,
    /// Further arguments where it has Salve's tools.
    #[serde(default)]
    pub mcp: Vec<String>,
    /// Further arguments where a model is set.
    #[serde(default)]
    pub model: Vec<String>,
    /// What is different in its home, if it needs one of its own for Salve's tools.
    #[serde(default)]
    pub home: Option<Home>,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Further variables where it has Salve's tools.
    #[serde(default)]
    pub mcp_env: BTreeMap<String, String>,
}

/// The file of profiles.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profiles {
    version: u32,
    off_limits: OffLimits,
    claude: Profile,
    codex: Profile,
    gemini: Profile,
    opencode: Profile,
}

/// Patterns of files that agents must not edit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OffLimits {
    project: Vec<String>,
    r#loop: Vec<String>,
}

impl EditReach {
    /// Returns whether an agent with this reach has Salve's tools: they are for repairs, and what
    /// the roles of a loop have to say, they say by files.
    fn has_tools(self) -> bool {
        match self {
            EditReach::Project => true,
            EditReach::Loop => false,
        }
    }

    /// Returns the patterns of what an agent with this reach must not edit.
    fn off_limits(self) -> io::Result<Vec<String>> {
        let Profiles { off_limits, .. } = toml::from_str(SHIPPED).map_err(io::Error::other)?;
        Ok(match self {
            EditReach::Project => off_limits.project,
            EditReach::Loop => off_limits.r#loop,
        })
    }
}

/// The agents that Salve knows how to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl Runtime {
    /// Every runtime.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// Returns its name in settings and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the runtime of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == name)
    }

    /// Returns how it is run.
    pub fn profile(self) -> Result<Profile, toml::de::Error> {
        let Profiles { version, claude, codex, gemini, opencode, .. } = toml::from_str(SHIPPED)?;
        if version != VERSION {
            return Err(serde::de::Error::custom("unknown version of the profiles"));
        }
        Ok(match self {
            Self::Claude => claude,
            Self::Codex => codex,
            Self::Gemini => gemini,
            Self::Opencode => opencode,
        })
    }
}

impl Profile {
    /// Returns how any program is run: `words` are its command line, places to be filled in
    /// allowed.
    pub fn command(words: &[String]) -> Option<Self> {
        let (program, args) = words.split_first()?;
        Some(Self {
            program: program.clone(),
            dialect: Dialect::Lines,
            prices: None,
            args: args.to_vec(),
            mcp: Vec::new(),
            model: Vec::new(),
            home: None,
            env: BTreeMap::new(),
            mcp_env: BTreeMap::new(),
        })
    }

    /// Returns whether neither the agent nor the settings tell what its tokens cost.
    pub(super) fn is_without_price(&self) -> bool {
        self.prices.is_none() && !self.dialect.tells_money()
    }

    /// Fills the task in.
    pub(super) fn fill(&self, task: &Task) -> io::Result<Filled> {
        let files = tempfile::Builder::new().prefix("salve-agent-").tempdir()?;
        let json = |value: serde_json::Value| value.to_string();
        let (command, args) = (task.mcp.command.to_string_lossy(), &task.mcp.args);
        let words: Vec<&str> =
            [command.as_ref()].into_iter().chain(args.iter().map(String::as_str)).collect();
        let server = serde_json::json!({ "type": "stdio", "command": command, "args": args });
        let off_limits: Vec<String> = task
            .reach
            .off_limits()?
            .iter()
            .map(|pattern| format!("Edit({pattern}),Write({pattern})"))
            .collect();
        let path = |name: &str| files.path().join(name).to_string_lossy().into_owned();
        let mut places = vec![
            ("{prompt_file}", path("prompt.md")),
            ("{mcp_command}", json(command.as_ref().into())),
            ("{mcp_args}", json(args.clone().into())),
            ("{mcp_words}", json(words.into())),
            ("{mcp_json}", json(serde_json::json!({ "mcpServers": { "salve": server } }))),
            ("{off_limits}", off_limits.join(",")),
            ("{model}", task.model.clone().unwrap_or_default()),
        ];
        let mut env: Vec<(String, String)> = Vec::new();
        if let Some(home) = self.home.as_ref().filter(|_| task.reach.has_tools()) {
            let users = home.users(|name| task.variable(name));
            home.make(&files.path().join("home"), users.as_deref(), &fill(&home.add, &places))?;
            env.push((home.variable.clone(), path("home")));
        }
        // The task comes last: what stands in it is never filled in.
        places.push(("{prompt}", task.prompt.clone()));
        let model = task.model.iter().flat_map(|_| &self.model);
        let tools = self.mcp.iter().filter(|_| task.reach.has_tools());
        let words: Vec<&String> = self.args.iter().chain(tools).chain(model).collect();
        let is_used = |place: &str| words.iter().any(|word| word.contains(place));
        if !is_used("{prompt}") {
            fs::write(path("prompt.md"), &task.prompt)?;
        }
        let is_told = is_used("{prompt}") || is_used("{prompt_file}");
        let input = (!is_told).then(|| files.path().join("prompt.md"));
        let mut argv = vec![OsString::from(&self.program)];
        argv.extend(words.iter().map(|word| OsString::from(fill(word, &places))));
        let own = self.mcp_env.iter().filter(|_| task.reach.has_tools());
        env.extend(
            self.env.iter().chain(own).map(|(name, value)| (name.clone(), fill(value, &places))),
        );
        Ok(Filled { argv, env, input, files })
    }
}

/// A profile with everything in its place.
pub(super) struct Filled {
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(String, String)>,
    /// The file that it reads on stdin.
    pub(super) input: Option<PathBuf>,
    /// The files it was given, which go with this.
    pub(super) files: TempDir,
}

/// Fills the first place of a word that is one of `places`, and the places after it.
fn fill(word: &str, places: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        match places.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => {
                filled.push_str(value);
                rest = &rest[place.len()..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Returns the registration of this very program as the MCP server.
pub fn own_mcp() -> io::Result<Mcp> {
    Ok(Mcp { command: std::env::current_exe()?, args: vec!["mcp".to_owned()] })
}

/// How the agent starts Salve's MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}
