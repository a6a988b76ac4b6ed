//! What an agent must not reach: other programs of the user, and Salve's own files.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{dirs, sandbox};

/// Sockets by which programs of this machine do as they are told.
const SOCKETS: [&str; 11] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/dbus/system_bus_socket",
    "/run/snapd.socket",
    "/run/libvirt",
    "/run/screen",
    "/var/run/screen",
    "/run/systemd/private",
];

/// Such sockets below the home directory.
const SOCKETS_AT_HOME: [&str; 5] =
    [".docker/run", ".docker/desktop", ".colima", ".rd", ".local/share/containers/podman"];

/// Directories at home in which the sockets of agents of keys and of shared connections lie beside what
/// an agent may read.
const WITH_SOCKETS_AT_HOME: [&str; 3] = [".ssh", ".ssh/agent", ".gnupg"];

/// Variables that name such a socket, as a path or behind `unix:`.
const VARIABLES: [&str; 4] =
    ["SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO"];

/// How many entries are looked at before the owners of the rest are taken to be the same.
const MOST_LOOKED_AT: usize = 2_000;

/// The names of the variables that lead to what is hidden; what runs in a layer does not get them.
pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    VARIABLES.into_iter().chain(["XDG_RUNTIME_DIR"])
}

/// Returns what is hidden, if it is there.
pub(super) fn places() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut places: Vec<PathBuf> = SOCKETS.iter().map(PathBuf::from).collect();
    places.push(format!("/run/user/{user}").into());
    places.extend(absolute("XDG_RUNTIME_DIR"));
    if let Some(home) = absolute("HOME") {
        places.extend(SOCKETS_AT_HOME.iter().map(|dir| home.join(dir)));
        places.extend(
            WITH_SOCKETS_AT_HOME.iter().flat_map(|dir| sandbox::sockets_in(&home.join(dir))),
        );
    }
    places.extend(VARIABLES.iter().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        let path = value.strip_prefix("unix:path=").or(value.strip_prefix("unix://"));
        Some(PathBuf::from(path.unwrap_or(&value).split([',', ':']).next()?))
    }));
    // Memory of other projects, keys, and the upper directories of this and other layers.
    places.extend([dirs::data(), dirs::config(), dirs::cache()].into_iter().flatten());
    places.retain(|place| place.is_absolute() && place.exists());
    places.sort();
    places.dedup();
    places
}

/// Returns whether the files of a tree belong to this user and group, as far as a short look tells.
///
/// A file of another group fails to be copied up in a user namespace, which knows one group only
/// (`EOVERFLOW`): such a tree is copied instead.
pub(super) fn owners_are_mapped(root: &Path) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut todo = VecDeque::from([root.to_path_buf()]);
    let mut looked_at = 0;
    while let Some(dir) = todo.pop_front() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            looked_at += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.uid() != user || meta.gid() != group {
                return false;
            }
            if looked_at >= MOST_LOOKED_AT {
                return true;
            }
            let is_packages = entry.file_name() == "node_modules" || entry.file_name() == ".git";
            if meta.is_dir() && !is_packages {
                todo.push_back(entry.path());
            }
        }
    }
    true
}
