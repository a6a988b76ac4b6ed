//! Makes and opens files below `.salve`, by handles of their directories.
//!
//! For files that are replaced whole see [`crate::atomic`], which goes the same way.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::place::{MissingDirs, Parent, kind_of, open_directory};

/// Makes a directory and those above it, as far as they are missing.
///
/// From `.salve` down only real directories count as there.
pub fn make_directories(dir: &Path) -> io::Result<()> {
    open_directory(dir, MissingDirs::Make).map(drop)
}

/// Opens a file for adding to it, and makes it if there is none.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    open(path, OFlags::WRONLY | OFlags::APPEND, mode)
}

/// Opens a file that says by its lock who is at work, and makes it if there is none.
pub fn open_lock(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR, 0o666)
}

/// Renames a file within the directories that hold the two names.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (Parent::of(from)?, Parent::of(to)?);
    Ok(rustix::fs::renameat(from.handle(), from.name(), to.handle(), to.name())?)
}

/// Removes a file, or the link that stands in its place.
pub fn remove(path: &Path) -> io::Result<()> {
    let parent = Parent::of(path)?;
    Ok(rustix::fs::unlinkat(parent.handle(), parent.name(), AtFlags::empty())?)
}

/// Returns what is in a directory, sorted by name; nothing where there is none.
pub fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let handle = match open_directory(dir, MissingDirs::Refuse) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = std::fs::read_dir(by_handle(&handle, OsStr::new(".")))?;
    let mut paths = Vec::new();
    for entry in names {
        paths.push(dir.join(entry?.file_name()));
    }
    paths.sort();
    Ok(paths)
}

/// Removes a directory with all that is in it; links in it, and one in its place, are not followed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let parent = Parent::of(path)?;
    std::fs::remove_dir_all(by_handle(&parent.handle(), parent.name()))
}

/// Returns a path that begins at a directory that is held open, whatever its name leads to by now.
fn by_handle(dir: &impl AsRawFd, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

fn open(path: &Path, access: OFlags, mode: u32) -> io::Result<File> {
    let parent = Parent::of(path)?;
    let flags = access
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(mode);
    let opened = rustix::fs::openat(parent.handle(), parent.name(), flags, mode);
    let file = match opened {
        Ok(file) => file,
        // What cannot be opened this way is named by what it is.
        Err(error) => {
            let found = parent.look().ok().and_then(|stat| kind_of(&stat));
            return Err(found.map_or_else(|| error.into(), |kind| planted(path, kind)));
        }
    };
    let stat = rustix::fs::fstat(&file)?;
    if let Some(kind) = kind_of(&stat) {
        return Err(planted(path, kind));
    }
    // A second name may be that of any file of the user's on the same file system.
    if stat.st_nlink > 1 {
        return Err(planted(path, "one file with another (a hard link)"));
    }
    Ok(file.into())
}

fn planted(path: &Path, found: &str) -> io::Error {
    let name = path.file_name().unwrap_or_default();
    let why = format!("{} is {found}; move it away and try again", name.display());
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
