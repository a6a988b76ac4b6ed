//! Installed packages, kept while an agent works.
//!
//! They are in no snapshot: they are large, and a package manager makes them anew. But what an
//! agent edits there it edits in nobody's source, so copies of what runs are kept until it has
//! ended, and what it edited is put back.
//!
//! **Invariant:** only what was edited, not what was installed, is put back; see [`super::edited`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::edited::{EditedFileSearch, runs};
use super::is_cache;
use crate::workspace::error::WorkspaceError;
use crate::workspace::scratch_dir::ScratchDir;
use crate::workspace::tree::{Rel, show};
use crate::workspace::{Snapshot, Workspace};

/// The largest file that is kept.
const LARGEST: u64 = 4 << 20;
/// How many bytes are kept in all.
const MOST_BYTES: u64 = 512 << 20;
/// How many files are kept in all.
const MOST_FILES: usize = 60_000;

/// Copies of what runs of the installed packages, until it is dropped.
#[derive(Debug)]
pub struct PackageGuard {
    root: PathBuf,
    hidden: BTreeSet<Rel>,
    since: SystemTime,
    kept: BTreeMap<PathBuf, KeptPackageFile>,
    /// How many bytes are kept.
    bytes: u64,
    extent: PackageExtent,
    lair: ScratchDir,
}

/// How something was.
#[derive(Debug)]
enum KeptPackageFile {
    /// A file, with its place on the disk; the copy has the name of the number.
    File { at: usize, inode: u64, mode: u32, written: Option<SystemTime> },
    /// A link to this.
    Link(PathBuf),
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackageExtent {
    /// All that runs, so what is not kept was not there.
    All,
    /// As much as the bounds allow.
    Some,
}

/// What became of edited packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// The files that are as they were again.
    pub files: Vec<String>,
    /// Those that are not, because they were not kept or could not be written.
    pub left: Vec<String>,
}

impl Workspace {
    /// Keeps what runs of the installed packages beside a snapshot; nothing if there are none.
    pub fn guard_packages(&self, of: &Snapshot) -> Result<Option<PackageGuard>, WorkspaceError> {
        let hidden = of.tree.hidden.clone();
        let roots = super::roots(&self.scanner.root, &hidden);
        if roots.is_empty() {
            return Ok(None);
        }
        let mut guard = PackageGuard {
            root: self.scanner.root.clone(),
            hidden,
            since: SystemTime::now(),
            kept: BTreeMap::new(),
            bytes: 0,
            extent: PackageExtent::All,
            lair: ScratchDir::make(&self.shadows.with_file_name("packages"))?,
        };
        for dir in roots.iter().flat_map(|(dir, programs)| [Some(dir), programs.as_ref()]) {
            dir.into_iter().for_each(|dir| guard.keep_all(dir));
        }
        Ok(Some(guard))
    }
}

impl PackageGuard {
    fn keep_all(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let (path, Ok(meta)) = (entry.path(), entry.metadata()) else { continue };
            match meta.is_dir() {
                true if is_cache(&entry.file_name()) => {}
                true => self.keep_all(&path),
                false => self.keep(path, &meta),
            }
        }
    }

    fn keep(&mut self, path: PathBuf, meta: &Metadata) {
        if meta.is_symlink() {
            if let Ok(target) = fs::read_link(&path) {
                self.kept.insert(path, KeptPackageFile::Link(target));
            }
            return;
        }
        if !meta.is_file() || !runs(&path, meta) {
            return;
        }
        let fits = meta.len() <= LARGEST && self.bytes + meta.len() <= MOST_BYTES;
        let at = self.kept.len();
        let copy = self.lair.dir().join(at.to_string());
        if !fits || at >= MOST_FILES || fs::copy(&path, copy).is_err() {
            self.extent = PackageExtent::Some;
            return;
        }
        self.bytes += meta.len();
        let (inode, mode, written) = (meta.ino(), meta.mode(), meta.modified().ok());
        self.kept.insert(path, KeptPackageFile::File { at, inode, mode, written });
    }

    /// Puts back what was edited since.
    pub fn put_back(&self) -> PutBack {
        let mut search = EditedFileSearch::new(self.since, usize::MAX);
        super::search(&self.root, &self.hidden, &mut search);
        let mut done = PutBack::default();
        for path in &search.found {
            let shown = show(path.strip_prefix(&self.root).unwrap_or(path).as_os_str());
            match self.put_back_one(path) {
                Ok(()) => done.files.push(shown),
                Err(_) => done.left.push(shown),
            }
        }
        done
    }

    fn put_back_one(&self, path: &Path) -> io::Result<()> {
        match (self.kept.get(path), self.extent) {
            (Some(KeptPackageFile::Link(target)), _) => {
                fs::remove_file(path)?;
                symlink(target, path)
            }
            (Some(KeptPackageFile::File { at, inode, mode, written }), _) => {
                let content = fs::read(self.lair.dir().join(at.to_string()))?;
                let is_same = fs::symlink_metadata(path).is_ok_and(|now| now.ino() == *inode);
                if !is_same {
                    // It was replaced; where it was only written to, others may share it.
                    fs::remove_file(path)?;
                }
                fs::write(path, content)?;
                fs::set_permissions(path, Permissions::from_mode(*mode))?;
                match written {
                    Some(written) => File::options()
                        .read(true)
                        .open(path)?
                        .set_times(FileTimes::new().set_modified(*written)),
                    None => Ok(()),
                }
            }
            (None, PackageExtent::All) => fs::remove_file(path),
            (None, PackageExtent::Some) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
