//! The members of a workspace: packages of npm, pnpm, yarn and bun, and projects of uv.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::read;

/// How many members are looked at.
const MOST: usize = 100;

/// What a `package.json` says about its workspace: a list, or a list below `packages`.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    workspaces: serde_json::Value,
}

/// What `pnpm-workspace.yaml` says.
#[derive(Deserialize)]
struct Pnpm {
    #[serde(default)]
    packages: Vec<String>,
}

/// Returns the directories of the members, relative to the root, sorted; none if it is no
/// workspace.
pub(super) fn members(root: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for pattern in patterns(root) {
        match pattern.strip_prefix('!') {
            Some(pattern) => left_out.extend(expand(root, pattern)),
            None => found.extend(expand(root, &pattern)),
        }
    }
    found.retain(|dir| !left_out.contains(dir));
    found.sort();
    found.dedup();
    found.truncate(MOST);
    found
}

fn patterns(root: &Path) -> Vec<String> {
    let mut patterns = Vec::new();
    let manifest = read(root, "package.json").and_then(|text| serde_json::from_str(&text).ok());
    if let Some(Manifest { workspaces }) = manifest {
        let list = workspaces.as_array().or_else(|| workspaces.get("packages")?.as_array());
        let texts = list.into_iter().flatten().filter_map(|one| one.as_str());
        patterns.extend(texts.map(str::to_owned));
    }
    let pnpm = read(root, "pnpm-workspace.yaml");
    let pnpm = pnpm.and_then(|text| serde_saphyr::from_str::<Pnpm>(&text).ok());
    patterns.extend(pnpm.into_iter().flat_map(|pnpm| pnpm.packages));
    let uv = read(root, "pyproject.toml").and_then(|text| text.parse::<toml::Table>().ok());
    let uv = uv.as_ref().and_then(|all| all.get("tool")?.get("uv")?.get("workspace"));
    let uv = uv.and_then(|workspace| workspace.get("members")?.as_array());
    patterns.extend(uv.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)));
    patterns
}

/// Returns the directories that a pattern means: a path, with `*` for one part or `**` at its end
/// for what is below.
fn expand(root: &Path, pattern: &str) -> Vec<String> {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    let mut found = vec![String::new()];
    for part in pattern.split('/') {
        // What goes up or is absolute leads out of the project.
        if part == ".." || part.is_empty() {
            return Vec::new();
        }
        let next = found.iter().flat_map(|dir| {
            if part.contains('*') { below(root, dir, part) } else { vec![join(dir, part)] }
        });
        found = next.filter(|dir| root.join(dir).is_dir()).take(MOST).collect();
    }
    found
}

/// Returns the directories in `dir` whose name fits `part`, which has a `*`.
fn below(root: &Path, dir: &str, part: &str) -> Vec<String> {
    let (before, after) = part.split_once('*').unwrap_or((part, ""));
    let after = after.trim_start_matches('*');
    let fits = |name: &String| {
        !name.starts_with('.')
            && name != "node_modules"
            && name.len() >= before.len() + after.len()
            && name.starts_with(before)
            && name.ends_with(after)
    };
    let entries = fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(fits);
    names.map(|name| join(dir, &name)).collect()
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}
