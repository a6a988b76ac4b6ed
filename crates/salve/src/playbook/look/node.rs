//! The Node project around a subject: manifest, lockfile, what is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use salve_core::playbook::{
    Agreement, Clues, LockfileState, NodeManager, NodeProject, PackageState, build_script,
};
use serde_json::Value;

use super::super::FailedSubject;
use super::{find, nearest, relative};
use crate::files::{FileKind, read_bytes, read_text};

/// The groups of dependencies in a manifest; those that have to be there come first.
const GROUPS: &[&str] =
    &["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/// Options that say in which directory a package manager works.
const ELSEWHERE: &[&str] = &["--prefix", "-C", "--dir", "--cwd", "cd"];

/// Reads the project that the subject belongs to.
pub(super) fn project(ask: &FailedSubject<'_>, clues: &Clues) -> Option<NodeProject> {
    let dir = home(ask, clues)?;
    let manifest = json(&dir.join("package.json")).unwrap_or_default();
    let (top, lockfiles) = lockfiles(ask, &dir);
    let manager = manager(&manifest, &top, &lockfiles);
    let mut node = NodeProject {
        dir: relative(ask.root, &dir)?,
        top: relative(ask.root, &top)?,
        manager,
        manager_found: manager.is_some_and(|m| find(&m.words().program).is_some()),
        lockfiles,
        has_modules: has_packages(&top.join("node_modules"))
            || has_packages(&dir.join("node_modules")),
        has_place: top.join("node_modules").symlink_metadata().is_ok(),
        declared: declared(&manifest),
        scripts: strings(manifest.get("scripts")),
        linked_bins: programs(&top).chain(programs(&dir)).collect(),
        wanted: wanted(&dir, &manifest),
        build_records: names(&dir).filter(|name| name.ends_with(".tsbuildinfo")).collect(),
        has_vite_cache: ask.dir.join("node_modules/.vite").is_dir(),
        ..NodeProject::default()
    };
    let within = |name: &String| {
        if node.dir.is_empty() { name.clone() } else { format!("{}/{name}", node.dir) }
    };
    node.build_records = node.build_records.iter().map(within).collect();
    node.lockfile_state = lockfile_state(&node, &top);
    read_lock(&mut node, &top, &manifest);
    let looked: BTreeSet<String> = node.declared.keys().chain(&clues.packages).cloned().collect();
    let damaged = looked.iter().filter(|name| is_damaged(&dir, &top, name));
    node.damaged = damaged.cloned().collect();
    let absent = node.declared.keys().filter(|name| place(&dir, &top, name).is_none());
    node.absent = absent.cloned().collect();
    Some(node)
}

/// Returns the directory of the package in question: that of the file which imports what is
/// missing, else the one that the command names, else the nearest to where the subject runs.
fn home(ask: &FailedSubject<'_>, clues: &Clues) -> Option<PathBuf> {
    let own = |path: &&Path| {
        let foreign = path.components().any(|part| part.as_os_str() == "node_modules");
        path.starts_with(ask.root) && !foreign && path.is_file()
    };
    let importing = clues.importers.iter().map(Path::new).filter(own);
    let words: Vec<&str> = ask.command.split([' ', '=', '\'', '"']).collect();
    let named = words.windows(2).filter(|pair| ELSEWHERE.contains(&pair[0]));
    let named = named.map(|pair| ask.dir.join(pair[1]).join("package.json"));
    let named = named.filter(|file| file.starts_with(ask.root) && file.is_file());
    let starts = importing.map(Path::to_path_buf).chain(named);
    let above = |file: PathBuf| {
        let dirs = file.ancestors().skip(1).take_while(|dir| dir.starts_with(ask.root));
        dirs.map(Path::to_path_buf).find(|dir| dir.join("package.json").is_file())
    };
    starts.filter_map(above).next().or_else(|| nearest(ask, "package.json"))
}

/// Returns what is known of the packages that the failure names.
pub(super) fn packages(
    ask: &FailedSubject<'_>,
    node: &NodeProject,
    clues: &Clues,
) -> BTreeMap<String, PackageState> {
    let (dir, top) = (ask.root.join(&node.dir), ask.root.join(&node.top));
    let lock = Lock::read(&top, node);
    let state = |name: &String| {
        let place = place(&dir, &top, name);
        let real = place.as_deref().and_then(|place| place.canonicalize().ok());
        let own = real.filter(|real| !real.components().any(|p| p.as_os_str() == "node_modules"));
        PackageState {
            declared: node.declared.get(name).cloned(),
            locked: lock.version(name),
            installed: place.as_deref().map(|place| version(place).unwrap_or_default()),
            damaged: is_damaged(&dir, &top, name),
            part_of: part_of(&dir, &top, name),
            build: own.as_deref().and_then(|own| {
                let manifest = json(&own.join("package.json"))?;
                build_script(&strings(manifest.get("scripts"))).map(str::to_owned)
            }),
            workspace: own.and_then(|own| relative(ask.root, &own)),
        }
    };
    clues.packages.iter().map(|name| (name.clone(), state(name))).collect()
}

pub(super) fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_bytes(path, FileKind::Bulk).ok()?).ok()
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn declared(manifest: &Value) -> BTreeMap<String, String> {
    GROUPS.iter().take(2).flat_map(|group| strings(manifest.get(group))).collect()
}

fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Returns the programs linked in a directory's `node_modules/.bin`; a link whose package is gone
/// brings none.
fn programs(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let place = dir.join("node_modules/.bin");
    names(&place).filter(move |name| place.join(name).exists())
}

/// Returns whether a `node_modules` has packages in it; tools leave caches in an empty one.
fn has_packages(dir: &Path) -> bool {
    names(dir).any(|name| !name.starts_with('.'))
}

/// Returns where installing happens, and the lockfiles there.
fn lockfiles(ask: &FailedSubject<'_>, dir: &Path) -> (PathBuf, Vec<String>) {
    let all = NodeManager::ALL.iter().flat_map(|manager| &manager.words().lockfiles);
    let all: BTreeSet<&String> = all.collect();
    let inside = dir.ancestors().take_while(|dir| dir.starts_with(ask.root));
    for dir in inside {
        let here = all.iter().filter(|file| dir.join(file).is_file());
        let here: Vec<String> = here.map(|file| (*file).clone()).collect();
        if !here.is_empty() {
            return (dir.to_path_buf(), here);
        }
    }
    (dir.to_path_buf(), Vec::new())
}

/// Returns the manager that the project declares, or that its only lockfile shows.
fn manager(manifest: &Value, top: &Path, lockfiles: &[String]) -> Option<NodeManager> {
    let top_manifest = json(&top.join("package.json")).unwrap_or_default();
    let named =
        [&top_manifest, manifest].into_iter().find_map(|m| m.get("packageManager")?.as_str());
    let berry = top.join(".yarnrc.yml").is_file();
    if let Some(named) = named {
        let (name, version) = named.split_once('@').unwrap_or((named, ""));
        return match name {
            "npm" => Some(NodeManager::Npm),
            "pnpm" => Some(NodeManager::Pnpm),
            "bun" => Some(NodeManager::Bun),
            "yarn" if version.starts_with("1.") => Some(NodeManager::Yarn),
            "yarn" => Some(NodeManager::Berry),
            _ => None,
        };
    }
    let fits = |m: &NodeManager| m.words().lockfiles.iter().any(|file| lockfiles.contains(file));
    let unlike = |m: &NodeManager| {
        !matches!((m, berry), (NodeManager::Yarn, true) | (NodeManager::Berry, false))
    };
    let found: Vec<NodeManager> =
        NodeManager::ALL.into_iter().filter(fits).filter(unlike).collect();
    match found.as_slice() {
        [] => Some(NodeManager::Npm),
        [one] => Some(*one),
        _ => None,
    }
}

fn wanted(dir: &Path, manifest: &Value) -> Option<(String, String)> {
    for file in [".nvmrc", ".node-version"] {
        if let Ok(text) = read_text(&dir.join(file), FileKind::Note) {
            return Some((text.trim().to_owned(), file.to_owned()));
        }
    }
    let engine = manifest.get("engines")?.get("node")?.as_str()?;
    Some((engine.to_owned(), "engines in package.json".to_owned()))
}

/// What a lockfile says; of other managers' than npm's only whether it names a package.
enum Lock {
    Npm(Value),
    Text(String),
}

impl Lock {
    fn read(top: &Path, node: &NodeProject) -> Self {
        let Some(file) = node.lockfile() else { return Lock::Text(String::new()) };
        let npm = node.manager == Some(NodeManager::Npm);
        match json(&top.join(file)).filter(|_| npm) {
            Some(value) => Lock::Npm(value),
            None => Lock::Text(read_text(&top.join(file), FileKind::Bulk).unwrap_or_default()),
        }
    }

    fn version(&self, name: &str) -> Option<String> {
        match self {
            Lock::Npm(lock) => {
                let packages = lock.get("packages")?.as_object()?;
                let exact = packages.get(&format!("node_modules/{name}"));
                let tail = format!("/node_modules/{name}");
                let any = packages.iter().find(|(key, _)| key.ends_with(&tail)).map(|(_, v)| v);
                Some(exact.or(any)?.get("version")?.as_str()?.to_owned())
            }
            Lock::Text(text) => {
                let quoted =
                    text.contains(&format!("{name}@")) || text.contains(&format!("\"{name}\""));
                quoted.then(|| "locked".to_owned())
            }
        }
    }
}

/// Looks whether the lockfile can be read: one that is there and broken is not one that is missing.
fn lockfile_state(node: &NodeProject, top: &Path) -> LockfileState {
    let text = node.lockfile().and_then(|file| read_text(&top.join(file), FileKind::Bulk).ok());
    let Some(text) = text else { return LockfileState::Readable };
    let marked = text.lines().position(|line| line.starts_with("<<<<<<< "));
    if let Some(line) = marked {
        return LockfileState::Conflicted { line: line + 1 };
    }
    let is_npm = node.manager == Some(NodeManager::Npm);
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Err(error) if is_npm => LockfileState::Broken { line: error.line().max(1) },
        Ok(_) | Err(_) => LockfileState::Readable,
    }
}

/// Compares the lockfile with the manifest and with what is installed.
fn read_lock(node: &mut NodeProject, top: &Path, manifest: &Value) {
    let Lock::Npm(lock) = Lock::read(top, node) else { return };
    let Some(packages) = lock.get("packages").and_then(Value::as_object) else { return };
    if let Some(own) = packages.get(
        &node.dir.strip_prefix(&node.top).unwrap_or(&node.dir).trim_start_matches('/').to_owned(),
    ) {
        let same =
            GROUPS.iter().all(|group| strings(manifest.get(group)) == strings(own.get(group)));
        node.agreement = if same { Agreement::Agrees } else { Agreement::Differs };
    }
    for (key, package) in packages {
        let Some((_, name)) = key.rsplit_once("node_modules/") else { continue };
        let bins = match package.get("bin") {
            Some(Value::String(_)) => vec![name.rsplit('/').next().unwrap_or(name).to_owned()],
            Some(Value::Object(map)) => map.keys().cloned().collect(),
            Some(_) | None => Vec::new(),
        };
        node.locked_bins.extend(bins.into_iter().map(|bin| (bin, name.to_owned())));
        let top_level = key.strip_prefix("node_modules/") == Some(name);
        let want = package.get("version").and_then(Value::as_str);
        if let (true, Some(want)) = (top_level && node.declared.contains_key(name), want) {
            let have = version(&top.join(key));
            let other = have.filter(|have| have != want && !have.is_empty());
            node.stale.extend(other.map(|have| (name.to_owned(), have, want.to_owned())));
        }
    }
}

/// Returns where a package is installed.
pub(super) fn place(dir: &Path, top: &Path, name: &str) -> Option<PathBuf> {
    let places = [dir, top].map(|base| base.join("node_modules").join(name));
    places.into_iter().find(|place| place.is_dir())
}

fn version(place: &Path) -> Option<String> {
    Some(json(&place.join("package.json"))?.get("version")?.as_str()?.to_owned())
}

/// Returns whether an installed package has no readable manifest, or an entry that is missing or
/// empty.
fn is_damaged(dir: &Path, top: &Path, name: &str) -> bool {
    let Some(place) = place(dir, top, name) else { return false };
    let linked = place.is_symlink()
        && !place.canonicalize().is_ok_and(|p| p.to_string_lossy().contains("node_modules"));
    let Some(manifest) = json(&place.join("package.json")) else { return !linked };
    let main = match manifest.get("main") {
        Some(Value::String(main)) if main.is_empty() => return false,
        Some(Value::String(main)) => main.as_str(),
        Some(_) | None if manifest.get("exports").is_some() => return false,
        Some(_) | None => "index.js",
    };
    let endings = ["", ".js", ".json", ".cjs", "/index.js", ".node"];
    let entries =
        endings.map(|ending| place.join(format!("{}{ending}", main.trim_end_matches('/'))));
    let entry = entries.iter().find_map(|path| fs::metadata(path).ok().filter(|m| m.is_file()));
    let typed = name.starts_with("@types/")
        || manifest.get("types").is_some() && manifest.get("main").is_none();
    match entry {
        Some(meta) => meta.len() == 0,
        None => !linked && !typed && manifest.get("main").is_some(),
    }
}

/// Returns the installed package that asks for this one as an optional part, and the version.
fn part_of(dir: &Path, top: &Path, name: &str) -> Option<(String, String)> {
    let scope = name.strip_prefix('@').and_then(|name| name.split('/').next());
    let parents = match scope {
        Some("img") => vec!["sharp".to_owned()],
        Some(scope) => vec![scope.to_owned(), format!("@{scope}/core"), format!("@{scope}/oxide")],
        None => name.match_indices('-').map(|(at, _)| name[..at].to_owned()).collect(),
    };
    parents.into_iter().find_map(|parent| {
        let manifest = json(&place(dir, top, &parent)?.join("package.json"))?;
        let version = manifest.get("optionalDependencies")?.get(name)?.as_str()?.to_owned();
        version.starts_with(|c: char| c.is_ascii_digit()).then_some((parent, version))
    })
}
