//! Where a job was made, and how the user takes over what came of it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use salve_core::job::Job;

use super::super::CliError;
use crate::process::quiet_git;
use crate::project::Project;
use crate::store::Store;
use crate::subjects::job::{FleetResult, JobError, JobFolder};
use crate::workspace::{ResultBase, StepStore};

/// How the result of a job is taken over.
pub(super) struct ResultWays {
    /// Where its steps run.
    pub(super) workspace: PathBuf,
    patch: PathBuf,
    store: PathBuf,
    base: ResultBase,
    /// The top of the repository, or the project where there is none: what paths in the patch are
    /// told from.
    top: PathBuf,
}

impl ResultWays {
    /// Looks at a job.
    pub(super) fn of(
        project: &Project,
        folder: &JobFolder,
        workspace: &StepStore,
    ) -> Result<Self, JobError> {
        let above = workspace.prefix().components().count();
        let top = project.root().ancestors().nth(above).unwrap_or(project.root());
        Ok(Self {
            workspace: workspace.dir(),
            patch: folder.result(),
            store: folder.dir().join("store.git"),
            base: workspace.result_base()?,
            top: top.to_path_buf(),
        })
    }

    /// Tells whether the job changed nothing.
    pub(super) fn is_empty(&self) -> bool {
        std::fs::metadata(&self.patch).is_ok_and(|about| about.len() == 0)
    }

    /// Returns how the result of a completed run is taken over, one line each.
    pub(super) fn in_words(&self, run: &str) -> String {
        if self.is_empty() {
            return "no file changed: there is nothing to take over".to_owned();
        }
        let files = format!("take it over: salve jobs take {run}");
        match self.base {
            ResultBase::NoRepository => files,
            ResultBase::Commit | ResultBase::Files => {
                format!("{files}\nor as a branch: salve jobs take {run} --branch NAME")
            }
        }
    }

    /// Makes the changes in the user's files: all of them, or none where one does not fit. The index
    /// stays as it is.
    pub(super) fn apply(&self, run: &str) -> Result<(), CliError> {
        // It may be binary, and what looks like a mistake in white space is as the job left it.
        let args = ["apply", "--whitespace=nowarn"].map(OsStr::new);
        self.git(&args, &self.patch).map_err(|said| {
            let error = CliError::failed("the result does not fit your files; none was changed");
            let error = error.because(said);
            match self.base {
                ResultBase::NoRepository => error,
                ResultBase::Commit | ResultBase::Files => {
                    error.hint(format!("salve jobs take {run} --branch NAME, then merge it"))
                }
            }
        })
    }

    /// Makes the changes of a run of a fleet in the user's files, as far as their repository knows
    /// them: all of them, or none where one does not fit.
    pub(super) fn apply_from_fleet(project: &Project, patch: &[u8]) -> Result<(), CliError> {
        let failed =
            |error: std::io::Error| CliError::failed("there is no place for it").because(error);
        let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
        file.write_all(patch).map_err(failed)?;
        let top = quiet_git(project.root()).args(["rev-parse", "--show-toplevel"]).output();
        let top = top.ok().filter(|output| output.status.success());
        let top = top.map(|output| String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        let (base, top) = match top {
            Some(top) => (ResultBase::Commit, PathBuf::from(top)),
            None => (ResultBase::NoRepository, project.root().to_path_buf()),
        };
        let args = ["apply", "--whitespace=nowarn"].map(OsStr::new);
        let (workspace, store) = (PathBuf::new(), PathBuf::new());
        let ways = Self { workspace, patch: file.path().to_path_buf(), store, base, top };
        ways.git(&args, &ways.patch).map_err(|said| {
            CliError::failed("the result does not fit your files; none was changed").because(said)
        })
    }

    /// Makes a branch of what a run of a fleet did: one commit for each step, on the commit from whose
    /// files it started.
    pub(super) fn branch_from_fleet(store: &Store, of: &Job, name: &str) -> Result<(), CliError> {
        let scratch = tempfile::tempdir()
            .map_err(|error| CliError::failed("there is no place for it").because(error))?;
        let made = FleetResult::make(store, of, scratch.path())?.ok_or_else(|| {
            let id = of.id().short();
            CliError::failed("no commit here has the files from which the job started")
                .hint(format!("salve jobs take {id}, which makes the changes in your files"))
        })?;
        let (top, patch) = (store.project().root().to_path_buf(), PathBuf::new());
        let (workspace, base) = (PathBuf::new(), ResultBase::Commit);
        let ways = Self { workspace, patch, store: made.store(), base, top };
        let branched = ways.make_branch(name);
        made.forget();
        branched
    }

    /// Makes a branch with one commit for each step; what is checked out stays as it is.
    pub(super) fn make_branch(&self, name: &str) -> Result<(), CliError> {
        if self.base == ResultBase::NoRepository {
            return Err(CliError::usage("there is no repository to make a branch in"));
        }
        let refspec = format!("refs/heads/result:refs/heads/{name}");
        let args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"].map(OsStr::new);
        let args = [&args[..], &[self.store.as_os_str()]].concat();
        self.git(&args, Path::new(&refspec)).map_err(|said| {
            CliError::failed(format!("the branch {name} cannot be made")).because(said)
        })
    }

    /// Runs git where the paths of the result are told from; returns its complaint.
    fn git(&self, args: &[&OsStr], last: &Path) -> Result<(), String> {
        let mut git = quiet_git(&self.top);
        if self.base == ResultBase::NoRepository {
            // One around the project would take the paths for its own.
            git.env("GIT_CEILING_DIRECTORIES", self.top.parent().unwrap_or(&self.top));
        }
        let output = git.args(args).arg(last).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
