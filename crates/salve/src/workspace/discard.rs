//! The user's own work that a repair threw away.
//!
//! `git stash`, `git reset --hard`, `git checkout .` and `git clean` take away everything that is
//! not committed, the user's work among it. Of a repair only what it wrote is wanted, so the rest is
//! left out of its change. A repair that does nothing but take one edit back may mean exactly that, and is
//! left to verification.

use std::collections::{BTreeMap, BTreeSet};

use super::error::WorkspaceError;
use super::ignored::IgnoredFiles;
use super::keep;
use super::tree::{Rel, TreeItem, WorkingTree};
use super::{Snapshot, Workspace};

/// Puts what a repair threw away of the user's work, since a snapshot of it, back into the state
/// that the repair made; returns the files.
pub(super) fn put_discarded_back(
    workspace: &Workspace,
    before: &Snapshot,
    after: &mut Snapshot,
) -> Result<Vec<Rel>, WorkspaceError> {
    let committed =
        match workspace.scanner.git.ask(&["rev-parse", "--verify", "--quiet", "HEAD:./"])? {
            Some(_) => keep::committed(&workspace.scanner.git, "HEAD:./")?,
            None => BTreeMap::new(),
        };
    let lost = if committed.is_empty() {
        BTreeSet::new()
    } else {
        discarded(&committed, &before.tree, &after.tree)
    };
    let gone = gone(&before.ignored.tree, &after.ignored);
    after.tree = with(&after.tree, &before.tree, &lost);
    after.tree.add_parents();
    after.ignored.tree = with(&after.ignored.tree, &before.ignored.tree, &gone);
    after.ignored.tree.add_parents();
    Ok(lost.into_iter().chain(gone).collect())
}

/// Returns the files in which the user's work since the last commit is gone.
fn discarded(
    committed: &BTreeMap<Rel, TreeItem>,
    before: &WorkingTree,
    now: &WorkingTree,
) -> BTreeSet<Rel> {
    let changed = before.differing(now);
    let same = |one: Option<&TreeItem>, other: Option<&TreeItem>| match (one, other) {
        (Some(one), Some(other)) => (one.kind, one.oid) == (other.kind, other.oid),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let is_lost = |path: &&Rel| {
        let (was, is) = (before.items.get(*path), now.items.get(*path));
        let last = committed.get(*path);
        !before.gaps.contains_key(*path) && !same(was, last) && same(is, last)
    };
    let lost: BTreeSet<Rel> = changed.iter().filter(is_lost).cloned().collect();
    let is_tracked = |path: &Rel| committed.contains_key(path);
    if lost.len() == 1 && changed.len() == 1 && lost.iter().all(is_tracked) {
        BTreeSet::new()
    } else {
        lost
    }
}

/// Returns the ignored files that people wrote and that are not there any more.
fn gone(before: &WorkingTree, now: &IgnoredFiles) -> BTreeSet<Rel> {
    let is_gone = |path: &&Rel| {
        !now.tree.items.contains_key(*path) && !now.uncovered.contains_key(path.as_os_str())
    };
    before.items.keys().filter(is_gone).cloned().collect()
}

/// Returns a tree with some files as they are in another.
fn with(tree: &WorkingTree, other: &WorkingTree, paths: &BTreeSet<Rel>) -> WorkingTree {
    let mut tree = tree.clone();
    for path in paths {
        match other.items.get(path) {
            Some(item) => drop(tree.items.insert(path.clone(), *item)),
            None => drop(tree.items.remove(path)),
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::oid::{Format, Oid};
    use crate::workspace::tree::Kind;

    fn items(words: &str) -> BTreeMap<Rel, TreeItem> {
        let item = |word: &str| {
            let (path, content) = word.split_once('=').unwrap();
            let oid = Oid::of_blob(Format::Sha1, content.as_bytes());
            (Rel::from(path), TreeItem { kind: Kind::Plain, permissions: 0o644, oid })
        };
        words.split_whitespace().map(item).collect()
    }

    #[track_caller]
    fn check(committed: &str, before: &str, now: &str, lost: &[&str]) {
        let tree = |words: &str| WorkingTree { items: items(words), ..WorkingTree::default() };
        let found = discarded(&items(committed), &tree(before), &tree(now));
        let expected: BTreeSet<Rel> = lost.iter().map(Rel::from).collect();
        assert_eq!(found, expected, "{committed} | {before} | {now}");
    }

    #[test]
    fn what_went_back_to_the_commit_or_is_gone_is_lost() {
        check("a=1 b=1", "a=mine b=1 new=mine", "a=1 b=fixed", &["a", "new"]);
        check("a=1", "a=1 new=mine", "a=1", &["new"]);
        check("a=1 b=1 c=1", "a=mine b=mine c=1", "a=1 b=1 c=1", &["a", "b"]);
        // That the user deleted a file is work too.
        check("a=1 b=1", "b=1", "a=1 b=fixed", &["a"]);
    }

    #[test]
    fn what_the_repair_wrote_is_not_lost() {
        check("a=1 b=1", "a=mine b=1", "a=mine2 b=1", &[]);
        check("a=1 b=1", "a=1 b=1", "a=2", &[]);
        check("a=1", "a=1 new=mine", "a=1 new=fixed", &[]);
    }

    #[test]
    fn a_repair_that_only_takes_one_edit_back_may_mean_it() {
        check("a=1 b=1", "a=mine b=1", "a=1 b=1", &[]);
        check("a=1 b=1", "a=mine b=mine", "a=1 b=mine", &[]);
        check("a=1 b=1", "a=mine b=mine", "a=1 b=fixed", &["a"]);
    }
}
