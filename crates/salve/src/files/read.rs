//! Reads files that a stranger may have put there.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use salve_core::gate::MAX_PROPOSAL;

use super::place::{Parent, kind_of};

/// What a file is for, which says how large it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A note of a few lines: who holds a lock, a key, a version.
    Note,
    /// Settings and words that people write by hand.
    Settings,
    /// A manifest, a report, a file of what was learned.
    Document,
    /// A proposal of what to do about tests that could not run.
    Proposal,
    /// A lockfile, a source file, a log, an index: what programs write or read whole.
    Bulk,
}

impl FileKind {
    /// Returns the most bytes that such a file may have.
    pub const fn limit(self) -> u64 {
        match self {
            Self::Note => 64 << 10,
            Self::Settings => 1 << 20,
            Self::Proposal => MAX_PROPOSAL as u64,
            Self::Document => 16 << 20,
            Self::Bulk => 256 << 20,
        }
    }
}

/// Whether a link may stand in a file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links<'d> {
    /// The last part of the path must be the file itself.
    Refuse,
    /// The last part of the path may be a link to a file below this directory, which has no links
    /// in its own path.
    Inside(&'d Path),
    /// The last part of the path may be a link: the file is its owner's choice.
    Follow,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A link, a pipe, a device, a socket or a directory.
    #[error("is {0}, not a file")]
    NotRegular(&'static str),
    /// A link that leads elsewhere.
    #[error("is a link to a file outside the project")]
    Outside,
    /// The file is larger than what belongs there.
    #[error("is larger than {} KiB", .0 / 1024)]
    TooLarge(u64),
    /// The file is no text.
    #[error("line {0} is not valid UTF-8")]
    NotText(usize),
}

impl FileError {
    /// Returns whether there is no file, not even a link to nowhere.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::NotFound,
            Self::NotRegular(_) | Self::Outside | Self::TooLarge(_) | Self::NotText(_) => false,
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io(error) => error,
            error => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Reads a regular file, never a link, up to the size that fits its kind.
pub fn read_bytes(path: &Path, kind: FileKind) -> Result<Vec<u8>, FileError> {
    read_bytes_where(path, kind, Links::Refuse)
}

/// Reads a regular file of UTF-8 text, never a link, up to the size that fits its kind.
pub fn read_text(path: &Path, kind: FileKind) -> Result<String, FileError> {
    read_text_where(path, kind, Links::Refuse)
}

/// Reads a regular file, or what a link leads to where that is asked for.
pub fn read_bytes_where(
    path: &Path,
    kind: FileKind,
    links: Links<'_>,
) -> Result<Vec<u8>, FileError> {
    let file = open_regular(path, links)?;
    let max = kind.limit();
    if file.metadata()?.len() > max {
        return Err(FileError::TooLarge(max));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge(max));
    }
    Ok(bytes)
}

/// Reads a regular file of UTF-8 text, or what a link leads to where that is asked for.
pub fn read_text_where(path: &Path, kind: FileKind, links: Links<'_>) -> Result<String, FileError> {
    into_text(read_bytes_where(path, kind, links)?)
}

/// Takes bytes for text, or says which line is none.
fn into_text(bytes: Vec<u8>) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        FileError::NotText(1 + memchr::memchr_iter(b'\n', good).count())
    })
}

/// Reads the first bytes of a regular file, never a link, however large it is.
pub fn read_start(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    open_regular(path, Links::Refuse)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file without ever waiting for one that is not.
pub fn open_regular(path: &Path, links: Links<'_>) -> Result<File, FileError> {
    let parent = Parent::of(path)?;
    if links == Links::Refuse {
        // Looked at before it is opened: to open some devices is to use them. What is swapped in
        // between is refused below, and opening it does not wait.
        refuse(&parent.look()?)?;
    }
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = rustix::fs::openat(parent.handle(), parent.name(), flags, Mode::empty());
    let file = opened.map_err(|error| match parent.look() {
        // A link to nowhere is not the same as no file.
        Ok(_) if error == rustix::io::Errno::NOENT => FileError::NotRegular("a link to nowhere"),
        // A socket cannot be opened at all.
        Ok(stat) if error == rustix::io::Errno::NXIO => {
            FileError::NotRegular(kind_of(&stat).unwrap_or("a socket"))
        }
        Ok(_) | Err(_) => FileError::Io(error.into()),
    })?;
    refuse(&rustix::fs::fstat(&file).map_err(io::Error::from)?)?;
    if let Links::Inside(root) = links {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", raw(&file)))?;
        if !real.starts_with(root) {
            return Err(FileError::Outside);
        }
    }
    Ok(File::from(file))
}

fn raw(file: &impl std::os::fd::AsRawFd) -> i32 {
    file.as_raw_fd()
}

fn refuse(stat: &rustix::fs::Stat) -> Result<(), FileError> {
    match kind_of(stat) {
        None => Ok(()),
        Some(kind) => Err(FileError::NotRegular(kind)),
    }
}
