//! Files that git ignores and that people write: local settings, keys, scripts of their own.
//!
//! They are kept beside a snapshot, within bounds, so that an edit of them can be undone. Their
//! content never enters the user's repository, from where it could be pushed: it lies in a store of
//! Salve's own. What tools make or programs write their data to is not kept; undoing a repair must
//! not take a running program's data back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::Path;

use super::scan::{Scanner, Walk, is_salves};
use super::tree::{Rel, Why, WorkingTree};

/// Directories whose content is made by tools, or is the data of programs.
const DERIVED: [&str; 45] = [
    "node_modules",
    "bower_components",
    "vendor",
    ".yarn",
    ".pnpm-store",
    ".venv",
    "venv",
    "env",
    "site-packages",
    "__pycache__",
    "__pypackages__",
    ".eggs",
    "target",
    "dist",
    "build",
    "out",
    "obj",
    "bin",
    "_build",
    "coverage",
    "htmlcov",
    "generated",
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".angular",
    ".turbo",
    ".nx",
    ".parcel-cache",
    ".vite",
    ".cache",
    ".tox",
    ".nox",
    ".gradle",
    ".terraform",
    "deps",
    "Pods",
    "DerivedData",
    "logs",
    "log",
    "tmp",
    "temp",
    "uploads",
    "data",
];

/// How the names of caches' directories end.
const CACHES: [&str; 3] = ["_cache", "-cache", ".egg-info"];

/// How the names of files end that programs write.
const WRITTEN: [&str; 22] = [
    ".log",
    ".pid",
    ".sock",
    ".db",
    ".sqlite",
    ".sqlite3",
    ".rdb",
    ".mdb",
    ".tsbuildinfo",
    ".pyc",
    ".pyo",
    ".swp",
    ".swo",
    ".tmp",
    ".cache",
    ".lock",
    ".map",
    ".min.js",
    ".o",
    ".class",
    "cache",
    ".DS_Store",
];

/// The largest file that is kept.
const LARGEST: u64 = 1 << 20;
/// The most files that are kept.
const MOST_FILES: usize = 2_000;
/// The most bytes that are kept.
const MOST_BYTES: u64 = 32 << 20;
/// The most files and directories that are looked at.
const MOST_LOOKED_AT: usize = 10_000;
/// How much of a file is looked at to tell text from data.
const SAMPLE: u64 = 8 << 10;

/// What git ignores: what is kept of it, and what is not.
#[derive(Clone, Default)]
pub(super) struct IgnoredFiles {
    /// The files that are kept.
    pub(super) tree: WorkingTree,
    /// What is not, each directory for all that is in it.
    pub(super) uncovered: BTreeMap<Rel, Why>,
}

impl IgnoredFiles {
    /// Takes what was kept; what was not is not known any more.
    pub(super) fn of(tree: WorkingTree) -> Self {
        Self { tree, uncovered: BTreeMap::new() }
    }
}

/// One look at what git ignores.
struct IgnoredSearch<'a> {
    scanner: &'a Scanner,
    seen: &'a WorkingTree,
    walk: Walk,
    uncovered: BTreeMap<Rel, Why>,
    looked_at: usize,
    bytes: u64,
}

/// Looks at what is ignored beside the `seen` tree, and at `also` whatever git says of it.
pub(super) fn look<'a>(
    scanner: &Scanner,
    seen: &WorkingTree,
    also: impl IntoIterator<Item = &'a Rel>,
) -> IgnoredFiles {
    let (walk, uncovered) = (Walk::default(), BTreeMap::new());
    let mut search = IgnoredSearch { scanner, seen, walk, uncovered, looked_at: 0, bytes: 0 };
    for path in also {
        if !scanner.leads_through_link(path) && !is_salves(path) {
            search.file(Path::new(path));
        }
    }
    seen.hidden.iter().for_each(|path| search.any(Path::new(path)));
    let tree = search.walk.into_tree();
    IgnoredFiles { tree, uncovered: search.uncovered }
}

impl IgnoredSearch<'_> {
    fn any(&mut self, path: &Path) {
        self.looked_at += 1;
        let is_gits = path.file_name().is_some_and(|name| name == ".git");
        let is_seen = self.seen.items.contains_key(path.as_os_str());
        if is_gits || is_seen || is_salves(path.as_os_str()) {
            return;
        }
        let Ok(meta) = fs::symlink_metadata(self.scanner.root.join(path)) else { return };
        if meta.is_symlink() || meta.is_file() {
            return self.file(path);
        }
        if !meta.is_dir() {
            return;
        }
        if is_derived(&self.scanner.root.join(path)) {
            return self.leave(path, Why::Derived);
        }
        if self.looked_at > MOST_LOOKED_AT {
            return self.leave(path, Why::TooMuch);
        }
        let full = self.scanner.root.join(path);
        let Ok(entries) = fs::read_dir(full) else { return self.leave(path, Why::Unreadable) };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.iter().for_each(|name| self.any(&path.join(name)));
    }

    fn file(&mut self, path: &Path) {
        if self.walk.tree.items.contains_key(path.as_os_str()) {
            return;
        }
        let full = self.scanner.root.join(path);
        let Ok(meta) = fs::symlink_metadata(&full) else { return };
        if is_written(path) || (meta.is_file() && is_data(&full)) {
            return self.leave(path, Why::Derived);
        }
        if meta.len() > LARGEST {
            return self.leave(path, Why::TooLarge);
        }
        if self.walk.tree.items.len() >= MOST_FILES || self.bytes + meta.len() > MOST_BYTES {
            return self.leave(path, Why::TooMuch);
        }
        self.bytes += meta.len();
        self.scanner.look(path.as_os_str(), &mut self.walk);
        if self.walk.tree.gaps.remove(path.as_os_str()).is_some() {
            self.leave(path, Why::Unreadable);
        }
    }

    fn leave(&mut self, path: &Path, why: Why) {
        self.uncovered.insert(path.as_os_str().to_owned(), why);
    }
}

/// Returns whether a new file among the ignored ones is one that only settings are in.
pub(super) fn is_settings(path: &OsStr) -> bool {
    let name = Path::new(path).file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with(".env") || name.contains(".local")
}

/// Returns whether an ignored file below `root` is made by tools, or is the data of a program.
pub(super) fn is_program_data(root: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    let is_made = above.into_iter().any(|dir| is_derived(&root.join(dir)));
    is_made || is_written(path) || is_data(&root.join(path))
}

fn is_derived(dir: &Path) -> bool {
    let name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_named = DERIVED.contains(&name) || CACHES.iter().any(|end| name.ends_with(end));
    is_named || dir.join("pyvenv.cfg").exists() || dir.join("CACHEDIR.TAG").exists()
}

fn is_written(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_beside = |end: &str| name.contains(&format!("{end}-"));
    WRITTEN.iter().any(|end| name.ends_with(end))
        || [".db", ".sqlite", ".sqlite3"].iter().any(|end| is_beside(end))
        || name.starts_with(".coverage")
}

/// Returns whether a file does not look like text.
fn is_data(full: &Path) -> bool {
    let mut sample = Vec::new();
    let read = super::scan::open(full).and_then(|file| file.take(SAMPLE).read_to_end(&mut sample));
    read.is_ok() && sample.contains(&0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::tests::{Place, git_in, gits_own, name};
    use crate::workspace::{Again, FileFate, Give, Name};

    fn read(place: &Place, path: &str) -> Option<String> {
        fs::read_to_string(place.root().join(path)).ok()
    }

    /// **Invariant:** Ignored files never enter the user's repository.
    #[test]
    fn ignored_files_that_people_write_are_given_back_and_never_enter_the_users_repository() {
        for place in [Place::new(), Place::bare()] {
            place.write(".gitignore", ".env*\n*.local.json\nnode_modules/\nconf/\n*.db\ngone.md\n");
            place.write("a", "1");
            place.write(".env.local", "KEY=hidden-secret-1\n");
            place.write("conf/deep/app.yaml", "on: yes\n");
            place.write("gone.md", "mine\n");
            place.write("node_modules/dep/index.js", "1");
            place.write("app.db", "rows");
            let workspace = place.open();
            let before = workspace.snapshot(name(1)).unwrap();
            let told = before.uncovered();
            let uncovered: Vec<_> = told.iter().map(|one| (one.path.as_str(), one.why)).collect();
            assert_eq!(uncovered, [("app.db", Why::Derived), ("node_modules", Why::Derived)]);

            place.write(".env.local", "KEY=2\nMORE=3\n");
            place.write("conf/deep/app.yaml", "on: no\n");
            fs::remove_file(place.root().join("gone.md")).unwrap();
            place.write(".env.new", "X=1\n");
            place.write("conf/report", "made by a program\n");
            place.write("app.db", "more rows");
            // Another process sees and undoes it.
            let workspace = place.open();
            let before = workspace.load(name(1)).unwrap().unwrap();
            let measured = workspace.measure(&before).unwrap();
            assert_eq!(measured.change.files, Some(0), "{:?}", measured.files);
            assert_eq!(before.tree(), measured.after.tree(), "they are no progress either");
            let told: Vec<_> =
                measured.ignored.iter().map(|one| (one.path.as_str(), one.fate)).collect();
            assert_eq!(
                told,
                [
                    (".env.local", FileFate::Changed),
                    (".env.new", FileFate::Created),
                    ("conf/deep/app.yaml", FileFate::Changed),
                    ("conf/report", FileFate::Created),
                    ("gone.md", FileFate::Removed),
                ]
            );
            let restored = workspace.restore(&before, Give::All).unwrap();
            assert_eq!(restored.left, ["conf/report"]);
            assert_eq!(read(&place, ".env.local").unwrap(), "KEY=hidden-secret-1\n");
            assert_eq!(read(&place, "conf/deep/app.yaml").unwrap(), "on: yes\n");
            assert_eq!(read(&place, "gone.md").unwrap(), "mine\n");
            assert_eq!(read(&place, ".env.new"), None);
            assert_eq!(read(&place, "app.db").unwrap(), "more rows", "data is not taken back");
            let undone = workspace.load(restored.kept.unwrap()).unwrap().unwrap();
            workspace.restore(&undone, Give::All).unwrap();
            assert_eq!(read(&place, ".env.local").unwrap(), "KEY=2\nMORE=3\n");
            if !place.root().join(".git").exists() {
                continue;
            }
            let objects = place.git(&["cat-file", "--batch-all-objects", "--batch"]);
            assert!(!objects.contains("hidden-secret"), "{objects}");
            let vault = git_in(
                &place.root().join(".git/salve/ignored.git"),
                &["cat-file", "--batch-all-objects", "--batch"],
            );
            assert!(vault.contains("hidden-secret"));
        }
    }

    #[test]
    fn an_ignored_file_that_others_changed_since_stays_and_stops_nothing() {
        let place = Place::new();
        place.write(".gitignore", "*.json\n");
        place.write("a", "1");
        place.write("state.json", "1");
        place.write("grown.json", "1");
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        place.write("a", "2");
        place.write("state.json", "2");
        place.write("grown.json", "2");
        let left = workspace.measure(&before).unwrap().after;
        place.write("state.json", "3");
        place.write("grown.json", vec![b'x'; 2 << 20]);
        let own = gits_own(&place.root());
        let give = Give::Repair { left: &left, again: Again::Refuse };
        let restored = workspace.restore(&before, give).unwrap();
        assert_eq!(restored.left, ["grown.json", "state.json"]);
        assert_eq!(read(&place, "a").unwrap(), "1");
        assert_eq!(read(&place, "state.json").unwrap(), "3");
        assert_eq!(gits_own(&place.root()), own);
    }

    #[test]
    fn what_is_kept_of_ignored_files_is_bounded() {
        let place = Place::new();
        place.write(".gitignore", "heap/\nbig.txt\nbinary\n.venv2/\n");
        for n in 0..MOST_FILES + 5 {
            place.write(format!("heap/{n:05}"), "x");
        }
        place.write("big.txt", vec![b'x'; (LARGEST + 1) as usize]);
        place.write("binary", b"a\0b");
        place.write(".venv2/pyvenv.cfg", "");
        place.write(".venv2/lib/x.py", "");
        let before = place.open().snapshot(name(1)).unwrap();
        assert_eq!(before.ignored.tree.items.len(), MOST_FILES);
        let why = |path: &str| {
            let found = before.uncovered().into_iter().find(|one| one.path == path);
            found.map(|one| one.why)
        };
        assert_eq!(why("big.txt"), Some(Why::TooLarge));
        assert_eq!(why("binary"), Some(Why::Derived));
        assert_eq!(why(".venv2"), Some(Why::Derived));
        assert_eq!(why(&format!("heap/{:05}", MOST_FILES)), Some(Why::TooMuch));
    }

    #[test]
    fn old_snapshots_of_ignored_files_go_too() {
        let place = Place::new();
        place.write(".gitignore", ".env\n");
        place.write(".env", "1");
        let workspace = place.open();
        workspace.snapshot(name(1)).unwrap();
        let refs = || git_in(&place.root().join(".git/salve/ignored.git"), &["for-each-ref"]);
        assert!(refs().contains("refs/salve-ignored/"));
        let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
        workspace.prune(later, std::time::Duration::from_secs(60)).unwrap();
        assert_eq!(refs(), "");
        let none: Option<Name> = workspace.names(name(1).incident).unwrap().pop();
        assert_eq!(none, None);
    }
}
