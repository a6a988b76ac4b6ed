//! Replaying the checkpoints of a job in its repository: one patch after the other, from the start.
//!
//! All patches go to one call of git. Where git refuses them together it is asked one by one, since it
//! mixes up what several patches do to links: a path counts as lying beyond a link that an earlier one
//! made and a later one took away. A single patch in which a directory gives way to a link is refused
//! as well; its files are then taken as the step's record names them.
//!
//! **Invariant:** what is returned is the very tree that the last checkpoint has.

use std::fs;
use std::path::PathBuf;

use super::error::{WorkspaceError, is_full};
use super::git::{Git, pipe};
use super::step_store::ChangedPath;

/// How many patches one call of git applies at most; its arguments have a limit.
const PATCHES_AT_ONCE: usize = 4_000;

/// What git says of a path whose directory is, or was, a link.
const BEYOND_LINK: &str = "is beyond a symbolic link";

/// The mode of a file that is gone.
const GONE: &str = "000000";

/// A checkpoint to be replayed.
#[derive(Clone, Debug)]
pub struct ReplayStep {
    /// The file of its patch.
    pub patch: PathBuf,
    /// The files that it changes, with their checksums after it.
    pub files: Vec<ChangedPath>,
}

/// Why checkpoints could not be replayed; the workspace is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A patch does not lead to where its step led.
    #[error("{} disagrees with its checkpoint: {said}", patch.display())]
    Disagrees {
        /// The file of the patch.
        patch: PathBuf,
        /// What is wrong.
        said: String,
    },
    /// The repository could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Checkpoints that are replayed in the index of a job's repository.
pub(super) struct StepReplay<'s> {
    pub(super) git: &'s Git,
    /// The tree from which the first one starts.
    pub(super) start: &'s str,
    /// The tree that the last one left.
    pub(super) wanted: &'s str,
}

impl StepReplay<'_> {
    /// Replays the checkpoints and returns the tree that they lead to.
    pub(super) fn run(&self, steps: &[ReplayStep]) -> Result<String, ReplayError> {
        self.git.read(&["read-tree", self.start])?;
        match self.apply(steps) {
            Ok(()) => {
                if let Some(tree) = self.arrived()? {
                    return Ok(tree);
                }
            }
            // Together, git does not say which of them it was.
            Err(WorkspaceError::Git { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.git.read(&["read-tree", self.start])?;
        for step in steps {
            self.apply_one(step)?;
        }
        let last = || steps.last().map(|step| step.patch.clone()).unwrap_or_default();
        self.arrived()?.ok_or_else(|| ReplayError::Disagrees {
            patch: last(),
            said: "the tree is not the one that was kept".to_owned(),
        })
    }

    /// Returns the tree in the index, if it is the one that is wanted.
    fn arrived(&self) -> Result<Option<String>, WorkspaceError> {
        let tree = self.git.read(&["write-tree"])?;
        let tree = String::from_utf8_lossy(&tree).trim_end().to_owned();
        Ok((tree == self.wanted).then_some(tree))
    }

    fn apply(&self, steps: &[ReplayStep]) -> Result<(), WorkspaceError> {
        let is_there =
            |step: &&ReplayStep| fs::metadata(&step.patch).is_ok_and(|about| about.len() > 0);
        let paths: Vec<String> = steps
            .iter()
            .filter(is_there)
            .map(|step| step.patch.to_string_lossy().into_owned())
            .collect();
        for some in paths.chunks(PATCHES_AT_ONCE) {
            let mut args = vec!["apply", "--cached", "-p1", "--whitespace=nowarn"];
            args.extend(some.iter().map(String::as_str));
            self.git.read(&args)?;
        }
        Ok(())
    }

    /// Applies one patch and compares the files that it changed with what the step left.
    pub(super) fn apply_one(&self, step: &ReplayStep) -> Result<(), ReplayError> {
        let disagrees = |said| ReplayError::Disagrees { patch: step.patch.clone(), said };
        match self.apply(std::slice::from_ref(step)) {
            Ok(()) => {}
            Err(WorkspaceError::Git { said, .. }) if said.contains(BEYOND_LINK) => {
                self.take_recorded(&step.files)?;
            }
            Err(WorkspaceError::Git { said, .. }) if !is_full(&said) => {
                return Err(disagrees(said));
            }
            Err(error) => return Err(error.into()),
        }
        for file in &step.files {
            if !self.is_as_left(file)? {
                return Err(disagrees(format!("{} is not what the step left", file.path)));
            }
        }
        Ok(())
    }

    fn is_as_left(&self, file: &ChangedPath) -> Result<bool, WorkspaceError> {
        let listed = self.git.read(&["ls-files", "-z", "--stage", "--", &file.path])?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        // A directory in its place is listed by what lies in it.
        let own = |line: &&str| line.split_once('\t').is_some_and(|(_, path)| path == file.path);
        let line = listed.split('\0').find(own);
        Ok(match line {
            None => file.mode == GONE,
            Some(line) => line.starts_with(&format!("{} {} ", file.mode, file.checksum)),
        })
    }

    /// Has the index hold the files as the step's record names them.
    fn take_recorded(&self, files: &[ChangedPath]) -> Result<(), WorkspaceError> {
        // What is gone makes room for what came in its place.
        let (gone, there): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.mode == GONE);
        let line = |file: &&ChangedPath| {
            let mode = if file.mode == GONE { "0" } else { &file.mode };
            format!("{mode} {}\t{}\0", file.checksum, file.path)
        };
        let lines: String = gone.iter().chain(&there).map(line).collect();
        self.git
            .feed(&["update-index", "-z", "--index-info"], |to| {
                to.write_all(lines.as_bytes()).map_err(pipe)
            })
            .map(drop)
    }
}
