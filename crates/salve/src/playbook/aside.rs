//! What a remedy replaces, kept until it has been replaced.
//!
//! Each thing has a directory of its own below `.salve/aside`: `note.json` says where it belongs
//! and who moved it, `kept` is the thing itself. Once all steps have worked the directory is
//! renamed to `<id>.done` and then deleted. Whoever finds one that is not done, of a process that
//! is gone, gives it back: a sudden end loses nothing.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use salve_core::event::Process;
use salve_core::scrub::Scrubber;
use salve_core::sealed_path::SealedPath;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::files::{
    FileKind, Links, list, make_directories, open_regular, open_to_append, read_bytes, remove_tree,
};
use crate::{atomic, process};

/// Where things are kept, below the project's root.
const PLACE: &str = ".salve/aside";

/// What is written beside a thing.
#[derive(Debug, Serialize, Deserialize)]
struct AsideNote {
    version: u32,
    /// Where it belongs, relative to the project's root.
    path: String,
    /// Who moved it.
    by: Process,
}

/// Where copies of data stay that a remedy changed.
const COPIES: &str = ".salve/copies";

/// How many times data is kept as it was before a remedy.
const KEPT_COPIES: usize = 5;

/// Something that was moved out of the way or copied.
pub(super) enum Aside {
    /// Moved: it is gone from its place.
    Moved {
        /// Where it belongs.
        place: PathBuf,
        /// Where it and its note are.
        dir: PathBuf,
    },
    /// Copied: it is still in its place, and the copy is kept.
    Copied {
        /// Where it belongs.
        place: PathBuf,
        copy: PathBuf,
    },
}

/// Copies files that a remedy is about to change; those that are not there are passed over.
pub(super) fn copy(root: &Path, files: impl Iterator<Item = PathBuf>) -> io::Result<Vec<Aside>> {
    let copies = root.join(COPIES);
    let dir = copies.join(Uuid::now_v7().to_string());
    let mut made = Vec::new();
    for place in files.filter(|file| file.is_file()) {
        make_directories(&dir)?;
        let copy = dir.join(place.file_name().unwrap_or_default());
        let mut from = open_regular(&place, Links::Refuse).map_err(io::Error::other)?;
        let mut to = open_to_append(&copy, 0o600)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()?;
        made.push(Aside::Copied { place, copy });
    }
    // Names begin with their time, so the oldest come first.
    let all = list(&copies)?;
    let old = all.len().saturating_sub(KEPT_COPIES);
    for dir in all.iter().take(old) {
        // One more copy does no harm.
        let _ = remove_tree(dir);
    }
    Ok(made)
}

/// Moves what is at `path` out of the way; nothing if there is nothing, or it cannot be moved.
pub(super) fn set(root: &Path, path: &str, scrubber: &Scrubber) -> io::Result<Option<Aside>> {
    let place = root.join(path);
    if fs::symlink_metadata(&place).is_err() {
        return Ok(None);
    }
    let dir = root.join(PLACE).join(Uuid::now_v7().to_string());
    make_directories(&dir)?;
    let note = AsideNote { version: 1, path: path.to_owned(), by: process::this(scrubber) };
    let text = serde_json::to_string(&note).map_err(io::Error::other)?;
    atomic::write(&dir.join("note.json"), &text).map_err(io::Error::other)?;
    match fs::rename(&place, dir.join("kept")) {
        Ok(()) => Ok(Some(Aside::Moved { place, dir })),
        Err(error) => {
            // Nothing was moved, so nothing is kept.
            let _ = remove_tree(&dir);
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
        match self {
            Aside::Copied { place, copy } => fs::copy(copy, place).map(drop),
            Aside::Moved { place, dir } => {
                let kept = dir.join("kept");
                if fs::symlink_metadata(&kept).is_ok() {
                    remove(&place)?;
                    fs::rename(&kept, &place)?;
                }
                remove_tree(&dir)
            }
        }
    }

    /// Lets it go: what replaces it is there. Links out of the project stay.
    pub(super) fn drop_old(self, root: &Path) {
        let Aside::Moved { dir, place } = self else { return };
        keep_links(root, &dir.join("kept"), &place);
        let done = dir.with_extension("done");
        // From here on it is not given back; what cannot be deleted now is deleted another time.
        let gone = fs::rename(&dir, &done).and_then(|()| remove_tree(&done));
        drop(gone);
    }
}

/// Puts the links of an old directory of packages that lead out of the project, as `npm link` makes
/// them, back into the new one. No manager makes those again: they are the user's own.
fn keep_links(root: &Path, old: &Path, new: &Path) {
    let is_dir = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if !is_dir(old) || !is_dir(new) {
        return;
    }
    for entry in fs::read_dir(old).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), new.join(entry.file_name()));
        if is_dir(&from) && entry.file_name().as_encoded_bytes().starts_with(b"@") {
            // What cannot be made now is missed no more than without this.
            let _ = fs::create_dir(&to);
            keep_links(root, &from, &to);
            // An empty one is not left behind.
            let _ = fs::remove_dir(&to);
            continue;
        }
        let Ok(target) = fs::read_link(&from) else { continue };
        // It was written from where the new directory is now.
        let leads_out = new.join(&target).canonicalize().is_ok_and(|real| !real.starts_with(root));
        let is_managed = fs::symlink_metadata(&to).is_ok_and(|meta| meta.is_symlink());
        if leads_out && !is_managed && remove(&to).is_ok() {
            let _ = std::os::unix::fs::symlink(&target, &to);
        }
    }
}

/// Gives back what an interrupted remedy left aside, and returns what that was.
pub fn give_back(root: &Path, scrubber: &Scrubber) -> Vec<String> {
    let mut back = Vec::new();
    // What is a link is not ours, and whoever planted it decides nothing.
    for dir in list(&root.join(PLACE)).unwrap_or_default() {
        if dir.extension().is_some_and(|end| end == "done") {
            // It was let go of; it may be deleted another time.
            let _ = remove_tree(&dir);
            continue;
        }
        let text = read_bytes(&dir.join("note.json"), FileKind::Note).unwrap_or_default();
        let Ok(note) = serde_json::from_slice::<AsideNote>(&text) else { continue };
        if !process::is_gone(&note.by, scrubber) || !is_in_project(root, &note.path) {
            continue;
        }
        let aside = Aside::Moved { place: root.join(&note.path), dir };
        if aside.give_back().is_ok() {
            back.push(note.path);
        }
    }
    back
}

/// Returns whether a path that a note names is one of the project from which something may have been
/// moved away: a repository may bring notes of its own.
fn is_in_project(root: &Path, path: &str) -> bool {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let real = |path: &Path| path.canonicalize().ok();
    let is_below = || {
        let parent = root.join(path).parent().and_then(real);
        parent.is_some_and(|parent| real(root).is_some_and(|root| parent.starts_with(root)))
    };
    is_plain && !path.is_empty() && SealedPath::of(path.as_bytes()).is_none() && is_below()
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
    use salve_core::scrub::ScrubKey;

    use super::*;

    #[test]
    fn what_a_process_that_is_gone_left_aside_comes_back_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let (there, kept) = (root.join("node_modules"), root.join("node_modules/a"));
        fs::create_dir(&there).unwrap();
        fs::write(&kept, "old").unwrap();
        let aside = set(root, "node_modules", &scrubber).unwrap().unwrap();
        fs::create_dir(&there).unwrap();
        fs::write(&kept, "half").unwrap();
        assert!(give_back(root, &scrubber).is_empty(), "whoever moved it is at work");
        let me = process::this(&scrubber);
        let by = Process { started: me.started + 1, ..me };
        let note = AsideNote { version: 1, path: "node_modules".into(), by };
        let Aside::Moved { dir: kept_in, .. } = &aside else { panic!("it was moved") };
        fs::write(kept_in.join("note.json"), serde_json::to_string(&note).unwrap()).unwrap();
        assert_eq!(give_back(root, &scrubber), ["node_modules"]);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old");
        let aside = set(root, "node_modules", &scrubber).unwrap().unwrap();
        let Aside::Moved { dir: kept_in, .. } = &aside else { panic!("it was moved") };
        fs::rename(kept_in, kept_in.with_extension("done")).unwrap();
        assert!(give_back(root, &scrubber).is_empty(), "it was let go of");
        assert_eq!(fs::read_dir(root.join(PLACE)).unwrap().count(), 0);
    }

    #[test]
    fn a_link_out_of_the_project_stays_when_packages_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("project").join("app");
        let link = |target: &str, at: &str| {
            let at = root.join("node_modules").join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, at).unwrap();
        };
        let linked = |name: &str| fs::read_link(root.join("node_modules").join(name)).ok();
        for dir in ["mine", "mine-too", "own"] {
            fs::create_dir_all(home.path().join(dir)).unwrap();
        }
        fs::create_dir_all(root.join("packages/a")).unwrap();
        link("../../../mine", "mine");
        link("../../../../mine-too", "@acme/mine");
        link(home.path().join("own").to_str().unwrap(), "own");
        link("../packages/a", "a");
        link("/gone/for/good", "gone");
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let aside = set(&root, "node_modules", &scrubber).unwrap().unwrap();
        fs::create_dir_all(root.join("node_modules/mine")).unwrap();
        link("../store/own", "own");
        aside.drop_old(&root);
        assert_eq!(linked("mine"), Some("../../../mine".into()), "in place of a copy");
        assert_eq!(linked("@acme/mine"), Some("../../../../mine-too".into()));
        assert_eq!(linked("own"), Some("../store/own".into()), "the manager's own link counts");
        assert_eq!((linked("a"), linked("gone")), (None, None));
    }

    /// **Invariant:** Nothing outside of the project is replaced or removed by what lies aside.
    #[test]
    fn a_note_that_leads_out_of_the_project_gives_nothing_back() {
        let home = tempfile::tempdir().unwrap();
        let (root, victim) = (home.path().join("project"), home.path().join("victim"));
        fs::create_dir_all(root.join("web")).unwrap();
        std::os::unix::fs::symlink(home.path(), root.join("web/out")).unwrap();
        fs::write(&victim, "precious").unwrap();
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let me = process::this(&scrubber);
        let by = Process { started: me.started + 1, ..me };
        let paths = ["../victim", &victim.to_string_lossy(), "web/out/victim", ".git/config", ""];
        for (at, path) in paths.into_iter().enumerate() {
            let dir = root.join(PLACE).join(at.to_string());
            make_directories(&dir).unwrap();
            let note = AsideNote { version: 1, path: path.to_owned(), by: by.clone() };
            fs::write(dir.join("note.json"), serde_json::to_string(&note).unwrap()).unwrap();
            fs::write(dir.join("kept"), "planted").unwrap();
        }
        assert_eq!(give_back(&root, &scrubber), Vec::<String>::new());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!root.join(".git").exists());
        // Copies of which there are too many are removed, and nothing that a link leads to.
        let copies = root.join(COPIES);
        std::os::unix::fs::symlink(home.path(), &copies).unwrap();
        for name in 0..9 {
            fs::create_dir(home.path().join(name.to_string())).unwrap();
        }
        assert!(copy(&root, std::iter::empty()).is_err());
        assert!((0..9).all(|name| home.path().join(name.to_string()).is_dir()));
    }
}
