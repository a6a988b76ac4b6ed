//! What no command may change although it lies in the project: Salve's own files and settings, what
//! makes git run programs, and the settings by which agents and editors start commands, with all that
//! links in such places lead to ([`sealed`]).
//!
//! Where a command gets a mount namespace, the kernel refuses it. Elsewhere, and for what is not
//! there yet, it is found afterwards: the old is put back and the new kept aside for a look. Salve's
//! directory itself changes all the time, so without a namespace only good manners keep it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use salve_core::sealed_path::SealedPath;

use super::SandboxedCommand;
use super::caches::names;
use super::hard_links;
use super::held_root::{HeldRoot, PathOccupant};
use super::means::Spaces;
use crate::sealed::{self, FilesView, MOST_DIRECTORIES, SealedReach};

/// Salve's own directory, which changes all the time.
const OWN: &str = ".salve";

/// Git's directory.
const GIT: &str = ".git";

/// What some commands of git have to write, with the words that name those.
const REOPENED: [(&str, &str); 2] = [("submodule", ".git/modules"), ("lfs", ".git/lfs")];

/// The sealed paths of a project, as they were before a command.
#[derive(Debug)]
pub(super) struct SealedPaths {
    root: PathBuf,
    held: HeldRoot,
    /// A sealed path leads to the whole project, so that nothing could be kept from a command.
    pub(super) is_everything: bool,
    /// Those that the kernel seals.
    pub(super) by_kernel: Vec<OsString>,
    /// The directories that lead to them, which must not be moved away with them; parents first.
    pub(super) pinned: Vec<OsString>,
    /// What stays open below them, for the command's own work.
    pub(super) reopened: Vec<OsString>,
    /// What is put back, parents first; told from the root, as all that follows.
    kept: Vec<(PathBuf, PathOccupant)>,
    /// What has other names, by which it can be changed where it stands.
    shared: Vec<(PathBuf, InodeId, PathOccupant)>,
    /// The names in the root that are sealed.
    at_root: BTreeSet<OsString>,
    /// Whether the root itself is a repository to git.
    is_bare: bool,
    /// The repository, where the kernel does not keep it in its place.
    repository: Option<InodeId>,
}

/// What tells a file or directory from every other one, wherever it is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InodeId {
    device: u64,
    inode: u64,
}

impl InodeId {
    fn of(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino() })
    }

    fn of_directory(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().filter(fs::Metadata::is_dir).and_then(|_| Self::of(path))
    }
}

impl SealedPaths {
    /// Looks at what is sealed in a job's project, and at what is `also` sealed elsewhere.
    ///
    /// # Errors
    ///
    /// When the project's root cannot be opened.
    pub(super) fn new(
        job: &SandboxedCommand<'_>,
        also: &[PathBuf],
        spaces: Spaces,
    ) -> io::Result<Self> {
        let root = job.root.to_path_buf();
        let real = root.canonicalize()?;
        let places = sealed::find(&real, &FilesView);
        let reach = SealedReach::of(&real, &places, &FilesView);
        let below = |path: &Path| path.strip_prefix(&real).ok().map(Path::to_path_buf);
        let named = places.named.iter().filter_map(|place| below(&place.path));
        let whole = SealedPath::at_root().map(PathBuf::from).chain(named);
        // Parents first: what is below them needs nothing more.
        let all: BTreeSet<PathBuf> =
            whole.chain(reach.ends().chain(reach.links()).map(Path::to_path_buf)).collect();
        let (by_kernel, pinned, reopened, kept, shared) = Default::default();
        let (at_root, is_bare) = (sealed_names(&root), is_bare(&root));
        let (held, is_everything) = (HeldRoot::open(&root)?, reach.is_everything());
        let repository = None;
        let mut seal = Self {
            root,
            held,
            is_everything,
            by_kernel,
            pinned,
            reopened,
            kept,
            shared,
            at_root,
            is_bare,
            repository,
        };
        let open = opened_by(job.command);
        seal.take(&all, &open, spaces);
        if spaces != Spaces::None {
            seal.take_other_names();
            seal.reopen(job);
            seal.pin();
            let also = also.iter().filter(|path| is_there(path));
            seal.by_kernel.extend(also.map(|path| path.as_os_str().to_owned()));
        }
        Ok(seal)
    }

    /// Notes what the kernel is to seal and what is to be put back.
    fn take(&mut self, all: &BTreeSet<PathBuf>, open: &[&str], spaces: Spaces) {
        let spaced = spaces != Spaces::None;
        let mut sealed: BTreeSet<&Path> = BTreeSet::new();
        for path in all {
            if path.ancestors().skip(1).any(|above| sealed.contains(above)) {
                continue;
            }
            let full = self.root.join(path);
            if open.iter().any(|open| path.starts_with(open)) {
                continue;
            }
            let is_git = path.file_name() == Some(OsStr::new(GIT));
            let is_repository = full.is_dir() && (is_git || full.join("HEAD").is_file());
            // A link is put back; the kernel seals what it leads to, which is one of the others.
            let is_sealed = spaced && is_there(&full) && !self.leads_elsewhere(path);
            if is_sealed {
                sealed.insert(path);
                self.by_kernel.push(full.into_os_string());
            } else if is_repository && !full.is_symlink() {
                // Its parts are kept by themselves.
                let id = || InodeId::of_directory(&full);
                self.repository = if path == Path::new(GIT) { id() } else { self.repository };
            } else if path != Path::new(OWN) {
                self.keep(path);
            }
        }
    }

    /// Tells whether a link stands on the way to a path; where that leads is another one of them.
    fn leads_elsewhere(&self, path: &Path) -> bool {
        self.held.is_blocked(path)
    }

    fn keep(&mut self, path: &Path) {
        match self.held.look(path) {
            PathOccupant::Blocked(_) => {}
            found => self.kept.push((path.to_path_buf(), found)),
        }
    }

    /// Seals other names in the project of sealed files, by which they could be changed. What has a
    /// name elsewhere is put back.
    fn take_other_names(&mut self) {
        let places: Vec<PathBuf> = self.by_kernel.iter().map(PathBuf::from).collect();
        let shared = hard_links::shared_among(places.iter().map(PathBuf::as_path));
        let files: Vec<_> = shared.iter().map(|(_, file)| *file).collect();
        let left_out: BTreeSet<&Path> = places.iter().map(PathBuf::as_path).collect();
        let others = hard_links::names_below(&self.root, &files, &left_out);
        self.by_kernel.extend(others.into_iter().map(PathBuf::into_os_string));
        for (path, _) in &shared {
            let below = path.strip_prefix(&self.root).ok().filter(|path| is_settings(path));
            if let (Some(below), Some(id)) = (below, InodeId::of(path)) {
                self.shared.push((below.to_path_buf(), id, self.held.look(below)));
            }
        }
    }

    fn pin(&mut self) {
        let above = |path: &OsString| {
            let above = Path::new(path).ancestors().skip(1).map(Path::to_path_buf);
            above.take_while(|dir| *dir != self.root && dir.starts_with(&self.root)).collect()
        };
        let all: BTreeSet<PathBuf> = self.by_kernel.iter().flat_map::<Vec<_>, _>(above).collect();
        self.pinned = all.into_iter().map(PathBuf::into_os_string).collect();
    }

    /// Leaves open, and makes if need be, what a command of git has to write.
    fn reopen(&mut self, job: &SandboxedCommand<'_>) {
        for name in opened_by(job.command) {
            let path = job.root.join(name);
            if job.root.join(GIT).is_dir() && (is_there(&path) || fs::create_dir(&path).is_ok()) {
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
            let now = self.held.look(path);
            if now == *before || *before == PathOccupant::Other {
                continue;
            }
            self.held.restore(path, before)?;
            broken.push(match now {
                PathOccupant::Blocked(by) => by.display().to_string(),
                _ => path.display().to_string(),
            });
        }
        for (path, id, before) in &self.shared {
            // One that was replaced was replaced by somebody else: a mount keeps it in its place.
            let is_same = InodeId::of(&self.root.join(path)) == Some(*id);
            if is_same && self.held.look(path) != *before {
                self.held.restore(path, before)?;
                broken.push(path.display().to_string());
            }
        }
        for name in sealed_names(&self.root).difference(&self.at_root) {
            self.held.set_aside(Path::new(name))?;
            broken.push(name.display().to_string());
        }
        if !self.is_bare && is_bare(&self.root) {
            // Without this the rest is a directory like any other.
            self.held.set_aside(Path::new("HEAD"))?;
            broken.push("HEAD".to_owned());
        }
        broken.dedup();
        Ok(broken)
    }

    /// Moves the repository back to its place if it was moved away, perhaps for another one: git
    /// would run that one's programs. Returns its name if it was.
    fn return_repository(&self) -> io::Result<Option<String>> {
        let place = self.root.join(GIT);
        let Some(id) = self.repository.filter(|id| InodeId::of_directory(&place) != Some(*id))
        else {
            return Ok(None);
        };
        let found = find_directory(&self.root, id).ok_or(io::ErrorKind::NotFound)?;
        let found = found.strip_prefix(&self.root).map_err(io::Error::other)?;
        self.held.set_aside(Path::new(GIT))?;
        self.held.move_to(found, Path::new(GIT))?;
        Ok(Some(GIT.to_owned()))
    }
}

/// Returns whether something is there; a link leads to where the command may write or not by itself.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink())
}

/// Returns what a command has to write of git's.
fn opened_by(command: &str) -> Vec<&'static str> {
    let is_git_with = |word: &str| names(command, &["git"]) && names(command, &[word]);
    REOPENED.iter().filter(|(word, _)| is_git_with(word)).map(|(_, path)| *path).collect()
}

/// Tells whether a sealed file is one that nobody but people and their programs change, rather than
/// Salve's or git's own record, which goes on being written.
fn is_settings(path: &Path) -> bool {
    let mut parts = path.iter().skip_while(|part| *part != GIT).skip(1);
    let in_git = parts.next();
    let settings = ["config", "config.worktree", "commondir", "hooks", "info"];
    !path.starts_with(OWN) && in_git.is_none_or(|name| settings.iter().any(|other| name == *other))
}

/// Returns the names in a project's root that are sealed, but for Salve's own, which other Salves may
/// make meanwhile.
fn sealed_names(root: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_sealed = |entry: &fs::DirEntry| {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        // Of a directory it counts whether all that lies in it is sealed.
        let path = if is_dir { Path::new(&name).join("any") } else { PathBuf::from(&name) };
        let whose = SealedPath::of(path.as_os_str().as_encoded_bytes());
        whose.is_some_and(|whose| whose != SealedPath::Salve)
    };
    entries.filter(is_sealed).map(|entry| entry.file_name()).collect()
}

/// Tells whether git takes a directory itself for a repository.
fn is_bare(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).exists();
    !has(GIT) && ["HEAD", "objects", "refs"].into_iter().all(has)
}

/// Finds where in the project a directory was moved to, as far as is looked.
fn find_directory(root: &Path, id: InodeId) -> Option<PathBuf> {
    let mut open = vec![(root.to_path_buf(), 0)];
    let mut looked = 0;
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        if looked > MOST_DIRECTORIES {
            return None;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match InodeId::of_directory(&path) {
                Some(found) if found == id => return Some(path),
                Some(_) if depth < sealed::DEEPEST => open.push((path, depth + 1)),
                Some(_) | None => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::held_root::REFUSED;
    use super::*;
    use crate::gate::WorkingDir;

    fn npm_ci<'a>(root: &'a Path, dir: &'a WorkingDir) -> SandboxedCommand<'a> {
        SandboxedCommand {
            command: "npm ci",
            argv: Vec::new(),
            root,
            dir,
            env: Vec::new(),
            name: "test".to_owned(),
            limit: std::time::Duration::from_secs(1),
            on: salve_core::event::Authority::Gate,
        }
    }

    /// Closing a handle on a file of the store would end the engine's locks on it in this process.
    #[test]
    fn what_is_looked_at_costs_the_store_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let project = crate::project::Project::at(dir.path()).unwrap();
        let store = crate::store::Store::open(&project).unwrap();
        let locks = || {
            let held =
                [project.database(), project.database().with_extension("db-shm")].map(|at| {
                    let inode = fs::metadata(&at).unwrap().ino();
                    let own = format!(" {} ", std::process::id());
                    let all = fs::read_to_string("/proc/locks").unwrap();
                    let of_it =
                        |line: &&str| line.contains(&own) && line.contains(&format!(":{inode} "));
                    all.lines().filter(of_it).count()
                });
            held.iter().sum::<usize>()
        };
        let before = locks();
        assert!(before > 0);
        let place = crate::gate::resolve(dir.path(), ".").unwrap();
        let job = npm_ci(dir.path(), &place);
        for spaces in [Spaces::None, Spaces::Root] {
            SealedPaths::new(&job, &[], spaces).unwrap().check().unwrap();
            assert_eq!(locks(), before, "{spaces:?}");
        }
        drop(store);
    }

    #[test]
    fn without_a_namespace_what_was_changed_is_put_back_and_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let place = crate::gate::resolve(dir.path(), ".").unwrap();
        let job = npm_ci(dir.path(), &place);
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::write(at(".git/config"), "[core]").unwrap();
        fs::write(at("salve.toml"), "version = 1").unwrap();
        fs::write(at(".git/hooks/pre-commit"), "#!/bin/sh").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at(".git/hooks/pre-commit"), executable).unwrap();
        let seal = SealedPaths::new(&job, &[], Spaces::None).unwrap();
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
        assert_eq!(fs::read_dir(at(REFUSED)).unwrap().count(), 4, "one was only missing");

        // Another repository in its place does not stay, whether it is one or only says where one is.
        for in_its_place in ["file", "directory"] {
            let seal = SealedPaths::new(&job, &[], Spaces::None).unwrap();
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
        // What the command closed is opened for it.
        let seal = SealedPaths::new(&job, &[], Spaces::None).unwrap();
        fs::create_dir_all(at(".claude/deep")).unwrap();
        for closed in [".claude/deep", ".claude", "."] {
            fs::set_permissions(at(closed), fs::Permissions::from_mode(0o500)).unwrap();
        }
        assert_eq!(seal.check().unwrap(), [".claude"]);
        assert!(!at(".claude").exists());
        let quiet = SealedPaths::new(&job, &[], Spaces::None).unwrap();
        fs::write(at("package.json"), "{}").unwrap();
        assert!(quiet.check().unwrap().is_empty());
    }
}
