//! Reads files that a stranger may have put there.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};

/// Whether a link may stand in a file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The last part of the path may be a link: the file is its owner's choice.
    Follow,
    /// The last part of the path must be the file itself.
    Refuse,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A pipe, a device, a socket or a directory.
    #[error("is not a regular file")]
    NotRegular,
    /// The file is larger than what belongs there.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
    /// The file is no text.
    #[error("is not UTF-8 text")]
    NotText,
}

/// Reads a regular file of at most `max` bytes, never blocking on what is not one.
///
/// # Errors
///
/// Returns [`FileError`] for anything but a regular file of UTF-8 text within the limit.
pub fn read_text(path: &Path, max: usize, links: Links) -> Result<String, FileError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(io::Error::from)?;
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotRegular);
    }
    let mut bytes = Vec::new();
    File::from(file).take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(FileError::TooLarge(max));
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_small_regular_text_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("good"), "text").unwrap();
        std::fs::write(at("large"), "x".repeat(11)).unwrap();
        std::fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        symlink(at("good"), at("link")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        let read = |name: &str, links| read_text(&at(name), 10, links);

        assert_eq!(read("good", Links::Refuse).unwrap(), "text");
        assert_eq!(read("link", Links::Follow).unwrap(), "text");
        assert!(matches!(read("link", Links::Refuse), Err(FileError::Io(_))));
        assert!(matches!(read("large", Links::Refuse), Err(FileError::TooLarge(10))));
        assert!(matches!(read("binary", Links::Refuse), Err(FileError::NotText)));
        assert!(matches!(read("pipe", Links::Refuse), Err(FileError::NotRegular)));
        assert!(matches!(read(".", Links::Refuse), Err(FileError::NotRegular)));
        assert!(matches!(read("absent", Links::Refuse), Err(FileError::Io(_))));
        let zero = read_text(Path::new("/dev/zero"), 10, Links::Follow);
        assert!(matches!(zero, Err(FileError::NotRegular)));
    }
}
