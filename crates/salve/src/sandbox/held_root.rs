//! A project's root, held open since before a command ran: what is looked at, moved away and put back
//! in it is in it and nowhere else, whatever links the command left.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::files::{self, Parent};

/// The directory of what commands wrote where they must not.
pub(super) const REFUSED: &str = ".salve/refused";

/// How much of a file is kept to put it back; settings are smaller by far.
const MOST: u64 = 4 << 20;

/// How many files of a directory are kept, and how much of them.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: usize = 64 << 20;

/// How a directory is opened on the way.
const ON_THE_WAY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathOccupant {
    Nothing,
    File(SealedContent),
    Dir(BTreeMap<OsString, PathOccupant>),
    /// A link, and where it leads.
    Link(PathBuf),
    /// This one on the way is no directory.
    Blocked(PathBuf),
    /// Something too large or too strange to be put back.
    Other,
}

/// A file's content and mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SealedContent {
    bytes: Vec<u8>,
    mode: u32,
}

/// A project's root.
#[derive(Debug)]
pub(super) struct HeldRoot {
    path: PathBuf,
    handle: OwnedFd,
}

/// How much may still be kept.
struct KeptRoom {
    files: usize,
    bytes: usize,
}

impl HeldRoot {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { path: path.to_path_buf(), handle })
    }

    /// Tells whether something on the way to a path is no directory.
    pub(super) fn is_blocked(&self, path: &Path) -> bool {
        matches!(self.above(path), Ok(WayToPath::Blocked(_)))
    }

    /// Returns what stands at a path of the project.
    ///
    /// Salve's own files are not opened: whoever closes a file of the store ends the locks that the
    /// engine holds on it in this process, and others take the store for theirs alone.
    pub(super) fn look(&self, path: &Path) -> PathOccupant {
        let mut room = KeptRoom { files: MOST_FILES, bytes: MOST_BYTES };
        match self.above(path) {
            Ok(WayToPath::There(..)) if path.starts_with(files::STATE_DIR) => PathOccupant::Other,
            Ok(WayToPath::There(dir, name)) => look_at(dir.as_fd(), name, &mut room),
            Ok(WayToPath::Blocked(by)) => PathOccupant::Blocked(by),
            Ok(WayToPath::Missing) => PathOccupant::Nothing,
            Err(_) => PathOccupant::Other,
        }
    }

    /// Brings a path back to what stood there; what stands there now is kept aside.
    pub(super) fn restore(&self, path: &Path, before: &PathOccupant) -> io::Result<()> {
        self.exchange(path, before, &self.look(path))
    }

    fn exchange(&self, path: &Path, before: &PathOccupant, now: &PathOccupant) -> io::Result<()> {
        match (before, now) {
            (before, now) if before == now => Ok(()),
            (PathOccupant::Other | PathOccupant::Blocked(_), _) => Ok(()),
            (PathOccupant::Dir(before), PathOccupant::Dir(now)) => {
                let names: BTreeSet<&OsString> = before.keys().chain(now.keys()).collect();
                let none = PathOccupant::Nothing;
                names.into_iter().try_for_each(|name| {
                    let [before, now] = [before, now].map(|dir| dir.get(name).unwrap_or(&none));
                    self.exchange(&path.join(name), before, now)
                })
            }
            (before, PathOccupant::Blocked(by)) => {
                self.set_aside(by)?;
                self.exchange(path, before, &self.look(path))
            }
            (before, PathOccupant::Nothing) => self.put(path, before),
            (before, _) => {
                self.set_aside(path)?;
                self.put(path, before)
            }
        }
    }

    /// Moves what stands at a path to where refused things are.
    pub(super) fn set_aside(&self, path: &Path) -> io::Result<()> {
        let refused = self.path.join(REFUSED);
        let aside = refused.join(Uuid::new_v4().to_string()).join(path);
        if refused.is_symlink() {
            // It would have us leave what was refused where it is.
            files::remove(&refused)?;
        }
        if let Some(dir) = aside.parent() {
            files::make_directories(dir)?;
        }
        self.rename(path, &Parent::of(&aside)?)
    }

    /// Moves something of the project to another place in it.
    pub(super) fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (dir, name) = self.made(to)?;
        let WayToPath::There(source, from) = self.above(from)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Ok(rustix::fs::renameat(source, from, dir, name)?)
    }

    fn rename(&self, from: &Path, to: &Parent<'_>) -> io::Result<()> {
        let WayToPath::There(dir, name) = self.above(from)? else { return Ok(()) };
        let rename = || rustix::fs::renameat(&dir, name, to.handle(), to.name());
        match rename() {
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::ACCESS) => {
                // The command closed what it left, or where that is.
                open_up(dir.as_fd());
                if let Ok(own) = rustix::fs::openat(&dir, name, ON_THE_WAY, Mode::empty()) {
                    open_up(own.as_fd());
                }
                Ok(rename()?)
            }
            other => Ok(other?),
        }
    }

    /// Puts something where nothing is.
    fn put(&self, path: &Path, what: &PathOccupant) -> io::Result<()> {
        match what {
            PathOccupant::Nothing | PathOccupant::Other | PathOccupant::Blocked(_) => Ok(()),
            PathOccupant::File(kept) => {
                let (dir, name) = self.made(path)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
                let mut file = File::from(file);
                file.write_all(&kept.bytes)?;
                // A hook that cannot be run would be none.
                Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(kept.mode & 0o7777))?)
            }
            PathOccupant::Link(target) => {
                let (dir, name) = self.made(path)?;
                Ok(rustix::fs::symlinkat(target, dir, name)?)
            }
            PathOccupant::Dir(inside) => {
                self.made(&path.join("any"))?;
                inside.iter().try_for_each(|(name, kept)| self.put(&path.join(name), kept))
            }
        }
    }

    /// Opens the directory above a path, and makes it if need be.
    fn made<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let dirs = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        for dir in dirs.collect::<Vec<_>>().into_iter().rev() {
            if let WayToPath::There(above, name) = self.above(dir)? {
                match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match self.above(path)? {
            WayToPath::There(dir, name) => Ok((dir, name)),
            WayToPath::Blocked(_) | WayToPath::Missing => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Goes to the directory above a path, part by part and through no link.
    fn above<'p>(&self, path: &'p Path) -> io::Result<WayToPath<'p>> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut held = self.handle.try_clone()?;
        let mut at = PathBuf::new();
        for part in path.parent().unwrap_or(Path::new("")) {
            at.push(part);
            let open = || rustix::fs::openat(&held, part, ON_THE_WAY, Mode::empty());
            let opened = open().or_else(|error| {
                if error == Errno::ACCESS {
                    open_up(held.as_fd());
                }
                open()
            });
            held = match opened {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(WayToPath::Missing),
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(WayToPath::Blocked(at)),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(WayToPath::There(held, name))
    }
}

/// Lets its owner into a directory again.
fn open_up(dir: BorrowedFd<'_>) {
    let Ok(stat) = rustix::fs::fstat(dir) else { return };
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
    // A handle that only looks up names changes no mode by itself. What fails shows by what follows.
    let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), mode);
}

/// The way to a path of the project.
enum WayToPath<'p> {
    /// The directory above it, and its name in there.
    There(OwnedFd, &'p OsStr),
    /// This one on the way is no directory.
    Blocked(PathBuf),
    /// A directory on the way is not there.
    Missing,
}

fn look_at(dir: BorrowedFd<'_>, name: &OsStr, room: &mut KeptRoom) -> PathOccupant {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return PathOccupant::Nothing,
        Err(_) => return PathOccupant::Other,
    };
    if room.files == 0 {
        return PathOccupant::Other;
    }
    room.files -= 1;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new());
            target.map_or(PathOccupant::Other, |target| {
                PathOccupant::Link(OsString::from_vec(target.into_bytes()).into())
            })
        }
        FileType::RegularFile => {
            let read = read(dir, name, stat.st_mode).filter(|kept| kept.bytes.len() <= room.bytes);
            read.map_or(PathOccupant::Other, |kept| {
                room.bytes -= kept.bytes.len();
                PathOccupant::File(kept)
            })
        }
        FileType::Directory => look_in(dir, name, room).unwrap_or(PathOccupant::Other),
        _ => PathOccupant::Other,
    }
}

fn look_in(above: BorrowedFd<'_>, name: &OsStr, room: &mut KeptRoom) -> Option<PathOccupant> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(above, name, flags, Mode::empty());
    let dir = open().or_else(|error| {
        if let (Errno::ACCESS, Ok(own)) =
            (error, rustix::fs::openat(above, name, ON_THE_WAY, Mode::empty()))
        {
            open_up(own.as_fd());
        }
        open()
    });
    let dir = dir.ok()?;
    let mut found = BTreeMap::new();
    for entry in Dir::read_from(&dir).ok()? {
        let name = OsString::from_vec(entry.ok()?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            let what = look_at(dir.as_fd(), &name, room);
            found.insert(name, what);
        }
    }
    Some(PathOccupant::Dir(found))
}

/// Reads a file that is small enough to be put back.
fn read(dir: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Option<SealedContent> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MOST).then_some(SealedContent { bytes, mode })
}
