//! Namespaces: what is sealed becomes read-only, and the network disappears.
//!
//! Landlock only allows, so it cannot take a file back out of a directory that may be written to. A
//! mount namespace can: what is sealed is mounted over itself, read-only, where only the command
//! sees it. Root gets one directly; others get a user namespace of their own first, in which they
//! stay who they are.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::StatVfsMountFlags;

use super::enter::Refusal;
use super::means::Spaces;
use super::plan::Plan;
use crate::config::Network;

/// Moves this process into namespaces of its own, as its plan says.
pub(super) fn separate(plan: &Plan) -> Result<(), Refusal> {
    if plan.spaces == Spaces::None {
        return Ok(());
    }
    let net = match plan.network {
        Network::None => CloneFlags::CLONE_NEWNET,
        Network::Web | Network::Any => CloneFlags::empty(),
    };
    leave(plan.spaces, net)?;
    if let Some((file, place)) = &plan.servers {
        // It only helps: whoever looks at the environment does without.
        let _ = mount(Some(&**file), &**place, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    }
    for place in &plan.pinned {
        bind(place, MsFlags::empty()).map_err(Refusal::of("keeping a directory in place"))?;
    }
    for place in &plan.sealed {
        bind(place, MsFlags::MS_RDONLY).map_err(Refusal::of("sealing Salve's own files"))?;
    }
    Ok(())
}

/// Leaves the mounts of the others, and what else `also` says.
pub(super) fn leave(spaces: Spaces, also: CloneFlags) -> Result<(), Refusal> {
    let user = match spaces {
        Spaces::None => return Ok(()),
        Spaces::Root => CloneFlags::empty(),
        Spaces::User => CloneFlags::CLONE_NEWUSER,
    };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let all = user | CloneFlags::CLONE_NEWNS | also;
    unshare(all).map_err(Refusal::of("leaving the namespaces"))?;
    if spaces == Spaces::User {
        let told = |file: &str, text: String| {
            fs::write(Path::new("/proc/self").join(file), text)
                .map_err(Refusal::of("staying the same user"))
        };
        told("setgroups", "deny".to_owned())?;
        told("uid_map", format!("{uid} {uid} 1"))?;
        told("gid_map", format!("{gid} {gid} 1"))?;
    }
    // Else what is mounted here would show up elsewhere.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(Refusal::of("separating the mounts"))
}

/// Mounts a path over itself.
pub(super) fn bind(place: &OsStr, flags: MsFlags) -> nix::Result<()> {
    mount(Some(place), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    if flags.is_empty() {
        return Ok(());
    }
    let kept = rustix::fs::statvfs(place).map(|stat| kept(stat.f_flag));
    let kept = kept.unwrap_or(MsFlags::empty());
    let flags = flags | kept | MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
    mount(None::<&str>, place, None::<&str>, flags, None::<&str>)
}

/// Returns the flags that a user namespace must not take off.
fn kept(flags: StatVfsMountFlags) -> MsFlags {
    let pairs = [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ];
    let set = pairs.into_iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(MsFlags::empty(), |all, (_, flag)| all | flag)
}
