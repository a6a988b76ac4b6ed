//! Whether the installed packages are still those of a snapshot.
//!
//! They are not kept, so a shadow shows the present ones. What is recorded is their names, and for
//! Node which directories they are: whatever installs, updates or removes one changes that, and
//! running a program does not. An edit of a package where it is installed shows by when each of
//! its files last changed ([`edited`]).

mod edited;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use salve_core::event::Digest;

use super::tree::{Rel, show};

/// Hidden directories that belong to the packages; tools keep in others what they like.
const HIDDEN: [&str; 5] = [".bin", ".pnpm", ".prisma", ".store", ".bun"];

/// How many edited files are named.
const NAMED: usize = 20;

/// The directories of packages, each with a hash that tells one state from another.
pub(super) type Packages = BTreeMap<Rel, Digest>;

/// Looks at the directories of packages among what git ignores.
pub(super) fn look(root: &Path, hidden: &BTreeSet<Rel>) -> Packages {
    let state = |path: &Rel| Some((path.clone(), state(&root.join(path))?));
    hidden.iter().filter_map(state).collect()
}

/// Returns the directories whose packages are not those of before, for people.
pub(super) fn differing(before: &Packages, now: &Packages) -> Vec<String> {
    let all: BTreeSet<&Rel> = before.keys().chain(now.keys()).collect();
    let differs = |path: &&Rel| before.get(*path) != now.get(*path);
    all.into_iter().filter(differs).map(|path| show(path)).collect()
}

/// Returns the files of installed packages, among what git ignores, that were edited since.
pub(super) fn edited(root: &Path, hidden: &BTreeSet<Rel>, since: SystemTime) -> Vec<String> {
    let mut found = edited::EditedFileSearch::new(since, NAMED);
    search(root, hidden, &mut found);
    let below = |path: &PathBuf| show(path.strip_prefix(root).unwrap_or(path).as_os_str());
    found.found.iter().map(below).collect()
}

fn search(root: &Path, hidden: &BTreeSet<Rel>, search: &mut edited::EditedFileSearch) {
    for (dir, programs) in roots(root, hidden) {
        search.packages(&dir, programs.as_deref());
    }
}

/// Returns the directories of packages among what git ignores, each with that of its programs if
/// it lies apart.
fn roots(root: &Path, hidden: &BTreeSet<Rel>) -> Vec<(PathBuf, Option<PathBuf>)> {
    let mut roots = Vec::new();
    for dir in hidden.iter().map(|path| root.join(path)) {
        if dir.file_name() == Some(OsStr::new("node_modules")) {
            roots.push((dir, None));
        } else if dir.join("pyvenv.cfg").is_file() {
            for version in names(&dir.join("lib")) {
                let packages = dir.join("lib").join(version).join("site-packages");
                roots.push((packages, Some(dir.join("bin"))));
            }
        }
    }
    roots
}

fn state(dir: &Path) -> Option<Digest> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    if dir.file_name() == Some(OsStr::new("node_modules")) {
        list(dir, &mut parts);
    } else if dir.join("pyvenv.cfg").is_file() {
        for version in names(&dir.join("lib")) {
            let packages = dir.join("lib").join(version).join("site-packages");
            parts.extend(names(&packages).iter().map(|name| name.as_bytes().to_vec()));
        }
    } else {
        return None;
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Some(Digest::of(&parts))
}

fn list(dir: &Path, parts: &mut Vec<Vec<u8>>) {
    for name in names(dir) {
        let path = dir.join(&name);
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        parts.push(name.as_bytes().to_vec());
        if meta.is_dir() {
            parts.push(meta.ino().to_le_bytes().to_vec());
        }
        if meta.is_dir() && (name.as_bytes().starts_with(b"@") || name == ".pnpm") {
            list(&path, parts);
        }
    }
}

/// Returns whether something among packages is none, but what tools keep there.
pub(super) fn is_cache(name: &OsStr) -> bool {
    let is_hidden = name.as_bytes().starts_with(b".") && !HIDDEN.iter().any(|known| name == *known);
    is_hidden || name == "__pycache__"
}

/// Returns the names in a directory, in order, but for caches.
fn names(dir: &Path) -> BTreeSet<Rel> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).filter(|name| !is_cache(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::{Place, name};

    #[test]
    fn an_installation_shows_and_running_programs_does_not() {
        let place = Place::new();
        place.write("node_modules/a/index.js", "1");
        place.write("node_modules/@x/b/index.js", "1");
        place.write(".venv/pyvenv.cfg", "");
        place.write(".venv/lib/python3.12/site-packages/p-1.0.dist-info/METADATA", "");
        let before = place.open().snapshot(name(1)).unwrap();
        let drifted = || {
            let workspace = place.open();
            let kept = workspace.load(name(1)).unwrap().unwrap();
            assert_eq!(kept.tree.packages, before.tree.packages);
            let now = workspace.snapshot(name(2)).unwrap();
            differing(&kept.tree.packages, &now.tree.packages)
        };
        place.write("node_modules/.vite/results.json", "1");
        place.write("node_modules/.run-state-v1/x", "1");
        place.write("node_modules/a/.cache/x", "1");
        place.write(".venv/lib/python3.12/site-packages/__pycache__/x.pyc", "");
        assert_eq!(drifted(), [""; 0]);
        place.write("node_modules/@x/new/index.js", "1");
        assert_eq!(drifted(), ["node_modules"]);
        fs::rename(
            place.root().join(".venv/lib/python3.12/site-packages/p-1.0.dist-info"),
            place.root().join(".venv/lib/python3.12/site-packages/p-1.1.dist-info"),
        )
        .unwrap();
        assert_eq!(drifted(), [".venv", "node_modules"]);
    }

    /// Waits until the system's clock for files has moved on, and returns the time before that.
    fn moment(place: &Place) -> SystemTime {
        let now = || {
            place.write(".clock", "");
            let meta = fs::metadata(place.root().join(".clock")).unwrap();
            (meta.ctime(), meta.ctime_nsec())
        };
        let (first, since) = (now(), SystemTime::now());
        while now() == first || SystemTime::now() <= since {}
        since
    }

    #[test]
    fn an_edit_shows_and_an_installation_is_none() {
        let place = Place::new();
        let runner = "node_modules/runner/lib/run.js";
        let (loose, program) = (".venv/lib/python3.12/site-packages/site.pth", ".venv/bin/pytest");
        let plugin = ".venv/lib/python3.12/site-packages/plugin/hook.py";
        for path in [runner, "node_modules/@x/b/index.js", plugin, program, "node_modules/.bin/r"] {
            place.write(path, "1");
        }
        place.write(".venv/pyvenv.cfg", "");
        let hidden = || ["node_modules", ".venv"].map(Rel::from).into_iter().collect();
        let found = |since| edited(&place.root(), &hidden(), since);
        let since = moment(&place);
        assert_eq!(found(since), [""; 0]);
        place.write("node_modules/.cache/x.js", "1");
        place.write("node_modules/new/index.js", "1");
        place.write("node_modules/runner/README.md", "1");
        place.write(".venv/lib/python3.12/site-packages/plugin/__pycache__/hook.pyc", "");
        assert_eq!(found(since), [""; 0], "installed, cached, or nothing that runs");
        place.write(runner, "process.exit(0)");
        place.write(plugin, "pass");
        assert_eq!(found(since), [plugin, runner]);
        // What lies beside the packages is changed by an installation too.
        place.write(loose, "import os; os._exit(0)");
        assert_eq!(found(since), [plugin, loose, runner]);
        place.write(".venv/lib/python3.12/site-packages/other/__init__.py", "");
        assert_eq!(found(since), [plugin, runner]);
        // A time that was set back does not help.
        let times = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        let file = fs::File::options().write(true).open(place.root().join(runner)).unwrap();
        file.set_times(times).unwrap();
        assert_eq!(found(since), [plugin, runner]);
        assert_eq!(found(moment(&place)), [""; 0]);
    }
}
