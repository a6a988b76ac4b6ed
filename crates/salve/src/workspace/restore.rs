//! Working off a plan: everything is staged and checked before the first file is touched.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};

use super::error::{RestoreError, WorkspaceError};
use super::git::Git;
use super::keep;
use super::oid::Oid;
use super::plan::RestorePlan;
use super::scan::Scanner;
use super::scratch_dir::ScratchDir;
use super::tree::{Kind, Rel, WorkingTree, show};

/// The permission by which a directory hands its group on to what is made in it.
const HANDS_ON_GROUP: u32 = 0o2000;

/// A plan whose files lie ready to be moved into place.
pub(super) struct Staged<'a> {
    scanner: &'a Scanner,
    plan: &'a RestorePlan,
    /// What is there before the plan is worked off.
    expected: &'a WorkingTree,
    lair: ScratchDir,
}

/// Where a restore stopped.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) path: Rel,
    pub(super) source: io::Error,
}

/// Where files are laid ready, and from where.
#[derive(Clone, Copy)]
pub(super) struct LayPlace<'a> {
    /// The directory for those that lie ready.
    pub(super) dir: &'a Path,
    /// The store that has what is in them.
    pub(super) store: &'a Git,
}

/// Checks that the plan can be worked off, and lays its files ready.
///
/// `expected` is the state that the plan was made for: a file that is anything else by the time it is
/// its turn is somebody's work, and stops it all.
pub(super) fn stage<'a>(
    scanner: &'a Scanner,
    plan: &'a RestorePlan,
    expected: &'a WorkingTree,
    lay: LayPlace<'_>,
) -> Result<Staged<'a>, RestoreError> {
    check_ways(scanner, plan)?;
    check_rights(scanner, plan)?;
    let lair = ScratchDir::make(&lay.dir.join("staged"))?;
    let items: Vec<_> = plan.write.values().collect();
    let oids: Vec<Oid> = items.iter().map(|item| item.oid).collect();
    keep::contents(lay.store, &oids, |at, content| {
        let path = lair.dir().join(at.to_string());
        let item = items[at];
        let made = match item.kind {
            Kind::Link => symlink(OsStr::from_bytes(content), &path),
            Kind::Plain | Kind::Executable => write(&path, content, item.permissions),
        };
        made.map_err(WorkspaceError::io(path))
    })?;
    Ok(Staged { scanner, plan, expected, lair })
}

fn write(path: &Path, content: &[u8], permissions: u16) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(u32::from(permissions)))
}

/// Refuses if something that stays is where a file or its directory has to be.
fn check_ways(scanner: &Scanner, plan: &RestorePlan) -> Result<(), RestoreError> {
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
fn what_stays(scanner: &Scanner, plan: &RestorePlan, dir: &Path) -> Vec<String> {
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
fn check_rights(scanner: &Scanner, plan: &RestorePlan) -> Result<(), RestoreError> {
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
        let mut exchanged = Vec::new();
        for (at, path) in self.plan.write.keys().enumerate() {
            let old = self.put(at, path).map_err(stop(path))?;
            exchanged.extend(old.map(|old| (path, old)));
        }
        // Whoever had the old file open may have written to it after it was looked at.
        for (path, old) in exchanged {
            if let Err(error) = self.check(&old, path) {
                self.put_back(&old, path).map_err(stop(path))?;
                return Err(stop(path)(error));
            }
        }
        Ok(())
    }

    /// Refuses if what was moved away is not what was expected at `path`.
    fn check(&self, moved: &Path, path: &OsStr) -> io::Result<()> {
        let Some(expected) = self.expected.items.get(path) else { return Ok(()) };
        match self.scanner.content(moved) {
            Ok((item, _)) if item == *expected => Ok(()),
            Ok(_) => Err(changed_meanwhile()),
            // It cannot be read: neither could it before.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts what was moved away back in its place.
    fn put_back(&self, moved: &Path, path: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::renameat(rustix::fs::CWD, moved, &dir, name)?)
    }

    /// Takes a file away: it is moved first and looked at then, so that nobody can write to it between.
    fn remove(&self, path: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let away = self.lair.dir().join(format!("away-{}", uuid::Uuid::new_v4()));
        match rustix::fs::renameat(&dir, name, rustix::fs::CWD, &away) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(rustix::io::Errno::XDEV) => {
                self.check(&self.scanner.root.join(path), path)?;
                return gone_is_fine(rustix::fs::unlinkat(dir, name, AtFlags::empty()));
            }
            other => other?,
        }
        self.check(&away, path).or_else(|error| {
            self.put_back(&away, path)?;
            Err(error)
        })
    }

    /// Removes a directory unless something stayed in it.
    fn remove_dir(&self, path: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => Ok(()),
            other => gone_is_fine(other),
        }
    }

    /// Puts a file in its place; returns where the one that was there is now.
    fn put(&self, at: usize, path: &OsStr) -> io::Result<Option<PathBuf>> {
        let (dir, name) = self.parent(path)?;
        // An empty directory may have taken the file's place.
        let _ = rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR);
        let mut from = self.lair.dir().join(at.to_string());
        keep_owner(&from, dir.as_fd(), name);
        let is_new = !self.expected.items.contains_key(path);
        let flags = if is_new { RenameFlags::NOREPLACE } else { RenameFlags::EXCHANGE };
        let mut moved = rustix::fs::renameat_with(rustix::fs::CWD, &from, &dir, name, flags);
        if moved == Err(rustix::io::Errno::XDEV) {
            let beside = copy(&from, dir.as_fd(), name)?;
            from = self.scanner.root.join(path).with_file_name(beside);
            keep_owner(&from, dir.as_fd(), name);
            moved = rustix::fs::renameat_with(rustix::fs::CWD, &from, &dir, name, flags);
        }
        match moved {
            Ok(()) if is_new => Ok(None),
            Ok(()) => match self.check(&from, path) {
                Ok(()) => Ok(Some(from)),
                Err(error) => {
                    self.put_back(&from, path)?;
                    Err(error)
                }
            },
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOENT) => Err(changed_meanwhile()),
            // Not every file system can exchange; then there is a moment in which nobody looks.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                self.check(&self.scanner.root.join(path), path)?;
                rustix::fs::renameat(rustix::fs::CWD, &from, &dir, name)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
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
                    belong_above(dir.as_fd(), part);
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

/// Gives a file that lies ready for `name` the owner and the group of what is there.
///
/// What is new gets the group where the directory hands on its own. Made by root, it belongs to whom
/// its directory belongs to, so that the user of a container or of `sudo` is not locked out.
fn keep_owner(from: &Path, dir: BorrowedFd<'_>, name: &OsStr) {
    let Ok(is) = fs::symlink_metadata(from) else { return };
    let above = || {
        let above = rustix::fs::fstat(dir).ok()?;
        let hands_on = above.st_mode & HANDS_ON_GROUP != 0;
        let is_root = rustix::process::geteuid().is_root();
        let uid = if is_root { above.st_uid } else { is.uid() };
        Some((uid, if hands_on || is_root { above.st_gid } else { is.gid() }))
    };
    let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    let there = there.ok().map(|there| (there.st_uid, there.st_gid));
    let Some((uid, gid)) = there.or_else(above) else { return };
    if (uid, gid) == (is.uid(), is.gid()) {
        return;
    }
    // Who is not root may at most choose among their own groups; where not even that, it stays theirs.
    let given = lchown(from, Some(uid), Some(gid)).or_else(|_| lchown(from, None, Some(gid)));
    if given.is_ok() && is.is_file() {
        // Giving a file away takes some permissions.
        let _ = fs::set_permissions(from, is.permissions());
    }
}

/// Gives a directory that root made to whom the one above it belongs to.
fn belong_above(above: BorrowedFd<'_>, name: &OsStr) {
    if let (true, Ok(stat)) = (rustix::process::geteuid().is_root(), rustix::fs::fstat(above)) {
        let owner = Some(Uid::from_raw(stat.st_uid));
        let group = Some(Gid::from_raw(stat.st_gid));
        // Who may not give it away keeps it.
        let _ = rustix::fs::chownat(above, name, owner, group, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// Copies a file beside its place on another file system; returns the copy's name.
fn copy(staged: &Path, dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OsString> {
    let meta = fs::symlink_metadata(staged)?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
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
    Ok(temporary)
}

/// Says that somebody saved a file between the look at it and its turn.
fn changed_meanwhile() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "it was changed at this very moment")
}

fn gone_is_fine(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}
