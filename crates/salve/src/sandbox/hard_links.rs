//! Other names of files that a command must not change or reach: by such a name it could.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// How many files are looked at for names, and how many sealed ones for others.
const MOST_NAMES: usize = 500_000;
const MOST_SEALED: usize = 50_000;

/// A file with more than one name: its device, its number, and how many names it has.
pub(super) type SharedFile = (u64, u64, u64);

/// Returns the files with several names among these and below them. Git's objects are left aside: they
/// are data that git examines, and copies of repositories share them by the thousand.
pub(super) fn shared_among<'p>(
    places: impl Iterator<Item = &'p Path>,
) -> Vec<(PathBuf, SharedFile)> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut open: Vec<PathBuf> = places.map(Path::to_path_buf).collect();
    while let Some(path) = open.pop() {
        looked += 1;
        let Ok(meta) = path.symlink_metadata() else { continue };
        if looked > MOST_SEALED {
            break;
        }
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let entries = entries.filter(|entry| entry.file_name() != "objects");
            open.extend(entries.map(|entry| entry.path()));
        } else if meta.nlink() > 1 && (meta.is_file() || meta.file_type().is_socket()) {
            found.push((path, (meta.dev(), meta.ino(), meta.nlink())));
        }
    }
    found
}

/// Returns the names below a directory of these files, but for what lies in `left_out`.
pub(super) fn names_below(
    dir: &Path,
    files: &[SharedFile],
    left_out: &BTreeSet<&Path>,
) -> Vec<PathBuf> {
    let numbers: BTreeSet<u64> = files.iter().map(|(_, number, _)| *number).collect();
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked += 1;
            if files.is_empty() || looked > MOST_NAMES {
                return found;
            }
            let path = entry.path();
            if left_out.contains(path.as_path()) {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if numbers.contains(&entry.ino()) {
                let meta = path.symlink_metadata();
                let is_one = |meta: &fs::Metadata| {
                    files.iter().any(|(dev, ino, _)| (*dev, *ino) == (meta.dev(), meta.ino()))
                };
                found.extend(meta.is_ok_and(|meta| is_one(&meta)).then_some(path));
            }
        }
    }
    found
}
