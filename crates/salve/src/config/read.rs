//! Reads a settings file that may be anything: huge, a pipe, a device, a link, not text.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::files::{self, FileError, FileKind, Links};

/// The most bytes that a settings file may have.
pub(super) const MOST_BYTES: u64 = FileKind::Settings.limit();

/// Why a settings file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsReadError {
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
    #[error("{} is larger than {} KiB", path.display(), MOST_BYTES / 1024)]
    TooLarge {
        /// The file's path.
        path: PathBuf,
    },
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
pub fn read(path: &Path, root: Option<&Path>) -> Result<Option<String>, SettingsReadError> {
    let links = root.map_or(Links::Follow, Links::Inside);
    let path = path.to_owned();
    match files::read_text_where(&path, FileKind::Settings, links) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_absent() => Ok(None),
        Err(FileError::NotRegular(kind)) => Err(SettingsReadError::NotAFile { path, kind }),
        Err(FileError::Outside) => Err(SettingsReadError::Outside { path }),
        Err(FileError::TooLarge(_)) => Err(SettingsReadError::TooLarge { path }),
        Err(FileError::NotText(line)) => Err(SettingsReadError::NotText { path, line }),
        Err(FileError::Io(source)) => Err(SettingsReadError::Io { path, source }),
    }
}

/// Returns the text that `from` holds; `path` is its name in errors.
pub fn read_from(from: impl Read, path: &Path) -> Result<String, SettingsReadError> {
    let mut bytes = Vec::new();
    let read = from.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| SettingsReadError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(SettingsReadError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + memchr::memchr_iter(b'\n', good).count();
        SettingsReadError::NotText { path: path.to_owned(), line }
    })
}
