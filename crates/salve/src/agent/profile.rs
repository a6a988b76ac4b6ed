//! How each agent is run: data, filled in with the task.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use salve_core::agent::{Dialect, SHIPPED_AGENTS, TokenPrices};
use serde::Deserialize;
use tempfile::TempDir;

use super::home::Home;
use super::{AgentTask, EditReach, StatePlace};

/// The version of the profiles that is read.
const VERSION: u32 = 1;

/// How one agent is run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What people call it.
    pub title: String,
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
    /// Where it keeps what is its own.
    #[serde(default)]
    pub state: Vec<StatePlace>,
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
    agents: BTreeMap<String, Profile>,
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
    pub(super) fn has_tools(self) -> bool {
        match self {
            EditReach::Project => true,
            EditReach::Loop => false,
        }
    }

    /// Returns the patterns of what an agent with this reach must not edit.
    fn off_limits(self) -> io::Result<Vec<String>> {
        let Profiles { off_limits, .. } =
            toml::from_str(SHIPPED_AGENTS).map_err(io::Error::other)?;
        Ok(match self {
            EditReach::Project => off_limits.project,
            EditReach::Loop => off_limits.r#loop,
        })
    }
}

impl Profile {
    /// Returns how an agent that Salve knows is run.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or the profiles that ship cannot be read.
    pub fn shipped(name: &str) -> Result<Self, toml::de::Error> {
        let Profiles { version, mut agents, .. } = toml::from_str(SHIPPED_AGENTS)?;
        if version != VERSION {
            return Err(serde::de::Error::custom("unknown version of the profiles"));
        }
        agents
            .remove(name)
            .ok_or_else(|| serde::de::Error::custom(format!("there is no agent `{name}`")))
    }

    /// Returns how any program is run: `words` are its command line, places to be filled in
    /// allowed.
    pub fn command(words: &[String]) -> Option<Self> {
        let (program, args) = words.split_first()?;
        Some(Self {
            title: program.clone(),
            program: program.clone(),
            dialect: Dialect::Lines,
            prices: None,
            args: args.to_vec(),
            mcp: Vec::new(),
            model: Vec::new(),
            state: Vec::new(),
            home: None,
            env: BTreeMap::new(),
            mcp_env: BTreeMap::new(),
        })
    }

    /// Returns whether neither the agent nor the settings tell what its tokens cost.
    pub(super) fn is_without_price(&self) -> bool {
        self.prices.is_none() && !self.dialect.tells_money()
    }

    /// Returns it with further places where it keeps what is its own.
    #[must_use]
    pub fn with_state_in(mut self, dirs: &[String]) -> Self {
        let place = StatePlace { variable: None, below: None, usual: dirs.to_vec() };
        self.state.push(place);
        self
    }

    /// Returns where the agent of a task keeps what is its own.
    pub(super) fn state_paths(&self, task: &AgentTask) -> impl Iterator<Item = PathBuf> {
        self.state.iter().flat_map(|place| place.paths(|name| task.variable(name)))
    }

    /// Fills the task in.
    pub(super) fn fill(&self, task: &AgentTask, mcp: &Mcp) -> io::Result<Filled> {
        let files = tempfile::Builder::new().prefix("salve-agent-").tempdir()?;
        let json = |value: serde_json::Value| value.to_string();
        let (command, args) = (mcp.command.to_string_lossy(), &mcp.args);
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

/// How the agent starts Salve's MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}
