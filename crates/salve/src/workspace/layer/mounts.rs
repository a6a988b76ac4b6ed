//! The mounts of a layer, made by the process that becomes the command.
//!
//! Everything is opened before the first mount: an overlay of `/tmp` hides a project that lies below
//! it, and a handle leads there all the same. Handles are named by `/proc/self/fd`, which also saves
//! escaping paths in the options of an overlay.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};

use super::enter::LayerRefusal;
use super::plan::{LayerMounts, LayerPlan, OverlayMount};
use crate::sandbox::kept_mount_flags;
use crate::workspace::scan::is_always_derived;

/// The devices that programs need.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The options of an overlay that an ordinary user may mount; `index` would refuse an upper directory
/// that was mounted before, as when a check follows the agent.
const OPTIONS: &str = "userxattr,index=off";

/// A place with a handle on what it was before anything was mounted.
struct OpenedPlace {
    place: PathBuf,
    handle: OwnedFd,
}

impl OpenedPlace {
    fn new(place: &Path) -> rustix::io::Result<Self> {
        let handle = rustix::fs::open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { place: place.to_path_buf(), handle })
    }

    /// Returns a path that leads to it whatever is mounted in its place.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }
}

/// Mounts all that the plan says; the mounts must be this process's own already.
pub(super) fn mount_all(plan: &LayerPlan, mounts: &LayerMounts) -> Result<(), LayerRefusal> {
    let there = mount_points().map_err(LayerRefusal::of("listing the mounts"))?;
    let open = |place: &OsStr| OpenedPlace::new(Path::new(place));
    let open_below = |mounted: &OverlayMount| {
        open(&mounted.place).map_err(LayerRefusal::of("opening the project"))
    };
    let below: Vec<_> = mounts.temporary.iter().map(open_below).collect::<Result<_, _>>()?;
    let below_inner: Vec<_> = mounts.inner.iter().map(open_below).collect::<Result<_, _>>()?;
    let tree = mounts.tree.as_ref().map(|tree| Ok((tree, open_below(tree)?))).transpose()?;
    let writable: Vec<OpenedPlace> =
        plan.writable.iter().filter_map(|one| open(one).ok()).collect();
    let devices: Vec<OpenedPlace> = DEVICES
        .iter()
        .filter_map(|name| OpenedPlace::new(&Path::new("/dev").join(name)).ok())
        .collect();

    // The project's own overlay comes after what may be written to: a home directory may hold it.
    let cached: Vec<&OverlayMount> = mounts
        .caches
        .iter()
        .filter(|one| open(&one.place).is_ok_and(|below| mount_overlay(one, &below).is_ok()))
        .collect();
    for (one, below) in mounts.temporary.iter().zip(&below) {
        mount_overlay(one, below)?;
    }
    let holds_tree = |place: &&OpenedPlace| {
        tree.as_ref().is_some_and(|(_, below)| below.place.starts_with(&place.place))
    };
    for place in writable.iter().filter(|place| !holds_tree(place)) {
        bind(place)?;
    }
    for place in writable.iter().filter(holds_tree) {
        bind(place)?;
    }
    if let Some((tree, below)) = &tree {
        mount_overlay(tree, below)?;
        for (one, below) in mounts.inner.iter().zip(&below_inner) {
            mount_overlay(one, below)?;
        }
        for place in writable.iter().filter(|place| place.place.starts_with(&below.place)) {
            bind(place)?;
        }
    }
    mount_devices(&devices)?;
    for place in &plan.hidden {
        hide(Path::new(place))?;
    }
    let covering = mounts.temporary.iter().chain(&mounts.tree).chain(cached);
    let covering = covering.map(|one| PathBuf::from(&one.place));
    let covering = covering.chain(writable.iter().map(|place| place.place.clone()));
    let covering: Vec<PathBuf> = covering.chain(["/dev".into(), "/proc".into()]).collect();
    close_the_rest(&there, &covering)
}

fn mount_overlay(one: &OverlayMount, below: &OpenedPlace) -> Result<(), LayerRefusal> {
    let refusal = || LayerRefusal::of("mounting the layer");
    let upper = File::open(&one.upper).map_err(refusal())?;
    let work = File::open(&one.work).map_err(refusal())?;
    let options = format!(
        "{OPTIONS},lowerdir={},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{}",
        below.path().display(),
        upper.as_raw_fd(),
        work.as_raw_fd(),
    );
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let source = Some("salve-layer");
    mount(source, Path::new(&one.place), Some("overlay"), flags, Some(options.as_str()))
        .map_err(io::Error::from)
        .map_err(refusal())
}

/// Shows a place as it was, with all that is mounted below it.
fn bind(place: &OpenedPlace) -> Result<(), LayerRefusal> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(&place.path()), &place.place, None::<&str>, flags, None::<&str>)
        .map_err(LayerRefusal::of("opening a place to write to"))
}

/// Gives a directory of devices that holds the harmless ones only.
fn mount_devices(devices: &[OpenedPlace]) -> Result<(), LayerRefusal> {
    let refusal = || LayerRefusal::of("making devices");
    let dev = Path::new("/dev");
    mount_memory(dev, "mode=0755,size=1m").map_err(refusal())?;
    for device in devices {
        File::create(&device.place).map_err(refusal())?;
        bind(device)?;
    }
    for dir in ["pts", "shm"] {
        fs::create_dir(dev.join(dir)).map_err(refusal())?;
    }
    mount_memory(&dev.join("shm"), "mode=1777").map_err(refusal())?;
    let pts = "newinstance,ptmxmode=0666,mode=0620";
    // Without terminals an agent still works.
    if mount(Some("devpts"), &dev.join("pts"), Some("devpts"), MsFlags::MS_NOSUID, Some(pts))
        .is_ok()
    {
        symlink("pts/ptmx", dev.join("ptmx")).map_err(refusal())?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name)).map_err(refusal())?;
    }
    Ok(())
}

/// Puts something empty in the place of what is there.
fn hide(place: &Path) -> Result<(), LayerRefusal> {
    let refusal = || LayerRefusal::of("hiding what is not the agent's");
    match fs::metadata(place) {
        Ok(meta) if meta.is_dir() => mount_memory(place, "mode=0700,size=1m").map_err(refusal()),
        Ok(_) => {
            let null = Some("/dev/null");
            let bound = mount(null, place, None::<&str>, MsFlags::MS_BIND, None::<&str>);
            bound.map_err(io::Error::from).map_err(refusal())
        }
        // It went away, or a directory above it is hidden by now.
        Err(_) => Ok(()),
    }
}

fn mount_memory(place: &Path, options: &str) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some(options))?)
}

/// Makes everything read-only that was there before, but for what is covered by now.
fn close_the_rest(there: &[PathBuf], covering: &[PathBuf]) -> Result<(), LayerRefusal> {
    let is_covered = |point: &PathBuf| covering.iter().any(|place| point.starts_with(place));
    for point in there.iter().filter(|point| !is_covered(point)) {
        let Ok(now) = rustix::fs::statvfs(point) else { continue };
        if now.f_flag.contains(StatVfsMountFlags::RDONLY) {
            continue;
        }
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        let flags = flags | kept_flags(now.f_flag);
        mount(None::<&str>, point, None::<&str>, flags, None::<&str>)
            .map_err(LayerRefusal::of("closing the rest of the file system"))?;
    }
    Ok(())
}

/// Returns the flags that a mount keeps when it is made read-only.
fn kept_flags(flags: StatVfsMountFlags) -> MsFlags {
    let all = kept_mount_flags(flags);
    let is_lazy = all.intersects(MsFlags::MS_NOATIME | MsFlags::MS_RELATIME);
    // Saying nothing about times of access means to change them, which is refused.
    if is_lazy { all } else { all | MsFlags::MS_STRICTATIME }
}

/// Returns what else is mounted inside of a tree, if all of it is made by tools, such as the packages of
/// a container in a volume of their own.
///
/// An overlay shows none of it: the kernel takes one file system for what lies below. What people write
/// has to be copied then, since its change would be told by nobody.
pub(super) fn derived_below(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let points = mount_points().ok()?;
    // Salve's own directory is in no layer, on whichever disk it lies.
    let own = root.join(".salve");
    let is_inner =
        |point: &PathBuf| point != root && point.starts_with(root) && !point.starts_with(&own);
    let inner: BTreeSet<PathBuf> = points.into_iter().filter(is_inner).collect();
    let is_derived = |point: &PathBuf| point.strip_prefix(root).is_ok_and(is_always_derived);
    inner.iter().all(is_derived).then_some(inner)
}

/// Returns where something is mounted, in the order of mounting.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|&byte| byte == b'\n');
    let field = |line: &[u8]| Some(unescape(line.split(|&byte| byte == b' ').nth(4)?));
    Ok(lines.filter_map(field).collect())
}

/// Reads a path in which odd bytes stand as octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        (bytes, rest) = match code.filter(|_| byte == b'\\') {
            Some(code) => (pushed(bytes, code), &after[3..]),
            None => (pushed(bytes, byte), after),
        };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}

/// Shows the processes of this namespace only, and keeps root from the kernel's switches.
pub(super) fn mount_processes() {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let proc = Path::new("/proc");
    // A container that masks parts of it lets nobody mount it again. The old one shows who is there,
    // but they are in another namespace and out of reach all the same.
    let _ = mount(Some("proc"), proc, Some("proc"), flags, None::<&str>);
    if rustix::process::geteuid().is_root() {
        for name in ["sys", "sysrq-trigger", "irq", "bus"] {
            let place = proc.join(name);
            let bind = mount(Some(&place), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>);
            let shut = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags;
            // What is not there needs no lock.
            let _ =
                bind.and_then(|()| mount(None::<&str>, &place, None::<&str>, shut, None::<&str>));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_of_mounts_are_read() {
        assert_eq!(unescape(b"/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescape(b"/plain\\9"), Path::new("/plain\\9"));
        assert!(mount_points().unwrap().contains(&PathBuf::from("/")));
    }
}
