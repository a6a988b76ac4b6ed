//! What a remedy replaces, kept until it has been replaced.
//!
//! Each thing has a directory of its own below `.salve/aside`: `note.json` says where it belongs
//! and who moved it, `kept` is the thing itself. Once all steps have worked the directory is
//! renamed to `<id>.done` and then deleted. Whoever finds one that is not done, of a process that
//! is gone, gives it back: a sudden end loses nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use salve_core::event::Process;
use salve_core::scrub::Scrubber;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::files::{FileKind, make_directories, read_bytes};
use crate::{atomic, process};

/// Where things are kept, below the project's root.
const PLACE: &str = ".salve/aside";

/// What is written beside a thing.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// Where it belongs, relative to the project's root.
    path: String,
    /// Who moved it.
    by: Process,
}

/// Something that was moved out of the way.
pub(super) struct Aside {
    place: PathBuf,
    dir: PathBuf,
}

/// Moves what is at `path` out of the way; nothing if there is nothing, or it cannot be moved.
pub(super) fn set(root: &Path, path: &str, scrubber: &Scrubber) -> io::Result<Option<Aside>> {
    let place = root.join(path);
    if fs::symlink_metadata(&place).is_err() {
        return Ok(None);
    }
    let dir = root.join(PLACE).join(Uuid::now_v7().to_string());
    make_directories(&dir)?;
    let note = Note { version: 1, path: path.to_owned(), by: process::this(scrubber) };
    let text = serde_json::to_string(&note).map_err(io::Error::other)?;
    atomic::write(&dir.join("note.json"), &text).map_err(io::Error::other)?;
    match fs::rename(&place, dir.join("kept")) {
        Ok(()) => Ok(Some(Aside { place, dir })),
        Err(error) => {
            // Nothing was moved, so nothing is kept.
            let _ = fs::remove_dir_all(&dir);
            // A directory that is mounted cannot be moved; its tool empties it by itself.
            match error.raw_os_error() {
                Some(16 | 18) => Ok(None),
                Some(_) | None => Err(error),
            }
        }
    }
}

impl Aside {
    /// Puts it back in place of whatever a failed step made there.
    pub(super) fn give_back(self) -> io::Result<()> {
        let kept = self.dir.join("kept");
        if fs::symlink_metadata(&kept).is_ok() {
            remove(&self.place)?;
            fs::rename(&kept, &self.place)?;
        }
        fs::remove_dir_all(&self.dir)
    }

    /// Lets it go: what replaces it is there.
    pub(super) fn drop_old(self) {
        let done = self.dir.with_extension("done");
        // From here on it is not given back; what cannot be deleted now is deleted another time.
        let gone = fs::rename(&self.dir, &done).and_then(|()| fs::remove_dir_all(&done));
        drop(gone);
    }
}

/// Gives back what an interrupted remedy left aside, and returns what that was.
pub fn give_back(root: &Path, scrubber: &Scrubber) -> Vec<String> {
    let mut back = Vec::new();
    for entry in fs::read_dir(root.join(PLACE)).into_iter().flatten().flatten() {
        let dir = entry.path();
        if dir.extension().is_some_and(|end| end == "done") {
            // It was let go of; it may be deleted another time.
            let _ = fs::remove_dir_all(&dir);
            continue;
        }
        let text = read_bytes(&dir.join("note.json"), FileKind::Note).unwrap_or_default();
        let Ok(note) = serde_json::from_slice::<Note>(&text) else { continue };
        if !process::is_gone(&note.by, scrubber) {
            continue;
        }
        let aside = Aside { place: root.join(&note.path), dir };
        if aside.give_back().is_ok() {
            back.push(note.path);
        }
    }
    back
}

/// Deletes whatever is at a path, if anything is.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use salve_core::scrub::Key;

    use super::*;

    #[test]
    fn what_a_process_that_is_gone_left_aside_comes_back_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let scrubber = Scrubber::new(Key::new([1; 32]));
        let (there, kept) = (root.join("node_modules"), root.join("node_modules/a"));
        fs::create_dir(&there).unwrap();
        fs::write(&kept, "old").unwrap();
        let aside = set(root, "node_modules", &scrubber).unwrap().unwrap();
        fs::create_dir(&there).unwrap();
        fs::write(&kept, "half").unwrap();
        assert!(give_back(root, &scrubber).is_empty(), "whoever moved it is at work");
        let me = process::this(&scrubber);
        let by = Process { started: me.started + 1, ..me };
        let note = Note { version: 1, path: "node_modules".into(), by };
        fs::write(aside.dir.join("note.json"), serde_json::to_string(&note).unwrap()).unwrap();
        assert_eq!(give_back(root, &scrubber), ["node_modules"]);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old");
        let aside = set(root, "node_modules", &scrubber).unwrap().unwrap();
        fs::rename(&aside.dir, aside.dir.with_extension("done")).unwrap();
        assert!(give_back(root, &scrubber).is_empty(), "it was let go of");
        assert_eq!(fs::read_dir(root.join(PLACE)).unwrap().count(), 0);
    }
}
