//! Which agent is started, by its name in the settings.

use std::borrow::Cow;
use std::sync::LazyLock;

use salve_core::agent::{KnownAgent, known_agents};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// What the settings call the command in `agent.command`.
const COMMAND: &str = "command";

/// An agent that Salve can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRuntime {
    /// One that Salve knows.
    Known(&'static KnownAgent),
    /// The command in `agent.command`.
    Command,
}

impl AgentRuntime {
    /// Returns every word for one in the settings.
    pub fn names() -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
            let known = known_agents().iter().map(|known| known.name.as_str());
            known.chain([COMMAND]).collect()
        });
        &NAMES
    }

    /// Returns the agent that Salve knows by a name.
    pub fn known(name: &str) -> Option<Self> {
        known_agents().iter().find(|known| known.name == name).map(Self::Known)
    }

    /// Returns the word for it in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Known(known) => &known.name,
            Self::Command => COMMAND,
        }
    }
}

impl<'de> Deserialize<'de> for AgentRuntime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == COMMAND {
            return Ok(Self::Command);
        }
        Self::known(&name).ok_or_else(|| D::Error::unknown_variant(&name, Self::names()))
    }
}

impl JsonSchema for AgentRuntime {
    fn schema_name() -> Cow<'static, str> {
        "AgentRuntime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |name: &str, about: String| serde_json::json!({ "description": about, "type": "string", "const": name });
        let known =
            known_agents().iter().map(|known| one(&known.name, format!("{}.", known.title)));
        let all: Vec<_> =
            known.chain([one(COMMAND, "The command in `agent.command`.".to_owned())]).collect();
        json_schema!({ "description": "An agent that Salve can start.", "oneOf": all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Profile;

    /// An agent that has its table in `data/agents.toml` can be named in the settings and started.
    #[test]
    fn every_agent_of_the_table_can_be_named_and_started() {
        for known in known_agents() {
            let named: AgentRuntime = serde_json::from_value(known.name.as_str().into()).unwrap();
            assert_eq!(named, AgentRuntime::Known(known));
            assert_eq!(Profile::shipped(&known.name).unwrap().title, known.title);
        }
        let refused = serde_json::from_value::<AgentRuntime>("clod".into()).unwrap_err();
        assert!(refused.to_string().contains("`command`"), "{refused}");
    }
}
