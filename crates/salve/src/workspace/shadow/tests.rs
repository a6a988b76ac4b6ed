//! Shadows of real trees, and commands that run in them.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use super::*;
use crate::project::Project;
use crate::workspace::SnapshotLimits;
use crate::workspace::tests::{Place, name};

/// A project with a place for its shadows.
struct Stage {
    place: Place,
    _shadows: tempfile::TempDir,
    workspace: Workspace,
}

impl Stage {
    fn of(place: Place) -> Self {
        let root = place.root();
        Self::at(place, &root)
    }

    fn at(place: Place, root: &Path) -> Self {
        let shadows = tempfile::tempdir().unwrap();
        let mut workspace =
            Workspace::with_limits(&Project::at(root).unwrap(), SnapshotLimits::default()).unwrap();
        workspace.shadows = shadows.path().canonicalize().unwrap();
        Self { place, _shadows: shadows, workspace }
    }

    fn shadow(&self) -> Shadow {
        let before = self.workspace.snapshot(name(1)).unwrap();
        self.workspace.shadow(&before).unwrap()
    }
}

/// Runs a shell command in the shadow, kept from the real tree, and returns what it wrote.
fn run(shadow: &Shadow, script: &str) -> String {
    let output = std::thread::scope(|scope| {
        let run = || {
            shadow.confine_writes();
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(shadow.root());
            command.envs(shadow.env().iter().cloned()).output().unwrap()
        };
        scope.spawn(run).join().unwrap()
    });
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_check_runs_on_the_state_before_whatever_the_tree_holds_now() {
    let stage = Stage::of(Place::new());
    stage.place.write("src/sum.sh", "echo 1\n");
    stage.place.write("check.sh", "test \"$(sh src/sum.sh)\" = 2 && test -d empty\n");
    stage.place.commit_all();
    stage.place.write("src/untracked", "also\n");
    fs::create_dir(stage.place.root().join("empty")).unwrap();
    let before = stage.workspace.snapshot(name(1)).unwrap();
    stage.place.write("src/sum.sh", "echo 2\n");
    stage.place.write("new", "not before\n");
    let repaired = stage.place.picture();

    let shadow = stage.workspace.shadow(&before).unwrap();
    let told = run(&shadow, "sh check.sh || echo still red; cat src/untracked; ls new; pwd");
    assert!(told.starts_with("still red\nalso\n"), "{told}");
    assert!(shadow.told(&told).ends_with(&format!("{}\n", stage.place.root().display())), "{told}");
    assert_eq!(stage.place.picture(), repaired);

    let (root, lair) = (shadow.root().to_path_buf(), stage.workspace.shadows.clone());
    drop(shadow);
    assert!(!root.exists());
    assert_eq!(fs::read_dir(lair).unwrap().count(), 0);
}

#[test]
fn packages_are_shared_and_what_is_written_stays_in_the_shadow() {
    let stage = Stage::of(Place::new());
    let place = &stage.place;
    place.write(".gitignore", "node_modules/\n.venv/\ndist/\n.env\n*.big\n");
    place.write("packages/own/index.js", "own\n");
    place.commit_all();
    place.write("node_modules/dep/index.js", "dep\n");
    place.write("node_modules/@scope/dep/index.js", "scoped\n");
    place.write("node_modules/.bin/tool", "#!/bin/sh\necho tool\n");
    place.write("node_modules/.vite/results.json", "cached\n");
    place.write("node_modules/.run-state-v1/last", "cached\n");
    symlink("../packages/own", place.root().join("node_modules/own")).unwrap();
    let real_own = place.root().join("packages/own");
    symlink(&real_own, place.root().join("node_modules/@scope/own")).unwrap();
    place.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    place.write(".env", "KEY=1\n");
    place.write("dist/out.js", "built\n");
    place.write("dist/node_modules/inner/index.js", "inner\n");
    let before = stage.workspace.snapshot(name(1)).unwrap();
    place.write("packages/own/index.js", "repaired\n");
    let start = place.picture();

    let shadow = stage.workspace.shadow(&before).unwrap();
    let told = run(
        &shadow,
        "cd node_modules; cat dep/index.js @scope/dep/index.js own/index.js @scope/own/index.js
         sh .bin/tool; ls .vite .run-state-v1; cat ../.env ../dist/out.js ../dist/node_modules/inner/index.js
         test -f ../.venv/pyvenv.cfg && echo venv",
    );
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines, ["dep", "scoped", "own", "own", "tool", "KEY=1", "built", "inner", "venv"]);
    run(
        &shadow,
        "echo x > .env; echo x > dist/out.js; mkdir -p node_modules/.vite; echo x > node_modules/.vite/new
         rm -rf dist packages; rm -rf node_modules/dep; rm -rf node_modules",
    );
    assert_eq!(place.picture(), start);
}

/// **Invariant:** What runs in a shadow cannot write to the real tree.
#[test]
fn nothing_that_runs_in_a_shadow_can_write_to_the_real_tree() {
    let stage = Stage::of(Place::new());
    stage.place.write("a", "1");
    stage.place.write("node_modules/dep/index.js", "dep\n");
    let shadow = stage.shadow();
    let (root, start) = (stage.place.root(), stage.place.picture());
    let is_confined =
        std::thread::scope(|scope| scope.spawn(|| shadow.confine_writes()).join().unwrap());
    if is_confined == Confined::No {
        return;
    }
    let real = root.display();
    let script = format!(
        "echo x > {real}/a; echo x > {real}/new; rm {real}/a; echo x > node_modules/dep/index.js
         echo x > {real}/.git/HEAD; t=$(mktemp) && echo made; echo here > b; cat b",
    );
    let told = run(&shadow, &script);
    assert!(told.ends_with("made\nhere\n"), "{told}");
    assert_eq!(stage.place.picture(), start);
    assert!(fs::read_to_string(root.join(".git/HEAD")).unwrap().starts_with("ref: "));
}

#[test]
fn what_lies_around_a_project_is_seen_from_its_shadow() {
    let place = Place::new();
    place.write("base.json", "base\n");
    place.write("packages/shared/lib", "shared\n");
    place.write("packages/app/main", "app\n");
    place.commit_all();
    place.write("node_modules/hoisted/index.js", "hoisted\n");
    let app = place.root().join("packages/app");
    let stage = Stage::at(place, &app);
    let shadow = stage.shadow();
    assert!(shadow.root().ends_with("packages/app"));
    let told = run(&shadow, "cat main ../shared/lib ../../base.json ../../node_modules/hoisted/*");
    assert_eq!(told, "app\nshared\nbase\nhoisted\n");
    let word = shadow.word(OsStr::new(&format!("--config={}/x", app.display())));
    assert_eq!(word, *format!("--config={}/x", shadow.root().display()));
}

#[test]
fn a_shadow_has_a_repository_of_its_own() {
    let place = Place::new();
    place.write("a", "1\n");
    place.commit_all();
    let stage = Stage::of(place);
    stage.place.write("b", "1\n");
    stage.place.git(&["add", "b"]);
    stage.place.write("a", "2\n");
    let state = || {
        let root = stage.place.root();
        let index = fs::read(root.join(".git/index")).unwrap();
        (
            index,
            stage.place.git(&["for-each-ref", "refs/heads"]),
            stage.place.git(&["rev-parse", "HEAD"]),
        )
    };
    let shadow = stage.shadow();
    let start = state();
    let git = "git -c user.name=x -c user.email=x@example.com";
    let told = run(
        &shadow,
        &format!("git status --short; {git} commit -qam x; git log --oneline | wc -l"),
    );
    assert_eq!(told.replace(' ', ""), "Ma\nAb\n2\n", "{told}");
    assert_eq!(state(), start);
    assert!(stage.place.git(&["status", "--short"]).starts_with(" M a\nA  b\n"));
}

#[test]
fn without_commits_or_a_repository_there_are_shadows_too() {
    for place in [Place::new(), Place::bare()] {
        place.write("a", "1\n");
        let stage = Stage::of(place);
        assert_eq!(run(&stage.shadow(), "cat a"), "1\n");
    }
}

#[test]
fn links_lead_into_the_shadow_or_to_the_real_place_outside() {
    let stage = Stage::of(Place::new());
    let root = stage.place.root();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("o"), "outside\n").unwrap();
    stage.place.write("dir/a", "1\n");
    symlink(root.join("dir/a"), root.join("absolute")).unwrap();
    symlink("dir/a", root.join("relative")).unwrap();
    symlink(outside.path().join("o"), root.join("away")).unwrap();
    let up = Path::new("..").join(outside.path().file_name().unwrap()).join("o");
    symlink(up, root.join("up")).unwrap();
    let before = stage.workspace.snapshot(name(1)).unwrap();
    stage.place.write("dir/a", "2\n");
    let shadow = stage.workspace.shadow(&before).unwrap();
    assert_eq!(run(&shadow, "cat absolute relative away up"), "1\n1\noutside\noutside\n");
}

#[test]
fn a_build_of_rust_starts_from_the_compiled_dependencies() {
    let stage = Stage::of(Place::new());
    let place = &stage.place;
    place.write("Cargo.toml", "[package]\n");
    place.write("target/CACHEDIR.TAG", "x");
    for file in ["deps/libdep-1.rlib", "deps/app-2", ".fingerprint/dep-1/lib-dep", "app"] {
        place.write(Path::new("target/debug").join(file), "x");
    }
    place.write("target/debug/build/dep-3/build-script-build", "x");
    place.write("target/debug/build/dep-3/output", "x");
    let shadow = stage.shadow();
    let target = shadow.root().join("target");
    assert!(shadow.env().contains(&("CARGO_TARGET_DIR".into(), target.clone().into())));
    let links = |path: &str| fs::metadata(target.join(path)).ok().map(|meta| meta.nlink());
    assert_eq!(links("debug/deps/libdep-1.rlib"), Some(2));
    assert_eq!(links("debug/build/dep-3/build-script-build"), Some(2));
    assert_eq!(links("debug/.fingerprint/dep-1/lib-dep"), Some(1));
    assert_eq!(links("debug/build/dep-3/output"), Some(1));
    assert_eq!(links("debug/app").or(links("debug/deps/app-2")), None);
    let written = |root: &Path| {
        fs::metadata(root.join("debug/.fingerprint/dep-1/lib-dep")).unwrap().modified().unwrap()
    };
    assert_eq!(written(&target), written(&place.root().join("target")));
}

#[test]
fn sources_installed_by_their_place_are_the_shadows() {
    let stage = Stage::of(Place::new());
    let place = &stage.place;
    let root = place.root();
    let packages = ".venv/lib/python3.12/site-packages";
    place.write(".venv/pyvenv.cfg", "");
    place.write("src/one/__init__.py", "");
    place.write("two/__init__.py", "");
    place.write(format!("{packages}/__editable__.one.pth"), format!("{}/src\n", root.display()));
    let finder = format!("MAPPING = {{'two': '{}/two'}}\n", root.display());
    place.write(format!("{packages}/__editable___two_finder.py"), finder);
    place.write(format!("{packages}/other.pth"), "import x\n/usr/lib\n");
    let shadow = stage.shadow();
    let value = shadow.env().iter().find(|(name, _)| name == "PYTHONPATH").unwrap();
    let paths: Vec<PathBuf> = std::env::split_paths(&value.1).take(2).collect();
    assert_eq!(paths, [shadow.root().to_path_buf(), shadow.root().join("src")]);
}

#[test]
fn a_path_is_told_from_one_that_only_begins_alike() {
    let swapped = |text: &str| {
        String::from_utf8(swap(text.as_bytes(), Path::new("/a/app"), Path::new("/s"))).unwrap()
    };
    assert_eq!(
        swapped("at /a/app/x.js:1 (file:///a/app/y) /a/app"),
        "at /s/x.js:1 (file:///s/y) /s"
    );
    assert_eq!(swapped("/a/app2 /a/app-old/x /b/a/app"), "/a/app2 /a/app-old/x /b/a/app");
}
