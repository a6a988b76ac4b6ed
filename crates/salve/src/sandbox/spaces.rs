//! Namespaces: what is sealed becomes read-only, and the network disappears.
//!
//! Landlock only allows, so it cannot take a file back out of a directory that may be written to. A
//! mount namespace can: what is sealed is mounted over itself, read-only, where only the command
//! sees it. Root gets one directly; others get a user namespace of their own first, in which they
//! stay who they are.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::enter::SandboxRefusal;
use super::means::{Processes, Spaces};
use super::plan::SandboxPlan;
use super::rights::kept_mount_flags;
use super::throw;
use crate::config::Network;

/// Moves this process into namespaces of its own, as its plan says.
pub(super) fn separate(plan: &SandboxPlan) -> Result<(), SandboxRefusal> {
    if plan.spaces == Spaces::None {
        return Ok(());
    }
    let net = match plan.network {
        Network::None => CloneFlags::CLONE_NEWNET,
        Network::Web | Network::Any => CloneFlags::empty(),
    };
    leave(plan.spaces, net)?;
    if plan.processes == Processes::Own {
        leave_processes()?;
    }
    if let Some((file, place)) = &plan.servers {
        // It only helps: whoever looks at the environment does without.
        let _ = mount(Some(&**file), &**place, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    }
    let uppers = throw::upper_directory(plan).map(PathBuf::into_os_string);
    let open: Vec<OsString> = plan.writes.iter().cloned().chain(uppers).collect();
    close_the_rest(&open)?;
    throw::cover(plan)?;
    give_own_devices();
    for place in &plan.pinned {
        // Where something is mounted nothing is moved away: not with all that is sealed in it.
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&**place), &**place, None::<&str>, flags, None::<&str>)
            .map_err(SandboxRefusal::of("keeping a directory in its place"))?;
    }
    for place in &plan.sealed {
        bind(place, MsFlags::MS_RDONLY).map_err(SandboxRefusal::of("sealing Salve's own files"))?;
    }
    for place in &plan.reopened {
        let open = bind(place, MsFlags::empty()).and_then(|()| remount(place, MsFlags::empty()));
        open.map_err(SandboxRefusal::of("opening what git needs"))?;
    }
    for socket in &plan.covered {
        let null = Some("/dev/null");
        match mount(null, &**socket, None::<&str>, MsFlags::MS_BIND, None::<&str>) {
            // Where it does not get to, the command does not either.
            Ok(()) | Err(Errno::ENOENT | Errno::EACCES) => {}
            Err(error) => return Err(SandboxRefusal::of("covering a socket")(error)),
        }
    }
    enter_again().map_err(SandboxRefusal::of("staying in the directory"))
}

/// Makes everything read-only but the places that may be written to.
///
/// Landlock refuses the same writes but knows nothing of modes, owners, times and attributes. What
/// the kernel does not let us close stays as it is; Landlock holds it.
fn close_the_rest(writes: &[OsString]) -> Result<(), SandboxRefusal> {
    let real = |place: &OsString| Path::new(place).canonicalize().ok();
    let open: Vec<PathBuf> =
        writes.iter().filter_map(real).filter(|place| !is_device(place)).collect();
    for place in &open {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(place), place, None::<&str>, flags, None::<&str>)
            .map_err(SandboxRefusal::of("keeping a place open"))?;
    }
    let list =
        fs::read_to_string("/proc/self/mountinfo").map_err(SandboxRefusal::of("listing mounts"))?;
    for point in list.lines().filter_map(mount_point) {
        let is_open = open.iter().any(|place| point.starts_with(place));
        if !is_open && !point.starts_with("/proc") {
            let _ = remount(point.as_os_str(), MsFlags::MS_RDONLY);
        }
    }
    Ok(())
}

/// Gives shared memory and terminals of its own, where that can be; others' are then out of reach.
fn give_own_devices() {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let dev = Path::new("/dev");
    let shared = dev.join("shm");
    let _ = mount(Some("tmpfs"), &shared, Some("tmpfs"), flags, Some("mode=1777"));
    let (own, options) = (dev.join("pts"), "newinstance,ptmxmode=0666,mode=0620");
    let made = mount(Some("devpts"), &own, Some("devpts"), MsFlags::MS_NOSUID, Some(options));
    if made.is_ok() {
        let from = own.join("ptmx");
        let bind = MsFlags::MS_BIND;
        let _ = mount(Some(&from), &dev.join("ptmx"), None::<&str>, bind, None::<&str>);
    }
}

/// Enters the current directory by its name: by its handle it is still what lies below the mounts.
fn enter_again() -> io::Result<()> {
    let here = || fs::metadata(".").map(|meta| (meta.dev(), meta.ino()));
    let before = here()?;
    std::env::set_current_dir(fs::read_link("/proc/self/cwd")?)?;
    if here()? == before { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Returns whether a place is a device, which can be written to wherever it lies.
fn is_device(place: &Path) -> bool {
    place.starts_with("/dev") && !place.is_dir()
}

/// Returns where the mount of a line of the kernel's list is.
fn mount_point(line: &str) -> Option<PathBuf> {
    let text = line.split(' ').nth(4)?;
    // Blanks and the like are written as three octal digits.
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// Leaves the mounts of the others, and what else `also` says.
pub(super) fn leave(spaces: Spaces, also: CloneFlags) -> Result<(), SandboxRefusal> {
    let user = match spaces {
        Spaces::None => return Ok(()),
        Spaces::Root => CloneFlags::empty(),
        Spaces::User => CloneFlags::CLONE_NEWUSER,
    };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let all = user | CloneFlags::CLONE_NEWNS | also;
    unshare(all).map_err(SandboxRefusal::of("leaving the namespaces"))?;
    if spaces == Spaces::User {
        let told = |file: &str, text: String| {
            fs::write(Path::new("/proc/self").join(file), text)
                .map_err(SandboxRefusal::of("staying the same user"))
        };
        told("setgroups", "deny".to_owned())?;
        told("uid_map", format!("{uid} {uid} 1"))?;
        told("gid_map", format!("{gid} {gid} 1"))?;
    }
    // Else what is mounted here would show up elsewhere.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(SandboxRefusal::of("separating the mounts"))
}

/// Leaves the processes and the shared memory of the others, for what is started from now on.
pub(super) fn leave_processes() -> Result<(), SandboxRefusal> {
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC)
        .map_err(SandboxRefusal::of("leaving the process namespace"))
}

/// Mounts a path over itself.
pub(super) fn bind(place: &OsStr, flags: MsFlags) -> nix::Result<()> {
    mount(Some(place), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    if flags.is_empty() { Ok(()) } else { remount(place, flags) }
}

/// Gives a mount other flags, beside those that it must keep.
fn remount(place: &OsStr, flags: MsFlags) -> nix::Result<()> {
    let kept = rustix::fs::statvfs(place).map(|stat| kept_mount_flags(stat.f_flag));
    let kept = kept.unwrap_or(MsFlags::empty());
    let flags = flags | kept | MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
    mount(None::<&str>, place, None::<&str>, flags, None::<&str>)
}
