//! Patches of real trees.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::tests::{Place, gits_own, name};
use super::*;

/// A tree with one of everything.
fn fill(place: &Place) {
    place.write("src/a.js", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    place.write("crlf.txt", "one\r\ntwo\r\nthree\r\n");
    place.write("no-end", "no line feed");
    place.write("gone/deep/file", "1\n");
    place.write("blob.bin", b"\0\x01\xff\n\r\n");
    place.write("run.sh", "#!/bin/sh\n");
    place.write("sp ace/\"q\" ü\t", "odd\n");
    symlink("src/a.js", place.root().join("link")).unwrap();
}

/// Changes it all.
fn repair(place: &Place) {
    place.write("src/a.js", "one\ntwo\nthree\nfour\n5\nsix\nseven\n");
    place.write("crlf.txt", "one\r\n2\r\nthree\r\n");
    place.write("no-end", "still no line feed");
    fs::remove_dir_all(place.root().join("gone")).unwrap();
    place.write("blob.bin", b"\0\x02\xff\n\r\n\0");
    fs::set_permissions(place.root().join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    place.write("sp ace/\"q\" ü\t", "odder\n");
    place.write("new/empty", "");
    place.write("new/file", "--- a/src/a.js\n+++ b/nothing\n");
    fs::remove_file(place.root().join("link")).unwrap();
    symlink("run.sh", place.root().join("link")).unwrap();
}

#[test]
fn a_patch_makes_the_same_change_again_byte_for_byte() {
    let place = Place::new();
    place.git(&["config", "core.autocrlf", "true"]);
    place.git(&["config", "diff.noprefix", "true"]);
    place.git(&["config", "apply.whitespace", "fix"]);
    fill(&place);
    let (workspace, start) = (place.open(), place.picture());
    let before = workspace.snapshot(name(1)).unwrap();
    repair(&place);
    let (repaired, measured) = (place.picture(), workspace.measure(&before).unwrap());
    let patch = workspace.patches().between(&before, &measured.after).unwrap();
    workspace.restore(&before, super::super::Give::All).unwrap();
    let own = gits_own(&place.root());

    assert_eq!(workspace.patches().fits(&patch).unwrap(), measured.files);
    assert_eq!(place.picture(), start, "trying changes nothing");
    assert_eq!(workspace.patches().apply(&patch).unwrap(), measured.files);
    assert_eq!(place.picture(), repaired);
    assert_eq!(fs::read_dir(place.root().join(".salve/patches")).unwrap().count(), 0);
    let twice = workspace.patches().apply(&patch).unwrap_err();
    assert!(matches!(twice, PatchError::Unfit { .. }), "{twice}");
    assert_eq!(place.picture(), repaired);

    let other = Place::bare();
    fill(&other);
    other.write("src/a.js", "zero\nzero\none\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    other.open().patches().apply(&patch).unwrap();
    let read = |place: &Place| fs::read_to_string(place.root().join("src/a.js")).unwrap();
    assert_eq!(
        read(&other),
        format!("zero\nzero\n{}", read(&place)),
        "elsewhere, and further down"
    );
    workspace.restore(&before, super::super::Give::All).unwrap();
    assert_eq!(gits_own(&place.root()), own);
}

#[test]
fn no_filter_of_the_project_runs_on_a_patch() {
    let place = Place::new();
    let trace = place.root().join(".git/ran");
    let shout = format!("sh -c 'echo ran >> {}; cat'", trace.display());
    for key in [
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.command",
        "diff.x.textconv",
    ] {
        place.git(&["config", key, &shout]);
    }
    place.write(".gitattributes", "* filter=x diff=x text eol=crlf\n");
    place.write("a", "1\n");
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("a", "2\n");
    let after = workspace.measure(&before).unwrap().after;
    let patch = workspace.patches().between(&before, &after).unwrap();
    workspace.restore(&before, super::super::Give::All).unwrap();
    workspace.patches().apply(&patch).unwrap();
    assert_eq!(fs::read_to_string(place.root().join("a")).unwrap(), "2\n");
    assert!(!trace.exists());
}

#[test]
fn a_patch_that_reaches_too_far_is_refused_and_changes_nothing() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "1\n").unwrap();
    symlink(outside.path(), place.root().join("away")).unwrap();
    place.write(".gitignore", "hidden/\n");
    place.write("a", "1\n");
    place.write("hidden/a", "1\n");
    let workspace = place.open();
    let (start, own) = (place.picture(), gits_own(&place.root()));
    let edit = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-1\n+2\n");
    let add = |path: &str, mode: &str, text: &str| {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n\\ No newline at end of file\n"
        )
    };
    let both = format!("{}{}", edit("a"), edit("b"));
    let rows = [
        (edit("away/a"), "away/a"),
        (edit("../a"), "../a"),
        (add(".git/hooks/x", "100755", "x"), "belongs to git"),
        (add("sub/.GIT/config", "100644", "x"), ".GIT"),
        (add(".salve/learned/x", "100644", "x"), "belongs to Salve"),
        (add(".dev-repair.lock", "100644", "x"), "belongs to Salve"),
        (add("away/new", "100644", "x"), "leads through a link"),
        (add("hidden/new", "100644", "x"), "ignored by git"),
        (edit("hidden/a"), "ignored by git"),
        (add("link", "120000", "/etc"), "out of the project"),
        (add("deep/link", "120000", "../../x"), "out of the project"),
        (add("link", "120000", ".git/config"), "out of the project"),
        (add("sub", "160000", "Subproject commit 0123456789012345678901234567890123456789"), ""),
        (both, "b: is not there"),
        ("no patch at all".to_owned(), "No valid patches"),
        (String::new(), "No valid patches"),
    ];
    for (patch, want) in rows {
        let error = workspace.patches().apply(patch.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{error} for\n{patch}");
        assert_eq!(place.picture(), start, "{patch}");
        assert_eq!(gits_own(&place.root()), own, "{patch}");
        assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "1\n");
    }
    assert!(!outside.path().join("new").exists());
}
