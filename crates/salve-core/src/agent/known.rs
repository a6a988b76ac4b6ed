//! The agents that Salve can start: one table each in `data/agents.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// How they are run; whoever starts them reads the rest of it.
pub const SHIPPED_AGENTS: &str = include_str!("../../data/agents.toml");

/// An agent that Salve can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    /// Its name in settings and in the journal, and its program's.
    pub name: String,
    /// What people call it.
    pub title: String,
}

/// The part of the file that tells which there are.
#[derive(Deserialize)]
struct AgentTitles {
    agents: std::collections::BTreeMap<String, AgentTitle>,
}

#[derive(Deserialize)]
struct AgentTitle {
    title: String,
}

/// Returns every agent that Salve can start, by name.
pub fn known_agents() -> &'static [KnownAgent] {
    static KNOWN: LazyLock<Vec<KnownAgent>> = LazyLock::new(|| {
        // That it can be read is a test's to show.
        let read: Result<AgentTitles, _> = toml::from_str(SHIPPED_AGENTS);
        let all = read.map(|titles| titles.agents).unwrap_or_default().into_iter();
        all.map(|(name, AgentTitle { title })| KnownAgent { name, title }).collect()
    });
    &KNOWN
}

/// Returns what people call an agent that names itself so, if it is known.
pub fn known_title(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let known = known_agents().iter().find(|known| name.starts_with(&known.name));
    known.map(|known| known.title.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_agents_have_names_and_titles() {
        assert!(known_agents().len() >= 4);
        for KnownAgent { name, title } in known_agents() {
            assert_eq!(known_title(&format!("{name}-2 (stdio)")), Some(title.as_str()));
        }
        assert_eq!(known_title("nobody"), None);
    }
}
