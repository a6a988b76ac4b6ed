//! Finds out from a project's own files what its dev servers and its checks are.
//!
//! Manifests and lockfiles say which package manager is used, dependencies which framework, and
//! scripts what starts it. Nothing is run, and no port is guessed: servers say where they listen.

mod checks;
mod node;
mod others;
mod targets;
#[cfg(test)]
mod tests;
mod workspaces;
mod write;

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::config::{PROCFILES, procfile};
use crate::files::{FileKind, read_text};

pub use checks::checks;
use checks::checks_in;
pub use write::{missing_ignores, settings_text, with_ignores};

/// A dev server or a check that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// What it is called in the settings.
    pub name: String,
    /// What runs it, as a line for the shell.
    pub command: String,
    /// Where, if not in the project's own directory.
    pub dir: Option<String>,
    /// What it is made with, such as `Vite` or `Django`, if that is known.
    pub framework: Option<&'static str>,
    /// What told us, such as `script dev in package.json`.
    pub why: Vec<String>,
}

/// What was found in a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The dev servers.
    pub servers: Vec<Detected>,
    /// The checks: tests, types, lint, build.
    pub checks: Vec<Detected>,
    /// Services of a compose file, which are somebody else's to start.
    pub services: Vec<String>,
}

/// Looks at the files in `root`; where it has no server of its own, at the members of its
/// workspace, and one directory down if there are none.
pub fn detect(root: &Path) -> Findings {
    let members = workspaces::members(root);
    let mut servers = one(root, root);
    if servers.is_empty() {
        let parts = if members.is_empty() { directories(root) } else { members.clone() };
        servers = in_parts(root, &parts, |dir| one(root, dir));
    }
    let mut all = checks_in(root, root);
    // A check of the whole says what those of its members would say.
    let missing = in_parts(root, &members, |dir| {
        let parts = checks_in(root, dir).into_iter();
        parts.filter(|part| !all.iter().any(|whole| whole.name == part.name)).collect()
    });
    all.extend(missing);
    for list in [&mut servers, &mut all] {
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list.dedup_by(|a, b| a.name == b.name);
    }
    Findings { servers, checks: all, services: services(root) }
}

/// Looks into directories below and gives what is found there their names.
fn in_parts(root: &Path, parts: &[String], look: impl Fn(&Path) -> Vec<Detected>) -> Vec<Detected> {
    let mut all = Vec::new();
    for dir in parts {
        all.extend(look(&root.join(dir)).into_iter().map(|found| Detected {
            name: below(dir, &found),
            dir: Some(dir.clone()),
            ..found
        }));
    }
    all
}

/// Returns the directories from `dir` up to the root, in which what governs it may be.
fn up_to<'a>(root: &'a Path, dir: &'a Path) -> impl Iterator<Item = &'a Path> {
    dir.ancestors().take_while(move |above| above.starts_with(root))
}

/// Returns the servers of one directory: the first source that has any is the one that is meant.
fn one(root: &Path, dir: &Path) -> Vec<Detected> {
    // A plain Procfile is written for where the program is deployed, so it comes last.
    let [for_dev, for_all] = PROCFILES.map(|name| from_procfile(dir, name));
    let first = [
        for_dev,
        node::detect(root, dir).into_iter().collect(),
        others::python(root, dir).into_iter().collect(),
        others::rails(dir).into_iter().collect(),
        others::rust(dir).into_iter().collect(),
        others::go(dir).into_iter().collect(),
        targets::server(dir).into_iter().collect(),
        for_all,
    ];
    first.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn from_procfile(dir: &Path, name: &str) -> Vec<Detected> {
    let servers = read(dir, name).and_then(|text| procfile(&text).ok()).unwrap_or_default();
    let found = servers.into_iter().filter_map(|(server, entry)| {
        let why = vec![format!("{server} in {name}")];
        let command = entry.command?.to_string();
        Some(Detected { name: server, command, dir: None, framework: None, why })
    });
    found.collect()
}

/// Returns the names of the services in a compose file.
fn services(root: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Compose {
        #[serde(default)]
        services: std::collections::BTreeMap<String, serde_json::Value>,
    }
    let names = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];
    let text = names.iter().find_map(|name| read(root, name));
    let compose = text.and_then(|text| serde_saphyr::from_str::<Compose>(&text).ok());
    compose.map(|compose| compose.services.into_keys().collect()).unwrap_or_default()
}

/// Returns the directories in which parts of a project may live, sorted.
fn directories(root: &Path) -> Vec<String> {
    let left_out = ["node_modules", "target", "dist", "build", "vendor", "venv", "docs", "test"];
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = dirs.filter_map(|entry| entry.file_name().into_string().ok());
    let meant = |name: &String| !name.starts_with('.') && !left_out.contains(&&**name);
    let mut names: Vec<_> = names.filter(meant).collect();
    names.sort();
    names.truncate(64);
    names
}

/// Returns the name of a server that was found in a directory below.
fn below(dir: &str, found: &Detected) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    };
    // Members lie in directories that say nothing: `apps/web`, `packages/api`.
    let dir = dir.rsplit('/').next().unwrap_or(dir);
    let dir: String = dir.chars().map(plain).take(30).collect();
    match &*found.name {
        "web" => dir.trim_start_matches('-').to_owned(),
        name => format!("{}-{name}", dir.trim_start_matches('-')),
    }
}

/// Reads a file of the directory, if it is one and not too long.
fn read(dir: &Path, name: &str) -> Option<String> {
    read_text(&dir.join(name), FileKind::Document).ok()
}

fn has(dir: &Path, name: &str) -> bool {
    dir.join(name).is_file()
}
