//! The workspace of a job: a tree of its own, made from a starting point, with a checkpoint for each
//! step that is done, and the way back to them.
//!
//! The workspace lies outside of the project ([`step_place`]). A private repository in the job's own
//! directory keeps every checkpoint under a hidden ref. It has its
//! own index, borrows the objects of the user's repository, and no attribute, filter or hook has a
//! say in it, so files come back byte for byte. What git ignores, such as installed packages, is
//! part of no checkpoint and stays where it is when the workspace is set back.
//!
//! **Invariant:** the workspace is set back only once all patches were replayed in the repository
//! and came to the very tree that the last checkpoint has.
//!
//! Steps may write here, so a link in the place of a directory leads to somebody else's files.
//!
//! **Invariant:** nothing is checked out, removed or written through a link.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use salve_core::sealed_path::SealedPath;

use super::committed_tree::CommittedTree;
use super::error::WorkspaceError;
use super::git::{Git, alone_config};
use super::oid::Format;
use super::step_place;
use super::step_replay::{ReplayError, ReplayStep, StepReplay};
use crate::atomic;
use crate::files::{self, FileKind};
use crate::sealed::{self, SealedReach};

/// What no workspace has, whatever the user's own rules ignore.
const EXCLUDED: &str = ".salve/\n.dev-crash*\n.dev-repair.lock\n";

/// Keeps every attribute of the files themselves from changing what is stored.
const ATTRIBUTES: &str = "* -text -eol -ident -filter -working-tree-encoding\n";

/// What git reads of a repository before anything else; a pipe among them would keep it waiting.
const READ_FIRST: [&str; 6] =
    ["HEAD", "config", "index", "packed-refs", "config.worktree", "objects/info/alternates"];

/// Salve's settings in a project.
const SETTINGS: [&str; 2] = ["salve.toml", "salve.json"];

/// What git says of a directory that is a repository of its own without a commit: no tree can name it.
const UNBORN: (&str, &str) = ("error: '", "/' does not have a commit checked out");

/// How many such directories are looked for, each with a call of git.
const MOST_UNBORN: usize = 50;

/// What the workspace of a job is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// The last commit; the files as they are where none has them.
    Usual,
    /// This ref of the user's repository.
    Ref(String),
    /// The files as they are, with what is not committed.
    Files,
}

/// What stood at a path before, as git tells it.
struct EntryBefore {
    mode: String,
    oid: String,
    /// What stands for no object.
    none: String,
}

impl EntryBefore {
    /// Reads `:<mode> <mode> <oid> <oid> <status>`.
    fn of(about: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(about.strip_prefix(b":")?).into_owned();
        let mut words = text.split(' ');
        let (mode, oid) = (words.next()?.to_owned(), words.nth(1)?.to_owned());
        let none = "0".repeat(oid.len());
        Some(Self { mode, oid, none })
    }

    /// Returns the line that puts it back into an index, empty if there was nothing.
    fn line(&self, path: &[u8]) -> Vec<u8> {
        if self.oid == self.none {
            return Vec::new();
        }
        [self.mode.as_bytes(), b" ", self.oid.as_bytes(), b"\t", path, b"\0"].concat()
    }
}

/// What a job's result is a change of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultBase {
    /// A commit of the user's repository.
    Commit,
    /// The files as they were when the job began, in the user's repository.
    Files,
    /// The files as they were when the job began, where there is no repository.
    NoRepository,
}

/// The workspace of a job and the repository that keeps its checkpoints.
#[derive(Debug)]
pub struct StepStore {
    git: Git,
    store: PathBuf,
    workspace: PathBuf,
    /// Where in the repository the project is.
    prefix: PathBuf,
    /// The last checkpoint that was kept or asked for, so that git need not be asked again.
    last: Mutex<Option<KeptTree>>,
}

/// The tree before a step.
#[derive(Clone, Debug)]
struct KeptTree {
    before: usize,
    tree: String,
}

/// The workspace as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTree {
    /// The hash of its tree.
    pub tree: String,
    /// Directories with files that the tree lacks: repositories of their own without a commit.
    pub unborn: Vec<String>,
}

/// What the start of a job is called in a bundle.
const BUNDLED: &str = "refs/heads/start";

/// What a step changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDiff {
    /// The patch, complete: binary files, renames, modes, links, deletions, submodules.
    pub patch: Vec<u8>,
    pub files: Vec<ChangedPath>,
}

/// A file that a step changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedPath {
    /// Its path in the repository.
    pub path: String,
    /// Its mode after the step, as git writes it; `000000` if it is gone.
    pub mode: String,
    /// The hash of its content after the step, as git names it.
    pub checksum: String,
}

impl StepStore {
    /// Makes the workspace of a job in `dir` from where its project stands.
    pub fn make(project: &Path, dir: &Path, start: &StartFrom) -> Result<Self, WorkspaceError> {
        let user = Git::at(project);
        let top = super::shadow::top(&user)?.unwrap_or_else(|| project.to_path_buf());
        // A repository around the project that knows nothing of it, such as one of the user's
        // settings in their home directory, is not the project's.
        let is_known =
            top == project || ask(&user, &["rev-parse", "--verify", "HEAD:./"])?.is_some();
        let top = if is_known { top } else { project.to_path_buf() };
        let format = ask(&user, &["rev-parse", "--show-object-format"])?.filter(|_| is_known);
        let format = format.as_deref().and_then(Format::parse);
        let store = dir.join("store.git");
        fs::create_dir_all(dir).map_err(WorkspaceError::io(dir))?;
        step_place::make(dir, &[&top]);
        Git::alone(&store, format.unwrap_or(Format::Sha1))?;
        let write = |name: &str, text: &[u8]| {
            let path = store.join(name);
            let parent = path.parent().unwrap_or(&store).to_path_buf();
            fs::create_dir_all(&parent).map_err(WorkspaceError::io(parent))?;
            fs::write(&path, text).map_err(WorkspaceError::io(path))
        };
        write("info/exclude", EXCLUDED.as_bytes())?;
        write("info/attributes", ATTRIBUTES.as_bytes())?;
        if format.is_some() {
            let args = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
            let objects = PathBuf::from(ask(&user, &args)?.unwrap_or_default());
            let line = [objects.into_os_string().into_vec(), b"\n".into()].concat();
            write("objects/info/alternates", &line)?;
        }
        let prefix = project.strip_prefix(&top).unwrap_or(Path::new(""));
        write("salve-prefix", prefix.as_os_str().as_encoded_bytes())?;
        let made = Self::open(dir)?;
        make_own(&made.workspace)?;
        made.begin(format.map(|_| &user), &top, start)?;
        Ok(made)
    }

    /// Opens the workspace of a job; its job is run by this process and no other.
    ///
    /// It may be gone ([`StepStore::is_gone`]): somebody may have cleared it away.
    pub fn open(dir: &Path) -> Result<Self, WorkspaceError> {
        let (store, workspace) = (dir.join("store.git"), step_place::find(dir));
        files::make_directories(&store).map_err(WorkspaceError::io(&store))?;
        // Whoever was killed while it wrote the index left this.
        match files::remove(&store.join("index.lock")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io(store)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let prefix = store.join("salve-prefix");
        let prefix = files::read_bytes(&prefix, FileKind::Note)
            .map_err(|error| WorkspaceError::io(prefix)(error.into()))?;
        let prefix = PathBuf::from(std::ffi::OsString::from_vec(prefix));
        let git = Git::alone_over(&workspace, &store);
        Ok(Self { git, store, workspace, prefix, last: Mutex::default() })
    }

    fn begin(
        &self,
        user: Option<&Git>,
        top: &Path,
        start: &StartFrom,
    ) -> Result<(), WorkspaceError> {
        let commit = |name: &str| match user {
            Some(user) => {
                ask(user, &["rev-parse", "--quiet", "--verify", &format!("{name}^{{commit}}")])
            }
            None => Ok(None),
        };
        let head = commit("HEAD")?;
        let base = match start {
            StartFrom::Usual => head.clone(),
            StartFrom::Ref(name) => {
                Some(commit(name)?.ok_or_else(|| WorkspaceError::NoCommit { name: name.clone() })?)
            }
            StartFrom::Files => None,
        };
        let first = match &base {
            Some(commit) => commit.clone(),
            None => {
                let files = Git::alone_over(top, &self.store);
                if let Some(dir) = add_all(&files, top)?.first() {
                    return Err(WorkspaceError::Unborn { dir: dir.clone() });
                }
                let tree = one_line(&files.read(&["write-tree"])?);
                self.commit(&tree, head.as_deref(), "the files when the job began")?
            }
        };
        self.git.read(&["update-ref", "refs/salve/start", &first])?;
        if let Some(user) = user {
            let commit = base.or(head);
            if let Some(commit) = &commit {
                // The user's own clean-up must not take away what the workspace borrows.
                let name = borrowed_ref(self.store.parent().unwrap_or(&self.store));
                user.read(&["update-ref", &name, commit])?;
            }
            fs::write(self.store.join("salve-head"), commit.unwrap_or_default())
                .map_err(WorkspaceError::io(&self.store))?;
        }
        // Nothing of the files when the job began is in the workspace yet.
        self.git.read(&["read-tree", "--empty"])?;
        let tree = self.tree_of("refs/salve/start")?;
        self.check_out(&tree)
    }

    /// Returns where the steps run: what stands for the project's directory.
    pub fn dir(&self) -> PathBuf {
        if self.prefix.as_os_str().is_empty() {
            self.workspace.clone()
        } else {
            self.workspace.join(&self.prefix)
        }
    }

    /// Returns the path by which a file is known that is named from where the steps run.
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.prefix.join(file.strip_prefix("./").unwrap_or(file))
    }

    /// Tells whether the directory in which the steps run is no longer there, or a link stands in
    /// its place.
    pub fn is_gone(&self) -> bool {
        !is_own_directory(&self.workspace) || !self.dir().is_dir()
    }

    /// Makes a workspace that is gone again, as it was before a step.
    pub fn remake(&self, step: usize) -> Result<(), WorkspaceError> {
        make_own(&self.workspace)?;
        self.check_out(&self.tree_before(step)?)
    }

    /// Makes the repository that the steps see again, if one of them left it damaged.
    pub fn mend_repository(&self) -> Result<(), WorkspaceError> {
        let head = self.head().unwrap_or_default().into_bytes();
        let dot_git = self.workspace.join(".git");
        if self.is_as_made(&dot_git, &head) {
            return Ok(());
        }
        if !is_readable(&dot_git) {
            return self.make_repository();
        }
        let seen = Git::alone_over(&self.workspace, &dot_git);
        let is_well = if head.is_empty() {
            dot_git.exists()
        } else {
            matches!(seen.ask(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]), Ok(Some(_)))
        };
        if is_well { Ok(()) } else { self.make_repository() }
    }

    /// Returns whether the repository that the steps see is plainly the one that was made.
    fn is_as_made(&self, dot_git: &Path, head: &[u8]) -> bool {
        let format = if head.len() > 40 { Format::Sha256 } else { Format::Sha1 };
        let reads = |name: &str, want: &[u8]| {
            let text = files::read_bytes(&dot_git.join(name), FileKind::Note);
            text.is_ok_and(|text| text.trim_ascii_end() == want)
        };
        let objects = self.store.join("objects").into_os_string().into_vec();
        let has = |name: &str| dot_git.join(name).exists();
        let is_there = ["config", "index", "refs", "objects"].into_iter().all(has);
        !head.is_empty()
            && is_readable(dot_git)
            && is_there
            && reads("HEAD", head)
            && reads("objects/info/alternates", &objects)
            && reads("config", alone_config(format).trim_end().as_bytes())
    }

    /// Returns what the result is a change of.
    pub fn result_base(&self) -> Result<ResultBase, WorkspaceError> {
        let Some(head) = self.head() else { return Ok(ResultBase::NoRepository) };
        // The workspace itself may be gone.
        let git = Git::alone_over(&self.store, &self.store);
        let first = one_line(&git.read(&["rev-parse", "refs/salve/start"])?);
        Ok(if first == head { ResultBase::Commit } else { ResultBase::Files })
    }

    /// Returns where in the repository the project is.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the directory above which no repository is the workspace's.
    pub fn ceiling(&self) -> &Path {
        self.workspace.parent().unwrap_or(&self.workspace)
    }

    /// Returns the root of the workspace of the job in `dir`, if there is one; changes nothing.
    pub fn known_root(dir: &Path) -> Option<PathBuf> {
        step_place::known(dir).filter(|root| root.is_dir())
    }

    /// Removes all that the job in `dir` has outside of it: its workspace, and the ref that keeps what
    /// it borrows of the repository of its project.
    pub fn forget(project: &Path, dir: &Path) {
        step_place::forget(dir);
        // Without a repository there is no ref.
        let _: Result<_, WorkspaceError> =
            Git::at(project).ask(&["update-ref", "-d", &borrowed_ref(dir)]);
    }

    /// Returns the root of the workspace, from which the paths of changed files are told.
    pub fn root(&self) -> &Path {
        &self.workspace
    }

    /// Returns what a file of a tree holds; nothing if there is none.
    pub fn content(&self, tree: &str, path: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        self.git.ask(&["cat-file", "blob", &format!("{tree}:{path}")])
    }

    /// Returns the hash of the workspace as it is.
    pub fn tree(&self) -> Result<String, WorkspaceError> {
        Ok(self.look()?.tree)
    }

    /// Returns the workspace as it is.
    pub fn look(&self) -> Result<SeenTree, WorkspaceError> {
        if !is_own_directory(&self.workspace) {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(WorkspaceError::io(&self.workspace)(error));
        }
        let unborn = add_all(&self.git, &self.workspace)?;
        let tree = one_line(&self.git.read(&["write-tree"])?);
        Ok(SeenTree { tree, unborn })
    }

    /// Returns the hash of the tree before a step: the last checkpoint's, or the starting one.
    pub fn tree_before(&self, step: usize) -> Result<String, WorkspaceError> {
        let known = self.last().clone().filter(|kept| kept.before == step);
        if let Some(kept) = known {
            return Ok(kept.tree);
        }
        let tree = match step.checked_sub(1) {
            Some(done) => self.tree_of(&step_ref(done))?,
            None => self.tree_of("refs/salve/start")?,
        };
        *self.last() = Some(KeptTree { before: step, tree: tree.clone() });
        Ok(tree)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<KeptTree>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree_of(&self, name: &str) -> Result<String, WorkspaceError> {
        Ok(one_line(&self.git.read(&["rev-parse", &format!("{name}^{{tree}}")])?))
    }

    /// Returns what changed from one tree to another.
    pub fn diff(&self, from: &str, to: &str) -> Result<StepDiff, WorkspaceError> {
        if from == to {
            return Ok(StepDiff { patch: Vec::new(), files: Vec::new() });
        }
        let mut args = vec!["diff-tree", "-r", "-z", "--raw", "-p", "--binary", "--full-index"];
        args.extend(["--find-renames", "--no-color", "--no-ext-diff", "--no-textconv"]);
        args.extend(["--no-relative", "--src-prefix=a/", "--dst-prefix=b/", from, to]);
        Ok(raw_and_patch(&self.git.read(&args)?))
    }

    /// Returns how many lines changed from one tree to another; nothing where a file has no lines.
    pub fn changed_lines(&self, from: &str, to: &str) -> Result<Option<u64>, WorkspaceError> {
        let counted = self.git.read(&["diff-tree", "-r", "--numstat", "--no-renames", from, to])?;
        let counted = String::from_utf8_lossy(&counted).into_owned();
        let count = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        let lines = counted.lines().map(|line| {
            let mut words = line.split('\t');
            Some(count(words.next())?.saturating_add(count(words.next())?))
        });
        Ok(lines.sum())
    }

    /// Keeps a tree as what a step left.
    pub fn keep(&self, step: usize, tree: &str, message: &str) -> Result<(), WorkspaceError> {
        let parent = match step.checked_sub(1) {
            Some(done) => step_ref(done),
            None => "refs/salve/start".to_owned(),
        };
        let commit = self.commit(tree, Some(&parent), message)?;
        *self.last() = None;
        // What the user takes over, commit by commit: `git fetch <store> result`.
        for name in [step_ref(step), "refs/heads/result".to_owned()] {
            self.point(&name, &commit)?;
        }
        *self.last() = Some(KeptTree { before: step + 1, tree: tree.to_owned() });
        Ok(())
    }

    /// Has a ref name a commit. The repository is our own and keeps each ref in a file; to write one costs
    /// less than to ask git, and it is done for every step.
    fn point(&self, name: &str, commit: &str) -> Result<(), WorkspaceError> {
        let path = self.store.join(name);
        let parent = path.parent().unwrap_or(&self.store);
        files::make_directories(parent).map_err(WorkspaceError::io(parent))?;
        atomic::write_derived(&path, format!("{commit}\n"))
            .map_err(|error| WorkspaceError::io(path)(io::Error::other(error)))
    }

    fn commit(
        &self,
        tree: &str,
        parent: Option<&str>,
        message: &str,
    ) -> Result<String, WorkspaceError> {
        let mut args = vec!["-c", "user.name=Salve", "-c", "user.email=salve@localhost"];
        args.extend(["commit-tree", tree, "-m", message]);
        args.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
        Ok(one_line(&self.git.read(&args)?))
    }

    /// Writes the files from which the job starts as a bundle that any git can read: one commit, called
    /// `refs/heads/start`, without the history before it.
    pub fn bundle_start(&self, to: &Path) -> Result<(), WorkspaceError> {
        let tree = self.tree_of("refs/salve/start")?;
        let commit = self.commit(&tree, None, "the files when the job began")?;
        self.git.read(&["update-ref", BUNDLED, &commit])?;
        let path = to.to_string_lossy().into_owned();
        let bundled = self.git.read(&["bundle", "create", "--quiet", &path, BUNDLED]);
        // It is the bundle's alone.
        self.git.read(&["update-ref", "-d", BUNDLED])?;
        bundled.map(drop)
    }

    /// Keeps checkpoints that another machine made, and gives the workspace the state of the last one;
    /// returns the tree that each of them left.
    pub fn take_in(&self, steps: &[ReplayStep]) -> Result<Vec<String>, ReplayError> {
        let start = "refs/salve/start";
        self.git.read(&["read-tree", start])?;
        let mut trees = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            // Which tree it has to lead to is for the history to say.
            StepReplay { git: &self.git, start, wanted: "" }.apply_one(step)?;
            let tree = one_line(&self.git.read(&["write-tree"])?);
            self.keep(number, &tree, &format!("step {number}"))?;
            trees.push(tree);
        }
        let last = match trees.last() {
            Some(tree) => tree.clone(),
            None => self.tree_of("refs/salve/start")?,
        };
        // The index has been ahead of the files.
        self.git.read(&["read-tree", "--empty"])?;
        self.check_out(&last)?;
        Ok(trees)
    }

    /// Replays checkpoints in the repository and returns the tree that they lead to.
    pub fn replay(&self, steps: &[ReplayStep]) -> Result<String, ReplayError> {
        let wanted = self.tree_before(steps.len())?;
        StepReplay { git: &self.git, start: "refs/salve/start", wanted: &wanted }.run(steps)
    }

    /// Gives the workspace the state of a tree; what git ignores stays.
    pub fn check_out(&self, tree: &str) -> Result<(), WorkspaceError> {
        self.lay_out(tree)?;
        self.remove_repositories()
    }

    /// Gives the files that the workspace has in common with git the state of a tree.
    fn lay_out(&self, tree: &str) -> Result<(), WorkspaceError> {
        make_own(&self.workspace)?;
        // The index is what is there now, so that what the tree does not have is removed.
        add_all(&self.git, &self.workspace)?;
        self.git.read(&["read-tree", "-u", "--reset", tree])?;
        if let Some(folder) = self.store.parent() {
            step_place::lend_packages(folder, &self.workspace);
        }
        let dir = self.dir();
        fs::create_dir_all(&dir).map_err(WorkspaceError::io(dir))?;
        self.make_repository()
    }

    /// Removes what git leaves behind: repositories of their own that a step made or cloned.
    fn remove_repositories(&self) -> Result<(), WorkspaceError> {
        let mut args = vec!["ls-files", "-z", "--others", "--exclude-standard"];
        args.extend(["--directory", "--no-empty-directory"]);
        let left = self.git.read(&args)?;
        let left = left.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let left: Vec<String> =
            left.map(|path| format!(":(literal){}", String::from_utf8_lossy(path))).collect();
        if left.is_empty() {
            return Ok(());
        }
        // Twice, or it spares repositories. What git ignores stays, as everywhere.
        let mut args = vec!["clean", "-f", "-f", "-d", "-q", "--"];
        args.extend(left.iter().map(String::as_str));
        self.git.read(&args).map(drop)
    }

    /// Gives the workspace the state of a tree, if it has another: a verification may have left
    /// something.
    pub fn check_out_if_changed(&self, tree: &str) -> Result<(), WorkspaceError> {
        if self.tree()? == tree { Ok(()) } else { self.check_out(tree) }
    }

    /// Puts sealed paths back to what they were before a step, and returns which had changed.
    ///
    /// What git ignores is in no checkpoint; of that only Salve's own settings are taken away, by which
    /// the steps that follow would work.
    pub fn put_sealed_back(&self, step: usize) -> Result<Vec<String>, WorkspaceError> {
        let mut sealed = self.take_ignored_settings_away()?;
        let (before, tree) = (self.tree_before(step)?, self.tree()?);
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", &before, &tree];
        let raw = self.git.read(&args)?;
        if raw.is_empty() {
            return Ok(sealed);
        }
        let reach = self.sealed_reach(&before, &tree, &raw)?;
        let is_sealed = |path: &[u8]| {
            SealedPath::of(path).is_some() || reach.holds(Path::new(OsStr::from_bytes(path)))
        };
        let mut words = raw.split(|&byte| byte == 0);
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        while let (Some(about), Some(path)) = (words.next(), words.next()) {
            let Some(was) = EntryBefore::of(about).filter(|_| is_sealed(path)) else {
                continue;
            };
            sealed.push(String::from_utf8_lossy(path).into_owned());
            gone.extend([b"0 ", was.none.as_bytes(), b"\t", path, b"\0"].concat());
            back.extend(was.line(path));
        }
        if gone.is_empty() {
            return Ok(sealed);
        }
        let lines = [gone, back].concat();
        // The index is what is there now; a link in the place of a directory makes way.
        self.git.feed(&["update-index", "--replace", "-z", "--index-info"], |to| {
            to.write_all(&lines).map_err(WorkspaceError::io(&self.store))
        })?;
        let tree = one_line(&self.git.read(&["write-tree"])?);
        // A repository that the step made stays, for its verification to see.
        self.lay_out(&tree)?;
        Ok(sealed)
    }

    /// Returns what sealed places lead to: in the tree before a step, and in the project, whose files and
    /// settings of git a result will meet. `raw` lists what changed since.
    fn sealed_reach(
        &self,
        before: &str,
        after: &str,
        raw: &[u8],
    ) -> Result<SealedReach, WorkspaceError> {
        let before = CommittedTree::read(&self.git, &self.workspace, before)?;
        let mut reach = before.reach();
        if let Some(top) = self.users_top() {
            reach.add(sealed::reach_of_files(&top));
        }
        let changed = raw.split(|&byte| byte == 0).filter(|part| !part.starts_with(b":"));
        let above = changed.flat_map(|path| Path::new(OsStr::from_bytes(path)).ancestors());
        let parts = above.filter(|path| sealed::is_part_of_bare(path));
        let dirs: BTreeSet<&Path> = parts.filter_map(Path::parent).collect();
        if !dirs.is_empty() {
            let after = CommittedTree::read(&self.git, &self.workspace, after)?;
            for dir in dirs {
                let [was, is] =
                    [&before, &after].map(|tree| move |name: &str| tree.has(&dir.join(name)));
                reach.hold_new_bare(dir, was, is);
            }
        }
        Ok(reach)
    }

    /// Returns the top of the user's repository, or the project where there is none, if it is here.
    fn users_top(&self) -> Option<PathBuf> {
        let is_state = |dir: &&Path| dir.file_name() == Some(OsStr::new(files::STATE_DIR));
        let project = self.store.ancestors().filter(is_state).last()?.parent()?;
        let up = self.prefix.components().count();
        project.ancestors().nth(up).map(Path::to_path_buf)
    }

    /// Removes settings of Salve's that git ignores, so that no tree shows them; returns their names.
    fn take_ignored_settings_away(&self) -> Result<Vec<String>, WorkspaceError> {
        let mut taken = Vec::new();
        for name in SETTINGS {
            let path = self.prefix.join(name);
            let full = self.workspace.join(&path);
            let name = path.to_string_lossy();
            let is_known = || self.git.ask(&["ls-files", "--error-unmatch", "--", &name]);
            if fs::symlink_metadata(&full).is_ok()
                && self.git.ask(&["check-ignore", "-q", "--", &name])?.is_some()
                && is_known()?.is_none()
            {
                fs::remove_file(&full).map_err(WorkspaceError::io(&full))?;
                taken.push(name.into_owned());
            }
        }
        Ok(taken)
    }

    /// Returns the commit that the steps see, empty if there is none; nothing where the project has
    /// no repository.
    fn head(&self) -> Option<String> {
        files::read_text(&self.store.join("salve-head"), FileKind::Note).ok()
    }

    /// Makes the repository that the steps see: the user's history, and settings of its own. Even
    /// without a commit there is one, or git would find the user's own above the workspace.
    fn make_repository(&self) -> Result<(), WorkspaceError> {
        let Some(head) = self.head() else { return Ok(()) };
        make_own(&self.workspace)?;
        let dot_git = self.workspace.join(".git");
        let removed = match fs::symlink_metadata(&dot_git) {
            Ok(about) if about.is_dir() => fs::remove_dir_all(&dot_git),
            Ok(_) => fs::remove_file(&dot_git),
            Err(_) => Ok(()),
        };
        removed.map_err(WorkspaceError::io(&dot_git))?;
        let format = one_line(&self.git.read(&["rev-parse", "--show-object-format"])?);
        let format = Format::parse(&format).unwrap_or(Format::Sha1);
        let made = Git::alone(&dot_git, format)?;
        let info = dot_git.join("objects/info");
        fs::create_dir_all(&info).map_err(WorkspaceError::io(&info))?;
        let objects = self.store.join("objects").into_os_string().into_vec();
        let line = [objects, b"\n".into()].concat();
        fs::write(info.join("alternates"), line).map_err(WorkspaceError::io(&info))?;
        if head.is_empty() {
            return Ok(());
        }
        fs::write(dot_git.join("HEAD"), format!("{head}\n"))
            .map_err(WorkspaceError::io(&dot_git))?;
        made.read(&["read-tree", "HEAD"]).map(drop)
    }
}

/// Makes a workspace that is not there; what stands in its place and is no directory is removed.
fn make_own(workspace: &Path) -> Result<(), WorkspaceError> {
    let work = || match fs::symlink_metadata(workspace) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => files::remove(workspace),
        Err(_) => Ok(()),
    };
    work().and_then(|()| files::make_directories(workspace)).map_err(WorkspaceError::io(workspace))
}

fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

/// Returns whether git can read a repository, which is no link, without waiting for a pipe in it.
fn is_readable(dot_git: &Path) -> bool {
    let is_plain = |name: &str| {
        let about = fs::symlink_metadata(dot_git.join(name));
        about.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |about| about.is_file())
    };
    is_own_directory(dot_git) && READ_FIRST.iter().all(|name| is_plain(name))
}

/// Returns the hidden ref in the user's repository for the job in `dir`.
fn borrowed_ref(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    format!("refs/salve/jobs/{}", name.to_string_lossy())
}

/// Returns the hidden ref of a step's checkpoint.
fn step_ref(step: usize) -> String {
    format!("refs/salve/steps/{step:04}")
}

fn ask(git: &Git, args: &[&str]) -> Result<Option<String>, WorkspaceError> {
    Ok(git.ask(args)?.map(|answer| one_line(&answer)).filter(|line| !line.is_empty()))
}

/// Takes the files below `top` into the index as they are; returns the directories whose files no tree
/// can hold, since they are repositories of their own without a commit.
fn add_all(git: &Git, top: &Path) -> Result<Vec<String>, WorkspaceError> {
    let mut unborn: Vec<String> = Vec::new();
    loop {
        let spared = unborn.iter().map(|dir| format!(":(exclude,literal){dir}"));
        let spared: Vec<String> = spared.collect();
        // Its warning of repositories is longer than what is kept of what it says.
        let mut args = vec!["add", "--all", "--no-warn-embedded-repo"];
        if !spared.is_empty() {
            args.extend(["--", "."]);
            args.extend(spared.iter().map(String::as_str));
        }
        // Git names the first one that it meets.
        match (git.read(&args), spared.len() < MOST_UNBORN) {
            (Ok(_), _) => break,
            (Err(WorkspaceError::Git { command, said }), true) => match unborn_in(&said) {
                Some(dir) if !unborn.contains(&dir) => unborn.push(dir),
                Some(_) | None => return Err(WorkspaceError::Git { command, said }),
            },
            (Err(error), _) => return Err(error),
        }
    }
    // One in which nothing lies yet lacks nothing.
    let has_files = |dir: &String| {
        let inside = files::list(&top.join(dir)).unwrap_or_default();
        inside.iter().any(|path| path.file_name().is_some_and(|name| name != ".git"))
    };
    unborn.retain(has_files);
    Ok(unborn)
}

/// Returns the directory that git says is a repository without a commit.
fn unborn_in(said: &str) -> Option<String> {
    let (before, _) = said.split_once(UNBORN.1)?;
    let (_, dir) = before.rsplit_once(UNBORN.0)?;
    Some(dir.to_owned())
}

fn one_line(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}

/// Reads what `git diff-tree --raw -z -p` tells: the files, then the patch. A rename is a file that is
/// gone and one that is new.
fn raw_and_patch(told: &[u8]) -> StepDiff {
    let mut files = Vec::new();
    let mut rest = told;
    // An empty part stands between the files and the patch.
    while rest.first() == Some(&b':') {
        let about = next_part(&mut rest);
        let mut words = about.trim_start_matches(':').split(' ');
        let (_, mode, _) = (words.next(), words.next(), words.next());
        let (Some(mode), Some(checksum), Some(how)) = (mode, words.next(), words.next()) else {
            break;
        };
        let first = next_part(&mut rest);
        let changed = |path: String, mode: &str, checksum: &str| ChangedPath {
            path,
            mode: mode.to_owned(),
            checksum: checksum.to_owned(),
        };
        match how.chars().next() {
            Some('R') => {
                files.push(changed(first, "000000", &"0".repeat(checksum.len())));
                files.push(changed(next_part(&mut rest), mode, checksum));
            }
            Some('C') => files.push(changed(next_part(&mut rest), mode, checksum)),
            Some(_) | None => files.push(changed(first, mode, checksum)),
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let patch = rest.strip_prefix(b"\0").unwrap_or(rest).to_vec();
    StepDiff { patch, files }
}

/// Takes what stands before the next zero.
fn next_part(rest: &mut &[u8]) -> String {
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let part = String::from_utf8_lossy(&rest[..end]).into_owned();
    *rest = rest.get(end + 1..).unwrap_or_default();
    part
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let mut command = std::process::Command::new("git");
        let status = command.args(settings).args(args).current_dir(dir).status().unwrap();
        assert!(status.success(), "{args:?}");
    }

    /// Does a step, keeps its checkpoint, and returns what is needed to replay it.
    fn step(made: &StepStore, number: usize, dir: &Path, act: impl FnOnce(&Path)) -> ReplayStep {
        act(&made.dir());
        let (before, after) = (made.tree_before(number).unwrap(), made.tree().unwrap());
        let diff = made.diff(&before, &after).unwrap();
        let patch = dir.join(format!("step-{number:04}.patch"));
        fs::write(&patch, &diff.patch).unwrap();
        made.keep(number, &after, "a step").unwrap();
        ReplayStep { patch, files: diff.files }
    }

    /// Commits a file in a repository of its own, as that of a submodule.
    fn commit_in(dir: &Path, text: &str) {
        git(dir, &["init", "-q"]);
        fs::write(dir.join("file"), text).unwrap();
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-qm", text]);
    }

    #[test]
    fn every_kind_of_change_is_replayed_and_a_changed_patch_is_named() {
        let home = tempfile::tempdir().unwrap();
        let (project, dir) = (home.path().join("project"), home.path().join("job"));
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("old.txt"), "one\ntwo\nthree\nfour\nfive\n").unwrap();
        fs::write(project.join("gone.txt"), "gone").unwrap();
        fs::write(project.join(".gitattributes"), "* text=auto\n").unwrap();
        git(&project, &["init", "-q"]);
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-qm", "first"]);
        fs::write(project.join("draft.txt"), "not committed\r\n").unwrap();
        let made = StepStore::make(&project, &dir, &StartFrom::Files).unwrap();
        assert_eq!(fs::read(made.dir().join("draft.txt")).unwrap(), b"not committed\r\n");
        git(&made.dir(), &["log", "-1"]);
        let first = step(&made, 0, home.path(), |at| {
            fs::write(at.join("binary"), [0_u8, 255, 1, 0]).unwrap();
            fs::write(at.join("empty"), "").unwrap();
            fs::write(at.join("crlf.txt"), "a\r\nb\r\n").unwrap();
            fs::rename(at.join("old.txt"), at.join("new.txt")).unwrap();
            fs::remove_file(at.join("gone.txt")).unwrap();
            symlink("new.txt", at.join("link")).unwrap();
            fs::write(at.join("run.sh"), "x").unwrap();
            fs::set_permissions(at.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::create_dir(at.join("module")).unwrap();
            commit_in(&at.join("module"), "one");
        });
        let second = step(&made, 1, home.path(), |_| {});
        let third = step(&made, 2, home.path(), |at| {
            fs::write(at.join("new.txt"), "one\ntwo\n").unwrap();
            commit_in(&at.join("module"), "two");
        });
        let text = fs::read_to_string(&third.patch).unwrap();
        assert_eq!(text.matches("Subproject commit").count(), 2, "{text}");
        let steps = [first, second, third];
        let wanted = made.tree().unwrap();
        fs::write(made.dir().join("mess"), "left").unwrap();
        fs::remove_file(made.dir().join("binary")).unwrap();
        fs::remove_dir_all(made.dir().join(".git")).unwrap();
        let tree = made.replay(&steps).unwrap();
        made.check_out(&tree).unwrap();
        assert_eq!(made.tree().unwrap(), wanted);
        assert!(!made.dir().join("mess").exists() && made.dir().join(".git").exists());
        assert_eq!(fs::read(made.dir().join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
        assert_eq!(fs::read_link(made.dir().join("link")).unwrap(), Path::new("new.txt"));
        let text = fs::read_to_string(&steps[2].patch).unwrap();
        fs::write(&steps[2].patch, text.replace("-three", "-other")).unwrap();
        let error = made.replay(&steps).unwrap_err().to_string();
        assert!(error.contains("step-0002.patch"), "{error}");
        assert_eq!(made.tree().unwrap(), wanted, "the workspace is as it was");
    }

    #[test]
    fn links_and_directories_that_take_each_others_place_are_replayed() {
        let home = tempfile::tempdir().unwrap();
        let (project, dir) = (home.path().join("project"), home.path().join("job"));
        fs::create_dir_all(project.join("docs/deep")).unwrap();
        fs::write(project.join("docs/deep/a.txt"), "a\n").unwrap();
        fs::write(project.join("docs/b.txt"), "b\n").unwrap();
        let made = StepStore::make(&project, &dir, &StartFrom::Files).unwrap();
        let steps = [
            step(&made, 0, home.path(), |at| {
                fs::rename(at.join("docs"), at.join("texts")).unwrap();
                symlink("texts", at.join("docs")).unwrap();
            }),
            step(&made, 1, home.path(), |at| {
                fs::remove_file(at.join("docs")).unwrap();
                fs::create_dir(at.join("docs")).unwrap();
                fs::write(at.join("docs/b.txt"), "new\n").unwrap();
            }),
            step(&made, 2, home.path(), |at| {
                fs::remove_dir_all(at.join("docs")).unwrap();
                symlink("texts/deep", at.join("docs")).unwrap();
            }),
            // Git refuses this patch even alone.
            step(&made, 3, home.path(), |at| {
                fs::rename(at.join("docs"), at.join("link")).unwrap();
                fs::create_dir(at.join("docs")).unwrap();
                fs::write(at.join("docs/c.txt"), "c\n").unwrap();
            }),
        ];
        let wanted = made.tree().unwrap();
        for few in 0..=steps.len() {
            let tree = made.replay(&steps[..few]).unwrap();
            assert_eq!(tree, made.tree_before(few).unwrap(), "{few}");
        }
        let tree = made.replay(&steps).unwrap();
        made.check_out(&tree).unwrap();
        assert_eq!(made.tree().unwrap(), wanted);
        // What a record names and no checkpoint had is found out.
        let mut steps = steps;
        steps[3].files.retain(|file| file.path != "docs/c.txt");
        let error = made.replay(&steps).unwrap_err().to_string();
        assert!(error.contains("step-0003.patch"), "{error}");
    }

    #[test]
    fn repositories_that_steps_make_are_told_of_and_go_when_the_workspace_is_set_back() {
        let home = tempfile::tempdir().unwrap();
        let (project, dir) = (home.path().join("project"), home.path().join("job"));
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("a.txt"), "a").unwrap();
        fs::write(project.join(".gitignore"), "kept/\n").unwrap();
        let made = StepStore::make(&project, &dir, &StartFrom::Files).unwrap();
        let first = made.look().unwrap();
        let at = made.dir();
        let lay = || {
            for name in ["empty repository", "sub", "deep/er", "deep/lib"] {
                fs::create_dir_all(at.join(name)).unwrap();
                git(&at.join(name), &["init", "-q"]);
            }
            fs::write(at.join("sub/b.txt"), "b").unwrap();
            fs::create_dir_all(at.join("deep/er/kept")).unwrap();
            fs::create_dir_all(at.join("deep/kept")).unwrap();
            fs::write(at.join("deep/kept/installed"), "x").unwrap();
            commit_in(&at.join("deep/lib"), "one");
        };
        lay();
        let seen = made.look().unwrap();
        assert_eq!(seen.unborn, ["deep/er", "sub"], "where files lie that no checkpoint keeps");
        assert_ne!(seen.tree, first.tree, "one with a commit is named by it");
        made.check_out(&first.tree).unwrap();
        assert_eq!(made.look().unwrap(), first);
        for gone in ["empty repository", "sub", "deep/er", "deep/lib"] {
            assert!(!at.join(gone).exists(), "{gone}");
        }
        assert!(at.join("deep/kept/installed").exists(), "what git ignores stays");
        lay();
        made.check_out(&seen.tree).unwrap();
        assert!(at.join("deep/lib/.git").exists(), "what the tree names stays");
    }

    #[test]
    fn what_would_keep_git_waiting_or_leads_elsewhere_is_made_again() {
        let home = tempfile::tempdir().unwrap();
        let (project, dir) = (home.path().join("project"), home.path().join("job"));
        let victim = home.path().join("victim");
        for place in [&project, &victim] {
            fs::create_dir_all(place).unwrap();
            git(place, &["init", "-q"]);
            fs::write(place.join("a.txt"), "a").unwrap();
            git(place, &["add", "-A"]);
            git(place, &["commit", "-qm", "first"]);
        }
        fs::write(victim.join("draft"), "not committed").unwrap();
        let made = StepStore::make(&project, &dir, &StartFrom::Files).unwrap();
        let dot_git = made.dir().join(".git");
        for name in READ_FIRST {
            let file = dot_git.join(name);
            let _ = fs::remove_file(&file);
            let fifo = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
            assert!(fifo.success(), "{name}");
            made.mend_repository().unwrap();
            assert!(is_readable(&dot_git), "{name}");
        }
        fs::remove_dir_all(&dot_git).unwrap();
        symlink(victim.join(".git"), &dot_git).unwrap();
        made.mend_repository().unwrap();
        assert!(is_own_directory(&dot_git) && victim.join(".git/HEAD").exists());
        fs::rename(made.root(), home.path().join("moved")).unwrap();
        symlink(&victim, made.root()).unwrap();
        assert!(made.is_gone() && made.tree().is_err());
        made.remake(0).unwrap();
        assert!(!made.is_gone() && made.dir().join("a.txt").exists());
        assert_eq!(fs::read_to_string(victim.join("draft")).unwrap(), "not committed");
        assert!(is_own_directory(&victim.join(".git/objects")));
    }

    #[test]
    fn a_project_without_a_repository_has_a_workspace_too() {
        let home = tempfile::tempdir().unwrap();
        let (project, dir) = (home.path().join("project"), home.path().join("job"));
        fs::create_dir_all(project.join(".salve")).unwrap();
        fs::write(project.join(".salve/own"), "x").unwrap();
        fs::write(project.join("a.txt"), "a").unwrap();
        let made = StepStore::make(&project, &dir, &StartFrom::Files).unwrap();
        assert_eq!(fs::read_to_string(made.dir().join("a.txt")).unwrap(), "a");
        assert!(!made.dir().join(".salve").exists());
        let from = StartFrom::Ref("main".to_owned());
        assert!(StepStore::make(&project, &home.path().join("other"), &from).is_err());
    }
}
