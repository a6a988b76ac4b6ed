//! Sockets that stand as files, behind which other programs of this machine listen.
//!
//! Whoever reaches Docker's socket is root, and the session bus starts programs. No rule of the
//! kernel says which of them a command may connect to, so each one that listens when the command
//! begins is covered by `/dev/null`, where only the command sees that, with the other sockets beside
//! it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::hard_links;
use crate::process::tree;

/// Sockets that are covered although their listeners may live in another network namespace.
const KNOWN: [&str; 6] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/systemd/private",
];

/// Directories at home in which programs keep such sockets under names that the kernel does not tell:
/// ssh gives a connection that is shared its name only after it began to listen.
const AT_HOME: [&str; 3] = [".ssh", ".ssh/agent", ".gnupg"];

/// How deep, and among how many files, a socket is looked for whose directory nobody has open.
const DEEPEST: usize = 4;
const MOST_LOOKED: usize = 20_000;

/// How many files are looked at in the directory of a socket.
const MOST_BESIDE: usize = 10_000;

/// Returns the sockets that a command must not reach: all but those in `places` and those listed.
pub(super) fn to_cover(places: &[PathBuf], listed: &[String]) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let listed = listed.iter().filter_map(|path| match path.strip_prefix("~/") {
        Some(rest) => Some(home.as_ref()?.join(rest)),
        None => Some(PathBuf::from(path)),
    });
    let listed: BTreeSet<PathBuf> = listed.filter_map(|path| path.canonicalize().ok()).collect();
    // The kernel's own list: it is no file with an end of its own, so its size says nothing.
    // Anybody may put a name into it that is no text, which must not hide the others.
    let bytes = fs::read("/proc/self/net/unix").unwrap_or_default();
    let named = paths(&String::from_utf8_lossy(&bytes));
    // The list has the names that were given at first; a socket that was renamed is mostly near.
    let above = |path: &PathBuf| path.parent().map(Path::to_path_buf);
    let mut near: BTreeSet<PathBuf> = named.iter().filter_map(above).collect();
    let known = KNOWN.iter().map(PathBuf::from);
    let mut real: BTreeSet<PathBuf> =
        named.into_iter().chain(known).filter_map(|path| path.canonicalize().ok()).collect();
    near.extend(AT_HOME.iter().filter_map(|name| Some(home.as_ref()?.join(name))));
    real.extend(
        near.into_iter().filter_map(|dir| dir.canonicalize().ok()).flat_map(|dir| sockets_in(&dir)),
    );
    let is_free = |path: &PathBuf| {
        places.iter().any(|place| path.starts_with(place)) || listed.contains(path)
    };
    let covered: Vec<PathBuf> =
        real.into_iter().filter(|path| is_socket(path) && !is_free(path)).collect();
    // One of them may have another name where the command works.
    let shared = hard_links::shared_among(covered.iter().map(PathBuf::as_path));
    let files: Vec<_> = shared.into_iter().map(|(_, file)| file).collect();
    let others =
        places.iter().flat_map(|place| hard_links::names_below(place, &files, &BTreeSet::new()));
    let others: Vec<PathBuf> = others.filter(|path| !listed.contains(path)).collect();
    [covered, others].concat()
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Returns the sockets in a directory.
pub(crate) fn sockets_in(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).into_iter().flatten().take(MOST_BESIDE).flatten();
    let sockets = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.map(|file| file.path()).collect()
}

/// Returns the paths in the kernel's list of sockets. One that does not begin at the root is told from
/// the directory in which a program was when it gave it, which mostly is where it still is.
fn paths(list: &str) -> BTreeSet<PathBuf> {
    let names: BTreeSet<&Path> = list.lines().skip(1).filter_map(name_in).map(Path::new).collect();
    let mut dirs = BTreeSet::new();
    if names.iter().any(|name| name.is_relative()) {
        dirs.extend(tree::all().into_iter().filter_map(|process| tree::cwd(process.pid)));
    }
    let by_handles = names.iter().filter_map(|name| name_behind_handle(name));
    let by_handles: BTreeSet<&Path> = by_handles.collect();
    let behind = if by_handles.is_empty() { Vec::new() } else { behind_handles(&by_handles) };
    let full = |name: &&Path| -> Vec<PathBuf> {
        if name.is_absolute() {
            return vec![name.to_path_buf()];
        }
        dirs.iter().map(|dir| dir.join(name)).filter(|path| is_socket(path)).collect()
    };
    names.iter().flat_map(full).chain(behind).collect()
}

/// Returns what a name says after a directory that only the program itself knew, by the number of its
/// handle.
fn name_behind_handle(name: &Path) -> Option<&Path> {
    let after = |parts: usize| {
        let mut rest = name.components();
        rest.by_ref().take(parts).for_each(drop);
        let rest = rest.as_path();
        (!rest.as_os_str().is_empty()).then_some(rest)
    };
    let parts: Vec<&OsStr> = name.iter().take(5).collect();
    let part = |at: usize| parts.get(at).and_then(|part| part.to_str()).unwrap_or_default();
    match (part(1), part(2), part(3)) {
        ("dev", "fd", _) => after(4),
        ("proc", _, "fd") => after(5),
        ("proc", _, "cwd") => after(4),
        _ => None,
    }
}

/// Returns the sockets of these names in every directory that some program has open, and, since it may
/// have closed it, where programs mostly keep such sockets.
fn behind_handles(names: &BTreeSet<&Path>) -> Vec<PathBuf> {
    let mut dirs = BTreeSet::new();
    for process in tree::all() {
        dirs.extend(tree::cwd(process.pid));
        let open = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten();
        let targets =
            open.flatten().take(MOST_BESIDE).filter_map(|fd| fs::read_link(fd.path()).ok());
        dirs.extend(targets.filter(|path| path.is_absolute()));
    }
    let mut found: Vec<PathBuf> =
        dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name))).collect();
    found.retain(|path| is_socket(path));
    let variables = ["XDG_RUNTIME_DIR", "TMPDIR", "HOME"].map(std::env::var_os);
    let usual = variables.into_iter().flatten().map(PathBuf::from);
    let usual = usual.chain(["/run", "/tmp", "/var/tmp"].map(PathBuf::from));
    let bases: BTreeSet<&OsStr> = names.iter().filter_map(|name| name.file_name()).collect();
    found.extend(usual.flat_map(|dir| sockets_below(&dir, &bases)));
    found
}

/// Returns sockets of these names in a directory and a little deeper.
fn sockets_below(dir: &Path, names: &BTreeSet<&OsStr>) -> Vec<PathBuf> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut open = std::collections::VecDeque::from([(dir.to_path_buf(), 0)]);
    while let Some((dir, depth)) = open.pop_front() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked += 1;
            if looked > MOST_LOOKED {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_socket() && names.contains(entry.file_name().as_os_str()) {
                found.push(entry.path());
            } else if kind.is_dir() && depth < DEEPEST {
                open.push_back((entry.path(), depth + 1));
            }
        }
    }
    found
}

/// Returns the name in a line of the kernel's list, if its socket has one that is a file's.
fn name_in(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..FIELDS_BEFORE {
        rest = rest.trim_start().split_once(' ')?.1;
    }
    let name = rest.trim_start();
    (!name.is_empty() && !name.starts_with('@')).then_some(name)
}

/// What stands before the name in a line of the kernel's list: an address, counts and numbers.
const FIELDS_BEFORE: usize = 7;

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

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
        // As ssh does: another name beside the first, which is gone then.
        // A name that is no text hides no other one.
        let odd = root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.sock"));
        let _odd = std::os::unix::net::UnixListener::bind(&odd).unwrap();
        assert!(covered(&[]).contains(&outside) && covered(&[]).contains(&odd));
        let renamed = root.join("renamed.sock");
        fs::rename(&outside, &renamed).unwrap();
        assert!(covered(&[]).contains(&renamed));
    }

    #[test]
    fn the_names_of_sockets_are_read_from_the_kernels_list() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01  1234 /run/a b.sock\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 12345 run/c.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 12346\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 12347 @/abstract\n";
        let names: Vec<&str> = list.lines().skip(1).filter_map(name_in).collect();
        assert_eq!(names, ["/run/a b.sock", "run/c.sock"]);
    }
}
