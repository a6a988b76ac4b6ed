//! What sealed places lead to.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::MOST_DIRECTORIES;
use super::find::{LinksInside, SealedPlace, SealedPlaces};
use super::git_places::{BARE, IN_BARE};
use super::view::{TreeEntry, TreeView};

/// How many links the kernel follows on one way.
const MOST_LINKS: usize = 40;

/// What sealed places lead to, told from the root of their tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealedReach {
    /// A sealed place leads to the tree's root, or to nobody knows where in it.
    is_everything: bool,
    /// Links on the way, and files in the place of a directory on it: none may become something else.
    links: BTreeSet<PathBuf>,
    /// Where the ways end: sealed with all below.
    ends: BTreeSet<PathBuf>,
    /// Directories on the way, there or not: none may become a file or a link.
    way: BTreeSet<PathBuf>,
}

impl SealedReach {
    /// Follows sealed places in the tree below `root`, which has to be the real path.
    pub fn of(root: &Path, places: &SealedPlaces, view: &impl TreeView) -> Self {
        let mut walk =
            ReachWalk { root, view, reach: Self::default(), todo: Vec::new(), looked: 0 };
        walk.todo.extend(places.named.iter().chain(&places.gits).cloned());
        walk.run();
        walk.reach
    }

    /// Adds what another tree's sealed places lead to, told from the same root.
    pub fn add(&mut self, other: Self) {
        self.is_everything |= other.is_everything;
        self.links.extend(other.links);
        self.ends.extend(other.ends);
        self.way.extend(other.way);
    }

    /// Holds what would make a directory a repository to git where it was none: told what was in it, and
    /// what would be.
    pub fn hold_new_bare(
        &mut self,
        dir: &Path,
        was: impl Fn(&str) -> bool,
        is: impl Fn(&str) -> bool,
    ) {
        if BARE.iter().all(|name| is(name)) && !BARE.iter().all(|name| was(name)) {
            self.ends.extend(BARE.iter().chain(&IN_BARE).map(|name| dir.join(name)));
        }
    }

    /// Tells whether a file or link at this path must neither come, go nor change.
    pub fn holds(&self, path: &Path) -> bool {
        let is_in = |set: &BTreeSet<PathBuf>| path.ancestors().any(|above| set.contains(above));
        self.is_everything || self.way.contains(path) || is_in(&self.links) || is_in(&self.ends)
    }

    /// Tells whether it holds the whole tree.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Returns the links that lead to sealed places.
    pub fn links(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().map(PathBuf::as_path)
    }

    /// Returns where sealed places are, there or not.
    pub fn ends(&self) -> impl Iterator<Item = &Path> {
        self.ends.iter().map(PathBuf::as_path)
    }
}

/// Goes every way.
struct ReachWalk<'v, V> {
    root: &'v Path,
    view: &'v V,
    reach: SealedReach,
    todo: Vec<SealedPlace>,
    looked: usize,
}

impl<V: TreeView> ReachWalk<'_, V> {
    fn run(&mut self) {
        let (mut done, mut seen) = (BTreeSet::new(), BTreeSet::new());
        while let Some(place) = self.todo.pop() {
            if !done.insert(place.clone()) {
                continue;
            }
            let end = self.resolve(&place.path);
            match end.strip_prefix(self.root) {
                Ok(below) if below.as_os_str().is_empty() => self.reach.is_everything = true,
                Ok(below) => {
                    self.reach.ends.insert(below.to_path_buf());
                    if place.inside == LinksInside::LeadsOn && seen.insert(end.clone()) {
                        self.look_inside(&end);
                    }
                }
                Err(_) if self.root.starts_with(&end) => self.reach.is_everything = true,
                Err(_) => {}
            }
        }
    }

    /// Notes every link in a directory as one more place to follow.
    fn look_inside(&mut self, dir: &Path) {
        let mut open = vec![dir.to_path_buf()];
        while let Some(dir) = open.pop() {
            self.looked += 1;
            if self.looked > MOST_DIRECTORIES {
                return;
            }
            for (name, kind) in self.view.names(&dir) {
                let path = dir.join(name);
                match kind {
                    TreeEntry::Directory => open.push(path),
                    TreeEntry::Link(_) => {
                        self.todo.push(SealedPlace { path, inside: LinksInside::LeadsOn });
                    }
                    TreeEntry::File | TreeEntry::Nothing => {}
                }
            }
        }
    }

    /// Goes one way part by part and returns where it ends, whether or not something is there.
    fn resolve(&mut self, path: &Path) -> PathBuf {
        let mut at = PathBuf::from("/");
        let mut rest = parts(path);
        let mut followed = 0;
        while let Some(part) = rest.pop() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => at = PathBuf::from("/"),
                Some(Component::ParentDir) => {
                    if self.view.entry(&at) != TreeEntry::Directory {
                        // Whoever made a directory of it would open the way.
                        self.note(&at, |reach| &mut reach.links);
                    }
                    at.pop();
                }
                Some(Component::Normal(name)) => {
                    let next = at.join(name);
                    if leads_by_process(&next) {
                        // Whoever looks there sees another place.
                        self.reach.is_everything = true;
                        return next;
                    }
                    match self.view.entry(&next) {
                        TreeEntry::Link(target) => {
                            self.note(&next, |reach| &mut reach.links);
                            followed += 1;
                            if followed > MOST_LINKS {
                                return next;
                            }
                            rest.extend(parts(&target));
                            continue;
                        }
                        TreeEntry::File if !rest.is_empty() => {
                            self.note(&next, |reach| &mut reach.links);
                        }
                        TreeEntry::File | TreeEntry::Directory | TreeEntry::Nothing => {
                            self.note(&next, |reach| &mut reach.way);
                        }
                    }
                    at = next;
                }
                Some(Component::CurDir | Component::Prefix(_)) | None => {}
            }
        }
        at
    }

    fn note(&mut self, path: &Path, set: fn(&mut SealedReach) -> &mut BTreeSet<PathBuf>) {
        if let Ok(below) = path.strip_prefix(self.root)
            && !below.as_os_str().is_empty()
        {
            set(&mut self.reach).insert(below.to_path_buf());
        }
    }
}

/// Returns the parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> =
        path.components().map(|part| part.as_os_str().to_owned()).collect();
    parts.reverse();
    parts
}

/// Tells whether a path leads to each process's own place.
fn leads_by_process(path: &Path) -> bool {
    let names = ["cwd", "root", "fd"].map(OsStr::new);
    path.starts_with("/proc") && path.file_name().is_some_and(|name| names.contains(&name))
        || path == Path::new("/dev/fd")
}
