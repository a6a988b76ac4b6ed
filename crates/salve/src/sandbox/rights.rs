//! Which rights of root's, and which flags of a mount, a process without its full rights keeps.

use nix::mount::MsFlags;
use rustix::fs::StatVfsMountFlags;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// What root needs to install packages and to work on files of others; without the rest, even root
/// gains nothing.
pub(crate) const WORKING_ON_FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Gives up what root could do beyond that and `more`; nobody else has anything to give up.
pub(crate) fn bound_capabilities(more: CapabilitySet) -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for capability in CapabilitySet::all().difference(WORKING_ON_FILES.union(more)).iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // An older kernel does not know it, and some root may not even give up.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Passes the right to mount on to what this process starts; root's children have it anyway.
pub(crate) fn pass_on_mounting() -> rustix::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let own = rustix::thread::capabilities(None)?;
    let kept = own.inheritable | CapabilitySet::SYS_ADMIN;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: kept, ..own })?;
    rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

/// Returns the flags that a user namespace must not take off a mount.
pub(crate) fn kept_mount_flags(flags: StatVfsMountFlags) -> MsFlags {
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
