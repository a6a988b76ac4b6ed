//! What has to be done to bring a tree back: decided in full before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use super::error::RestoreError;
use super::ignored::{IgnoredFiles, is_settings};
use super::tree::{Rel, TreeItem, WorkingTree, show};

/// The steps of a restore, each list in the order it is worked off.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RestorePlan {
    /// Files to remove.
    pub(super) remove: Vec<Rel>,
    /// Directories to remove if they are empty then, the deepest first.
    pub(super) remove_dirs: Vec<Rel>,
    /// Directories to make that hold no file.
    pub(super) make_dirs: Vec<Rel>,
    /// Files to write.
    pub(super) write: BTreeMap<Rel, TreeItem>,
    /// Files that stay although they were not there: they are kept nowhere.
    pub(super) left: Vec<Rel>,
}

/// The steps for what git sees and for what it ignores.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) seen: RestorePlan,
    pub(super) ignored: RestorePlan,
}

impl Both {
    /// Returns whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.ignored.is_empty()
    }

    /// Returns the files that change and those that stay, for people.
    pub(super) fn told(&self) -> [Vec<String>; 2] {
        let both = [&self.seen, &self.ignored];
        let changed = both.iter().flat_map(|plan| plan.remove.iter().chain(plan.write.keys()));
        let left = both.iter().flat_map(|plan| &plan.left);
        [changed.map(|path| show(path)).collect(), left.map(|path| show(path)).collect()]
    }
}

/// What may be given back.
#[derive(Clone, Copy, Debug)]
pub(super) enum RestoreExtent<'a> {
    /// Everything that differs.
    All,
    /// Only what differs between the target and this tree, which the repair left.
    Repair {
        /// The tree that the repair left.
        left: &'a WorkingTree,
        /// What happens to files that were changed again since.
        again: Again,
    },
}

/// What happens to files that the repair had changed and that were changed again since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing is given back at all.
    Refuse,
    /// They are given back too; their present state is kept like everything else.
    Overwrite,
    /// They stay as they are.
    Leave,
}

/// Decides how to get from `now` to `target`.
pub(super) fn plan(
    target: &WorkingTree,
    now: &WorkingTree,
    extent: RestoreExtent<'_>,
) -> Result<RestorePlan, RestoreError> {
    let mut plan = RestorePlan::default();
    let (mut changed, mut lost) = (Vec::new(), Vec::new());
    for path in target.differing(now) {
        let (was, is) = (target.items.get(&path), now.items.get(&path));
        let gaps = (target.gaps.get(&path), now.gaps.get(&path));
        match standing(&path, target, now, extent) {
            Standing::Ours => {}
            Standing::Theirs => continue,
            Standing::Both => {
                changed.push(show(&path));
                continue;
            }
        }
        match (was, is, gaps) {
            // Its content was not kept then, and it is not what it was.
            (None, _, (Some(_), _)) => lost.push(show(&path)),
            // Its content cannot be kept now, so it must not be written over.
            (Some(_), None, (None, Some(_))) => lost.push(show(&path)),
            (None, None, (None, _)) => plan.left.push(path),
            (Some(item), _, _) => _ = plan.write.insert(path, *item),
            (None, Some(_), _) if target.hides(&path) => {}
            (None, Some(_), _) => plan.remove.push(path),
        }
    }
    if !changed.is_empty() {
        return Err(RestoreError::ChangedSince { paths: changed });
    }
    if !lost.is_empty() {
        return Err(RestoreError::NotKept { paths: lost });
    }
    plan_dirs(&mut plan, target, now, extent);
    Ok(plan)
}

/// Decides how the ignored files get from `now` to `target`.
///
/// Programs change such files too: one that cannot be given back stays as it is, and so does a new
/// one unless it holds settings.
pub(super) fn plan_ignored(
    target: &WorkingTree,
    now: &IgnoredFiles,
    extent: RestoreExtent<'_>,
) -> RestorePlan {
    let mut plan = RestorePlan::default();
    for path in target.differing(&now.tree) {
        match standing(&path, target, &now.tree, extent) {
            Standing::Theirs => continue,
            // Its present content is not kept.
            _ if now.uncovered.contains_key(&path) => plan.left.push(path),
            Standing::Both => plan.left.push(path),
            Standing::Ours => match target.items.get(&path) {
                Some(item) => _ = plan.write.insert(path, *item),
                None if is_settings(&path) => plan.remove.push(path),
                None => plan.left.push(path),
            },
        }
    }
    plan
}

/// Whose change a differing path is.
enum Standing {
    /// The repair's.
    Ours,
    /// Somebody else's.
    Theirs,
    /// First the repair's, then somebody else's.
    Both,
}

fn standing(
    path: &OsStr,
    target: &WorkingTree,
    now: &WorkingTree,
    extent: RestoreExtent<'_>,
) -> Standing {
    let RestoreExtent::Repair { left, again } = extent else { return Standing::Ours };
    let same = |a: &WorkingTree, b: &WorkingTree| {
        a.items.get(path) == b.items.get(path) && a.gaps.get(path) == b.gaps.get(path)
    };
    match (same(target, left), same(left, now), again) {
        (true, _, _) | (false, false, Again::Leave) => Standing::Theirs,
        (false, true, _) | (false, false, Again::Overwrite) => Standing::Ours,
        (false, false, Again::Refuse) => Standing::Both,
    }
}

fn plan_dirs(
    plan: &mut RestorePlan,
    target: &WorkingTree,
    now: &WorkingTree,
    extent: RestoreExtent<'_>,
) {
    let is_new = |dir: &Rel| !target.dirs.contains(dir) && !target.hides(dir);
    let made: BTreeSet<&Rel> = match extent {
        RestoreExtent::All => now.dirs.iter().filter(|dir| is_new(dir)).collect(),
        RestoreExtent::Repair { left, .. } => {
            now.dirs.iter().filter(|dir| is_new(dir) && left.dirs.contains(*dir)).collect()
        }
    };
    // What is inside a directory comes after it in order, and so before it in reverse.
    plan.remove_dirs = made.into_iter().rev().cloned().collect();
    let was_taken = |dir: &&Rel| match extent {
        RestoreExtent::All => !now.dirs.contains(*dir),
        RestoreExtent::Repair { left, .. } => !now.dirs.contains(*dir) && !left.dirs.contains(*dir),
    };
    plan.make_dirs = target.dirs.iter().filter(was_taken).cloned().collect();
}

impl RestorePlan {
    /// Returns whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.remove.is_empty()
            && self.remove_dirs.is_empty()
            && self.make_dirs.is_empty()
            && self.write.is_empty()
    }

    /// Returns whether the plan takes `path` away.
    pub(super) fn takes(&self, path: &Path) -> bool {
        self.remove.iter().any(|gone| Path::new(gone) == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::oid::{Format, Oid};
    use crate::workspace::tree::{Gap, Kind, Why};

    /// Makes a tree of `path=content` words; `!path` is ignored, `path?n` is a gap of n bytes.
    fn tree(words: &str) -> WorkingTree {
        let mut tree = WorkingTree::default();
        for word in words.split_whitespace() {
            if let Some(path) = word.strip_prefix('!') {
                tree.hidden.insert(path.into());
            } else if let Some((path, size)) = word.split_once('?') {
                let size = size.parse().unwrap();
                tree.gaps.insert(path.into(), Gap { why: Why::TooLarge, size, written: 0 });
            } else if let Some((path, content)) = word.split_once('=') {
                let oid = Oid::of_blob(Format::Sha1, content.as_bytes());
                let item = TreeItem { kind: Kind::Plain, permissions: 0o644, oid };
                tree.items.insert(path.into(), item);
            } else {
                tree.dirs.insert(word.into());
            }
        }
        tree.add_parents();
        tree
    }

    /// Says in words what would be done.
    fn told(target: &str, now: &str, left: Option<(&str, Again)>) -> String {
        let (target, now) = (tree(target), tree(now));
        let left = left.map(|(words, again)| (tree(words), again));
        let extent = match &left {
            None => RestoreExtent::All,
            Some((left, again)) => RestoreExtent::Repair { left, again: *again },
        };
        match plan(&target, &now, extent) {
            Err(error) => error.to_string(),
            Ok(plan) => {
                let words = |what: &str, paths: Vec<&Rel>| -> Vec<String> {
                    paths.iter().map(|path| format!("{what}{}", show(path))).collect()
                };
                let mut all = words("-", plan.remove.iter().collect());
                all.extend(words("rmdir:", plan.remove_dirs.iter().collect()));
                all.extend(words("mkdir:", plan.make_dirs.iter().collect()));
                all.extend(words("+", plan.write.keys().collect()));
                all.extend(words("left:", plan.left.iter().collect()));
                all.join(" ")
            }
        }
    }

    #[test]
    fn created_goes_deleted_comes_back_and_the_rest_stays() {
        assert_eq!(told("a=1 b=1 c=1", "a=1 b=2 d/e/f=1", None), "-d/e/f rmdir:d/e rmdir:d +b +c");
        assert_eq!(told("a=1 empty", "a=1", None), "mkdir:empty");
        assert_eq!(told("a=1", "a=1", None), "");
    }

    #[test]
    fn what_was_ignored_then_is_no_creation_now() {
        assert_eq!(told("a=1 !.env !cache", "a=1 .env=1 cache/x=1", None), "");
    }

    #[test]
    fn only_what_the_repair_changed_is_given_back() {
        let left = ("a=2 b=1 new=1", Again::Refuse);
        assert_eq!(told("a=1 b=1", "a=2 b=users new=1 users=1", Some(left)), "-new +a");
        assert_eq!(told("a=1 b=1", "a=users b=1", Some(left)), "changed again since the repair: a");
        let left = ("a=2 b=1 new=1", Again::Overwrite);
        assert_eq!(told("a=1 b=1", "a=users b=1 new=1", Some(left)), "-new +a");
    }

    #[test]
    fn what_was_not_kept_is_not_touched() {
        assert_eq!(told("big?5", "big?5", None), "");
        assert_eq!(told("big?5", "big?6", None), "not kept in the snapshot: big");
        assert_eq!(told("big?5", "", None), "not kept in the snapshot: big");
        assert_eq!(told("a=1", "a?99", None), "not kept in the snapshot: a");
        assert_eq!(told("", "huge?99", None), "left:huge");
    }
}
