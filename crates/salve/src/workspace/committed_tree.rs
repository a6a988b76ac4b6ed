//! A tree as git keeps it, in which links are followed without any file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use super::git::{Git, pipe};
use crate::sealed::{self, FilesView, SealedReach, TreeEntry, TreeView};

/// A tree of a repository, as if it stood below `root`.
pub(super) struct CommittedTree {
    root: PathBuf,
    entries: BTreeMap<PathBuf, TreeEntry>,
    /// The names in each directory.
    names: BTreeMap<PathBuf, Vec<(OsString, TreeEntry)>>,
}

impl CommittedTree {
    pub(super) fn read(git: &Git, root: &Path, tree: &str) -> Result<Self, WorkspaceError> {
        let root = root.canonicalize().map_err(WorkspaceError::io(root))?;
        let mut read = Self { root, entries: BTreeMap::new(), names: BTreeMap::new() };
        let (mut links, mut asked) = (Vec::new(), Vec::new());
        let listed = git.read(&["ls-tree", "-r", "-z", "--full-tree", tree])?;
        for line in listed.split(|&byte| byte == 0) {
            let Some(at) = memchr::memchr(b'\t', line) else { continue };
            let (about, path) = (String::from_utf8_lossy(&line[..at]), &line[at + 1..]);
            let path = Path::new(OsStr::from_bytes(path));
            let mut words = about.split(' ');
            match (words.next(), words.nth(1)) {
                (Some("120000"), Some(oid)) => {
                    links.push(path.to_path_buf());
                    asked.extend([oid.as_bytes(), b"\n"].concat());
                }
                // Another repository, of which nothing is known here.
                (Some("160000"), _) => read.add(path, TreeEntry::Directory),
                _ => read.add(path, TreeEntry::File),
            }
        }
        if !links.is_empty() {
            let told =
                git.feed(&["cat-file", "--batch"], |to| to.write_all(&asked).map_err(pipe))?;
            for (path, target) in links.iter().zip(blobs(&told)) {
                read.add(path, TreeEntry::Link(PathBuf::from(OsString::from_vec(target))));
            }
        }
        Ok(read)
    }

    fn add(&mut self, path: &Path, entry: TreeEntry) {
        let is_new = self.entries.insert(path.to_path_buf(), entry.clone()).is_none();
        if let (true, Some(dir), Some(name)) = (is_new, path.parent(), path.file_name()) {
            self.names.entry(dir.to_path_buf()).or_default().push((name.to_owned(), entry));
            if !dir.as_os_str().is_empty() && !self.entries.contains_key(dir) {
                self.add(dir, TreeEntry::Directory);
            }
        }
    }

    /// Tells whether something is at a path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.entries.contains_key(path)
    }

    /// Follows every sealed place of the tree.
    pub(super) fn reach(&self) -> SealedReach {
        SealedReach::of(&self.root, &sealed::find(&self.root, self), self)
    }

    fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).ok()
    }
}

impl TreeView for CommittedTree {
    fn entry(&self, path: &Path) -> TreeEntry {
        match self.below(path) {
            Some(below) if below.as_os_str().is_empty() => TreeEntry::Directory,
            Some(below) => self.entries.get(below).cloned().unwrap_or(TreeEntry::Nothing),
            None => FilesView.entry(path),
        }
    }

    fn names(&self, dir: &Path) -> Vec<(OsString, TreeEntry)> {
        match self.below(dir) {
            Some(below) => self.names.get(below).cloned().unwrap_or_default(),
            None => FilesView.names(dir),
        }
    }
}

/// Returns the contents that `git cat-file --batch` printed.
fn blobs(mut told: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(end) = memchr::memchr(b'\n', told) {
        let about = String::from_utf8_lossy(&told[..end]).into_owned();
        let size = about.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let Some(content) = size.and_then(|size| told.get(end + 1..end + 1 + size)) else { break };
        found.push(content.to_vec());
        told = told.get(end + content.len() + 2..).unwrap_or_default();
    }
    found
}
