//! What SQLite says, sorted into what Salve does about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::lock::StoreLockHolder;
use crate::store::error::{Cause, StoreError, expect_file};

fn cause(error: rusqlite::Error) -> Cause {
    Cause::Engine(Box::new(error))
}

impl StoreError {
    /// Sorts what the engine said about the database at `path`.
    pub(super) fn engine(path: &Path, error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().map(|e| e.code);
        // A new entry gets the number behind the last; one that is taken was not found to be there.
        let is_taken = error.to_string().contains("entry.seq");
        let is_short = is_short_read(&error);
        let (path, nonsense, source) = (path.to_path_buf(), is_nonsense(&error), cause(error));
        let Some(code) = code else {
            return if nonsense {
                Self::Corrupt { path, source }
            } else {
                Self::Other { path, source }
            };
        };
        match code {
            ErrorCode::ConstraintViolation if is_taken => Self::Corrupt { path, source },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                let holder = StoreLockHolder::of_database(&path);
                Self::Locked { path, holder, waited: super::database::PATIENCE }
            }
            ErrorCode::ReadOnly => Self::ReadOnly { path, source },
            ErrorCode::PermissionDenied => Self::Denied { path, source },
            ErrorCode::DiskFull => Self::Full { path, source },
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            // Only damage takes longer than the engine is given; see `patience`.
            | ErrorCode::OperationInterrupted => Self::Corrupt { path, source },
            ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => {
                match Self::unreachable(path, source) {
                    Self::Other { path, source } if is_short => Self::Corrupt { path, source },
                    found => found,
                }
            }
            _ => Self::Other { path, source },
        }
    }

    /// Sorts what the engine said when the database at `path` was opened.
    ///
    /// What is asked then is always right, so if it makes no sense to the engine it is the file
    /// that makes none.
    pub(super) fn opening(path: &Path, error: rusqlite::Error) -> Self {
        match error.sqlite_error() {
            Some(failure) if failure.extended_code == rusqlite::ffi::SQLITE_ERROR => {
                Self::Corrupt { path: path.to_path_buf(), source: cause(error) }
            }
            Some(_) | None => Self::engine(path, error),
        }
    }

    /// Finds out why the engine could not open, read or write: it says only that it could not.
    ///
    /// The database is never opened by hand for this: closing it again would drop the locks that
    /// the engine holds on it in this process.
    fn unreachable(path: PathBuf, source: Cause) -> Self {
        if let Err(error) = expect_file(&path) {
            return error;
        }
        let may = |what| rustix::fs::access(&path, what).map_err(io::Error::from);
        let dir = path.parent().unwrap_or(Path::new("."));
        let refused = may(rustix::fs::Access::READ_OK)
            .and_then(|()| may(rustix::fs::Access::WRITE_OK))
            .and_then(|()| Ok(rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)?))
            .err()
            .filter(|error| error.kind() != io::ErrorKind::NotFound);
        match refused {
            Some(error) => Self::system(&path, error),
            None if no_room(dir) => Self::Full { path, source },
            None => Self::Other { path, source },
        }
    }
}

fn no_room(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_bavail == 0 || (fs.f_files > 0 && fs.f_ffree == 0))
}

/// Returns whether a value came out of the database that nobody can have put in.
fn is_nonsense(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Returns whether the file ended before it should, or its file system says that it is damaged.
fn is_short_read(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
            || error.extended_code == rusqlite::ffi::SQLITE_IOERR_CORRUPTFS
    })
}
