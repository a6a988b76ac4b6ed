//! Repositories that are harmed and come back.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::super::tests::{Place, git_in, gits_own, name};
use super::super::{Give, Moment, SnapshotLimits};
use super::*;

/// A repository with one of everything, and a workspace that keeps nothing outside of the test.
fn stage() -> (Place, tempfile::TempDir, Workspace) {
    let place = Place::new();
    place.write("a", "1\n");
    place.commit_all();
    place.git(&["branch", "other"]);
    place.git(&["tag", "v1"]);
    place.write("a", "stashed\n");
    place.git(&["stash", "--quiet"]);
    place.write("b", "staged\n");
    place.git(&["add", "b"]);
    place.write("a", "uncommitted\n");
    let guards = tempfile::tempdir().unwrap();
    let mut workspace = place.open();
    workspace.guards = guards.path().canonicalize().unwrap();
    (place, guards, workspace)
}

fn parts(guard: &GitGuard) -> Vec<GitPart> {
    let mut parts: Vec<_> = guard.changes().unwrap().iter().map(|change| change.part).collect();
    parts.dedup();
    parts
}

#[test]
fn a_deleted_repository_comes_back_whole() {
    let (place, _guards, workspace) = stage();
    let before = workspace.snapshot(name(1)).unwrap();
    let own = gits_own(&place.root());
    let guard = workspace.guard_git().unwrap().unwrap();
    assert_eq!(parts(&guard), []);
    assert!(guard.mend().unwrap().is_empty());
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    place.write("a", "an agent's\n");
    assert_eq!(parts(&guard), [GitPart::Repository]);
    assert_eq!(guard.mend().unwrap(), ["the repository was deleted and is back"]);
    workspace.restore(&before, Give::All).unwrap();
    assert_eq!(gits_own(&place.root()), own);
    git_in(&place.root(), &["fsck", "--strict"]);
}

/// **Invariant:** A deleted or damaged `.git` comes back.
#[test]
fn whatever_part_of_a_repository_is_gone_it_works_again() {
    for harm in ["HEAD", "objects", "refs", "config", "index"] {
        let (place, _guards, workspace) = stage();
        let guard = workspace.guard_git().unwrap().unwrap();
        let own = gits_own(&place.root());
        let path = place.root().join(".git").join(harm);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::write(&path, "[no such thing").unwrap();
        }
        assert_eq!(parts(&guard), [GitPart::Repository], "{harm}");
        assert_eq!(guard.mend().unwrap().len(), 1, "{harm}");
        assert_eq!(gits_own(&place.root()), own, "{harm}");
        git_in(&place.root(), &["fsck", "--strict"]);
    }
}

#[test]
fn a_repository_that_is_replaced_by_another_comes_back() {
    let (place, _guards, workspace) = stage();
    let guard = workspace.guard_git().unwrap().unwrap();
    let own = gits_own(&place.root());
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    place.git(&["init", "--quiet"]);
    assert_eq!(guard.mend().unwrap().len(), 1);
    assert_eq!(gits_own(&place.root())[1..3], own[1..3]);
    assert_eq!(place.git(&["rev-parse", "main", "other", "v1", "stash"]).lines().count(), 4);
}

#[test]
fn what_an_agent_did_to_a_repository_is_told_and_can_be_put_back() {
    let (place, _guards, workspace) = stage();
    let guard = workspace.guard_git().unwrap().unwrap();
    let own = gits_own(&place.root());
    place.git(&["commit", "--quiet", "--all", "--message=done"]);
    place.git(&["checkout", "--quiet", "-b", "agents"]);
    place.git(&["branch", "--quiet", "-D", "other"]);
    place.git(&["stash", "drop", "--quiet"]);
    place.git(&["config", "core.fsmonitor", "./evil"]);
    let hook = place.root().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&hook, Permissions::from_mode(0o755)).unwrap();
    fs::write(place.root().join(".git/MERGE_HEAD"), "x\n").unwrap();
    fs::write(place.root().join(".git/index.lock"), "").unwrap();

    use GitPart::{Head, Hooks, Index, Lock, Operation, Refs, Settings, Stash};
    let changes = guard.changes().unwrap();
    let mut told: Vec<_> = changes.iter().map(|change| change.part).collect();
    told.dedup();
    assert_eq!(told, [Head, Refs, Stash, Index, Settings, Hooks, Operation, Lock]);
    let text: Vec<_> = changes.iter().map(|change| change.text.as_str()).collect();
    assert!(text.contains(&"HEAD was refs/heads/main and is refs/heads/agents"), "{text:?}");
    assert!(text.iter().any(|text| text.starts_with("refs/heads/other was deleted")), "{text:?}");
    // The lock first, as it stands in the way of the index.
    let (locks, others): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.part == Lock);
    guard.put_back(&locks).unwrap();
    guard.put_back(&others).unwrap();
    assert_eq!(parts(&guard), []);
    let now = gits_own(&place.root());
    assert_eq!(now[..6], own[..6]);
    assert_eq!(fs::read_to_string(place.root().join("a")).unwrap(), "uncommitted\n");
}

#[test]
fn what_a_killed_keeper_left_is_given_back_by_the_next() {
    let (place, guards, workspace) = stage();
    let own = gits_own(&place.root());
    let guard = workspace.guard_git().unwrap().unwrap();
    let base = guards.path().canonicalize().unwrap();
    let mend = |root: &Path| mend_in(std::slice::from_ref(&base), root).unwrap();
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    assert!(mend(&place.root()).is_empty(), "its keeper is at work");
    guard.lair.leave();
    assert!(mend(Path::new("/elsewhere")).is_empty(), "it is another project's");
    // A child that another test is just starting may hold the lock for a moment longer.
    let mended = std::iter::repeat_with(|| mend(&place.root())).find(|told| !told.is_empty());
    assert_eq!(mended.unwrap(), ["the repository was deleted and is back"]);
    assert_eq!(gits_own(&place.root()), own);
    assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
}

#[test]
fn without_a_repository_there_is_nothing_to_keep() {
    let place = Place::bare();
    place.write("a", "1");
    assert!(place.open().guard_git().unwrap().is_none());
}

#[test]
fn a_linked_working_tree_is_kept_with_the_repository_it_belongs_to() {
    let (place, guards, _) = stage();
    let beside = tempfile::tempdir().unwrap();
    let linked = beside.path().canonicalize().unwrap().join("linked");
    place.git(&["worktree", "add", "--quiet", linked.to_str().unwrap(), "other"]);
    let mut workspace =
        Workspace::with_limits(&Project::at(&linked).unwrap(), SnapshotLimits::default()).unwrap();
    workspace.guards = guards.path().canonicalize().unwrap();
    let before = workspace.snapshot(name(1)).unwrap();
    assert_eq!(before.name().moment, Moment::Before);
    let guard = workspace.guard_git().unwrap().unwrap();
    let head = git_in(&linked, &["rev-parse", "HEAD"]);
    fs::remove_file(linked.join(".git")).unwrap();
    assert_eq!(guard.mend().unwrap().len(), 1);
    assert_eq!(git_in(&linked, &["rev-parse", "HEAD"]), head);
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    assert_eq!(guard.mend().unwrap().len(), 1);
    assert_eq!(git_in(&linked, &["rev-parse", "HEAD"]), head);
    assert_eq!(git_in(&place.root(), &["rev-parse", "HEAD"]), head);
}
