//! Where a file is: its directory, held open, and its name in there.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::STATE_DIR;

/// How a directory is held: enough to look up names in it, also where it may not be listed.
const HELD: OFlags = {
    let held = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
    #[cfg(target_os = "linux")]
    let held = held.union(OFlags::PATH);
    held
};

/// What to do about directories that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingDirs {
    /// It is an error, as for any other path.
    Refuse,
    /// They are made.
    Make,
}

/// The directory of a file, held open.
///
/// The way to the project is taken as the system takes it. From `.salve` down every part is opened
/// by its handle and must be a real directory: whoever may write there may also plant links, and a
/// path that was looked at is another one when it is opened.
#[derive(Debug)]
pub(crate) struct Parent<'p> {
    handle: OwnedFd,
    name: &'p OsStr,
}

impl<'p> Parent<'p> {
    /// Opens the directory that `path` is in.
    pub(crate) fn of(path: &'p Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let handle = open_directory(dir.unwrap_or(Path::new(".")), MissingDirs::Refuse)?;
        Ok(Self { handle, name })
    }

    /// Returns the file's name in its directory.
    pub(crate) fn name(&self) -> &'p OsStr {
        self.name
    }

    /// Returns the directory.
    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Returns what is at the path, without following a link.
    pub(crate) fn look(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.handle, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Opens a directory; those below `.salve` part by part.
pub(super) fn open_directory(dir: &Path, missing: MissingDirs) -> io::Result<OwnedFd> {
    match (Guarded::of(dir), missing) {
        (Some(guarded), _) => guarded.open(missing),
        (None, MissingDirs::Refuse) => open_plain(dir),
        (None, MissingDirs::Make) => {
            std::fs::create_dir_all(dir)?;
            open_plain(dir)
        }
    }
}

/// The part of a directory's path from `.salve` down.
struct Guarded<'p> {
    /// The project's root.
    anchor: &'p Path,
    /// `.salve` and what is below it.
    parts: Vec<&'p OsStr>,
}

impl<'p> Guarded<'p> {
    /// Returns nothing for a directory that is neither `.salve` nor below one.
    fn of(dir: &'p Path) -> Option<Self> {
        // The first one counts: what lies deeper is below it as well.
        let anchor = dir.ancestors().filter(|dir| dir.file_name() == Some(OsStr::new(STATE_DIR)));
        let anchor = anchor.last()?.parent()?;
        let parts = dir.strip_prefix(anchor).ok()?.components();
        Some(Self { anchor, parts: parts.map(Component::as_os_str).collect() })
    }

    fn open(&self, missing: MissingDirs) -> io::Result<OwnedFd> {
        let is_here = self.anchor.as_os_str().is_empty();
        let mut held = open_plain(if is_here { Path::new(".") } else { self.anchor })?;
        for (depth, part) in self.parts.iter().enumerate() {
            let open = || rustix::fs::openat(&held, *part, HELD | OFlags::NOFOLLOW, Mode::empty());
            let opened = match open() {
                Err(Errno::NOENT) if missing == MissingDirs::Make => {
                    match rustix::fs::mkdirat(&held, *part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open(),
                        Err(error) => Err(error),
                    }
                }
                opened => opened,
            };
            held = opened.map_err(|error| told(error, part))?;
            if depth == 0 && !is_own(rustix::fs::fstat(&held)?.st_uid) {
                let why = format!("{STATE_DIR} belongs to another user");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
        }
        Ok(held)
    }
}

/// Returns whether a file's owner is this user, as git sees it: under `sudo`, the caller is too.
pub fn is_own(owner: u32) -> bool {
    let me = rustix::process::geteuid();
    let caller = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    owner == me.as_raw() || (me.is_root() && caller() == Some(owner))
}

/// Makes the names in a directory survive a power cut.
pub(crate) fn sync(dir: BorrowedFd<'_>) -> io::Result<()> {
    // A handle that only looks up names cannot be synced itself.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::fsync(rustix::fs::openat(dir, ".", flags, Mode::empty())?)?)
}

fn open_plain(dir: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, dir, HELD, Mode::empty())?)
}

/// Says that a part is a link where the system only says that it is no directory.
fn told(error: Errno, part: &OsStr) -> io::Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => {
            let why = format!("{} is a link or a file, not a directory", part.display());
            io::Error::new(io::ErrorKind::NotADirectory, why)
        }
        error => error.into(),
    }
}

/// Names what a file is, if it is no regular one.
pub(super) fn kind_of(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Unknown => Some("of an unknown kind"),
    }
}
