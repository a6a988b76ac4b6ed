//! Why a snapshot could not be taken, read or given back.

use std::io;
use std::path::PathBuf;

use crate::project::ProjectError;

/// What git and the system say of a full disk.
///
/// Git does not say why it could not write a file of the working tree.
const FULL: [&str; 3] = ["No space left on device", "Out of diskspace", "unable to write"];

/// Why the working tree could not be looked at or kept.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is no `git` on this machine, or it cannot be run.
    #[error("snapshots need the program `git`, which cannot be started")]
    NoGit {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Git refused.
    #[error("`git {command}` failed: {said}")]
    Git {
        /// The subcommand.
        command: String,
        /// The end of what it said.
        said: String,
    },
    /// There is no such commit.
    #[error("there is no commit `{name}` to start from")]
    NoCommit {
        /// What was named.
        name: String,
    },
    /// A directory is a repository of its own, of which nothing can be kept.
    #[error("{dir}/ is a git repository without a commit, of which nothing can be kept")]
    Unborn {
        /// The directory.
        dir: String,
    },
    /// Git said something that cannot be understood.
    #[error("`git {command}` said something unexpected: {said}")]
    Strange {
        /// The subcommand.
        command: String,
        said: String,
    },
    /// A file or directory could not be used.
    #[error("cannot use {}", path.display())]
    Io {
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Every place for a shadow is inside of what it would stand for.
    #[error("there is no place outside of {} for a shadow", top.display())]
    NoPlace {
        /// The top of the real tree.
        top: PathBuf,
    },
    /// Something was made in the place of the user's own work.
    #[error("what was made takes the place of {}, which is not committed", .paths.join(", "))]
    Displaced {
        /// The files that would have no place any more.
        paths: Vec<String>,
    },
    /// The project's own directory could not be used.
    #[error(transparent)]
    Project(#[from] ProjectError),
}

/// Tells whether git, or the system, says that the disk is full.
pub(super) fn is_full(said: &str) -> bool {
    FULL.iter().any(|words| said.contains(words))
}

impl WorkspaceError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::NoGit { .. } => {
                "install git; Salve keeps the state before a repair with it".to_owned()
            }
            Self::Git { said, .. } if is_full(said) => {
                "free some disk space, then try again".to_owned()
            }
            Self::Unborn { dir } => format!("commit something in {dir}/, or remove {dir}/.git"),
            Self::NoCommit { .. } => "`git branch --all` lists what there is".to_owned(),
            Self::Git { .. } | Self::Strange { .. } => {
                "run `git status` in the project and mend what it complains about".to_owned()
            }
            Self::Displaced { .. } => "commit the files, or make room for them".to_owned(),
            Self::Io { .. } => "check the path's permissions and the free disk space".to_owned(),
            Self::NoPlace { .. } => {
                "set XDG_CACHE_HOME to a directory outside of the project".to_owned()
            }
            Self::Project(error) => error.advice(),
        }
    }
}

/// Why the working tree could not be brought back to a snapshot.
///
/// Unless it is [`RestoreError::Partly`], nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Looking at or keeping the present state failed.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Files that the repair had changed were changed again since.
    #[error("changed again since the repair: {}", list(.paths))]
    ChangedSince {
        /// The files.
        paths: Vec<String>,
    },
    /// Files are not what they were, and their old or present content is not kept.
    #[error("not kept in the snapshot: {}", list(.paths))]
    NotKept {
        /// The files.
        paths: Vec<String>,
    },
    /// Something is in the way that Salve must not remove.
    #[error("in the way: {}", list(.paths))]
    Blocked {
        /// What is in the way.
        paths: Vec<String>,
    },
    /// The system does not let this user change these places.
    #[error("not allowed to change {}", list(.paths))]
    Denied {
        /// The files.
        paths: Vec<String>,
    },
    /// It failed half-way; the state from before is kept in a ref.
    #[error("stopped at {path}; {}", match .back {
        Back::Whole => "everything is as it was before".to_owned(),
        Back::Kept { name } => format!("the state before is kept in {name}"),
        Back::Lost => "some files are changed already".to_owned(),
    })]
    Partly {
        /// Where it failed.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
        /// What became of the files already given back.
        back: Back,
    },
}

/// What became of the tree after a restore that failed half-way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Back {
    /// It is as it was before the restore.
    Whole,
    /// It is neither here nor there; the state before is in this ref.
    Kept {
        /// The ref.
        name: String,
    },
    /// It is neither here nor there; the snapshot from before the attempt has what was there.
    Lost,
}

impl RestoreError {
    /// Returns whether somebody saved a file at that very moment, and all is as it was: starting over
    /// will see it.
    pub fn is_changed_meanwhile(&self) -> bool {
        match self {
            Self::ChangedSince { .. } => true,
            Self::Partly { source, back: Back::Whole, .. } => {
                source.kind() == io::ErrorKind::ResourceBusy
            }
            Self::Partly { .. }
            | Self::Workspace(_)
            | Self::NotKept { .. }
            | Self::Blocked { .. }
            | Self::Denied { .. } => false,
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Workspace(error) => error.advice(),
            Self::ChangedSince { .. } => {
                "look at them, then undo with --force; their present state is kept".to_owned()
            }
            Self::NotKept { .. } => "restore these files by hand".to_owned(),
            Self::Blocked { .. } => "move these away and try again".to_owned(),
            Self::Denied { .. } => "make these writable and try again".to_owned(),
            Self::Partly { .. } => "mend the cause and try again".to_owned(),
        }
    }
}

/// Names the first few of many.
fn list(paths: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = paths.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
