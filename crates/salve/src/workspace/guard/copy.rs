//! Copying a repository: objects by hard links, the rest byte for byte.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The largest file that is copied; larger ones are linked.
const LARGE: u64 = 64 << 20;

/// Makes `to` a copy of the repository `from`.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    each(from, to, Objects::Outside, &mut |_| true)
}

/// Adds to the repository `to` what `from` has and it has not.
pub(super) fn fill(from: &Path, to: &Path) -> io::Result<()> {
    each(from, to, Objects::Outside, &mut |place| fs::symlink_metadata(place).is_err())
}

/// Returns whether any of the objects of `one` is in `other`, in the same file.
pub(super) fn shares_objects(one: &Path, other: &Path) -> bool {
    let names = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let (ours, theirs) = (one.join("objects"), other.join("objects"));
    names(&ours).any(|dir| {
        let theirs = theirs.join(dir.file_name());
        dir.file_name() != "info"
            && names(&dir.path()).any(|file| theirs.join(file.file_name()).exists())
    })
}

/// Whether a directory holds objects, which never change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Objects {
    Inside,
    Outside,
}

fn each(
    from: &Path,
    to: &Path,
    objects: Objects,
    wanted: &mut dyn FnMut(&Path) -> bool,
) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, real) = (entry.file_name(), entry.path());
        let place = to.join(&name);
        let meta = match fs::symlink_metadata(&real) {
            Ok(meta) => meta,
            // It went away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if meta.is_dir() {
            let inner = match (objects, name.to_str()) {
                (_, Some("info" | "logs")) => Objects::Outside,
                (Objects::Outside, Some("objects")) => Objects::Inside,
                (objects, _) => objects,
            };
            fs::create_dir_all(&place)?;
            each(&real, &place, inner, wanted)?;
            continue;
        }
        // A lock is of the moment and of whoever holds it.
        let is_lock = name.as_encoded_bytes().ends_with(b".lock");
        if is_lock || !wanted(&place) {
            continue;
        }
        let made = if meta.is_symlink() {
            symlink(fs::read_link(&real)?, &place)
        } else if meta.is_file() && (objects == Objects::Inside || meta.len() > LARGE) {
            fs::hard_link(&real, &place).or_else(|_| fs::copy(&real, &place).map(drop))
        } else if meta.is_file() {
            fs::copy(&real, &place).map(drop)
        } else {
            // Sockets, as of a monitor, belong to whoever listens.
            Ok(())
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}
