//! Repositories in every state that snapshots must cope with.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::tests::{Place, git_in, gits_own, name};
use super::*;

/// Takes a snapshot, edits, measures, and undoes; nothing but the edit may differ in between.
#[track_caller]
fn round(place: &Place, edits: &[(&str, &str)]) {
    let workspace = place.open();
    let (start, own) = (place.picture(), gits_own(&place.root()));
    let before = workspace.snapshot(name(1)).unwrap();
    assert_eq!(gits_own(&place.root()), own);
    edits.iter().for_each(|(path, text)| place.write(path, text));
    let measured = workspace.measure(&before).unwrap();
    let mut paths: Vec<_> = edits.iter().map(|(path, _)| *path).collect();
    paths.sort_unstable();
    assert_eq!(measured.files.iter().map(|file| &*file.path).collect::<Vec<_>>(), paths);
    let patch = workspace.patches().between(&before, &measured.after).unwrap();
    let repaired = place.picture();
    // Another process undoes it.
    let workspace = place.open();
    let before = workspace.load(name(1)).unwrap().unwrap();
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(place.picture(), start);
    assert_eq!(gits_own(&place.root()), own);
    workspace.patches().apply(&patch).unwrap();
    assert_eq!(place.picture(), repaired);
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(gits_own(&place.root()), own);
}

#[test]
fn a_repository_without_commits() {
    let place = Place::new();
    place.write("a", "1\n");
    place.git(&["add", "a"]);
    place.write("b", "1\n");
    round(&place, &[("a", "2\n"), ("c", "new\n")]);
}

#[test]
fn a_submodule_is_kept_like_any_directory() {
    let library = Place::new();
    library.write("lib.c", "1\n");
    library.commit_all();
    let place = Place::new();
    place.write("main.c", "1\n");
    place.commit_all();
    let url = library.root();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    place.git(&[&add[..], &[url.to_str().unwrap(), "vendor/lib"]].concat());
    place.git(&["commit", "--quiet", "--message=with a library"]);
    let inner = place.root().join("vendor/lib");
    let head = git_in(&inner, &["rev-parse", "HEAD"]);
    round(&place, &[("main.c", "2\n"), ("vendor/lib/lib.c", "2\n"), ("vendor/lib/new.c", "1\n")]);
    assert_eq!(git_in(&inner, &["rev-parse", "HEAD"]), head);
    assert_eq!(git_in(&inner, &["status", "--porcelain"]), "");
}

#[test]
fn pointers_to_large_files_stay_pointers() {
    let place = Place::new();
    place.write(".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    place.write("art.psd", pointer);
    place.commit_all();
    // The program is not there, and is needed, as git is told.
    place.git(&["config", "filter.lfs.process", "no-such-program"]);
    place.git(&["config", "filter.lfs.required", "true"]);
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("art.psd", b"\0 the picture itself");
    assert_eq!(workspace.measure(&before).unwrap().change.files, Some(1));
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(fs::read_to_string(place.root().join("art.psd")).unwrap(), pointer);
}

#[test]
fn a_rebase_under_way_goes_on_afterwards() {
    let place = Place::new();
    place.write("a", "1\n");
    place.commit_all();
    place.git(&["checkout", "--quiet", "-b", "topic"]);
    place.write("a", "topic\n");
    place.commit_all();
    place.git(&["checkout", "--quiet", "main"]);
    place.write("a", "main\n");
    place.commit_all();
    place.git(&["checkout", "--quiet", "topic"]);
    let rebase = std::process::Command::new("git")
        .args(["rebase", "main"])
        .current_dir(place.root())
        .output()
        .unwrap();
    assert!(!rebase.status.success(), "it has to stop at the conflict");
    round(&place, &[("a", "resolved\n"), ("b", "new\n")]);
    place.write("a", "resolved\n");
    place.git(&["add", "a"]);
    place.git(&["-c", "core.editor=true", "rebase", "--continue"]);
    assert_eq!(place.git(&["log", "--format=%s", "-1", "topic"]), "start\n");
}

#[test]
fn a_lock_on_the_index_is_neither_waited_for_nor_removed() {
    let place = Place::new();
    place.write("a", "1\n");
    place.commit_all();
    let lock = place.root().join(".git/index.lock");
    // Whether whoever made it still runs makes no difference.
    fs::write(&lock, "held").unwrap();
    round(&place, &[("a", "2\n")]);
    assert_eq!(fs::read_to_string(&lock).unwrap(), "held");
}

#[test]
fn names_that_differ_only_by_case_are_two_files() {
    let place = Place::new();
    place.write("Readme", "1\n");
    place.write("README", "2\n");
    place.write("Dir/a", "1\n");
    place.write("dir/A", "2\n");
    place.commit_all();
    place.git(&["config", "core.ignorecase", "true"]);
    round(&place, &[("README", "3\n"), ("dir/A", "3\n"), ("dir/a", "new\n")]);
}

#[test]
fn line_ends_are_kept_whatever_git_would_make_of_them() {
    for setting in ["true", "input"] {
        let place = Place::new();
        place.git(&["config", "core.autocrlf", setting]);
        place.git(&["config", "core.safecrlf", "true"]);
        place.write(".gitattributes", "*.txt text eol=crlf\n");
        place.write("mixed.md", "one\r\ntwo\nthree\r\n");
        place.write("lf.txt", "one\ntwo\n");
        round(&place, &[("mixed.md", "one\r\n2\nthree\r\n"), ("lf.txt", "one\r\ntwo\r\n")]);
    }
}

#[test]
fn links_out_of_the_tree_are_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "outside\n").unwrap();
    let place = Place::new();
    place.write("a", "1\n");
    symlink(outside.path(), place.root().join("away")).unwrap();
    symlink("../../nowhere", place.root().join("up")).unwrap();
    symlink(".", place.root().join("round")).unwrap();
    place.commit_all();
    round(&place, &[("a", "2\n")]);
    assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "outside\n");
}

/// Has the repository run a program wherever git can be told to; returns where that would show.
fn plant(place: &Place) -> PathBuf {
    let (root, trace) = (place.root(), place.root().join(".git/trace"));
    let script = root.join(".git/evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", trace.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "merge.x.driver",
        "gpg.program",
        "credential.helper",
        "gc.recentObjectsHook",
        "pager.diff-tree",
        "pager.status",
        "trailer.x.command",
    ] {
        place.git(&["config", key, evil]);
    }
    place.git(&["config", "filter.x.required", "true"]);
    place.git(&["config", "commit.gpgSign", "true"]);
    fs::create_dir_all(root.join(".git/evil-hooks")).unwrap();
    place.git(&["config", "core.hooksPath", ".git/evil-hooks"]);
    for hooks in [".git/evil-hooks", ".git/hooks"] {
        for hook in ["reference-transaction", "post-index-change", "pre-commit", "post-checkout"] {
            fs::create_dir_all(root.join(hooks)).unwrap();
            fs::copy(&script, root.join(hooks).join(hook)).unwrap();
        }
    }
    trace
}

#[test]
fn nothing_that_the_repository_configures_runs_whatever_is_asked_of_it() {
    let place = Place::new();
    place.write(".gitattributes", "* filter=x diff=x merge=x\n");
    place.write(".gitignore", ".env\n");
    place.write("a", "1\n");
    place.write(".env", "1\n");
    place.commit_all();
    let trace = plant(&place);
    let _ = fs::remove_file(&trace);

    let shadows = tempfile::tempdir().unwrap();
    let mut workspace = place.open();
    workspace.shadows = shadows.path().canonicalize().unwrap();
    let before = workspace.snapshot(name(1)).unwrap();
    place.write("a", "2\n");
    place.write(".env", "2\n");
    let measured = workspace.measure(&before).unwrap();
    assert_eq!((measured.files.len(), measured.ignored.len()), (1, 1));
    assert!(workspace.diff(&before, &measured.after).unwrap().contains("-1\n+2\n"));
    let patch = workspace.patches().between(&before, &measured.after).unwrap();
    workspace.shadow(&before).unwrap();
    workspace.restore(&before, Give::All).unwrap();
    workspace.patches().apply(&patch).unwrap();
    let later = Timestamp::now() + jiff::SignedDuration::from_hours(24);
    workspace.prune(later, Duration::from_secs(60)).unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}
