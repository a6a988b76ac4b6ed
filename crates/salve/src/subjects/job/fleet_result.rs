//! What a job of a fleet did, as commits on the user's own: its checkpoints are replayed here, on the
//! commit from whose files it started.

use std::path::{Path, PathBuf};

use salve_core::job::Job;

use super::JobFolder;
use super::fleet::{FleetJobError, FleetPayload, lay_start, take_in};
use crate::files::make_directories;
use crate::process::quiet_git;
use crate::project::Project;
use crate::store::{Fleet, FleetError, Store, StoreError};
use crate::workspace::{StartFrom, StepStore};

/// How many commits are looked through for the one from which a job started.
const MOST: &str = "--max-count=20000";

/// The steps of a job as commits in a store of their own.
#[derive(Debug)]
pub struct FleetResult {
    project: Project,
    dir: PathBuf,
}

impl FleetResult {
    /// Replays the checkpoints of a job in a scratch directory; nothing where no commit of the user's
    /// has the files from which it started.
    pub fn make(store: &Store, of: &Job, scratch: &Path) -> Result<Option<Self>, FleetJobError> {
        let built = StoreError::Fleet(FleetError::NotBuilt);
        let fleet = store.fleet().ok_or(built)?;
        let (tree, payload) = start_of(fleet, of, scratch)?;
        let started = output(&tree, &["rev-parse", "refs/heads/start^{tree}"])?;
        let project = store.project();
        let Some(commit) = commit_with(project.root(), started.trim()) else { return Ok(None) };
        // The patches lie beside the files that came with the job, and in no project of the user's.
        let folder = JobFolder::of(&Project::at(&tree.join(&payload.prefix))?, of.id());
        folder.give_back_missing(of, store.queue())?;
        let dir = scratch.join("job");
        let workspace = StepStore::make(project.root(), &dir, &StartFrom::Ref(commit))?;
        let made = Self { project: project.clone(), dir };
        match take_in(of, &folder, &workspace) {
            Ok(()) => Ok(Some(made)),
            Err(error) => {
                made.forget();
                Err(error)
            }
        }
    }

    /// Returns the repository whose branch `result` has the commits.
    pub fn store(&self) -> PathBuf {
        self.dir.join("store.git")
    }

    /// Lets go of what was borrowed of the user's repository for it.
    pub fn forget(&self) {
        StepStore::forget(self.project.root(), &self.dir);
    }
}

/// Unpacks the files from which a job started.
fn start_of(
    fleet: &dyn Fleet,
    of: &Job,
    scratch: &Path,
) -> Result<(PathBuf, FleetPayload), FleetJobError> {
    let row = fleet.job_row(of.id())?.ok_or(FleetJobError::NoStart)?;
    let payload = match &row.payload {
        Some(file) => String::from_utf8_lossy(&fleet.file(of.id(), file)?).into_owned(),
        None => row.row.payload,
    };
    let payload = FleetPayload::read(&payload)?;
    let tree = scratch.join("tree");
    let failed = |source| FleetJobError::Directory { path: tree.clone(), source };
    make_directories(&tree).map_err(failed)?;
    lay_start(scratch, &tree, fleet, of.id(), &payload.start)?;
    Ok((tree, payload))
}

/// Returns the newest commit of a repository that has this tree.
fn commit_with(root: &Path, tree: &str) -> Option<String> {
    // Where there is no repository, there is no commit either.
    let listed = output(root, &["log", "--all", MOST, "--format=%T %H"]).unwrap_or_default();
    let found = listed.lines().find_map(|line| line.split_once(' ').filter(|(of, _)| *of == tree));
    found.map(|(_, commit)| commit.to_owned())
}

fn output(dir: &Path, args: &[&str]) -> Result<String, FleetJobError> {
    let output = quiet_git(dir).args(args).output();
    let output = output.map_err(|error| FleetJobError::Git(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(FleetJobError::Git(said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
