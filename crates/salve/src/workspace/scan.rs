//! Looking at a working tree: a walk that leaves out what git ignores.
//!
//! Git is asked only what it ignores; everything else is found by walking, so neither the index
//! nor sparse checkouts, filters or attributes have a say in what is kept. A repository inside the
//! project, submodules included, is walked like any directory, with its own ignore rules.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use super::SnapshotLimits;
use super::error::WorkspaceError;
use super::git::Git;
use super::memo::{self, StampCache, StoredTree};
use super::oid::{Format, Hasher, Oid};
use super::packages;
use super::tree::{Gap, Kind, Rel, TreeItem, Why, WorkingTree};

/// Derived files that no snapshot keeps even where nobody told git to ignore them.
const DERIVED: [&str; 17] = [
    "node_modules/",
    ".venv/",
    "venv/",
    "__pycache__/",
    "*.pyc",
    "target/",
    ".next/",
    ".nuxt/",
    ".svelte-kit/",
    ".turbo/",
    ".parcel-cache/",
    ".vite/",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".tox/",
    ".gradle/",
];

/// How old a change must be before its time stamp is believed to tell it from a later one.
const SETTLED: Duration = Duration::from_millis(100);

/// How often a file that changes while it is read is read again.
const READINGS: usize = 3;

/// Looks at one working tree again and again, reading only what changed.
#[derive(Debug)]
pub(super) struct Scanner {
    pub(super) root: PathBuf,
    pub(super) git: Git,
    pub(super) format: Format,
    pub(super) limits: SnapshotLimits,
    seen: Mutex<LastScan>,
}

/// What was seen the last time.
#[derive(Debug, Default)]
struct LastScan {
    stamps: StampCache,
    base: Option<StoredTree>,
    /// Where it is remembered.
    file: Option<PathBuf>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Returns it as numbers.
    pub(super) fn to_words(self) -> [i64; 6] {
        let (modified, changed) = (self.modified, self.changed);
        let (inode, size) = (self.inode.cast_signed(), self.size.cast_signed());
        [inode, size, modified.0, modified.1, changed.0, changed.1]
    }

    /// Reads the numbers back.
    pub(super) fn from_words(words: [i64; 6]) -> Self {
        let [inode, size, m, m_nanos, c, c_nanos] = words;
        let (inode, size) = (inode.cast_unsigned(), size.cast_unsigned());
        Self { inode, size, modified: (m, m_nanos), changed: (c, c_nanos) }
    }

    /// Returns whether a change from now on would show.
    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed.max(self.modified);
        let since = Duration::new(seconds.max(0).unsigned_abs(), nanos.unsigned_abs() as u32);
        now.duration_since(UNIX_EPOCH + since).is_ok_and(|age| age > SETTLED)
    }
}

/// What git says about what to leave out.
#[derive(Default)]
struct Rules {
    hidden: BTreeSet<Rel>,
    /// Files that git tracks although its rules ignore them.
    forced: Vec<Rel>,
}

/// What one walk has gathered so far.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) tree: WorkingTree,
    rules: Rules,
    seen: HashSet<Rel>,
}

impl Walk {
    /// Returns what was found.
    pub(super) fn into_tree(self) -> WorkingTree {
        let Self { mut tree, rules, seen: _ } = self;
        tree.add_parents();
        tree.hidden = rules.hidden;
        tree
    }
}

impl Scanner {
    pub(super) fn new(root: PathBuf, git: Git, format: Format, limits: SnapshotLimits) -> Self {
        Self { root, git, format, limits, seen: Mutex::default() }
    }

    /// Returns all that is there now, and `also` whatever git says of it.
    pub(super) fn scan<'a>(
        &self,
        also: impl IntoIterator<Item = &'a Rel>,
    ) -> Result<WorkingTree, WorkspaceError> {
        let rules = self.rules(&self.git, Path::new(""))?;
        let mut walk = Walk { rules, ..Walk::default() };
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            self.walk(&dir, &mut walk, &mut todo)?;
        }
        let forced = std::mem::take(&mut walk.rules.forced);
        let also = also.into_iter().cloned();
        for path in forced.into_iter().chain(also) {
            let path = &*path;
            if !walk.seen.contains(path) && !is_salves(path) && !self.leads_through_link(path) {
                self.look(path, &mut walk);
            }
        }
        let mut tree = walk.into_tree();
        tree.packages = packages::look(&self.root, &tree.hidden);
        Ok(tree)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, LastScan> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what was remembered in `file`, and remembers there from now on.
    pub(super) fn remember_in(&mut self, file: PathBuf) {
        let (stamps, base) = memo::read(&file).unzip();
        let stamps = stamps.unwrap_or_default();
        *self.seen() = LastScan { stamps, base, file: Some(file) };
    }

    /// Returns the tree that was kept last, if it still is.
    pub(super) fn base(&self) -> Option<StoredTree> {
        let base = self.seen().base.clone();
        base.filter(|base| base.is_held(&self.git))
    }

    /// Remembers a tree that was kept at a ref.
    pub(super) fn remember(&self, at: &str, tree: &WorkingTree) {
        let base = StoredTree::of(&self.git, at, tree);
        let mut seen = self.seen();
        seen.base = base;
        if let (Some(file), Some(base)) = (&seen.file, &seen.base) {
            memo::write(file, &seen.stamps, base);
        }
    }

    /// Asks git what it ignores in the repository of `git`, whose paths begin with `prefix`.
    fn rules(&self, git: &Git, prefix: &Path) -> Result<Rules, WorkspaceError> {
        let mut args = vec!["ls-files", "-z", "-t", "--cached", "--others", "--ignored"];
        args.extend(["--exclude-standard", "--directory"]);
        args.extend(DERIVED.iter().flat_map(|pattern| ["-x", *pattern]));
        let listed = git.read(&args)?;
        let mut rules = Rules::default();
        let (mut dirs, mut inner) = (Vec::new(), HashSet::new());
        for line in listed.split(|&byte| byte == 0) {
            let Some((tag, name)) = line.split_at_checked(2) else { continue };
            if tag != b"? " {
                rules.forced.push(prefix.join(OsStr::from_bytes(name)).into_os_string());
                continue;
            }
            let above = Path::new(OsStr::from_bytes(name)).ancestors().skip(1);
            inner.extend(above.map(|dir| dir.as_os_str().to_owned()));
            match name.strip_suffix(b"/") {
                Some(dir) => dirs.push(OsString::from_vec(dir.to_vec())),
                None => _ = rules.hidden.insert(prefix.join(OsStr::from_bytes(name)).into()),
            }
        }
        // A directory that is listed beside its content is not ignored; only its content is.
        for dir in dirs.into_iter().filter(|dir| dir != "." && !inner.contains(dir)) {
            rules.hidden.insert(prefix.join(dir).into());
        }
        Ok(rules)
    }

    /// Takes in one directory.
    fn walk(
        &self,
        dir: &Path,
        walk: &mut Walk,
        todo: &mut Vec<PathBuf>,
    ) -> Result<(), WorkspaceError> {
        let full = self.root.join(dir);
        let is_root = dir.as_os_str().is_empty();
        let names = match names(&full) {
            Ok(names) => names,
            // It went away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) if is_root => return Err(WorkspaceError::Io { path: full, source }),
            Err(_) => {
                let gap = Gap { why: Why::Unreadable, size: 0, written: 0 };
                walk.tree.gaps.insert(dir.as_os_str().to_owned(), gap);
                return Ok(());
            }
        };
        if !is_root && names.iter().any(|(name, _)| name == ".git") {
            // What only looks like a repository has no rules and is a directory like any other.
            if let Ok(inner) = self.rules(&Git::at(&full), dir) {
                walk.rules.hidden.extend(inner.hidden);
                walk.rules.forced.extend(inner.forced);
            }
        }
        if !is_root {
            walk.tree.dirs.insert(dir.as_os_str().to_owned());
        }
        for (name, kind) in names {
            let path = dir.join(&name);
            if name == ".git" || is_salves(path.as_os_str()) {
                continue;
            }
            if walk.rules.hidden.contains(path.as_os_str()) {
                continue;
            }
            if kind.is_dir() {
                todo.push(path);
            } else {
                self.look(path.as_os_str(), walk);
            }
        }
        Ok(())
    }

    /// Returns whether a directory on the way to `path` is a link, so that it would lead elsewhere.
    pub(super) fn leads_through_link(&self, path: &OsStr) -> bool {
        let mut above = Path::new(path).ancestors().skip(1);
        above.any(|dir| fs::symlink_metadata(self.root.join(dir)).is_ok_and(|m| m.is_symlink()))
    }

    /// Takes in one file or link; anything else has no content to keep.
    pub(super) fn look(&self, path: &OsStr, walk: &mut Walk) {
        let full = self.root.join(path);
        let Ok(meta) = fs::symlink_metadata(&full) else { return };
        if !meta.is_file() && !meta.is_symlink() {
            return;
        }
        walk.seen.insert(path.to_owned());
        if meta.size() > self.limits.file {
            let gap = Gap { why: Why::TooLarge, size: meta.size(), written: written(&meta) };
            walk.tree.gaps.insert(path.to_owned(), gap);
            return;
        }
        let stamp = FileStamp::of(&meta);
        let seen = self.seen().stamps.get(path).copied();
        let known = seen.filter(|(seen, _)| *seen == stamp).map(|(_, oid)| oid);
        let oid = match known {
            Some(oid) => Ok(oid),
            None => self.hash(path, &full, &meta),
        };
        match oid {
            Ok(oid) => _ = walk.tree.items.insert(path.to_owned(), item(&meta, oid)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                let gap = Gap { why: Why::Unreadable, size: meta.size(), written: written(&meta) };
                walk.tree.gaps.insert(path.to_owned(), gap);
            }
        }
    }

    fn hash(&self, path: &OsStr, full: &Path, meta: &Metadata) -> io::Result<Oid> {
        if meta.is_symlink() {
            let target = fs::read_link(full)?;
            return Ok(Oid::of_blob(self.format, target.as_os_str().as_bytes()));
        }
        for _ in 0..READINGS {
            let now = SystemTime::now();
            let mut file = open(full)?;
            let stamp = FileStamp::of(&file.metadata()?);
            if let Some(oid) = hash_all(self.format, &mut file, stamp.size)?
                && FileStamp::of(&file.metadata()?) == stamp
            {
                if stamp.is_settled(now) {
                    self.seen().stamps.insert(path.to_owned(), (stamp, oid));
                }
                return Ok(oid);
            }
        }
        // It never holds still; what it holds at one moment has to do.
        let content = self.content(full)?.1;
        Ok(Oid::of_blob(self.format, &content))
    }

    /// Returns what a file or link holds, and what it is.
    pub(super) fn content(&self, full: &Path) -> io::Result<(TreeItem, Vec<u8>)> {
        let meta = fs::symlink_metadata(full)?;
        let content = if meta.is_symlink() {
            fs::read_link(full)?.into_os_string().into_vec()
        } else {
            let mut content = Vec::new();
            open(full)?.take(self.limits.file + 1).read_to_end(&mut content)?;
            content
        };
        if content.len() as u64 > self.limits.file {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let oid = Oid::of_blob(self.format, &content);
        Ok((item(&meta, oid), content))
    }
}

/// Returns what is in a directory.
fn names(dir: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    fs::read_dir(dir)?
        .map(|entry| entry.and_then(|e| Ok((e.file_name(), e.file_type()?))))
        .collect()
}

/// Opens a regular file, never a link, device or pipe that took its place.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Returns the name of a file's content unless its length is not `len`.
fn hash_all(format: Format, file: &mut File, len: u64) -> io::Result<Option<Oid>> {
    let mut hasher = Hasher::new(format, len);
    let mut buffer = [0; 1 << 16];
    let mut read = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((read == len).then(|| hasher.finish())),
            n => {
                hasher.update(&buffer[..n]);
                read += n as u64;
            }
        }
    }
}

fn item(meta: &Metadata, oid: Oid) -> TreeItem {
    if meta.is_symlink() {
        return TreeItem { kind: Kind::Link, permissions: 0, oid };
    }
    // The mask leaves twelve bits.
    let permissions = (meta.mode() & 0o7777) as u16;
    TreeItem { kind: Kind::of_permissions(permissions), permissions, oid }
}

fn written(meta: &Metadata) -> i128 {
    i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec())
}

/// Returns whether a path is one of those that no snapshot keeps unless git tracks them.
pub(super) fn is_always_derived(path: &Path) -> bool {
    let is_part = |name: &str| path.iter().any(|part| part == name);
    let ends = |end: &str| path.as_os_str().as_bytes().ends_with(end.as_bytes());
    DERIVED.iter().any(|pattern| match (pattern.strip_suffix('/'), pattern.strip_prefix('*')) {
        (Some(dir), _) => is_part(dir),
        (None, Some(end)) => ends(end),
        (None, None) => is_part(pattern),
    })
}

/// Returns whether a path is one of Salve's own, which never belong to a snapshot.
pub(super) fn is_salves(path: &OsStr) -> bool {
    let text = path.as_bytes();
    let at_root = !text.contains(&b'/');
    let is_lock = text.starts_with(b".dev-crash") || text == b".dev-repair.lock";
    (at_root && is_lock) || Path::new(path).iter().any(|part| part == ".salve")
}
