//! Which installed packages were edited where they are installed.
//!
//! Whatever installs a package makes its directory again, so a file that changed in a directory that
//! did not was edited. What the system notes of a change cannot be set by whoever changes the file.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::is_cache;

/// How many files are looked at.
const MOST: usize = 200_000;

/// What of a package is run or read by what runs.
const CODE: [&str; 18] = [
    "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "json", "node", "wasm", "py", "pth", "so",
    "pyd", "sh", "rb", "php", "jar",
];

/// Looks for edited files.
pub(super) struct EditedFileSearch {
    since: SystemTime,
    /// How many are looked for.
    most: usize,
    looked_at: usize,
    pub(super) found: Vec<PathBuf>,
}

/// What was found in one directory of packages.
#[derive(Default)]
struct PackageVersions {
    /// Whether a package was installed.
    installed: bool,
    /// What changed beside the packages: an installation changes that too.
    loose: Vec<PathBuf>,
}

impl EditedFileSearch {
    pub(super) fn new(since: SystemTime, most: usize) -> Self {
        Self { since, most, looked_at: 0, found: Vec::new() }
    }

    /// Looks through a directory of packages, with the one of their programs if that lies apart.
    pub(super) fn packages(&mut self, dir: &Path, programs: Option<&Path>) {
        let mut shelf = PackageVersions::default();
        self.shelf(dir, &mut shelf);
        programs.into_iter().for_each(|programs| self.loose(programs, &mut shelf));
        if !shelf.installed {
            self.found.extend(shelf.loose);
        }
    }

    fn shelf(&mut self, dir: &Path, shelf: &mut PackageVersions) {
        for (path, meta) in self.entries(dir) {
            let name = path.file_name().unwrap_or_default();
            if meta.is_dir() {
                if name == ".prisma" {
                    // It is generated from the project's own schema, again and again.
                } else if name == ".bin" {
                    self.loose(&path, shelf)
                } else if name.as_bytes().starts_with(b"@") || name == ".pnpm" {
                    self.shelf(&path, shelf);
                } else if self.is_new(&meta) {
                    shelf.installed = true
                } else {
                    self.package(&path)
                }
            } else if self.is_changed(&path, &meta) {
                shelf.loose.push(path)
            }
        }
    }

    /// Looks through a directory of programs or links to them.
    fn loose(&mut self, dir: &Path, shelf: &mut PackageVersions) {
        let entries = self.entries(dir);
        let changed = entries.into_iter().filter(|(path, meta)| {
            meta.is_symlink() && self.is_later(meta) || self.is_changed(path, meta)
        });
        let changed: Vec<PathBuf> = changed.map(|(path, _)| path).collect();
        shelf.loose.extend(changed);
    }

    fn package(&mut self, dir: &Path) {
        for (path, meta) in self.entries(dir) {
            if meta.is_dir() {
                if path.file_name().is_some_and(|name| name == "node_modules") {
                    self.packages(&path, None);
                } else {
                    self.package(&path)
                }
            } else if self.is_changed(&path, &meta) {
                self.found.push(path)
            }
        }
    }

    /// Returns what is in a directory, but for caches, until enough was seen.
    fn entries(&mut self, dir: &Path) -> Vec<(PathBuf, Metadata)> {
        if self.found.len() >= self.most || self.looked_at >= MOST {
            return Vec::new();
        }
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let kept = entries.filter(|entry| !is_cache(&entry.file_name()));
        let mut all: Vec<_> =
            kept.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        self.looked_at += all.len();
        all
    }

    fn is_changed(&self, path: &Path, meta: &Metadata) -> bool {
        // A file that several places share is also changed by one more place that shares it.
        let shared = meta.nlink() > 1 && meta.modified().is_ok_and(|at| at <= self.since);
        meta.is_file() && runs(path, meta) && self.is_later(meta) && !shared
    }

    fn is_later(&self, meta: &Metadata) -> bool {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let of = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let since = i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
        of(meta.ctime(), meta.ctime_nsec()) > since
    }

    /// Returns whether a directory was made since; where the system does not know, it was not.
    fn is_new(&self, meta: &Metadata) -> bool {
        meta.created().is_ok_and(|at| at > self.since)
    }
}

/// Returns whether a file of a package is run, or read by what runs.
pub(super) fn runs(path: &Path, meta: &Metadata) -> bool {
    let code = path.extension().and_then(|end| end.to_str());
    code.is_some_and(|end| CODE.contains(&end)) || meta.mode() & 0o111 != 0
}
