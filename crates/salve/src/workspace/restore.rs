//! Working off a plan: everything is staged and checked before the first file is touched.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{Access, AtFlags, Mode, OFlags};

use super::error::{RestoreError, WorkspaceError};
use super::git::Git;
use super::keep;
use super::lair::Lair;
use super::oid::Oid;
use super::plan::Plan;
use super::scan::Scanner;
use super::tree::{Kind, Rel, show};

/// A plan whose files lie ready to be moved into place.
pub(super) struct Staged<'a> {
    scanner: &'a Scanner,
    plan: &'a Plan,
    lair: Lair,
}

/// Where a restore stopped.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) path: Rel,
    pub(super) source: io::Error,
}

/// Checks that the plan can be worked off, and lays its files, which `store` has, ready in `stage`.
pub(super) fn stage<'a>(
    scanner: &'a Scanner,
    plan: &'a Plan,
    (stage, store): (&Path, &Git),
) -> Result<Staged<'a>, RestoreError> {
    check_ways(scanner, plan)?;
    check_rights(scanner, plan)?;
    let lair = Lair::make(&stage.join("staged"))?;
    let items: Vec<_> = plan.write.values().collect();
    let oids: Vec<Oid> = items.iter().map(|item| item.oid).collect();
    keep::contents(store, &oids, |at, content| {
        let path = lair.dir().join(at.to_string());
        let item = items[at];
        let made = match item.kind {
            Kind::Link => symlink(OsStr::from_bytes(content), &path),
            Kind::Plain | Kind::Executable => write(&path, content, item.permissions),
        };
        made.map_err(WorkspaceError::io(path))
    })?;
    Ok(Staged { scanner, plan, lair })
}

fn write(path: &Path, content: &[u8], permissions: u16) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(u32::from(permissions)))
}

/// Refuses if something that stays is where a file or its directory has to be.
fn check_ways(scanner: &Scanner, plan: &Plan) -> Result<(), RestoreError> {
    let mut paths: Vec<String> = Vec::new();
    let meta = |path: &Path| fs::symlink_metadata(scanner.root.join(path)).ok();
    for target in plan.write.keys().chain(&plan.make_dirs) {
        let above = Path::new(target).ancestors().skip(1);
        let in_the_way = |dir: &&Path| meta(dir).is_some_and(|m| !m.is_dir()) && !plan.takes(dir);
        let mut blocked: Vec<_> =
            above.filter(in_the_way).map(|dir| show(dir.as_os_str())).collect();
        let is_dir = meta(Path::new(target)).is_some_and(|m| m.is_dir());
        if is_dir && plan.write.contains_key(target) {
            blocked.extend(what_stays(scanner, plan, Path::new(target)));
        }
        paths.append(&mut blocked);
    }
    paths.sort();
    paths.dedup();
    if paths.is_empty() { Ok(()) } else { Err(RestoreError::Blocked { paths }) }
}

/// Returns what would be left in a directory that has to make way.
fn what_stays(scanner: &Scanner, plan: &Plan, dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(scanner.root.join(dir)) else {
        return vec![show(dir.as_os_str())];
    };
    let mut stays = Vec::new();
    for entry in entries.flatten() {
        let path = dir.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => stays.extend(what_stays(scanner, plan, &path)),
            _ if plan.takes(&path) => {}
            _ => stays.push(show(path.as_os_str())),
        }
    }
    stays
}

/// Refuses if the system would not let us change one of the directories.
fn check_rights(scanner: &Scanner, plan: &Plan) -> Result<(), RestoreError> {
    let touched = plan.remove.iter().chain(plan.write.keys()).chain(&plan.make_dirs);
    let is_denied = |path: &&Rel| {
        let nearest = Path::new(path).ancestors().skip(1).find_map(|dir| {
            let full = scanner.root.join(dir);
            full.is_dir().then_some(full)
        });
        nearest
            .is_none_or(|dir| rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err())
    };
    let paths: Vec<String> = touched.filter(is_denied).map(|path| show(path)).collect();
    if paths.is_empty() { Ok(()) } else { Err(RestoreError::Denied { paths }) }
}

impl Staged<'_> {
    /// Does it all; stops at the first thing that cannot be done.
    pub(super) fn apply(&self) -> Result<(), Stop> {
        let stop = |path: &Rel| {
            let path = path.clone();
            move |source| Stop { path, source }
        };
        for path in &self.plan.remove {
            self.remove(path).map_err(stop(path))?;
        }
        for path in &self.plan.remove_dirs {
            self.remove_dir(path).map_err(stop(path))?;
        }
        for path in &self.plan.make_dirs {
            self.parent(Path::new(path).join("x").as_os_str()).map(drop).map_err(stop(path))?;
        }
        for (at, path) in self.plan.write.keys().enumerate() {
            self.put(at, path).map_err(stop(path))?;
        }
        Ok(())
    }

    fn remove(&self, path: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        gone_is_fine(rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    /// Removes a directory unless something stayed in it.
    fn remove_dir(&self, path: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => Ok(()),
            other => gone_is_fine(other),
        }
    }

    fn put(&self, at: usize, path: &OsStr) -> io::Result<()> {
        let staged = self.lair.dir().join(at.to_string());
        let (dir, name) = self.parent(path)?;
        // An empty directory may have taken the file's place.
        let _ = rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR);
        match rustix::fs::renameat(rustix::fs::CWD, &staged, &dir, name) {
            Err(rustix::io::Errno::XDEV) => copy(&staged, dir.as_fd(), name),
            other => Ok(other?),
        }
    }

    /// Opens the directory that `path` is in, making what is missing and following no link.
    fn parent<'p>(&self, path: &'p OsStr) -> io::Result<(OwnedFd, &'p OsStr)> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
        let mut dir = rustix::fs::open(&self.scanner.root, flags, Mode::empty())?;
        let path = Path::new(path);
        for part in path.parent().into_iter().flat_map(Path::iter) {
            let next = match rustix::fs::openat(&dir, part, flags, Mode::empty()) {
                Err(rustix::io::Errno::NOENT) => {
                    rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o777))?;
                    rustix::fs::openat(&dir, part, flags, Mode::empty())
                }
                opened => opened,
            };
            dir = next?;
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((dir, name))
    }
}

/// Puts a file into a directory on another file system.
fn copy(staged: &Path, dir: std::os::fd::BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let meta = fs::symlink_metadata(staged)?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".salve-{}", std::process::id()));
    if meta.is_symlink() {
        rustix::fs::symlinkat(fs::read_link(staged)?, dir, &temporary)?;
    } else {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(dir, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mut to = File::from(to);
        io::copy(&mut File::open(staged)?, &mut to)?;
        to.set_permissions(meta.permissions())?;
    }
    Ok(rustix::fs::renameat(dir, &temporary, dir, name)?)
}

fn gone_is_fine(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}
