//! Sockets that stand as files, behind which other programs of this machine listen.
//!
//! Whoever reaches Docker's socket is root, and the session bus starts programs. No rule of the
//! kernel says which of them a command may connect to, so each one that listens when the command
//! begins is covered by `/dev/null`, where only the command sees that.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Sockets that are covered although their listeners may live in another network namespace.
const KNOWN: [&str; 6] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/systemd/private",
];

/// Returns the sockets that a command must not reach: all but those in `places` and those listed.
pub(super) fn to_cover(places: &[PathBuf], listed: &[String]) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let listed = listed.iter().filter_map(|path| match path.strip_prefix("~/") {
        Some(rest) => Some(home.as_ref()?.join(rest)),
        None => Some(PathBuf::from(path)),
    });
    let listed: BTreeSet<PathBuf> = listed.filter_map(|path| path.canonicalize().ok()).collect();
    // The kernel's own list: it is no file with an end of its own, so its size says nothing.
    let text = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let named = text.lines().filter_map(path_in).chain(KNOWN.iter().map(PathBuf::from));
    let is_socket =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let real: BTreeSet<PathBuf> = named.filter_map(|path| path.canonicalize().ok()).collect();
    let is_free = |path: &PathBuf| {
        places.iter().any(|place| path.starts_with(place)) || listed.contains(path)
    };
    real.into_iter().filter(|path| is_socket(path) && !is_free(path)).collect()
}

/// Returns the path of a line of the kernel's list, if its socket has one.
fn path_in(line: &str) -> Option<PathBuf> {
    let at = line.find('/')?;
    Some(Path::new(&line[at..]).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_covered_unless_it_is_in_place_or_listed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("project")).unwrap();
        let [inside, outside] = ["project/in.sock", "out.sock"].map(|name| root.join(name));
        let _in = std::os::unix::net::UnixListener::bind(&inside).unwrap();
        let _out = std::os::unix::net::UnixListener::bind(&outside).unwrap();
        let covered = |listed: &[String]| to_cover(&[root.join("project")], listed);
        assert!(covered(&[]).contains(&outside) && !covered(&[]).contains(&inside));
        assert!(!covered(&[outside.display().to_string()]).contains(&outside));
    }
}
