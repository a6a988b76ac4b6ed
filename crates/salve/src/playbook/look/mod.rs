//! Collects the facts that a diagnosis rests on.

mod deleted;
mod git;
mod heap;
mod kin;
mod node;
mod parse;
mod path;
pub(super) mod procs;
mod python;
pub(super) mod sqlite;
mod submodules;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use salve_core::playbook::{
    Clues, Compose, Disk, Manifest, ObservedFailure, Playbook, ProjectFacts, User,
};

pub(super) use git::is_tracked;

use super::{FailedSubject, SETS_CI};
use crate::files::{FileKind, read_text};

/// Files that show what belongs into a `.env`.
const EXAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Compose files.
const COMPOSE: &[&str] =
    &["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// Looks at the project and at the things that the failure speaks of.
pub fn look(ask: &FailedSubject<'_>, seen: &ObservedFailure<'_>) -> ProjectFacts {
    let clues = Playbook::built_in().clues(seen);
    let expected_port = expected_port(ask);
    let mut node = node::project(ask, &clues);
    if let Some(node) = node.as_mut().filter(|_| seen.output.contains("SyntaxError")) {
        let declared: Vec<&str> = node.declared.keys().map(String::as_str).collect();
        let (dir, top) = (ask.root.join(&node.dir), ask.root.join(&node.top));
        node.unparsable = parse::unparsable(ask.root, &dir, &top, &declared);
    }
    let python = python::project(ask, &clues, seen.output);
    let example_file = EXAMPLES.iter().find(|name| ask.dir.join(name).is_file());
    let example =
        example_file.and_then(|name| read_text(&ask.dir.join(name), FileKind::Settings).ok());
    let names = example.iter().flat_map(|text| text.lines()).filter_map(variables::name_of);
    let example_variables: BTreeSet<String> = names.map(str::to_owned).collect();
    let mut paths: BTreeSet<String> = clues.paths.clone();
    paths.extend(clues.programs.iter().filter(|name| name.contains('/')).cloned());
    let named_ports = clues.ports.iter().copied().chain(expected_port);
    ProjectFacts {
        root: ask.root.display().to_string(),
        dir: relative(ask.root, ask.dir).unwrap_or_default(),
        command: ask.command.to_owned(),
        user: user(),
        packages: node.as_ref().map(|node| node::packages(ask, node, &clues)).unwrap_or_default(),
        in_venv: python.as_ref().map(|p| python::installed(ask, p, &clues)).unwrap_or_default(),
        venv_programs: python
            .as_ref()
            .map(|p| python::programs(ask, p, &clues))
            .unwrap_or_default(),
        submodules: submodules::named(ask.root, seen.output),
        deleted: deleted::named(ask.root, seen.output),
        sqlite: sqlite::local(ask, seen.output),
        heap: heap::room(ask, seen.output),
        sets_ci: ask.env.iter().any(|(name, _)| name == SETS_CI),
        node_env: ask.variable("NODE_ENV").and_then(|name| name.into_string().ok()),
        wanted_variables: variables::wanted(ask, &clues.variables, &example_variables),
        unset_variables: variables::unset(ask, seen.output, &example_variables),
        node,
        python,
        manifests: manifests(ask),
        compose: compose(ask),
        expected_port,
        bytecode: python::bytecode(ask, seen.output),
        disk: disk(ask, &clues),
        paths: paths.iter().map(|name| (name.clone(), path::state(ask, name))).collect(),
        ports: named_ports.map(|port| (port, procs::port(ask, port))).collect(),
        processes: clues
            .pids
            .iter()
            .filter_map(|pid| Some((*pid, procs::holder(ask, *pid)?)))
            .collect(),
        programs: clues.programs.iter().map(|p| (p.clone(), find(p).is_some())).collect(),
        example_variables,
        example_file: example_file.map(|name| (*name).to_owned()),
        has_env_file: ask.dir.join(".env").exists(),
    }
}

/// Returns where a program is on the `PATH`.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

/// Returns `path` relative to `root`, if it is inside; the root itself is empty.
pub(super) fn relative(root: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(root).ok()?.to_str().map(str::to_owned)
}

/// Returns the nearest directory from the subject's up to the root that has the file.
fn nearest(ask: &FailedSubject<'_>, file: &str) -> Option<PathBuf> {
    let inside = ask.dir.ancestors().take_while(|dir| dir.starts_with(ask.root));
    inside.map(Path::to_path_buf).find(|dir| dir.join(file).exists())
}

fn user() -> User {
    let uid = rustix::process::geteuid().as_raw();
    User { name: name_of(uid), uid }
}

/// Returns a user's name, or the number where there is none.
pub(super) fn name_of(uid: u32) -> String {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = users.find(|user| user.get(2).and_then(|id| id.parse().ok()) == Some(uid));
    found.and_then(|user| user.first().map(|name| (*name).to_owned())).unwrap_or(uid.to_string())
}

/// Returns the port that the subject would use: from its command, its environment, its framework.
pub fn expected_port(ask: &FailedSubject<'_>) -> Option<u16> {
    let words: Vec<&str> = ask.command.split_whitespace().collect();
    let flags = ["--port", "-p", "-P", "--bind", "-b", "--listen"];
    for (at, word) in words.iter().enumerate() {
        let value = match word.split_once('=') {
            Some((flag, value)) if flags.contains(&flag) || flag == "PORT" => Some(value),
            Some(_) => None,
            None if flags.contains(word) => words.get(at + 1).copied(),
            None => word.rsplit_once(':').filter(|(host, _)| !host.contains('/')).map(|_| *word),
        };
        let port = value.and_then(|value| value.rsplit(':').next()?.parse().ok());
        if port.is_some() {
            return port;
        }
    }
    let digits = words.iter().find_map(|w| w.parse::<u16>().ok().filter(|port| *port >= 1024));
    let own = ask.variable("PORT").and_then(|port| port.to_str()?.parse().ok());
    let known = || {
        let has = |part: &str| ask.command.contains(part);
        let table = [("manage.py", 8000), ("uvicorn", 8000), ("gunicorn", 8000), ("flask", 5000)];
        table.iter().find(|(part, _)| has(part)).map(|(_, port)| *port)
    };
    digits.or(own).or_else(known)
}

fn manifests(ask: &FailedSubject<'_>) -> BTreeSet<Manifest> {
    let rows = [
        ("Cargo.toml", Manifest::Cargo),
        ("Cargo.lock", Manifest::CargoLock),
        ("go.mod", Manifest::Go),
        ("Gemfile.lock", Manifest::GemfileLock),
        ("composer.json", Manifest::Composer),
        ("composer.lock", Manifest::ComposerLock),
        ("alembic.ini", Manifest::Alembic),
        ("manage.py", Manifest::Django),
        ("bin/rails", Manifest::Rails),
        ("prisma/schema.prisma", Manifest::Prisma),
    ];
    let there = rows.into_iter().filter(|(file, _)| nearest(ask, file).is_some());
    let mut found: BTreeSet<Manifest> = there.map(|(_, manifest)| manifest).collect();
    let config = nearest(ask, ".bundle/config").map(|dir| dir.join(".bundle/config"));
    let config =
        config.and_then(|file| read_text(&file, FileKind::Settings).ok()).unwrap_or_default();
    let inside = |line: &str| {
        let path = line.strip_prefix("BUNDLE_PATH:").map(|p| p.trim().trim_matches('"').to_owned());
        path.is_some_and(|path| !path.starts_with(['/', '~', '.']))
    };
    if config.lines().any(inside) {
        found.insert(Manifest::BundleInside);
    }
    found
}

/// Reads which service publishes which port; by lines, since only names and numbers are wanted.
fn compose(ask: &FailedSubject<'_>) -> Option<Compose> {
    let (dir, file) = COMPOSE.iter().find_map(|file| Some((nearest(ask, file)?, *file)))?;
    let text = read_text(&dir.join(file), FileKind::Settings).ok()?;
    let mut services = BTreeMap::new();
    let (mut in_services, mut service) = (false, None);
    for line in text.lines() {
        let body = line.trim_end();
        let indent = body.len() - body.trim_start().len();
        let word = body.trim();
        if indent == 0 && !word.is_empty() && !word.starts_with('#') {
            in_services = word == "services:";
        } else if in_services && indent == 2 && word.ends_with(':') {
            service = Some(word.trim_end_matches(':').to_owned());
        } else if let (Some(name), Some(entry)) = (&service, word.strip_prefix("- ")) {
            let entry = entry.trim_matches(['"', '\'']);
            let parts: Vec<&str> = entry.split(':').collect();
            let published = parts.len().checked_sub(2).and_then(|at| parts[at].parse().ok());
            services.extend(published.map(|port: u16| (port, name.clone())));
        }
    }
    Some(Compose { file: file.to_owned(), services })
}

/// Returns the room on the file system of a path that the failure names; where it names none, on
/// the fullest of those that a program usually writes to.
fn disk(ask: &FailedSubject<'_>, clues: &Clues) -> Option<Disk> {
    let named = clues.paths.iter().map(|name| ask.dir.join(name)).filter_map(|path| {
        let existing = path.ancestors().find(|place| place.exists())?;
        room(existing).map(|disk| Disk { named: true, ..disk })
    });
    let usual = [ask.root.to_path_buf(), std::env::temp_dir()].into_iter();
    let home = ask.variable("HOME").map(PathBuf::from);
    let usual = usual.chain(home).chain(mounted_below(ask.root)).filter_map(|place| room(&place));
    named.min_by_key(|disk| disk.free).or_else(|| fullest(usual))
}

/// Returns where other file systems are mounted inside a directory.
fn mounted_below(root: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The kernel writes a space in a path as `\040`.
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    let places = places.map(|place| PathBuf::from(place.replace("\\040", " ")));
    places.filter(|place| place.starts_with(root) && place != root).collect()
}

/// Returns one that is full, else the one with the least room.
fn fullest(rooms: impl Iterator<Item = Disk>) -> Option<Disk> {
    rooms.min_by_key(|disk| (!disk.is_full(), disk.free))
}

fn room(at: &Path) -> Option<Disk> {
    let room = rustix::fs::statvfs(at).ok()?;
    Some(Disk {
        at: at.display().to_string(),
        size: room.f_blocks * room.f_frsize,
        free: room.f_bavail * room.f_frsize,
        inodes: room.f_favail,
        all_inodes: room.f_files,
        named: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_that_is_full_is_told_and_not_the_smallest() {
        let disk = |at: &str, size, free, inodes| Disk {
            at: at.into(),
            size,
            free,
            inodes,
            all_inodes: 1000,
            named: false,
        };
        let small = disk("/small", 1 << 30, 500 << 20, 10);
        let full = disk("/full", 1 << 40, 4096, 10);
        let numbered = disk("/numbered", 1 << 40, 1 << 39, 0);
        let chosen = |rooms: &[&Disk]| fullest(rooms.iter().map(|d| (*d).clone())).unwrap().at;
        assert_eq!(chosen(&[&small, &full]), "/full");
        assert_eq!(chosen(&[&small, &numbered]), "/numbered");
        assert!(!small.is_full() && full.is_full() && numbered.is_full());
    }
}
