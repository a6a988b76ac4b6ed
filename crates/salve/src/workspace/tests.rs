//! Snapshots of real trees in real repositories.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// A project in a temporary directory.
pub(super) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Makes an empty project without a repository.
    pub(super) fn bare() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Makes an empty repository.
    pub(super) fn new() -> Self {
        let place = Self::bare();
        place.git(&["init", "--quiet", "--initial-branch=main"]);
        place.git(&["config", "user.name", "Kim"]);
        place.git(&["config", "user.email", "kim@example.com"]);
        place
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        git_in(&self.root(), args)
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn commit_all(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=start"]);
    }

    pub(super) fn open(&self) -> Workspace {
        Workspace::with_limits(&Project::at(&self.root()).unwrap(), SnapshotLimits::default())
            .unwrap()
    }

    pub(super) fn picture(&self) -> BTreeMap<PathBuf, String> {
        picture(&self.root())
    }
}

pub(super) fn git_in(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(args).env("GIT_OPTIONAL_LOCKS", "0");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Describes everything below a directory but git's and Salve's own.
fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut seen, mut todo) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".git") || path.ends_with(".salve") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                todo.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("link to {:?}", fs::read_link(&path).unwrap())
            } else {
                format!("{:o} {:?}", meta.mode(), fs::read(&path).unwrap())
            };
            seen.insert(path.strip_prefix(root).unwrap().to_path_buf(), what);
        }
    }
    seen
}

/// Everything of git's own that a snapshot must leave alone.
pub(super) fn gits_own(root: &Path) -> Vec<String> {
    let file = |name: &str| format!("{:?}", fs::read(root.join(".git").join(name)).ok());
    let refs = git_in(root, &["for-each-ref"]);
    let refs = refs.lines().filter(|line| !line.contains("refs/salve/")).collect::<Vec<_>>();
    let logs = root.join(".git/logs");
    vec![
        file("index"),
        file("HEAD"),
        file("config"),
        refs.join("\n"),
        git_in(root, &["stash", "list"]),
        git_in(root, &["status", "--porcelain", "--untracked-files=all"]),
        if logs.exists() { format!("{:?}", picture(&logs)) } else { String::new() },
    ]
}

pub(super) fn name(attempt: u32) -> Name {
    Name::before(IncidentId(Uuid::from_u128(0x7f3a)), attempt)
}

#[test]
fn a_repair_is_measured_and_given_back_byte_for_byte() {
    let place = Place::new();
    place.write("src/a.js", "one\ntwo\nthree\n");
    place.write("src/gone.js", "1\n2\n");
    place.write("run.sh", "#!/bin/sh\n");
    place.write(".gitignore", "*.log\n.env\n");
    place.commit_all();
    place.write("draft.txt", "not tracked\n");
    place.write(".env", "TOKEN=1\n");
    let (workspace, start) = (place.open(), place.picture());
    let own = gits_own(&place.root());
    let before = workspace.snapshot(name(1)).unwrap();
    assert_eq!(gits_own(&place.root()), own);
    let kept = fs::symlink_metadata(place.root().join("draft.txt")).unwrap();

    place.write("src/a.js", "one\n2\nthree\n");
    fs::remove_file(place.root().join("src/gone.js")).unwrap();
    place.write("new/deep/file.txt", "x\ny\nz\n");
    place.write("blob.bin", b"\0\x01\n\xff\n");
    fs::set_permissions(place.root().join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    let measured = workspace.measure(&before).unwrap();
    let told: Vec<_> =
        measured.files.iter().map(|f| (f.path.as_str(), f.fate, f.lines.unwrap())).collect();
    assert_eq!(
        told,
        [
            ("blob.bin", FileFate::Created, 2),
            ("new/deep/file.txt", FileFate::Created, 3),
            ("run.sh", FileFate::Changed, 0),
            ("src/a.js", FileFate::Changed, 2),
            ("src/gone.js", FileFate::Removed, 2),
        ]
    );
    assert_eq!(measured.change, Change { files: Some(5), lines: Some(9) });
    let patch = workspace.diff(&before, &measured.after).unwrap();
    assert!(patch.contains("-two\n+2\n"), "{patch}");
    let repaired = place.picture();

    let restored = workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
    assert_eq!(gits_own(&place.root()), own);
    assert_eq!(restored.files.len(), 5, "{restored:?}");
    let after = fs::symlink_metadata(place.root().join("draft.txt")).unwrap();
    assert_eq!((kept.ino(), kept.ctime_nsec()), (after.ino(), after.ctime_nsec()));

    let undone = workspace.load(restored.kept.unwrap()).unwrap().unwrap();
    workspace.restore(&undone, Give::All).unwrap();
    assert_eq!(place.picture(), repaired, "undoing can be undone");
}

#[test]
fn another_process_finds_the_snapshot_as_it_was() {
    let place = Place::bare();
    place.write("a", "1");
    place.write("deep/b", "2");
    fs::set_permissions(place.root().join("a"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(place.root().join("empty")).unwrap();
    symlink("deep/b", place.root().join("link")).unwrap();
    let start = place.picture();
    let made = place.open().snapshot(name(1)).unwrap();
    for path in ["a", "deep", "empty", "link"] {
        let path = place.root().join(path);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    let workspace = place.open();
    let found = workspace.load(name(1)).unwrap().unwrap();
    assert_eq!(found.tree(), made.tree());
    workspace.restore(&found, Give::All).unwrap();
    assert_eq!(place.picture(), start);
    assert!(!place.root().join(".git").exists());
    assert!(workspace.load(name(2)).unwrap().is_none());
}

#[test]
fn filters_line_ends_and_attributes_change_no_byte() {
    let place = Place::new();
    place.git(&["config", "filter.shout.clean", "tr a-z A-Z"]);
    place.git(&["config", "filter.shout.smudge", "tr A-Z a-z"]);
    place.git(&["config", "core.autocrlf", "true"]);
    place.write(".gitattributes", "*.up filter=shout\n*.txt text eol=crlf ident\n*.js -diff\n");
    place.write("a.up", "Mixed Case\n");
    place.write("b.txt", "one\r\ntwo\n$Id$\r\n");
    place.write("c.js", "1\n2\n");
    place.commit_all();
    let (workspace, start) = (place.open(), place.picture());
    let before = workspace.snapshot(name(1)).unwrap();
    for file in ["a.up", "b.txt", "c.js"] {
        place.write(file, "other\n");
    }
    let change = workspace.measure(&before).unwrap().change;
    assert_eq!(change.files, Some(3));
    assert!(change.lines.is_some_and(|lines| lines >= 3 + 4 + 2), "{change:?}");
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
}

#[test]
fn no_hook_runs_and_no_reflog_is_written() {
    let place = Place::new();
    place.write("a", "1");
    place.commit_all();
    place.git(&["config", "core.logAllRefUpdates", "always"]);
    let trace = place.root().join(".git/hook-ran");
    for hook in ["reference-transaction", "post-index-change", "pre-commit", "fsmonitor-watchman"] {
        let path = place.root().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\necho {hook} >> '{}'\n", trace.display())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let workspace = place.open();
    let own = gits_own(&place.root());
    let _ = fs::remove_file(&trace);
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("a", "2");
    workspace.measure(&before).unwrap();
    workspace.restore(&before, Give::All).unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    assert_eq!(gits_own(&place.root()), own);
}

#[test]
fn only_what_the_repair_touched_is_given_back() {
    let place = Place::new();
    place.write("a", "1");
    place.write("b", "1");
    place.commit_all();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("a", "repaired");
    let left = workspace.measure(&before).unwrap().after;
    place.write("b", "the user's");
    place.write("c", "the user's");
    let give = Give::Repair { left: &left, again: Again::Refuse };
    workspace.restore(&before, give).unwrap();
    let read = |file: &str| fs::read_to_string(place.root().join(file)).unwrap();
    assert_eq!([read("a"), read("b"), read("c")], ["1", "the user's", "the user's"]);

    place.write("a", "the user's too");
    let error = workspace.restore(&before, give).unwrap_err();
    assert!(matches!(&error, RestoreError::ChangedSince { paths } if paths == &["a"]), "{error}");
    assert_eq!(read("a"), "the user's too");
    let restored =
        workspace.restore(&before, Give::Repair { left: &left, again: Again::Overwrite }).unwrap();
    assert_eq!(read("a"), "1");
    let kept = workspace.load(restored.kept.unwrap()).unwrap().unwrap();
    workspace.restore(&kept, Give::All).unwrap();
    assert_eq!(read("a"), "the user's too", "nothing is ever lost");
}

#[test]
fn an_agent_that_rewrites_the_ignore_rules_deletes_and_hides_nothing() {
    let place = Place::new();
    place.write(".gitignore", ".env\nlogs/\n*.tmp\n");
    place.write("src/a", "1");
    place.commit_all();
    place.write(".env", "TOKEN=1");
    place.write("logs/today", "x");
    place.write("cache/one.tmp", "x");
    let (workspace, start) = (place.open(), place.picture());
    let before = workspace.snapshot(name(1)).unwrap();
    place.write(".gitignore", "src/\n");
    place.write("src/a", "hidden change");
    place.git(&["add", "--force", ".env"]);
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
}

#[test]
fn a_new_file_beside_ignored_ones_is_seen_and_removed() {
    let place = Place::new();
    place.write(".gitignore", "*.log\n");
    place.commit_all();
    place.write("logs/a.log", "x");
    let (workspace, start) = (place.open(), place.picture());
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("logs/b.txt", "x");
    assert_eq!(workspace.measure(&before).unwrap().change.files, Some(1));
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
}

#[test]
fn repositories_inside_and_around_are_walked_with_their_own_rules() {
    let around = Place::new();
    around.write(".gitignore", "*.secret\n");
    around.write("other/file", "1");
    around.write("app/a", "1");
    around.write("app/x.secret", "1");
    around.commit_all();
    let inner = around.root().join("app/vendored");
    fs::create_dir(&inner).unwrap();
    git_in(&inner, &["init", "--quiet"]);
    around.write("app/vendored/.gitignore", "*.out\n");
    around.write("app/vendored/lib", "1");
    around.write("app/vendored/x.out", "1");
    let app = around.root().join("app");
    let workspace =
        Workspace::with_limits(&Project::at(&app).unwrap(), SnapshotLimits::default()).unwrap();
    let start = picture(&around.root());
    let before = workspace.snapshot(name(1)).unwrap();
    around.write("app/a", "2");
    around.write("app/vendored/lib", "2");
    around.write("app/vendored/new", "1");
    let files = workspace.measure(&before).unwrap().files;
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a", "vendored/lib", "vendored/new"]);
    around.write("other/file", "outside of the project");
    workspace.restore(&before, Give::All).unwrap();
    around.write("other/file", "1");
    assert_eq!(picture(&around.root()), start);
}

#[test]
fn a_project_that_the_repository_around_it_ignores_has_a_store_of_its_own() {
    let around = Place::new();
    around.write(".gitignore", "scratch/\n");
    around.write("scratch/app/a", "1");
    let app = around.root().join("scratch/app");
    let workspace =
        Workspace::with_limits(&Project::at(&app).unwrap(), SnapshotLimits::default()).unwrap();
    let before = workspace.snapshot(name(1)).unwrap();
    around.write("scratch/app/a", "2");
    assert_eq!(workspace.measure(&before).unwrap().change.files, Some(1));
    assert_eq!(around.git(&["for-each-ref"]), "");
}

#[test]
fn links_are_kept_as_links_and_never_followed() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "outside").unwrap();
    place.write("src/a", "1");
    symlink(outside.path(), place.root().join("away")).unwrap();
    let (workspace, start) = (place.open(), place.picture());
    let before = workspace.snapshot(name(1)).unwrap();
    fs::remove_dir_all(place.root().join("src")).unwrap();
    symlink(outside.path(), place.root().join("src")).unwrap();
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
    assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "outside");
}

#[test]
fn what_is_in_the_way_stops_it_before_anything_is_touched() {
    let place = Place::new();
    place.write(".gitignore", "*.keep\n");
    place.write("a", "1");
    place.write("b", "1");
    place.commit_all();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("b", "2");
    fs::remove_file(place.root().join("a")).unwrap();
    place.write("a/mine.keep", "ignored, so it is not Salve's to remove");
    let start = place.picture();
    let error = workspace.restore(&before, Give::All).unwrap_err();
    assert!(
        matches!(&error, RestoreError::Blocked { paths } if paths == &["a/mine.keep"]),
        "{error}"
    );
    assert_eq!(place.picture(), start);
}

#[test]
fn a_file_over_the_limit_is_named_and_never_written_over() {
    let place = Place::new();
    place.write("small", "1");
    place.write("large", vec![b'x'; 2000]);
    let limits = SnapshotLimits { file: 1000, total: 3000 };
    let workspace = Workspace::with_limits(&Project::at(&place.root()).unwrap(), limits).unwrap();
    let before = workspace.snapshot(name(1)).unwrap();
    assert_eq!(before.missing(), [MissingFile { path: "large".into(), why: Why::TooLarge }]);
    place.write("small", "2");
    place.write("dump", vec![b'y'; 5000]);
    let measured = workspace.measure(&before).unwrap();
    assert_eq!(measured.change, Change { files: Some(2), lines: None });
    let restored = workspace.restore(&before, Give::All).unwrap();
    assert_eq!(restored.left, ["dump"]);
    place.write("large", vec![b'z'; 2001]);
    place.write("small", "3");
    let error = workspace.restore(&before, Give::All).unwrap_err();
    assert!(matches!(&error, RestoreError::NotKept { paths } if paths == &["large"]), "{error}");
    assert_eq!(fs::read_to_string(place.root().join("small")).unwrap(), "3");
    for n in 0..5 {
        place.write(format!("part{n}"), vec![b'0' + n; 900]);
    }
    let many = workspace.snapshot(name(2)).unwrap();
    let too_much = many.missing().into_iter().filter(|m| m.why == Why::TooMuch).count();
    assert_eq!(too_much, 2, "{:?}", many.missing());
}

#[test]
fn the_trees_hash_changes_with_content_and_only_with_it() {
    let place = Place::new();
    place.write("a", "1");
    let workspace = place.open();
    let first = workspace.tree().unwrap();
    place.write(".dev-crash.log", "x");
    place.write(".dev-crash.7f3a0000.log", "x");
    place.write(".dev-repair.lock", "x");
    place.write(".salve/anything", "x");
    place.write("node_modules/dep/index.js", "x");
    assert_eq!(workspace.tree().unwrap(), first);
    place.write("a", "2");
    let second = workspace.tree().unwrap();
    assert_ne!(second, first);
    place.write("a", "1");
    assert_eq!(workspace.tree().unwrap(), first, "there and back is no change");
    assert_eq!(workspace.snapshot(name(1)).unwrap().tree(), first);
}

#[test]
fn old_snapshots_go_and_young_ones_stay() {
    for place in [Place::new(), Place::bare()] {
        place.write("a", "1");
        let workspace = place.open();
        workspace.snapshot(name(1)).unwrap();
        workspace.snapshot(name(2)).unwrap();
        let (now, week) = (Timestamp::now(), Duration::from_secs(7 * 86_400));
        assert_eq!(workspace.prune(now, week).unwrap(), 0);
        assert_eq!(workspace.names(name(1).incident).unwrap(), [name(1), name(2)]);
        let later = now + jiff::SignedDuration::from_hours(24 * 8);
        assert_eq!(workspace.prune(later, week).unwrap(), 2);
        assert_eq!(workspace.names(name(1).incident).unwrap(), []);
    }
}

/// One change that something makes to a tree.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, Vec<u8>),
    Remove(usize),
    Link(usize, usize),
    Permit(usize, u32),
    MakeDir(usize),
}

/// Paths that get into each other's way as files and directories, with odd names among them.
fn paths() -> Vec<OsString> {
    let plain = ["a", "a/b", "a/b/c", "d", "d/e", "f.log", "d/f.log", "sp ace/\"q\"", "new\nline"];
    let mut paths: Vec<OsString> = plain.iter().map(OsString::from).collect();
    paths.push(OsString::from_vec(b"d/\xff\xfe".to_vec()));
    paths.push(OsString::from("ümlaut/🦀"));
    paths
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0..paths().len();
    prop_oneof![
        4 => (at.clone(), prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40))
            .prop_map(|(at, text)| Edit::Write(at, text)),
        2 => at.clone().prop_map(Edit::Remove),
        1 => (at.clone(), at.clone()).prop_map(|(at, to)| Edit::Link(at, to)),
        1 => (at.clone(), prop_oneof![Just(0o600), Just(0o644), Just(0o755), Just(0o700)])
            .prop_map(|(at, mode)| Edit::Permit(at, mode)),
        1 => at.prop_map(Edit::MakeDir),
    ]
}

/// Makes the change if what is there allows it.
fn make(root: &Path, edit: &Edit) {
    let paths = paths();
    let path = |at: usize| root.join(&paths[at]);
    let make_parent = |path: &Path| fs::create_dir_all(path.parent().unwrap()).is_ok();
    match edit {
        Edit::Write(at, text) if make_parent(&path(*at)) => _ = fs::write(path(*at), text),
        Edit::Link(at, to) if make_parent(&path(*at)) => {
            // Relative, and possibly to nowhere; never out of the project.
            _ = symlink(Path::new("nowhere").join(&paths[*to]), path(*at));
        }
        Edit::Write(..) | Edit::Link(..) => {}
        Edit::Remove(at) => {
            _ = fs::remove_file(path(*at)).or_else(|_| fs::remove_dir_all(path(*at)));
        }
        Edit::Permit(at, mode) => {
            if fs::symlink_metadata(path(*at)).is_ok_and(|meta| meta.is_file()) {
                fs::set_permissions(path(*at), Permissions::from_mode(*mode)).unwrap();
            }
        }
        Edit::MakeDir(at) => _ = fs::create_dir_all(path(*at)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// **Invariant:** A snapshot is given back exactly, and the user's git state is never touched.
    #[test]
    fn any_edits_of_any_tree_are_undone_exactly(
        tracked in prop::collection::vec(edit(), 0..12),
        untracked in prop::collection::vec(edit(), 0..6),
        repair in prop::collection::vec(edit(), 1..16),
    ) {
        let place = Place::new();
        tracked.iter().for_each(|edit| make(&place.root(), edit));
        place.git(&["add", "--all"]);
        place.git(&["commit", "--quiet", "--allow-empty", "--message=start"]);
        fs::write(place.root().join(".git/info/exclude"), "*.log\n").unwrap();
        untracked.iter().for_each(|edit| make(&place.root(), edit));
        let workspace = place.open();
        let (start, own) = (place.picture(), gits_own(&place.root()));
        let before = workspace.snapshot(name(1)).unwrap();
        repair.iter().for_each(|edit| make(&place.root(), edit));
        let repaired = place.picture();
        let ignored = |path: &Path| path.extension().is_some_and(|end| end == "log");
        let measured = workspace.measure(&before).unwrap();
        prop_assert_eq!(measured.files.is_empty(), before.tree.items == measured.after.tree.items);
        match workspace.restore(&before, Give::All) {
            Ok(_) => {
                let mut now = place.picture();
                // What git ignores, and the directories it keeps alive, are nobody's to give back.
                let is_ours = |path: &PathBuf| !ignored(path);
                let holds_ignored = |dir: &PathBuf| {
                    repaired.keys().any(|path| ignored(path) && path.starts_with(dir))
                };
                now.retain(|path, _| is_ours(path) && (start.contains_key(path) || !holds_ignored(path)));
                let mut start = start;
                start.retain(|path, _| is_ours(path));
                prop_assert_eq!(now, start);
                prop_assert_eq!(gits_own(&place.root()), own);
            }
            Err(RestoreError::Blocked { paths }) => {
                prop_assert!(paths.iter().any(|path| ignored(Path::new(path))), "{:?}", paths);
                prop_assert_eq!(place.picture(), repaired);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn several_at_once_do_not_get_in_each_others_way() {
    for _ in 0..10 {
        let place = Place::bare();
        place.write("a", "1");
        let keep = |n: u128| {
            let name = Name { incident: IncidentId(Uuid::from_u128(n)), ..name(1) };
            let workspace = place.open();
            let before = workspace.snapshot(name).unwrap();
            assert_eq!(workspace.measure(&before).unwrap().change.files, Some(0));
        };
        std::thread::scope(|scope| {
            (1..=4).for_each(|n| drop(scope.spawn(move || keep(n))));
        });
    }
}
