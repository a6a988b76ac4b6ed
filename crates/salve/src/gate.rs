//! Resolves what the gate needs to know from the file system.
//!
//! A working directory is resolved once, with every link followed, and then opened below the
//! repository's root by its resolved name without following any. What is judged and what will be
//! entered is that one open directory, whatever its path leads to later.

mod case;

pub use case::{GateJudgement, judge, judge_line, read_policy};

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use salve_core::gate::CommandPlace;

/// How directories are held: enough to enter them, and never through a link.
const HANDLE: OFlags = {
    let held = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
    #[cfg(target_os = "linux")]
    let held = held.union(OFlags::PATH);
    held
};

/// A directory in which a command may run, held open.
#[derive(Debug)]
pub struct WorkingDir {
    handle: OwnedFd,
    path: PathBuf,
}

impl WorkingDir {
    /// Returns the handle by which to enter the directory, not to look it up again.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Returns where the directory was, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Why a directory is no place to run a command in.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The repository's root cannot be opened.
    #[error("the repository root cannot be resolved: {0}")]
    Root(#[source] io::Error),
    /// The directory cannot be found or opened.
    #[error("the working directory cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The directory is somewhere else.
    #[error("the working directory is outside the repository")]
    Outside,
    /// The directory belongs to git.
    #[error("the working directory is inside .git")]
    InGit,
    /// The path goes through a link that only the kernel can follow.
    #[error("the working directory leads through a link of /proc")]
    Magic,
    /// The path leads to a file.
    #[error("the working directory is not a directory")]
    NotADirectory,
}

/// Resolves `working_dir` against `root` and holds it open.
///
/// # Errors
///
/// Returns [`DirError`] unless it is an existing directory at or below `root`, not in `.git`, and
/// one that can be entered.
pub fn resolve(root: &Path, working_dir: &str) -> Result<WorkingDir, DirError> {
    let root = root.canonicalize().map_err(DirError::Root)?;
    let wanted = root.join(working_dir);
    refuse_magic_links(&wanted)?;
    let path = wanted.canonicalize().map_err(DirError::Resolve)?;
    let below = path.strip_prefix(&root).map_err(|_| DirError::Outside)?;
    if path.iter().chain(Path::new(working_dir)).any(is_git) {
        return Err(DirError::InGit);
    }
    let top =
        rustix::fs::open(&root, HANDLE, Mode::empty()).map_err(|e| DirError::Root(e.into()))?;
    let handle = open_below(top, below).map_err(|error| match error {
        Errno::NOTDIR => DirError::NotADirectory,
        other => DirError::Resolve(other.into()),
    })?;
    let enter = rustix::fs::Access::EXEC_OK;
    rustix::fs::accessat(&handle, ".", enter, AtFlags::empty())
        .map_err(|error| DirError::Resolve(error.into()))?;
    Ok(WorkingDir { handle, path })
}

/// Returns the gate's view of a resolution.
pub fn place(resolved: &Result<WorkingDir, DirError>) -> CommandPlace {
    match resolved {
        Ok(_) => CommandPlace::Inside,
        Err(error) => CommandPlace::Refused(error.to_string()),
    }
}

/// Returns whether git keeps its own things under this name, on any file system.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case("git~1")
}

/// Opens `below`, a resolved relative path, without following any link on the way.
fn open_below(top: OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    let mut handle = top;
    for part in below.components() {
        match part {
            Component::Normal(name) => {
                handle = rustix::fs::openat(&handle, name, HANDLE, Mode::empty())?;
            }
            // A resolved path has none of these; whatever made them, it is not ours to follow.
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => return Err(Errno::INVAL),
        }
    }
    Ok(handle)
}

/// Refuses a path that goes through `/proc/self/cwd` and its like, which name whatever a process
/// has open at the moment.
#[cfg(target_os = "linux")]
fn refuse_magic_links(path: &Path) -> Result<(), DirError> {
    use rustix::fs::{CWD, ResolveFlags};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), how) {
        Err(Errno::LOOP) => Err(DirError::Magic),
        // An old kernel, or a sandbox that does not know the call: judge by name.
        Err(Errno::NOSYS | Errno::PERM) if path.starts_with("/proc") => Err(DirError::Magic),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_magic_links(_path: &Path) -> Result<(), DirError> {
    Ok(())
}

#[cfg(test)]
mod tests;
