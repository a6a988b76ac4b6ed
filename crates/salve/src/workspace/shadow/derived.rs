//! What git ignores and a check may need, brought into a shadow.
//!
//! Installed packages are shown by links, one for each package: tools read them and resolve them to
//! their real place. Links among them that lead into the project lead into the shadow. A build's
//! directory of Rust is made again with the compiled dependencies in it as hard links, which are
//! replaced and never written to. Caches stay away. All else is copied, within bounds.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{ShadowRoots, link_text, packages};

/// Directories of packages, shown by links.
const PACKAGES: [&str; 4] = ["node_modules", "bower_components", "vendor", ".yarn"];

/// Directories that tools make again and that are of no use elsewhere.
const CACHES: [&str; 17] = [
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".cache",
    ".parcel-cache",
    ".turbo",
    ".nx",
    ".vite",
    ".vite-temp",
    ".vitest",
    ".gradle",
    ".eslintcache",
    ".salve",
];

/// How much is copied in all.
const MOST_BYTES: u64 = 256 << 20;
/// How many files are copied in all.
const MOST_FILES: u64 = 20_000;
/// The largest file among packages that is copied instead of linked to.
const SMALL: u64 = 1 << 20;
/// How deep below a build's directory the directories of its profiles may be.
const PROFILES: usize = 2;

/// How a directory is brought.
enum How {
    /// By links to what is in it.
    Show,
    Link,
    /// As the start of a new build.
    Seed,
    /// Not at all.
    Leave,
    Copy,
}

/// Brings one thing after the other until too much has been copied.
pub(super) struct Bringer<'a> {
    ground: &'a ShadowRoots,
    files: u64,
    bytes: u64,
    /// What was not brought, and why, for people.
    pub(super) lacks: Vec<String>,
}

impl<'a> Bringer<'a> {
    pub(super) fn new(ground: &'a ShadowRoots) -> Self {
        Self { ground, files: 0, bytes: 0, lacks: Vec::new() }
    }

    /// Brings a file or directory, named by its path below the project's root.
    pub(super) fn bring(&mut self, path: &Path) {
        let (real, place) = (self.ground.real.join(path), self.ground.root.join(path));
        let made = place.parent().map_or(Ok(()), fs::create_dir_all);
        let brought = made.and_then(|()| self.bring_to(&real, &place));
        if let Err(error) = brought
            && error.kind() != io::ErrorKind::NotFound
        {
            self.lacks.push(format!("{} ({error})", path.display()));
        }
    }

    fn bring_to(&mut self, real: &Path, place: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(real)?;
        if !meta.is_dir() {
            return if is_cache(real) { Ok(()) } else { self.copy_file(real, place, &meta) };
        }
        match how(real) {
            How::Show => self.show(real, place),
            How::Link => ignore_present(symlink(real, place)),
            How::Seed => self.seed(real, place, 0),
            How::Leave => Ok(()),
            How::Copy => self.copy(real, place),
        }
    }

    /// Copies a directory with all in it.
    fn copy(&mut self, real: &Path, place: &Path) -> io::Result<()> {
        make_dir(place)?;
        each(real, |entry| self.bring_to(&entry.path(), &place.join(entry.file_name())))
    }

    /// Copies a file or link unless there is one; never over what a snapshot kept.
    fn copy_file(&mut self, real: &Path, place: &Path, meta: &Metadata) -> io::Result<()> {
        if fs::symlink_metadata(place).is_ok() {
            return Ok(());
        }
        if meta.is_symlink() {
            return symlink(link_text(self.ground, real, fs::read_link(real)?.as_os_str()), place);
        }
        if !meta.is_file() {
            // Sockets and pipes belong to whoever listens.
            return Ok(());
        }
        if self.files >= MOST_FILES || self.bytes + meta.len() > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too much to copy"));
        }
        self.files += 1;
        self.bytes += fs::copy(real, place)?;
        // What is made from it is told from what is stale by the time it was written.
        let times = FileTimes::new().set_modified(meta.modified()?);
        File::options().read(true).open(place)?.set_times(times)
    }

    /// Shows a directory of packages by links.
    fn show(&mut self, real: &Path, place: &Path) -> io::Result<()> {
        make_dir(place)?;
        each(real, |entry| {
            let (name, from) = (entry.file_name(), entry.path());
            let to = place.join(&name);
            let meta = fs::symlink_metadata(&from)?;
            let is_group = name.as_encoded_bytes().starts_with(b"@") || name == ".bin";
            if meta.is_dir() {
                if packages::is_cache(&name) {
                    Ok(())
                } else if is_group || is_dir(&to) {
                    self.show(&from, &to)
                } else if name == "composer" {
                    // Its files name the project's by their own place.
                    self.copy(&from, &to)
                } else {
                    symlink(&from, &to)
                }
            } else if meta.is_file() && meta.len() > SMALL {
                ignore_present(symlink(&from, &to))
            } else {
                self.copy_file(&from, &to, &meta)
            }
        })
    }

    /// Starts a new build from the dependencies that another one has compiled.
    fn seed(&mut self, real: &Path, place: &Path, depth: usize) -> io::Result<()> {
        make_dir(place)?;
        let is_profile = real.join("deps").is_dir() && real.join(".fingerprint").is_dir();
        each(real, |entry| {
            let (name, from) = (entry.file_name(), entry.path());
            let to = place.join(&name);
            match name.to_str() {
                Some("deps") if is_profile => link_all(&from, &to, is_library),
                Some(".fingerprint") if is_profile => self.copy(&from, &to),
                Some("build") if is_profile => {
                    link_all(&from, &to, is_build_script)?;
                    self.copy(&from, &to)
                }
                Some(".rustc_info.json" | "CACHEDIR.TAG") => {
                    self.copy_file(&from, &to, &entry.metadata()?)
                }
                _ if is_dir(&from) && !is_profile && depth < PROFILES => {
                    self.seed(&from, &to, depth + 1)
                }
                _ => Ok(()),
            }
        })
    }
}

fn how(real: &Path) -> How {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let has = |file: &str| real.join(file).exists();
    match name {
        _ if PACKAGES.contains(&name) => How::Show,
        _ if is_cache(real) => How::Leave,
        "target" if has(".rustc_info.json") || has("CACHEDIR.TAG") => How::Seed,
        // The programs in it name its real place, and find their packages there.
        _ if has("pyvenv.cfg") => How::Link,
        _ => How::Copy,
    }
}

fn is_cache(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    CACHES.contains(&name) || name.ends_with(".pyc")
}

fn is_library(name: &str) -> bool {
    [".rlib", ".rmeta", ".so", ".dylib", ".a"].iter().any(|end| name.ends_with(end))
}

fn is_build_script(name: &str) -> bool {
    name.starts_with("build-script-") || name.starts_with("build_script_")
}

/// Makes hard links to the files that are `wanted`, in the same directories.
fn link_all(real: &Path, place: &Path, wanted: fn(&str) -> bool) -> io::Result<()> {
    make_dir(place)?;
    each(real, |entry| {
        let to = place.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            return link_all(&entry.path(), &to, wanted);
        }
        if entry.file_name().to_str().is_some_and(wanted) {
            return ignore_present(fs::hard_link(entry.path(), to));
        }
        Ok(())
    })
}

/// Does something with each entry of a directory.
fn each(dir: &Path, mut act: impl FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        match act(entry?) {
            // It went away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Makes a directory unless it is there; a link to one is none.
fn make_dir(place: &Path) -> io::Result<()> {
    ignore_present(fs::create_dir(place))?;
    if is_dir(place) { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

fn is_dir(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir())
}

fn ignore_present(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
