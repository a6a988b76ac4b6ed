//! Why the store could not do what was asked, and what to do about it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::error::Category;

use super::fleet::FleetError;
use super::sqlite::StoreLockHolder;
use crate::door::DoorError;
use crate::project::ProjectError;
use crate::seal_keys::SealKeyError;

/// What the system or the database engine said.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The database engine refused.
    #[error("{0}")]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// The operating system refused.
    #[error(transparent)]
    System(#[from] io::Error),
    /// What is stored makes no sense.
    #[error(transparent)]
    Content(#[from] RawError),
}

/// Why a stored row is not an entry.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The time stamp is out of range.
    #[error("bad time stamp")]
    Time(#[source] jiff::Error),
    /// A part is not JSON of the right shape.
    #[error("bad JSON")]
    Json(#[source] serde_json::Error),
    /// The incident's id is none.
    #[error("bad incident id")]
    Incident(#[source] uuid::Error),
    /// What happened is malformed.
    #[error("bad event")]
    Event(#[source] salve_core::event::DecodeError),
}

impl RawError {
    /// Returns whether nobody can have written this, as opposed to a shape we do not understand.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Time(_) | Self::Incident(_) => true,
            Self::Json(error) => error.classify() != Category::Data,
            Self::Event(_) => false,
        }
    }
}

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no place for the store.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Another process kept the store to itself for too long.
    #[error("{} was locked for {waited:?}{}", path.display(), by(holder.as_ref()))]
    Locked {
        /// The file that is locked.
        path: PathBuf,
        /// Who holds it, where the system tells.
        holder: Option<StoreLockHolder>,
        /// How long we waited.
        waited: Duration,
    },
    /// The store can be read but not written.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The file in question.
        path: PathBuf,
        /// What was said.
        #[source]
        source: Cause,
    },
    /// The user may not open the store.
    #[error("no permission to open {}", path.display())]
    Denied {
        /// The file in question.
        path: PathBuf,
        /// What was said.
        #[source]
        source: Cause,
    },
    /// The disk or the quota is full; nothing was written.
    #[error("no space left to write {}", path.display())]
    Full {
        /// The file in question.
        path: PathBuf,
        /// What was said.
        #[source]
        source: Cause,
    },
    /// The file is damaged and could not be mended now.
    #[error("{} is damaged", path.display())]
    Corrupt {
        /// The file in question.
        path: PathBuf,
        /// What was said.
        #[source]
        source: Cause,
    },
    /// A directory, link or device lies where the file should be.
    #[error("{} should be a file but is {found}", path.display())]
    NotAFile {
        /// The path in question.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },
    /// The file is a database of some other program.
    #[error("{} is another program's database", path.display())]
    Foreign {
        /// The file in question.
        path: PathBuf,
    },
    /// A newer Salve has written the store.
    #[error("{} has schema {found}; this Salve knows up to {known}", path.display())]
    Newer {
        /// The file in question.
        path: PathBuf,
        /// The schema it has.
        found: u32,
        /// The newest schema this program knows.
        known: u32,
    },
    /// A row of the journal does not hold an entry.
    #[error("entry {seq} in {} is malformed", path.display())]
    Malformed {
        /// The file in question.
        path: PathBuf,
        /// The entry's number.
        seq: u64,
        /// What is wrong with it.
        #[source]
        source: RawError,
    },
    /// The journal has lost entries that were on record: its file was removed or replaced.
    #[error("{} has lost entries since it was opened", path.display())]
    Forgot {
        /// The file in question.
        path: PathBuf,
    },
    /// A person's word was not let in.
    #[error(transparent)]
    Word(#[from] DoorError),
    /// There is no key to seal a person's word with.
    #[error(transparent)]
    Key(#[from] SealKeyError),
    /// The fleet could not do it.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The program asked for something the store cannot do.
    #[error("cannot use {}", path.display())]
    Other {
        /// The file in question.
        path: PathBuf,
        /// What was said.
        #[source]
        source: Cause,
    },
}

fn by(holder: Option<&StoreLockHolder>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

impl StoreError {
    /// Sorts what the system said about the file at `path`.
    pub(super) fn system(path: &Path, error: io::Error) -> Self {
        let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        let (path, kind, source) = (path.to_path_buf(), error.kind(), Cause::from(error));
        match kind {
            _ if is_link => Self::NotAFile { path, found: "a symbolic link" },
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { path, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            io::ErrorKind::IsADirectory => Self::NotAFile { path, found: "a directory" },
            _ => Self::Other { path, source },
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Project(error) => error.advice(),
            Self::Locked { holder: Some(holder), .. } => {
                format!("wait for process {} to finish, or stop it", holder.pid)
            }
            Self::Locked { holder: None, .. } => "stop other programs using it, try again".into(),
            Self::ReadOnly { path, .. } => format!("chmod u+w {}", path.display()),
            Self::Denied { path, .. } => {
                format!("ls -l {}   # then make it yours to read and write", path.display())
            }
            Self::Full { .. } => "free some disk space, then try again".into(),
            Self::Corrupt { path, .. } => {
                format!("stop other salve processes, then move {} away", path.display())
            }
            Self::NotAFile { path, .. } | Self::Foreign { path } => {
                format!("move {} away; Salve then makes its own", path.display())
            }
            Self::Newer { .. } => "update Salve; the store itself is fine".into(),
            Self::Malformed { seq, .. } => format!("salve events --since {seq}"),
            Self::Forgot { .. } => "start it again; leave .salve alone while salve runs".into(),
            Self::Word(DoorError::Silent(pid)) => format!("end process {pid}, or try again"),
            Self::Word(_) => "a person runs this in a terminal of their own".into(),
            Self::Key(_) => "salve doctor".into(),
            Self::Fleet(error) => error.advice(),
            Self::Other { .. } => "salve doctor".into(),
        }
    }
}

/// Refuses anything but a plain file, or nothing at all, at `path`.
pub(super) fn expect_file(path: &Path) -> Result<(), StoreError> {
    let found = match fs::symlink_metadata(path) {
        // A second name may be that of any file of the user's, which would be written over.
        Ok(meta) if meta.is_file() && meta.nlink() > 1 => "one file with another (a hard link)",
        Ok(meta) if meta.is_file() => return Ok(()),
        Ok(meta) if meta.is_dir() => "a directory",
        Ok(meta) if meta.is_symlink() => "a symbolic link",
        Ok(_) => "a device",
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::system(path, error)),
    };
    Err(StoreError::NotAFile { path: path.to_path_buf(), found })
}
