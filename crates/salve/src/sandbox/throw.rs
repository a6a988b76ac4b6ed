//! Directories that a command may write to without changing them.
//!
//! Each is covered by an overlay whose upper half lies among the command's own temporary files and
//! goes with them. What of it stays is mounted over it once more.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::{Mode, OFlags};

use super::enter::SandboxRefusal;
use super::plan::{SandboxPlan, ThrownPlace};

/// The options that an ordinary user may mount an overlay with too.
const OPTIONS: &str = "userxattr,index=off";

/// Makes room for what is thrown away of each place.
pub(super) fn prepare(places: Vec<PathBuf>, private: &Path) -> io::Result<Vec<ThrownPlace>> {
    let all = private.join("thrown");
    let one = |(number, place): (usize, PathBuf)| {
        let dir = all.join(number.to_string());
        let [upper, work] = ["upper", "work"].map(|name| dir.join(name));
        fs::create_dir_all(&upper)?;
        fs::create_dir(&work)?;
        let place = place.into_os_string();
        Ok(ThrownPlace { place, upper: upper.into(), work: work.into() })
    };
    places.into_iter().enumerate().map(one).collect()
}

/// Makes it possible to remove what the kernel left behind.
pub(super) fn tidy(all: &[ThrownPlace]) {
    for thrown in all {
        // It lets nobody into its own directory, not even to see that it is empty.
        let own = Path::new(&thrown.work).join("work");
        if own.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            let _ = fs::set_permissions(own, fs::Permissions::from_mode(0o700));
        }
    }
}

/// Returns where the changes go, which has to stay open for the kernel though not for the command.
pub(super) fn upper_directory(plan: &SandboxPlan) -> Option<PathBuf> {
    let first = plan.thrown.first()?;
    Path::new(&first.upper).ancestors().nth(2).map(Path::to_path_buf)
}

/// Covers every place, so that what is written there goes elsewhere.
pub(super) fn cover(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    let cover_all = || plan.thrown.iter().try_for_each(|thrown| cover_one(plan, thrown));
    cover_all().map_err(SandboxRefusal::of("covering what is thrown away"))
}

fn cover_one(plan: &SandboxPlan, thrown: &ThrownPlace) -> io::Result<()> {
    let place = Path::new(&thrown.place).canonicalize()?;
    let below = |path: &OsString| {
        let path = Path::new(path).canonicalize().ok()?;
        (path != place && path.starts_with(&place)).then_some(path)
    };
    let kept: Vec<PathBuf> = plan.writes.iter().filter_map(below).collect();
    let kept: Vec<(PathBuf, OwnedFd)> = kept
        .into_iter()
        .map(|path| open(&path).map(|handle| (path, handle)))
        .collect::<Result<_, _>>()?;
    if overlay(thrown, &place).is_err() {
        // A file system that cannot be covered so: then it looks as if it were empty.
        let none = None::<&str>;
        mount(Some(&*thrown.upper), &place, none, MsFlags::MS_BIND, none)?;
    }
    for (path, handle) in kept {
        give_back(&path, &handle)?;
    }
    Ok(())
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Mounts what stays once more, where the cover hides it.
fn give_back(path: &Path, handle: &OwnedFd) -> io::Result<()> {
    if !path.exists() {
        // It is a directory: of files only devices and cargo's are listed, which nothing covers.
        fs::create_dir_all(path)?;
    }
    let from = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let none = None::<&str>;
    Ok(mount(Some(from.as_str()), path, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?)
}

fn overlay(thrown: &ThrownPlace, place: &Path) -> io::Result<()> {
    // By handles, so that no path can be mistaken for an option.
    let (upper, work) = (File::open(&thrown.upper)?, File::open(&thrown.work)?);
    let lower = open(place)?;
    let numbers = [lower.as_raw_fd(), upper.as_raw_fd(), work.as_raw_fd()];
    let [below, above, aside] = numbers.map(|number| format!("/proc/self/fd/{number}"));
    let options = format!("{OPTIONS},lowerdir={below},upperdir={above},workdir={aside}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let source = Some("salve-thrown");
    Ok(mount(source, place, Some("overlay"), flags, Some(options.as_str()))?)
}
