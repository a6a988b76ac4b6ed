//! What no command may change although it lies in the project: Salve's own files and settings, what
//! makes git run programs, and the settings by which agents and editors start commands.
//!
//! Where a command gets a mount namespace, the kernel refuses it. Elsewhere, and for what is not
//! there yet, it is found afterwards: the old is put back and the new kept aside for a look. Salve's
//! directory itself changes all the time, so without a namespace only good manners keep it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use salve_core::sealed_path::SealedPath;

use super::SandboxedCommand;
use super::caches::names;
use super::means::Spaces;
use crate::files::{self, Links, open_regular};

/// Salve's own directory, which changes all the time.
const OWN: &str = ".salve";

/// What makes git run programs, in place of the whole where the kernel cannot seal it.
const IN_GIT: [&str; 6] = ["config", "config.worktree", "commondir", "HEAD", "hooks", "info"];

/// What some commands of git have to write, with the words that name those.
const REOPENED: [(&str, &str); 2] = [("submodule", ".git/modules"), ("lfs", ".git/lfs")];

/// How deep repositories are looked for in the project, and in how many directories.
const DEEPEST: usize = 6;
const MOST_DIRECTORIES: usize = 20_000;

/// Directories of packages and of build output: whose repositories nobody works in.
const DERIVED: [&str; 6] = ["node_modules", ".venv", "venv", "target", "dist", ".salve"];

/// The directory of what commands wrote where they must not.
const REFUSED: &str = ".salve/refused";

/// How much of a file is kept to put it back; settings are smaller by far.
const MOST: u64 = 4 << 20;

/// The sealed paths of a project, as they were before a command.
#[derive(Debug)]
pub(super) struct SealedPaths {
    root: PathBuf,
    /// Those that the kernel seals.
    pub(super) by_kernel: Vec<OsString>,
    /// The directories that lead to them, which must not be moved away with them; parents first.
    pub(super) pinned: Vec<OsString>,
    /// What stays open below them, for the command's own work.
    pub(super) reopened: Vec<OsString>,
    kept: Vec<(PathBuf, PathOccupant)>,
    /// The repository, where the kernel does not keep it in its place.
    repository: Option<DirectoryId>,
}

/// What tells a directory from every other one, wherever it is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    fn of(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        Some(Self { device: meta.dev(), inode: meta.ino() })
    }
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathOccupant {
    Nothing,
    File(SealedContent),
    Dir(Vec<(OsString, SealedContent)>),
    /// A link, and where it leads.
    Link(PathBuf),
    /// Something too large or too strange to be put back.
    Other,
}

/// A file's content and mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SealedContent {
    bytes: Vec<u8>,
    mode: u32,
}

impl SealedContent {
    /// Reads a file that is small enough to be put back.
    fn read(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        let mut bytes = Vec::new();
        let file = open_regular(path, Links::Refuse).ok()?;
        file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MOST {
            return None;
        }
        Some(Self { bytes, mode: meta.permissions().mode() })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, &self.bytes)?;
        // A hook that cannot be run would be none.
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))
    }
}

impl SealedPaths {
    /// Looks at what is sealed in a job's project, and at what is `also` sealed elsewhere.
    pub(super) fn new(job: &SandboxedCommand<'_>, also: Option<&Path>, spaces: Spaces) -> Self {
        let (by_kernel, pinned, reopened, kept) = Default::default();
        let (root, repository) = (job.root.to_path_buf(), None);
        let mut seal = Self { root, by_kernel, pinned, reopened, kept, repository };
        let spaced = spaces != Spaces::None;
        for name in SealedPath::at_root() {
            let path = job.root.join(&name);
            let link = path.is_symlink();
            if link {
                // The kernel seals what it leads to; the link itself is put back.
                let real = path.canonicalize().ok().filter(|real| real.starts_with(job.root));
                seal.by_kernel.extend(real.filter(|_| spaced).map(PathBuf::into_os_string));
                seal.keep(path.clone());
            }
            if spaced && is_there(&path) {
                seal.by_kernel.push(path.into_os_string());
            } else if name == ".git" && path.is_dir() && !(link && spaced) {
                IN_GIT.iter().for_each(|name| seal.keep(path.join(name)));
                seal.repository = DirectoryId::of(&path);
            } else if name != OWN && !link {
                seal.keep(path);
            }
        }
        if spaced {
            let below = sealed_below(job.root);
            seal.by_kernel.extend(below.into_iter().map(PathBuf::into_os_string));
            seal.reopen(job);
            seal.pin();
        }
        let also = also.filter(|path| spaced && is_there(path));
        seal.by_kernel.extend(also.map(|path| path.as_os_str().to_owned()));
        seal
    }

    fn pin(&mut self) {
        let above = |path: &OsString| {
            let above = Path::new(path).ancestors().skip(1).map(Path::to_path_buf);
            above.take_while(|dir| *dir != self.root && dir.starts_with(&self.root)).collect()
        };
        let all: BTreeSet<PathBuf> = self.by_kernel.iter().flat_map::<Vec<_>, _>(above).collect();
        self.pinned = all.into_iter().map(PathBuf::into_os_string).collect();
    }

    fn keep(&mut self, path: PathBuf) {
        let found = look(&path);
        self.kept.push((path, found));
    }

    /// Leaves open, and makes if need be, what a command of git has to write.
    fn reopen(&mut self, job: &SandboxedCommand<'_>) {
        for (_, name) in REOPENED.iter().filter(|(word, _)| is_git_with(job.command, word)) {
            let path = job.root.join(name);
            if job.root.join(".git").is_dir() && (is_there(&path) || fs::create_dir(&path).is_ok())
            {
                self.reopened.push(path.into_os_string());
            }
        }
    }

    /// Puts back what has changed, and returns the paths that had.
    ///
    /// # Errors
    ///
    /// When something could not be put back.
    pub(super) fn check(self) -> io::Result<Vec<String>> {
        let mut broken: Vec<String> = self.return_repository()?.into_iter().collect();
        for (path, before) in &self.kept {
            if before == &PathOccupant::Other || look(path) == *before {
                continue;
            }
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            self.set_aside(path)?;
            put_back(path, before)?;
            broken.push(name.display().to_string());
        }
        Ok(broken)
    }

    /// Moves what stands at a path to where refused things are, if something does.
    fn set_aside(&self, path: &Path) -> io::Result<()> {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let refused = self.root.join(REFUSED);
        let aside = refused.join(Uuid::new_v4().to_string()).join(name);
        if refused.is_symlink() {
            // It would have us leave what was refused where it is.
            files::remove(&refused)?;
        }
        if let Some(dir) = aside.parent() {
            files::make_directories(dir)?;
        }
        match fs::rename(path, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Moves the repository back to its place if it was moved away, perhaps for another one: git
    /// would run that one's programs. Returns its name if it was.
    fn return_repository(&self) -> io::Result<Option<String>> {
        let place = self.root.join(".git");
        let Some(id) = self.repository.filter(|id| DirectoryId::of(&place) != Some(*id)) else {
            return Ok(None);
        };
        let found = find_directory(&self.root, id).ok_or(io::ErrorKind::NotFound)?;
        self.set_aside(&place)?;
        fs::rename(found, &place)?;
        Ok(Some(".git".to_owned()))
    }
}

/// Returns whether something is there; a link leads to where the command may write or not by itself.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink())
}

/// Returns whether a command names git and one of its own commands.
fn is_git_with(command: &str, word: &str) -> bool {
    names(command, &["git"]) && names(command, &[word])
}

/// Returns what is sealed deeper in the project, as far as is looked: other repositories' `.git`, and
/// the settings of agents and editors.
fn sealed_below(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut open = vec![(root.to_path_buf(), 0)];
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        if looked > MOST_DIRECTORIES {
            break;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let below = path.strip_prefix(root).unwrap_or(&path);
            // Of a directory it counts whether all that lies in it is sealed.
            let any = if is_dir { below.join("any") } else { below.to_path_buf() };
            if let Some(whose) = SealedPath::of(any.as_os_str().as_encoded_bytes()) {
                // What has a whole name in the root is sealed already.
                let is_named = || is_at_root(below.as_os_str().as_encoded_bytes());
                let is_new = depth > 0 || (whose == SealedPath::Editor && !is_named());
                found.extend((is_new && is_there(&path)).then_some(path));
            } else if is_dir && depth < DEEPEST && !DERIVED.iter().any(|other| name == *other) {
                open.push((path, depth + 1));
            }
        }
    }
    found
}

/// Tells whether a path is one of those in a project's root that are sealed by their whole names.
fn is_at_root(path: &[u8]) -> bool {
    SealedPath::at_root().any(|name| name.as_bytes() == path)
}

/// Finds where in the project a directory was moved to, as far as is looked.
fn find_directory(root: &Path, id: DirectoryId) -> Option<PathBuf> {
    let mut open = vec![(root.to_path_buf(), 0)];
    let mut looked = 0;
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        if looked > MOST_DIRECTORIES {
            return None;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match DirectoryId::of(&path) {
                Some(found) if found == id => return Some(path),
                Some(_) if depth < DEEPEST => open.push((path, depth + 1)),
                Some(_) | None => {}
            }
        }
    }
    None
}

fn look(path: &Path) -> PathOccupant {
    let Ok(meta) = path.symlink_metadata() else { return PathOccupant::Nothing };
    if meta.is_symlink() {
        return fs::read_link(path).map_or(PathOccupant::Other, PathOccupant::Link);
    }
    if !meta.is_dir() {
        return SealedContent::read(path).map_or(PathOccupant::Other, PathOccupant::File);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let kept = |entry: fs::DirEntry| Some((entry.file_name(), SealedContent::read(&entry.path())?));
    let files: Option<Vec<_>> = entries.map(kept).collect();
    let Some(mut files) = files else { return PathOccupant::Other };
    files.sort();
    PathOccupant::Dir(files)
}

fn put_back(path: &Path, before: &PathOccupant) -> io::Result<()> {
    match before {
        PathOccupant::Nothing | PathOccupant::Other => Ok(()),
        PathOccupant::File(kept) => kept.write(path),
        PathOccupant::Link(target) => std::os::unix::fs::symlink(target, path),
        PathOccupant::Dir(files) => {
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
        let place = crate::gate::resolve(dir.path(), ".").unwrap();
        let job = SandboxedCommand {
            command: "npm ci",
            argv: Vec::new(),
            root: dir.path(),
            dir: &place,
            env: Vec::new(),
            name: "test".to_owned(),
            limit: std::time::Duration::from_secs(1),
            on: salve_core::event::Authority::Gate,
        };
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::write(at(".git/config"), "[core]").unwrap();
        fs::write(at("salve.toml"), "version = 1").unwrap();
        fs::write(at(".git/hooks/pre-commit"), "#!/bin/sh").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at(".git/hooks/pre-commit"), executable).unwrap();
        let seal = SealedPaths::new(&job, None, Spaces::None);
        assert!(seal.by_kernel.is_empty() && seal.reopened.is_empty());

        fs::write(at(".git/config"), "[core]\nhooksPath = /tmp").unwrap();
        fs::write(at(".git/hooks/post-checkout"), "#!/bin/sh").unwrap();
        fs::write(at(".git/commondir"), "../evil").unwrap();
        fs::remove_file(at("salve.toml")).unwrap();
        fs::write(at("salve.json"), "{}").unwrap();
        let mut broken = seal.check().unwrap();
        broken.sort();
        assert_eq!(
            broken,
            [".git/commondir", ".git/config", ".git/hooks", "salve.json", "salve.toml"]
        );
        assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "[core]");
        assert_eq!(fs::read_dir(at(".git/hooks")).unwrap().count(), 1);
        let hook = at(".git/hooks/pre-commit").metadata().unwrap();
        assert_eq!(hook.permissions().mode() & 0o777, 0o755, "a hook stays one");
        assert_eq!(fs::read_to_string(at("salve.toml")).unwrap(), "version = 1");
        assert!(!at("salve.json").exists());
        assert_eq!(fs::read_dir(at(REFUSED)).unwrap().count(), 5, "one of them is empty");

        // Another repository in its place does not stay, whether it is one or only says where one is.
        for in_its_place in ["file", "directory"] {
            let seal = SealedPaths::new(&job, None, Spaces::None);
            fs::create_dir_all(at("src/deep")).unwrap();
            fs::rename(at(".git"), at("src/deep/old")).unwrap();
            if in_its_place == "file" {
                fs::write(at(".git"), "gitdir: evil").unwrap();
            } else {
                fs::create_dir(at(".git")).unwrap();
                fs::write(at(".git/config"), "[core]\nfsmonitor = evil").unwrap();
            }
            assert_eq!(seal.check().unwrap(), [".git"], "{in_its_place}");
            assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "[core]");
            assert!(at(".git/hooks/pre-commit").exists() && !at("src/deep/old").exists());
        }
        let quiet = SealedPaths::new(&job, None, Spaces::None);
        fs::write(at("package.json"), "{}").unwrap();
        assert!(quiet.check().unwrap().is_empty());
    }
}
