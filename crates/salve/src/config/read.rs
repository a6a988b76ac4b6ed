//! Reads a settings file that may be anything: huge, a pipe, a device, a link, not text.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The most bytes that a settings file may have.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// Why a settings file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is something that one does not read settings from.
    #[error("{} is {kind}, not a file", path.display())]
    NotAFile {
        /// The file's path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It leads out of the project.
    #[error("{} is a link to a file outside the project", path.display())]
    Outside {
        /// The link's path.
        path: PathBuf,
    },
    /// It is too large.
    #[error("{} is larger than {} KiB", path.display(), MOST_BYTES / 1024)]
    TooLarge {
        /// The file's path.
        path: PathBuf,
    },
    /// It is not text.
    #[error("{}: line {line} is not valid UTF-8", path.display())]
    NotText {
        /// The file's path.
        path: PathBuf,
        /// The first line that is not text.
        line: usize,
    },
    /// The system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file's path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Returns the text of the file at `path`, or nothing if there is no such file.
///
/// With `root`, a link that leads out of that directory is refused: settings that decide what
/// runs in a project are those that its own history shows.
pub fn read(path: &Path, root: Option<&Path>) -> Result<Option<String>, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(meta) => refuse(path, meta.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link to nowhere is a mistake; no file at all is not.
            return if path.is_symlink() { Err(failed(error)) } else { Ok(None) };
        }
        Err(error) => return Err(failed(error)),
    }
    if let Some(root) = root
        && !path.canonicalize().map_err(failed)?.starts_with(root)
    {
        return Err(ReadError::Outside { path: path.to_owned() });
    }
    // The file may have been swapped since it was looked at, so opening it must not wait either.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let file = File::from(file);
    refuse(path, file.metadata().map_err(failed)?.file_type())?;
    read_from(file, path).map(Some)
}

/// Returns the text that `from` holds; `path` is its name in errors.
pub fn read_from(from: impl Read, path: &Path) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    let read = from.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ReadError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + memchr::memchr_iter(b'\n', good).count();
        ReadError::NotText { path: path.to_owned(), line }
    })
}

fn refuse(path: &Path, found: fs::FileType) -> Result<(), ReadError> {
    let kind = if found.is_file() {
        return Ok(());
    } else if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a named pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(ReadError::NotAFile { path: path.to_owned(), kind })
}
