//! Where sealed places lead, in real trees; the reference is the kernel, which follows links itself.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

fn tree(files: &[&str], links: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    // So deep that no link of a test leads out of it.
    let root = dir.path().canonicalize().unwrap().join("around/root");
    fs::create_dir_all(&root).unwrap();
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    for (link, target) in links {
        let path = root.join(link);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }
    (dir, root)
}

#[test]
fn whatever_lies_on_the_way_to_a_sealed_place_is_held_with_where_it_leads() {
    let (_dir, root) = tree(
        &["b/c/settings.json", "conf/words", "src/.claude/x", "shared/hook.sh", "other/x"],
        &[
            ("a", "b"),
            (".claude", "a/c"),
            (".vscode", "conf"),
            (".codex/deep/one", "../../shared"),
            ("pkg/.mcp.json", "../later/mcp.json"),
            (".cursor", "/nowhere/at/all"),
        ],
    );
    let reach = reach_of_files(&root);
    for (path, want) in [
        ("a", true),
        ("a/new", true),
        ("b", true),
        ("b/other", false),
        ("b/c/settings.json", true),
        ("b/c/new/deep", true),
        ("conf/tasks.json", true),
        ("conf/settings.json", true),
        ("conf/words", false),
        ("shared/hook.sh", true),
        ("later", true),
        ("later/mcp.json", true),
        ("later/other", false),
        ("other/x", false),
        ("src", true),
        ("src/main.rs", false),
    ] {
        assert_eq!(reach.holds(Path::new(path)), want, "{path}");
    }
    assert!(!reach.is_everything());
    for (link, target) in
        [(".claude", "."), (".idea", ".."), (".mcp.json", "/proc/self/cwd/mcp.json")]
    {
        let (_dir, root) = tree(&["x"], &[(link, target)]);
        assert!(reach_of_files(&root).is_everything(), "{link}");
    }
}

fn git(dir: &Path, args: &[&str]) {
    let status = Command::new("git").args(args).current_dir(dir).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "{args:?}");
}

#[test]
fn where_git_finds_programs_is_held_wherever_its_settings_say() {
    let (_dir, root) = tree(
        &[
            "tools/hooks/pre-commit",
            "scripts/pre-push",
            "tools/smudge.sh",
            "more.gitconfig",
            "inner/tool",
            "data/objects/x",
            "data/refs/heads/main",
            "data/HEAD",
            "data/config",
            "linked/src/x",
            "README.md",
        ],
        &[],
    );
    git(&root, &["init", "-q"]);
    for (name, value) in [
        ("core.hooksPath", "tools/hooks"),
        ("filter.x.smudge", "sh './tools/smudge.sh' %f"),
        ("include.path", "../more.gitconfig"),
        ("includeIf.gitdir:/elsewhere/.path", "../other.gitconfig"),
        ("branch.main.description", "README.md"),
    ] {
        git(&root, &["config", name, value]);
    }
    fs::write(root.join("more.gitconfig"), "[alias]\n\tx = \"!inner/tool now\"\n").unwrap();
    symlink("../../scripts/pre-push", root.join(".git/hooks/pre-push")).unwrap();
    fs::write(root.join("linked/.git"), "gitdir: ../store\n").unwrap();
    let reach = reach_of_files(&root);
    for (path, want) in [
        ("tools/hooks/pre-commit", true),
        ("tools/hooks/new", true),
        ("tools/other.sh", false),
        ("tools/smudge.sh", true),
        ("more.gitconfig", true),
        ("other.gitconfig", true),
        ("inner/tool", true),
        ("inner/other", false),
        ("scripts/pre-push", true),
        ("scripts/build.sh", false),
        ("data/config", true),
        ("data/hooks/post-update", true),
        ("data/objects/y", false),
        ("store/config", true),
        ("store/anything", true),
        ("README.md", false),
    ] {
        assert_eq!(reach.holds(Path::new(path)), want, "{path}");
    }
    git(&root, &["config", "core.hooksPath", "."]);
    let reach = reach_of_files(&root);
    assert!(reach.holds(Path::new("pre-commit")) && !reach.holds(Path::new("README.md")));
}

/// One thing in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    File(u8),
    Link(PathBuf),
}

/// Names of which some are sealed, and where links lead.
const NAMES: [&str; 12] = [
    "a",
    "b",
    "a/c",
    "b/c",
    "a/c/settings.json",
    ".claude",
    ".vscode",
    ".vscode/tasks.json",
    ".mcp.json",
    "b/.codex",
    "b/.codex/x",
    "a/tasks.json",
];
const TARGETS: [&str; 14] = [
    "a",
    "b",
    "a/c",
    "b/c",
    "../a",
    "../b/c",
    "./a/../b",
    ".claude",
    "c",
    "settings.json",
    "../..",
    "b/.codex/x",
    "nowhere",
    "../a/c/settings.json",
];

fn thing() -> impl Strategy<Value = (usize, Option<Thing>)> {
    let what = prop_oneof![
        3 => any::<u8>().prop_map(|byte| Some(Thing::File(byte))),
        3 => (0..TARGETS.len()).prop_map(|at| Some(Thing::Link(PathBuf::from(TARGETS[at])))),
        1 => Just(None),
    ];
    (0..NAMES.len(), what)
}

/// Does one thing to a tree, as far as it can be done there.
fn put(root: &Path, path: &Path, thing: Option<&Thing>) {
    let full = root.join(path);
    let is_real = |dir: &Path| root.join(dir).symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    // No way of ours leads through a link: what is in the way goes.
    for dir in above.collect::<Vec<_>>().into_iter().rev() {
        if thing.is_some() && !is_real(dir) {
            let _ = fs::remove_file(root.join(dir));
            fs::create_dir(root.join(dir)).unwrap();
        } else if !is_real(dir) {
            return;
        }
    }
    let _ = fs::remove_dir_all(&full);
    let _ = fs::remove_file(&full);
    match thing {
        Some(Thing::File(byte)) => fs::write(full, [*byte]).unwrap(),
        Some(Thing::Link(target)) => symlink(target, full).unwrap(),
        None => {}
    }
}

/// Returns every file and link of a tree.
fn picture(root: &Path) -> BTreeMap<PathBuf, Thing> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let below = path.strip_prefix(root).unwrap().to_path_buf();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => open.push(path),
                kind if kind.is_symlink() => {
                    drop(found.insert(below, Thing::Link(fs::read_link(path).unwrap())));
                }
                _ => drop(found.insert(below, Thing::File(fs::read(path).unwrap()[0]))),
            }
        }
    }
    found
}

/// Returns what the kernel reads at a path and below it.
fn read(path: &Path, depth: usize, found: &mut Vec<(PathBuf, u8)>) {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() && depth < 5 => {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            names.iter().for_each(|name| read(&path.join(name), depth + 1, found));
        }
        Ok(meta) if meta.is_file() => {
            found.push((path.to_path_buf(), fs::read(path).unwrap().first().copied().unwrap_or(0)));
        }
        Ok(_) | Err(_) => {}
    }
}

/// Returns what can be read through every sealed place of a tree.
fn sealed_content(root: &Path) -> Vec<(PathBuf, u8)> {
    let mut found = Vec::new();
    for place in [".claude", ".mcp.json", "b/.codex", "a/.claude", "b/.mcp.json"] {
        read(&root.join(place), 0, &mut found);
    }
    for file in ["tasks.json", "settings.json", "launch.json", "mcp.json"] {
        read(&root.join(".vscode").join(file), 0, &mut found);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// **Invariant:** Whatever is done to a tree, but for what its reach holds, what is read through its
    /// sealed places stays.
    #[test]
    fn no_change_outside_of_its_reach_changes_what_a_sealed_place_leads_to(
        first in prop::collection::vec(thing(), 1..10),
        second in prop::collection::vec(thing(), 1..8),
    ) {
        let [(_kept, root), (_other, twin)] = [tree(&[], &[]), tree(&[], &[])];
        for (at, what) in &first {
            put(&root, Path::new(NAMES[*at]), what.as_ref());
            put(&twin, Path::new(NAMES[*at]), what.as_ref());
        }
        let (before, was) = (picture(&root), sealed_content(&root));
        for (at, what) in &second {
            put(&twin, Path::new(NAMES[*at]), what.as_ref());
        }
        let (after, reach) = (picture(&twin), reach_of_files(&root));
        let is_out = |path: &Path| {
            SealedPath::of(path.as_os_str().as_encoded_bytes()).is_some() || reach.holds(path)
        };
        for path in before.keys().filter(|path| !after.contains_key(*path) && !is_out(path)) {
            fs::remove_file(root.join(path)).unwrap();
        }
        for (path, thing) in after.iter().filter(|(path, _)| !is_out(path)) {
            if before.get(path) != Some(thing) {
                put(&root, path, Some(thing));
            }
        }
        prop_assert_eq!(sealed_content(&root), was, "{:?}", reach);
    }
}
