//! Files that are either wholly written or not touched at all.
//!
//! A write goes to a temporary file in the same directory, is synced, takes the old file's mode
//! and is renamed over it; then the directory is synced. A reader sees the old text or the new
//! one, also after a crash or a power cut.
//!
//! A symbolic link is replaced, not followed: nothing is ever written outside the directory that
//! was named.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The mode of a new file before the user's umask is taken off.
const NEW_FILE_MODE: u32 = 0o666;

/// Why a file could not be written; the old one is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk or the quota is full.
    #[error("no space left to write {}", path.display())]
    Full {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system cannot be written to.
    #[error("{} is on a read-only file system", path.display())]
    ReadOnly {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The user may not write there.
    #[error("no permission to write {}", path.display())]
    Denied {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot write {}", path.display())]
    Other {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// Sorts what the system said about writing `path`.
    pub fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { path, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            _ => Self::Other { path, source },
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Full { .. } => "free some disk space, then try again".into(),
            Self::ReadOnly { .. } => "make the file system writable, then try again".into(),
            Self::Denied { path, .. } => {
                format!("make {} writable for you, then try again", parent(path).display())
            }
            Self::Other { path, .. } => format!("look at {}", parent(path).display()),
        }
    }

    /// Returns whether the same write may work later without anyone's help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::ReadOnly { .. } | Self::Denied { .. } | Self::Other { .. } => false,
        }
    }
}

/// Whether [`write_new`] made the file or found one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The file is new.
    New,
    /// There was one already; it is as it was.
    Existed,
}

/// Replaces the file at `path`, or makes it.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(bytes.as_ref()))
}

/// Replaces the file at `path` with whatever `fill` writes.
pub fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let done = || {
        let temp = filled(path, fill)?;
        temp.persist(path).map_err(|failed| failed.error)?;
        sync_dir(parent(path))
    };
    done().map_err(|error| WriteError::new(path, error))
}

/// Makes the file at `path` unless there is one, which is then left alone.
pub fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> Result<Made, WriteError> {
    let done = || {
        let temp = filled(path, |file| file.write_all(bytes.as_ref()))?;
        match temp.persist_noclobber(path) {
            Ok(_) => sync_dir(parent(path)).map(|()| Made::New),
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(Made::Existed),
            Err(failed) => Err(failed.error),
        }
    };
    done().map_err(|error| WriteError::new(path, error))
}

/// Makes the names in `dir` survive a power cut.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn filled(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let old = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let mut temp = Builder::new()
        .prefix(&prefix)
        .suffix(".tmp")
        .permissions(Permissions::from_mode(NEW_FILE_MODE))
        .tempfile_in(parent(path))?;
    if let Some(old) = old {
        temp.as_file().set_permissions(old.permissions())?;
    }
    let mut buffer = io::BufWriter::new(temp.as_file_mut());
    fill(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    temp.as_file().sync_all()?;
    Ok(temp)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_made_then_replaced_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        write(&path, "one").unwrap();
        assert_eq!(mode(&path) & 0o600, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write(&path, "two").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two", 0o640));
    }

    #[test]
    fn a_failing_write_leaves_the_old_file_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        write(&path, "one").unwrap();
        let error = write_with(&path, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(error, Err(WriteError::Full { .. })), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_never_replaces_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(write_new(&path, "one").unwrap(), Made::New);
        assert_eq!(write_new(&path, "two").unwrap(), Made::Existed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        write(&link, "ours").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&link).unwrap(), "ours");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn each_trouble_has_its_own_name_and_advice() {
        let of = |kind: io::ErrorKind| WriteError::new(Path::new("/x/y"), kind.into());
        assert!(matches!(of(io::ErrorKind::QuotaExceeded), WriteError::Full { .. }));
        assert!(matches!(of(io::ErrorKind::ReadOnlyFilesystem), WriteError::ReadOnly { .. }));
        let denied = of(io::ErrorKind::PermissionDenied);
        assert_eq!(denied.to_string(), "no permission to write /x/y");
        assert_eq!(denied.advice(), "make /x writable for you, then try again");
        assert!(!denied.is_transient() && of(io::ErrorKind::StorageFull).is_transient());
    }
}
