//! What the last look at a tree found, remembered between processes.
//!
//! It saves reading files that did not change, and asking git for what it is known to have. It lies
//! with the user's caches: without it everything is found out again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use salve_core::event::Digest;

use super::git::Git;
use super::oid::Oid;
use super::scan::FileStamp;
use super::tree::{Kind, Rel, TreeItem, WorkingTree};

/// How the file begins; another version is not read.
const MAGIC: &[u8] = b"salve seen 1\n";

/// How long a tree is remembered.
const LONG: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The stamps of files, each with the content that it stands for.
pub(super) type StampCache = HashMap<Rel, (FileStamp, Oid)>;

/// A tree that a ref holds: what is in it need not be kept again.
#[derive(Clone, Debug)]
pub(super) struct StoredTree {
    at: String,
    tree: String,
    items: BTreeMap<Rel, (Kind, Oid)>,
}

impl StoredTree {
    /// Returns the base that `tree`, kept at a ref of the store, is for those to come.
    pub(super) fn of(store: &Git, at: &str, tree: &WorkingTree) -> Option<Self> {
        let items = tree.items.iter().map(|(path, item)| (path.clone(), (item.kind, item.oid)));
        Some(Self { at: at.to_owned(), tree: tree_at(store, at)?, items: items.collect() })
    }

    /// Returns whether the store still holds it.
    pub(super) fn is_held(&self, store: &Git) -> bool {
        tree_at(store, &self.at).as_ref() == Some(&self.tree)
    }

    /// Returns the name of its tree.
    pub(super) fn tree(&self) -> &str {
        &self.tree
    }

    /// Returns all content that it holds.
    pub(super) fn oids(&self) -> HashSet<Oid> {
        self.items.values().map(|(_, oid)| *oid).collect()
    }

    /// Returns the files that are not in `tree`.
    pub(super) fn gone<'a>(&'a self, tree: &'a WorkingTree) -> impl Iterator<Item = &'a Rel> {
        self.items.keys().filter(|path| !tree.items.contains_key(*path))
    }

    /// Returns whether it has that very file.
    pub(super) fn has(&self, path: &Rel, item: &TreeItem) -> bool {
        self.items.get(path) == Some(&(item.kind, item.oid))
    }
}

fn tree_at(store: &Git, at: &str) -> Option<String> {
    let target = format!("{at}^{{tree}}");
    let answer = store.ask(&["rev-parse", "--verify", "--quiet", &target]).ok()??;
    Some(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Returns the file for a project's tree, if the user has a place for caches.
pub(super) fn file(root: &Path) -> Option<PathBuf> {
    let name = Digest::of(&[b"seen", root.as_os_str().as_bytes()]).to_string();
    Some(dir()?.join(name))
}

fn dir() -> Option<PathBuf> {
    Some(crate::dirs::cache()?.join("seen"))
}

/// Removes what was remembered of trees that nobody has looked at for long.
pub(super) fn forget_old() {
    let entries = dir().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    for entry in entries {
        let written = entry.metadata().and_then(|meta| meta.modified()).ok();
        if written.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > LONG) {
            // What cannot be removed now is removed another time.
            let _later = fs::remove_file(entry.path());
        }
    }
}

/// Reads what was remembered; nothing if it is not there or not whole.
pub(super) fn read(file: &Path) -> Option<(StampCache, StoredTree)> {
    let text = fs::read(file).ok()?;
    let mut rest = StampReader(text.strip_prefix(MAGIC)?);
    let (at, tree) = (rest.text()?, rest.text()?);
    let (mut stamps, mut items) = (StampCache::new(), BTreeMap::new());
    while !rest.0.is_empty() {
        let path = OsString::from_vec(rest.bytes()?.to_vec());
        let kind = match rest.byte()? {
            0 => Kind::Plain,
            1 => Kind::Executable,
            2 => Kind::Link,
            _ => return None,
        };
        let oid = Oid::from_bytes(rest.bytes()?)?;
        if rest.byte()? == 1 {
            stamps.insert(path.clone(), (FileStamp::from_words(rest.words()?), oid));
        }
        items.insert(path, (kind, oid));
    }
    Some((stamps, StoredTree { at, tree, items }))
}

/// Remembers the base and the stamps that belong to it; that it cannot does no harm.
pub(super) fn write(file: &Path, stamps: &StampCache, base: &StoredTree) {
    let mut text = MAGIC.to_vec();
    put(&mut text, base.at.as_bytes());
    put(&mut text, base.tree.as_bytes());
    for (path, (kind, oid)) in &base.items {
        put(&mut text, path.as_bytes());
        text.push(match kind {
            Kind::Plain => 0,
            Kind::Executable => 1,
            Kind::Link => 2,
        });
        put(&mut text, oid.as_bytes());
        match stamps.get(path).filter(|(_, known)| known == oid) {
            None => text.push(0),
            Some((stamp, _)) => {
                text.push(1);
                stamp.to_words().iter().for_each(|word| text.extend(word.to_le_bytes()));
            }
        }
    }
    let write = || -> io::Result<()> {
        let dir = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(dir)?;
        let mut fresh = tempfile::NamedTempFile::new_in(dir)?;
        fresh.write_all(&text)?;
        fresh.persist(file)?;
        Ok(())
    };
    // Without it the next look takes longer.
    let _slower = write();
}

fn put(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend((bytes.len() as u32).to_le_bytes());
    text.extend(bytes);
}

/// What is left to read.
struct StampReader<'a>(&'a [u8]);

impl<'a> StampReader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.take()?) as usize;
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn words(&mut self) -> Option<[i64; 6]> {
        let mut words = [0; 6];
        for word in &mut words {
            *word = i64::from_le_bytes(self.take()?);
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::{Place, name};
    use crate::workspace::{Give, Workspace};

    fn open(place: &Place, file: &Path) -> Workspace {
        let mut workspace = place.open();
        workspace.scanner.remember_in(file.to_path_buf());
        workspace
    }

    #[test]
    fn another_process_remembers_and_finds_every_change() {
        let place = Place::new();
        for n in 0..20 {
            place.write(format!("d{}/f{n}", n % 3), format!("{n}\n"));
        }
        place.commit_all();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen/tree");
        let first = open(&place, &file).snapshot(name(1)).unwrap();
        let (_, base) = read(&file).unwrap();
        assert_eq!(base.items.len(), 20);

        place.write("d0/f0", "changed\n");
        fs::remove_dir_all(place.root().join("d1")).unwrap();
        place.write("d1", "a file where a directory was\n");
        place.write("new/deep/file", "1\n");
        let second = open(&place, &file).snapshot(name(2)).unwrap();
        let again = place.open().snapshot(name(3)).unwrap();
        assert_eq!(second.tree(), again.tree());
        let tree = |n| place.git(&["rev-parse", &format!("{}^{{tree}}", name(n).to_ref())]);
        assert_eq!(tree(2), tree(3), "what is kept on a base is what is kept without");
        assert_eq!(place.git(&["rev-list", "--count", &name(2).to_ref()]), "1\n");

        let workspace = open(&place, &file);
        let before = workspace.load(name(1)).unwrap().unwrap();
        assert_eq!(before.tree(), first.tree());
        workspace.restore(&before, Give::All).unwrap();
        assert_eq!(workspace.tree().unwrap(), first.tree());
    }

    #[test]
    fn what_is_remembered_is_not_believed_when_it_is_cut_or_its_ref_is_gone() {
        let place = Place::new();
        place.write("a", "1\n");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tree");
        open(&place, &file).snapshot(name(1)).unwrap();
        let whole = fs::read(&file).unwrap();
        for len in 0..whole.len() {
            fs::write(&file, &whole[..len]).unwrap();
            if let Some((_, base)) = read(&file) {
                assert!(base.items.is_empty(), "{len}");
            }
        }
        fs::write(&file, &whole).unwrap();
        place.git(&["update-ref", "-d", &name(1).to_ref()]);
        place.git(&["gc", "--quiet", "--prune=now"]);
        let workspace = open(&place, &file);
        let before = workspace.snapshot(name(2)).unwrap();
        place.write("a", "2\n");
        workspace.restore(&before, Give::All).unwrap();
        assert_eq!(fs::read_to_string(place.root().join("a")).unwrap(), "1\n");
    }
}
