//! What no command may change although it lies in the project: Salve's own files and settings, and
//! what makes git run programs.
//!
//! Where a command gets a mount namespace, the kernel refuses it. Elsewhere, and for what is not
//! there yet, it is found afterwards: the old is put back and the new kept aside for a look. Salve's
//! directory itself changes all the time, so without a namespace only good manners keep it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::means::Spaces;

/// What is sealed, below the project's root.
const SEALED: [&str; 5] = [".salve", ".git/config", ".git/hooks", "salve.toml", "salve.json"];

/// The directory of what commands wrote where they must not.
const REFUSED: &str = ".salve/refused";

/// How much of a file is kept to put it back; settings are smaller by far.
const MOST: u64 = 4 << 20;

/// The sealed paths of a project, as they were before a command.
#[derive(Debug)]
pub(super) struct Seal {
    root: PathBuf,
    /// Those that the kernel seals.
    pub(super) by_kernel: Vec<OsString>,
    /// Directories that must keep their names for that.
    pub(super) pinned: Vec<OsString>,
    kept: Vec<(PathBuf, Found)>,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    File(Kept),
    Dir(Vec<(OsString, Kept)>),
    /// Something too large or too strange to be put back.
    Other,
}

/// A file's content and mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    bytes: Vec<u8>,
    mode: u32,
}

impl Kept {
    /// Reads a file that is small enough to be put back.
    fn read(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        let is_small = meta.is_file() && meta.len() <= MOST;
        let bytes = is_small.then(|| fs::read(path).ok()).flatten()?;
        Some(Self { bytes, mode: meta.permissions().mode() })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, &self.bytes)?;
        // A hook that cannot be run would be none.
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))
    }
}

impl Seal {
    /// Looks at what is sealed in `root`, and at what is `also` sealed elsewhere.
    pub(super) fn new(root: &Path, also: Option<&Path>, spaces: Spaces) -> Self {
        let mut seal = Self {
            root: root.to_path_buf(),
            by_kernel: Vec::new(),
            pinned: Vec::new(),
            kept: Vec::new(),
        };
        let spaced = spaces != Spaces::None;
        // A link leads to where the command may write or not by itself.
        let is_there = |path: &Path| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
        let git = root.join(".git");
        if spaced && is_there(&git) && git.is_dir() {
            seal.pinned.push(git.into_os_string());
        }
        for name in SEALED {
            let path = root.join(name);
            if spaced && is_there(&path) {
                seal.by_kernel.push(path.into_os_string());
            } else if name != SEALED[0] {
                let found = look(&path);
                seal.kept.push((path, found));
            }
        }
        let also = also.filter(|path| spaced && is_there(path));
        seal.by_kernel.extend(also.map(|path| path.as_os_str().to_owned()));
        seal
    }

    /// Puts back what has changed, and returns the paths that had.
    ///
    /// # Errors
    ///
    /// When something could not be put back.
    pub(super) fn check(self) -> io::Result<Vec<String>> {
        let mut broken = Vec::new();
        for (path, before) in &self.kept {
            if before == &Found::Other || look(path) == *before {
                continue;
            }
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            let aside = self.root.join(REFUSED).join(Uuid::new_v4().to_string()).join(name);
            if let Some(dir) = aside.parent() {
                fs::create_dir_all(dir)?;
            }
            match fs::rename(path, &aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            put_back(path, before)?;
            broken.push(name.display().to_string());
        }
        Ok(broken)
    }
}

fn look(path: &Path) -> Found {
    let Ok(meta) = path.symlink_metadata() else { return Found::Nothing };
    if !meta.is_dir() {
        return Kept::read(path).map_or(Found::Other, Found::File);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let kept = |entry: fs::DirEntry| Some((entry.file_name(), Kept::read(&entry.path())?));
    let files: Option<Vec<_>> = entries.map(kept).collect();
    let Some(mut files) = files else { return Found::Other };
    files.sort();
    Found::Dir(files)
}

fn put_back(path: &Path, before: &Found) -> io::Result<()> {
    match before {
        Found::Nothing | Found::Other => Ok(()),
        Found::File(kept) => kept.write(path),
        Found::Dir(files) => {
            fs::create_dir_all(path)?;
            files.iter().try_for_each(|(name, kept)| kept.write(&path.join(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_namespace_what_was_changed_is_put_back_and_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::write(at(".git/config"), "[core]").unwrap();
        fs::write(at("salve.toml"), "version = 1").unwrap();
        fs::write(at(".git/hooks/pre-commit"), "#!/bin/sh").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at(".git/hooks/pre-commit"), executable).unwrap();
        let seal = Seal::new(dir.path(), None, Spaces::None);
        assert!(seal.by_kernel.is_empty() && seal.pinned.is_empty());

        fs::write(at(".git/config"), "[core]\nhooksPath = /tmp").unwrap();
        fs::write(at(".git/hooks/post-checkout"), "#!/bin/sh").unwrap();
        fs::remove_file(at("salve.toml")).unwrap();
        fs::write(at("salve.json"), "{}").unwrap();
        let mut broken = seal.check().unwrap();
        broken.sort();
        assert_eq!(broken, [".git/config", ".git/hooks", "salve.json", "salve.toml"]);
        assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "[core]");
        assert_eq!(fs::read_dir(at(".git/hooks")).unwrap().count(), 1);
        let hook = at(".git/hooks/pre-commit").metadata().unwrap();
        assert_eq!(hook.permissions().mode() & 0o777, 0o755, "a hook stays one");
        assert_eq!(fs::read_to_string(at("salve.toml")).unwrap(), "version = 1");
        assert!(!at("salve.json").exists());
        assert_eq!(fs::read_dir(at(REFUSED)).unwrap().count(), 4, "one of them is empty");

        let quiet = Seal::new(dir.path(), None, Spaces::None);
        fs::write(at("package.json"), "{}").unwrap();
        assert!(quiet.check().unwrap().is_empty());
    }
}
