//! The package managers of Node and the commands each has for the same wish.

use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

/// The table of commands.
const TABLE: &str = include_str!("../../data/playbook/managers.toml");

/// A package manager of Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeManager {
    Npm,
    Pnpm,
    /// Yarn 1.
    Yarn,
    /// Yarn 2 and later.
    Berry,
    Bun,
}

/// What a manager is called and the commands it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerCommands {
    pub program: String,
    /// The lockfiles it writes.
    pub lockfiles: Vec<String>,
    /// Installs exactly what the lockfile says.
    pub exact: Vec<String>,
    /// Installs what the lockfile says and what it lacks, without writing it if the manager can.
    pub loose: Vec<String>,
    /// Whether `loose` writes the lockfile.
    pub loose_writes: bool,
    /// Installs where there is no lockfile, without making one.
    pub unlocked: Vec<String>,
    /// Brings the lockfile into agreement with the manifest, changing as little as possible.
    pub relock: Vec<String>,
    /// Builds a package's native parts again; the package's name follows.
    pub rebuild: Vec<String>,
    /// Adds one package to what is installed and writes it down nowhere; its name and version
    /// follow. Empty where the manager cannot.
    pub add: Vec<String>,
    /// Runs a script; its name follows.
    pub run: Vec<String>,
    /// Runs a script in a workspace: its directory, then the script, follow. Empty: by `cd`.
    pub exec: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    npm: ManagerCommands,
    pnpm: ManagerCommands,
    yarn: ManagerCommands,
    berry: ManagerCommands,
    bun: ManagerCommands,
}

static WORDS: LazyLock<Option<Table>> = LazyLock::new(|| toml::from_str(TABLE).ok());

/// Stands in where the shipped table cannot be read, which a test rules out.
static NOTHING: ManagerCommands = ManagerCommands {
    program: String::new(),
    lockfiles: Vec::new(),
    exact: Vec::new(),
    loose: Vec::new(),
    loose_writes: true,
    unlocked: Vec::new(),
    relock: Vec::new(),
    rebuild: Vec::new(),
    add: Vec::new(),
    run: Vec::new(),
    exec: Vec::new(),
};

impl NodeManager {
    /// Every manager.
    pub const ALL: [Self; 5] = [Self::Npm, Self::Pnpm, Self::Yarn, Self::Berry, Self::Bun];

    /// Returns what it is called and the commands it has.
    pub fn words(self) -> &'static ManagerCommands {
        let Some(table) = WORDS.as_ref() else { return &NOTHING };
        match self {
            NodeManager::Npm => &table.npm,
            NodeManager::Pnpm => &table.pnpm,
            NodeManager::Yarn => &table.yarn,
            NodeManager::Berry => &table.berry,
            NodeManager::Bun => &table.bun,
        }
    }
}

impl fmt::Display for NodeManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words().program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_has_its_words() {
        for manager in NodeManager::ALL {
            let words = manager.words();
            assert!(!words.program.is_empty(), "{manager:?}");
            let wishes = [&words.exact, &words.loose, &words.unlocked, &words.relock, &words.run];
            for wish in wishes.into_iter().chain([&words.rebuild, &words.exec]) {
                assert_eq!(wish.first(), Some(&words.program), "{manager:?}");
            }
            assert!(!words.lockfiles.is_empty());
        }
    }
}
