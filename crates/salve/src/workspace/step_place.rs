//! Where the workspace of a job lies: in the user's own directory, outside of its project.
//!
//! Test runners, linters and watchers walk a project with its hidden directories, and some follow
//! links. A copy below `.salve` doubled the user's own tests and made them fail with the job's, so
//! nothing below the project leads to it. What lies there can be made again from the checkpoints.
//!
//! A package that only the project has installed is found all the same: Node looks for packages in
//! the directories above, where a link leads to those of the project. What a step installs is the
//! workspace's own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::files::{self, FileKind};

/// The file that says whose workspace it is.
const OWNER: &str = "job";

/// How long a workspace whose job is gone is left alone: its disk may be away for a while.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The longest part of a project's name in that of a workspace.
const LONGEST_NAME: usize = 40;

/// Returns where the workspace of the job in `folder` is, if there is one.
pub(super) fn known(folder: &Path) -> Option<PathBuf> {
    let own = folder.join("workspace");
    if own.symlink_metadata().is_ok() {
        // A job of an earlier release has it there.
        return Some(own);
    }
    let is_there = |place: &PathBuf| place.parent().is_some_and(Path::exists);
    places(folder).into_iter().find(is_there)
}

/// Returns where the workspace of the job in `folder` is; where it is to be made, if it is nowhere.
pub(super) fn find(folder: &Path) -> PathBuf {
    let found = known(folder).or_else(|| make(folder, &[]));
    found.unwrap_or_else(|| folder.join("workspace"))
}

/// Makes the directory in which the workspace of a new job will be, inside of none of `outside`, and
/// returns where in it that is; below the job's own directory if there is no other place.
pub(super) fn make(folder: &Path, outside: &[&Path]) -> Option<PathBuf> {
    let project = project_of(folder)?;
    let is_outside = |base: &PathBuf| {
        !base.starts_with(&project) && !outside.iter().any(|top| base.starts_with(top))
    };
    let base = bases().into_iter().filter(is_outside).find(|base| make_base(base).is_ok())?;
    let place = place(&base.canonicalize().ok()?, folder)?;
    let around = place.parent()?;
    DirBuilder::new().recursive(true).mode(0o700).create(around).ok()?;
    fs::write(around.join(OWNER), folder.as_os_str().as_bytes()).ok()?;
    // A large one takes long to remove; what is not gone when this process ends, the next removes.
    std::thread::spawn(move || sweep(&base));
    Some(place)
}

/// Shows the packages of the project above its workspace, if that is one of Node.
pub(super) fn lend_packages(folder: &Path, workspace: &Path) {
    let (Some(project), Some(around)) = (project_of(folder), workspace.parent()) else { return };
    let packages = project.join("node_modules");
    if !around.starts_with(folder)
        && packages.is_dir()
        && workspace.join("package.json").symlink_metadata().is_ok()
    {
        // Without it, or with one that is there already, a step installs what it needs.
        let _: io::Result<()> = symlink(packages, around.join("node_modules"));
    }
}

/// Removes the workspace of a job that is not wanted any more.
pub(super) fn forget(folder: &Path) {
    for around in places(folder).iter().filter_map(|place| place.parent()) {
        // What cannot be removed is swept away later.
        let _: io::Result<()> = fs::remove_dir_all(around);
    }
}

/// Returns where it may be, in the order of preference.
fn places(folder: &Path) -> Vec<PathBuf> {
    let base = |base: PathBuf| base.canonicalize().ok();
    bases().into_iter().filter_map(base).filter_map(|base| place(&base, folder)).collect()
}

fn bases() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let temporary = std::env::temp_dir().join(format!("salve-jobs-{user}"));
    let usual = crate::dirs::state().map(|state| state.join("jobs"));
    usual.into_iter().chain([temporary]).collect()
}

/// Returns where the workspace of a job is below a base. Its name is that of no other directory on
/// this machine: programs that call what they start by it, as Compose does, keep it apart.
fn place(base: &Path, folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let hash = Sha256::digest(folder.as_os_str().as_bytes());
    let key: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let project = project_of(&folder)?;
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let name: String = name.chars().filter(is_plain).take(LONGEST_NAME).collect();
    let run = folder.file_name()?.to_string_lossy().into_owned();
    Some(base.join(key).join(format!("{name}-{run}")))
}

/// Returns the project that a job's directory, `.salve/jobs/<run>`, belongs to.
fn project_of(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().nth(3).map(Path::to_path_buf)
}

fn make_base(base: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    let about = fs::symlink_metadata(base)?;
    if about.is_dir() && about.uid() == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Removes workspaces whose jobs have been gone for long.
fn sweep(base: &Path) {
    for around in files::list(base).unwrap_or_default() {
        let owner = files::read_bytes(&around.join(OWNER), FileKind::Note);
        let is_gone = owner.is_ok_and(|owner| {
            let folder = Path::new(std::ffi::OsStr::from_bytes(&owner));
            folder.is_absolute() && !folder.exists()
        });
        let touched = fs::symlink_metadata(&around).and_then(|about| about.modified());
        let age = touched.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if is_gone && age.is_some_and(|age| age > ABANDONED) {
            // What cannot be removed is met by the next one.
            let _: io::Result<()> = fs::remove_dir_all(around);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a place below `base` whose job is, or is not, there.
    fn around(base: &Path, name: &str, folder: &Path, age: Duration) -> PathBuf {
        let around = base.join(name);
        fs::create_dir_all(around.join("shop-1/deep")).unwrap();
        fs::write(around.join(OWNER), folder.as_os_str().as_bytes()).unwrap();
        let at = SystemTime::now() - age;
        fs::File::open(&around).unwrap().set_modified(at).unwrap();
        around
    }

    #[test]
    fn only_a_workspace_whose_job_is_long_gone_is_swept_away() {
        let home = tempfile::tempdir().unwrap();
        let (folder, gone) = (home.path().join("kept"), home.path().join("gone"));
        fs::create_dir_all(&folder).unwrap();
        let (base, old) = (home.path().join("base"), ABANDONED * 2);
        let kept = around(&base, "a", &folder, old);
        let young = around(&base, "b", &gone, Duration::ZERO);
        let swept = around(&base, "c", &gone, old);
        let nobodys = around(&base, "d", &gone, old);
        fs::remove_file(nobodys.join(OWNER)).unwrap();
        fs::File::open(&nobodys).unwrap().set_modified(SystemTime::now() - old).unwrap();
        sweep(&base);
        let left = [kept, young, swept, nobodys].map(|path| path.exists());
        assert_eq!(left, [true, true, false, true]);
    }

    #[test]
    fn each_job_has_a_place_of_its_own_that_tells_its_project() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join("base");
        let of = |project: &str, run: &str| {
            let folder = home.path().join(project).join(".salve/jobs").join(run);
            fs::create_dir_all(&folder).unwrap();
            place(&base, &folder).unwrap()
        };
        let (one, other) = (of("my shop", "0123"), of("my shop", "4567"));
        assert!(one.ends_with("myshop-0123"), "{}", one.display());
        assert_ne!(one.parent(), other.parent());
        assert_ne!(of("a/shop", "0123").parent(), of("b/shop", "0123").parent());
        assert_eq!(one, of("my shop", "0123"));
    }
}
