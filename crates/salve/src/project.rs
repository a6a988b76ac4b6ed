//! The project Salve works in: its root and the files Salve keeps there.

mod brought;
mod exclude;
mod worktree;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::atomic::{self, WriteError};
use crate::files::{self, STATE_DIR};

pub use brought::PutAside;
pub use worktree::Worktree;

pub(crate) use exclude::{LEFT_AT_THE_ROOT, keep_out_of_git};

/// What marks a directory as a project's root, in no particular order.
const MARKERS: [&str; 4] = ["salve.toml", "salve.json", STATE_DIR, ".git"];

/// How many bytes a run has to be able to write at least.
const ROOM: usize = 128 << 10;

/// Keeps the database out of git but lets a team share what was learned.
const GITIGNORE: &str = "\
# Made by Salve and never overwritten. Only what was learned is meant to be shared.
/*
!/learned/
";

/// Why there is no project to work in.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// No directory from here up looks like a project.
    #[error("no project at or above {}", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// The directory that was named is not there or is something else.
    #[error("{} is not a directory that can be opened", path.display())]
    NoDirectory {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `.salve` is not a real directory; a link could lead anywhere.
    #[error("{} should be a directory of yours but is {found}", path.display())]
    NotOurs {
        /// The project's `.salve`.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },
    /// Git cannot be asked what belongs to the repository.
    #[error("{} should be a file of git's but is a pipe, a device or too large: git would wait",
        path.display())]
    GitWaits {
        /// What stands there.
        path: PathBuf,
    },
    /// `.salve` could not be made.
    #[error("cannot make {}", path.display())]
    Make {
        /// The project's `.salve`.
        path: PathBuf,
        /// Why not.
        #[source]
        source: WriteError,
    },
}

impl ProjectError {
    /// Returns whether there is no room, or no right, to keep anything there.
    pub fn leaves_no_room(&self) -> bool {
        matches!(self, Self::Make { .. })
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::NotFound { .. } => {
                "run it inside a git repository, name a directory with --project DIR, \
                 or make a salve.toml here"
                    .into()
            }
            Self::NoDirectory { .. } => "name an existing directory with --project DIR".into(),
            Self::NotOurs { path, .. } => {
                format!("move {} away; Salve then makes its own", path.display())
            }
            Self::GitWaits { path } => format!("move {} away", path.display()),
            Self::Make { source, .. } => source.advice(),
        }
    }
}

/// A project's root directory, with links resolved, and the names of Salve's files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    files: Files,
}

/// Where Salve's own files are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Files {
    /// In `.salve` below a project's root.
    Project,
    /// In `.salve` below the root of the project that this one is a copy of.
    CopyOf(PathBuf),
    /// In the user's own directory, which is the root itself.
    User,
}

impl Project {
    /// Finds the project: the directory `named` by the user, else the nearest one from the
    /// current directory up that has a marker.
    pub fn locate(named: Option<&Path>) -> Result<Self, ProjectError> {
        match named {
            Some(dir) => Self::at(dir),
            None => Self::find(Path::new(".")),
        }
    }

    /// Takes `dir` as the root, whatever is in it.
    pub fn at(dir: &Path) -> Result<Self, ProjectError> {
        let unusable = |source| ProjectError::NoDirectory { path: dir.to_path_buf(), source };
        let root = dir.canonicalize().map_err(unusable)?;
        if !root.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { root, files: Files::Project })
    }

    /// Takes the user's own data directory, `$XDG_DATA_HOME/salve`, as if it were a project.
    ///
    /// It holds what is remembered across projects and is made when first written to.
    pub fn of_user(dir: PathBuf) -> Self {
        Self { root: dir, files: Files::User }
    }

    /// Finds the nearest directory from `start` up that has `salve.toml`, `salve.json`, `.salve`
    /// or `.git`.
    pub fn find(start: &Path) -> Result<Self, ProjectError> {
        let start = Self::at(start)?.root;
        let marked = |dir: &&Path| MARKERS.iter().any(|name| dir.join(name).exists());
        match start.ancestors().find(marked) {
            Some(root) => Ok(Self { root: root.to_path_buf(), files: Files::Project }),
            None => Err(ProjectError::NotFound { start }),
        }
    }

    /// Takes `dir` as a copy of this project, whose journal and memory stay where they are.
    pub fn copy_at(&self, dir: &Path) -> Result<Self, ProjectError> {
        let files = Files::CopyOf(self.home().to_path_buf());
        Ok(Self { files, ..Self::at(dir)? })
    }

    /// Returns whether this is a project's own place, not a copy of it or the user's directory.
    pub(crate) fn is_projects(&self) -> bool {
        self.files == Files::Project
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the root of the project that Salve's own files belong to: for a copy, the original's.
    pub fn home(&self) -> &Path {
        match &self.files {
            Files::CopyOf(original) => original,
            Files::Project | Files::User => &self.root,
        }
    }

    /// Returns the directory of Salve's own files, which may not exist yet.
    pub fn state_dir(&self) -> PathBuf {
        match self.files {
            Files::Project | Files::CopyOf(_) => self.home().join(STATE_DIR),
            Files::User => self.root.clone(),
        }
    }

    /// Returns the database's path.
    pub fn database(&self) -> PathBuf {
        let name = match self.files {
            Files::Project | Files::CopyOf(_) => "salve.db",
            Files::User => "memory.db",
        };
        self.state_dir().join(name)
    }

    /// Returns the path of the journal's copy for people and scripts.
    pub fn events(&self) -> PathBuf {
        self.state_dir().join("events.jsonl")
    }

    /// Returns where the log of a server is.
    pub fn log(&self, server: &str) -> PathBuf {
        self.state_dir().join("logs").join(format!("{server}.log"))
    }

    /// Returns the log of what agents say that Salve started.
    pub fn agent_log(&self) -> PathBuf {
        self.state_dir().join("agent.log")
    }

    /// Returns the directory of what was learned, which a team may share.
    pub fn learned(&self) -> PathBuf {
        self.state_dir().join("learned")
    }

    /// Makes the directory of Salve's own files, with a `.gitignore` if there is none.
    pub fn make_state_dir(&self) -> Result<PathBuf, ProjectError> {
        let dir = self.state_dir();
        if !self.has_state_dir()? {
            let make = |source| ProjectError::Make {
                path: dir.clone(),
                source: WriteError::new(&dir, source),
            };
            let made = match self.files {
                Files::Project | Files::CopyOf(_) => fs::create_dir(&dir),
                Files::User => fs::create_dir_all(&dir),
            };
            match made {
                Ok(()) => atomic::sync_dir(self.home()).map_err(make)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(make(error)),
            }
        }
        if self.files == Files::Project {
            keep_out_of_git(&self.root);
        }
        let ignore = dir.join(".gitignore");
        if self.files == Files::Project && fs::symlink_metadata(&ignore).is_err() {
            atomic::write_new(&ignore, GITIGNORE)
                .map_err(|source| ProjectError::Make { path: ignore, source })?;
        }
        Ok(dir)
    }

    /// Makes the directory `.salve` where it is missing, and tries whether there is room in it for
    /// what a run writes down.
    pub fn make_room(&self) -> Result<(), ProjectError> {
        let dir = self.make_state_dir()?;
        let fill = || tempfile::tempfile_in(&dir)?.write_all(&[0; ROOM]);
        let no_room = |source| {
            let source = WriteError::new(&dir, source);
            ProjectError::Make { path: dir.join("run"), source }
        };
        fill().map_err(no_room)
    }

    /// Returns whether `.salve` is there; anything but a real directory is an error.
    pub fn has_state_dir(&self) -> Result<bool, ProjectError> {
        let path = self.state_dir();
        let found = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() && files::is_own(meta.uid()) => return Ok(true),
            Ok(meta) if meta.is_dir() => "another user's directory",
            Ok(meta) if meta.is_symlink() => "a symbolic link",
            Ok(_) => "a file",
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(ProjectError::NoDirectory { path, source }),
        };
        Err(ProjectError::NotOurs { path, found })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn root() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    #[test]
    fn the_nearest_marked_parent_is_the_root() {
        for marker in MARKERS {
            let (_guard, dir) = root();
            let deep = dir.join("outer/inner/deep");
            fs::create_dir_all(&deep).unwrap();
            fs::create_dir(dir.join(".git")).unwrap();
            fs::write(dir.join("outer/inner").join(marker), "").unwrap();
            assert_eq!(Project::find(&deep).unwrap().root(), dir.join("outer/inner"), "{marker}");
            assert_eq!(Project::find(&dir.join("outer")).unwrap().root(), dir, "{marker}");
        }
    }

    #[test]
    fn a_named_directory_needs_no_marker_but_must_exist() {
        let (_guard, dir) = root();
        assert_eq!(Project::locate(Some(&dir)).unwrap().root(), dir);
        fs::write(dir.join("file"), "").unwrap();
        for bad in ["file", "missing"] {
            let error = Project::locate(Some(&dir.join(bad))).unwrap_err();
            assert!(matches!(error, ProjectError::NoDirectory { .. }), "{bad}: {error}");
            assert!(error.advice().contains("--project"), "{bad}");
        }
    }

    #[test]
    fn the_state_directory_ignores_all_but_what_was_learned_and_keeps_the_users_file() {
        let (_guard, dir) = root();
        let project = Project::at(&dir).unwrap();
        assert!(!project.has_state_dir().unwrap());
        let state = project.make_state_dir().unwrap();
        assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), GITIGNORE);
        fs::write(state.join(".gitignore"), "mine").unwrap();
        project.make_state_dir().unwrap();
        assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "mine");
    }

    #[test]
    fn the_users_own_directory_is_made_with_its_parents_and_without_a_gitignore() {
        let (_guard, dir) = root();
        let user = Project::of_user(dir.join("share/salve"));
        assert_eq!(user.database(), dir.join("share/salve/memory.db"));
        assert!(!user.has_state_dir().unwrap());
        user.make_state_dir().unwrap();
        assert_eq!(fs::read_dir(user.state_dir()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_or_link_in_its_place_is_refused() {
        let (_guard, dir) = root();
        let project = Project::at(&dir).unwrap();
        fs::write(project.state_dir(), "").unwrap();
        let error = project.make_state_dir().unwrap_err();
        assert!(matches!(error, ProjectError::NotOurs { found: "a file", .. }), "{error}");
        fs::remove_file(project.state_dir()).unwrap();
        fs::create_dir(dir.join("elsewhere")).unwrap();
        symlink(dir.join("elsewhere"), project.state_dir()).unwrap();
        let error = project.make_state_dir().unwrap_err();
        assert!(matches!(error, ProjectError::NotOurs { found: "a symbolic link", .. }), "{error}");
        assert_eq!(fs::read_dir(dir.join("elsewhere")).unwrap().count(), 0);
    }
}
