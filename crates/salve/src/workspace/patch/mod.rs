//! What a repair changed, as a patch that can be tried again elsewhere.
//!
//! A patch is applied to copies of the files it names in a repository of its own, then the results
//! are moved into the tree like files that are given back. So no setting, attribute, filter or hook
//! of the project's repository has a say, its index is not touched, and a patch that does not fit
//! changes nothing.

mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use salve_core::sealed_path::SealedPath;

use super::error::{RestoreError, WorkspaceError};
use super::git::{Git, pipe, quote};
use super::keep;
use super::layer::PrivateLayer;
use super::measure::{self, FileChange, NamedTree};
use super::plan::{self, Again, RestoreExtent};
use super::restore::{self, LayPlace};
use super::scratch_dir::ScratchDir;
use super::tree::{Kind, Rel, TreeItem, WorkingTree, show};
use super::{Snapshot, Workspace};
use crate::sealed;

/// What the state before is called in the repository that a patch is tried in.
const BEFORE: &str = "refs/heads/main";

/// Why a patch was not applied; nothing was changed unless it is [`PatchError::Apply`] of a
/// [`RestoreError::Partly`].
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// It does not fit the files, or is no patch at all.
    #[error("the patch does not fit: {said}")]
    Unfit {
        /// What git said.
        said: String,
    },
    /// It says something that Salve does not do.
    #[error("the patch is refused: {path} {why}")]
    Refused {
        /// The file that it is about.
        path: String,
        why: &'static str,
    },
    /// It changes nothing.
    #[error("the patch changes nothing")]
    Empty,
    /// The files could not be looked at.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The files could not be changed.
    #[error(transparent)]
    Apply(#[from] RestoreError),
}

/// A patch that fits, tried on copies.
struct PatchTrial {
    store: Git,
    /// The files that it names, before and after.
    before: WorkingTree,
    after: WorkingTree,
    /// What the store calls the state after.
    name: String,
    _lair: ScratchDir,
}

/// Changes of a workspace as patches, which can be tried again elsewhere.
pub struct Patches<'w>(&'w Workspace);

impl Workspace {
    /// Returns the way to make and apply patches here.
    pub fn patches(&self) -> Patches<'_> {
        Patches(self)
    }
}

impl Patches<'_> {
    /// Returns the difference between two snapshots as a patch, raw and complete: texts, binary
    /// files, new and deleted ones, links, and whether files are executable.
    pub fn between(&self, before: &Snapshot, after: &Snapshot) -> Result<Vec<u8>, WorkspaceError> {
        let (from, to) = (before.name.to_ref(), after.name.to_ref());
        let mut args = vec!["diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames"];
        args.extend(["--no-color", "--no-ext-diff", "--no-textconv", "--no-relative"]);
        args.extend(["--unified=3", "--src-prefix=a/", "--dst-prefix=b/", &from, &to]);
        self.0.scanner.git.read(&args)
    }

    /// Returns what a patch would change, if it fits; nothing is changed.
    pub fn fits(&self, patch: &[u8]) -> Result<Vec<FileChange>, PatchError> {
        trial(self.0, patch)?.changes()
    }

    /// Applies a patch, whole or not at all, and returns what it changed.
    pub fn apply(&self, patch: &[u8]) -> Result<Vec<FileChange>, PatchError> {
        let trial = trial(self.0, patch)?;
        let changes = trial.changes()?;
        let plan = plan::plan(&trial.after, &trial.before, RestoreExtent::All)?;
        let lay = LayPlace { dir: &self.0.state_dir, store: &trial.store };
        let staged = restore::stage(&self.0.scanner, &plan, &trial.before, lay)?;
        let Err(stop) = staged.apply() else { return Ok(changes) };
        let mut now = WorkingTree::default();
        for path in trial.before.differing(&trial.after) {
            if let Some((item, _)) = read(self.0, &path)? {
                now.items.insert(path, item);
            }
        }
        // What somebody saved meanwhile stays.
        let extent = RestoreExtent::Repair { left: &trial.after, again: Again::Leave };
        let back = plan::plan(&trial.before, &now, extent)?;
        let undone = restore::stage(&self.0.scanner, &back, &now, lay);
        let undone = undone.map(|staged| staged.apply());
        let back = match undone {
            Ok(Ok(())) => super::Back::Whole,
            Ok(Err(_)) | Err(_) => super::Back::Lost,
        };
        let (path, source) = (show(&stop.path), stop.source);
        Err(PatchError::Apply(RestoreError::Partly { path, source, back }))
    }

    /// Applies a patch in a private layer; the tree is as it was.
    pub fn apply_in(&self, layer: &PrivateLayer, patch: &[u8]) -> Result<(), PatchError> {
        let trial = trial(self.0, patch)?;
        let staged = ScratchDir::make(&layer.staging(&self.0.state_dir))?;
        let (mut gone, mut written) = (Vec::new(), Vec::new());
        for path in trial.before.differing(&trial.after) {
            match trial.after.items.get(&path) {
                Some(item) => {
                    lay_out(&trial.store, item, &staged.dir().join(&path))?;
                    written.push(path);
                }
                None => gone.push(path),
            }
        }
        // A file may take the place of a directory that goes.
        let paths: Vec<Rel> = gone.into_iter().chain(written).collect();
        Ok(layer.exchange(staged.dir(), &paths)?)
    }
}

/// Writes a file or a link as it is to be.
fn lay_out(store: &Git, item: &TreeItem, place: &Path) -> Result<(), WorkspaceError> {
    let io = || WorkspaceError::io(place);
    let parent = place.parent().unwrap_or(place);
    fs::create_dir_all(parent).map_err(WorkspaceError::io(parent))?;
    keep::contents(store, &[item.oid], |_, content| {
        if item.kind == Kind::Link {
            return symlink(OsStr::from_bytes(content), place).map_err(io());
        }
        fs::write(place, content).map_err(io())?;
        let permissions = fs::Permissions::from_mode(u32::from(item.permissions));
        fs::set_permissions(place, permissions).map_err(io())
    })
}

/// Tries a patch on copies of the files it names.
fn trial(workspace: &Workspace, patch: &[u8]) -> Result<PatchTrial, PatchError> {
    let lair = ScratchDir::make(&workspace.state_dir.join("patches"))?;
    let store = Git::alone(lair.dir(), workspace.scanner.format)?;
    let mut before = WorkingTree::default();
    let mut contents = BTreeMap::new();
    let mut out_of_bounds = None;
    for path in names::names(patch) {
        if let Err(why) = guard(&path) {
            out_of_bounds = Some((show(&path), why));
            continue;
        }
        if workspace.scanner.leads_through_link(&path) {
            continue;
        }
        if let Some((item, content)) = read(workspace, &path)? {
            before.items.insert(path.clone(), item);
            contents.insert(path, content);
        }
    }
    store.feed(&["fast-import", "--quiet", "--done"], |to| {
        send(to, &before.items, &contents).map_err(pipe)
    })?;
    store.read(&["read-tree", BEFORE])?;
    let args = ["apply", "--cached", "--whitespace=nowarn", "-"];
    let applied = store.feed(&args, |to| to.write_all(patch).map_err(pipe));
    if let Err(error) = applied {
        return Err(match (error, out_of_bounds) {
            // What it may not change was not there for it to fit.
            (WorkspaceError::Git { .. }, Some((path, why))) => PatchError::Refused { path, why },
            (WorkspaceError::Git { said, .. }, None) => PatchError::Unfit { said: plain(&said) },
            (other, _) => other.into(),
        });
    }
    let name = store.read(&["write-tree"])?;
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    let listed = store.read(&["ls-tree", "-r", "-z", &name])?;
    if listed.split(|&byte| byte == 0).any(|line| line.starts_with(b"160000 ")) {
        let why = "holds another repository";
        return Err(PatchError::Refused { path: "a directory".to_owned(), why });
    }
    let mut after = WorkingTree { items: keep::list(&store, &name)?, ..WorkingTree::default() };
    for (path, item) in &mut after.items {
        item.permissions = permissions(before.items.get(path), item.kind);
    }
    // A directory that the patch empties goes with its last file.
    before.add_parents();
    after.add_parents();
    let trial = PatchTrial { store, before, after, name, _lair: lair };
    judge(workspace, &trial)?;
    Ok(trial)
}

/// Refuses what a patch must not do.
fn judge(workspace: &Workspace, trial: &PatchTrial) -> Result<(), PatchError> {
    let differing = trial.before.differing(&trial.after);
    if differing.is_empty() {
        return Err(PatchError::Empty);
    }
    let hidden = workspace.scanner.scan([])?.hidden;
    let links = |item: &&TreeItem| item.kind == Kind::Link;
    let reach = sealed::reach_of_files(&workspace.scanner.root);
    for path in &differing {
        let refuse = |why| PatchError::Refused { path: show(path), why };
        guard(path).map_err(refuse)?;
        if reach.holds(Path::new(path)) {
            return Err(refuse("is where something leads that says what runs without a person"));
        }
        if workspace.scanner.leads_through_link(path) {
            return Err(refuse("leads through a link"));
        }
        if Path::new(path).ancestors().any(|part| hidden.contains(part.as_os_str())) {
            return Err(refuse("is ignored by git, so that it could not be given back"));
        }
        if let Some(item) = trial.after.items.get(path).filter(links) {
            let mut inside = false;
            keep::contents(&trial.store, &[item.oid], |_, target| {
                inside = stays_inside(path, OsStr::from_bytes(target));
                Ok(())
            })?;
            if !inside {
                return Err(refuse("is a link out of the project"));
            }
        }
    }
    Ok(())
}

/// Returns what a path holds; nothing if there is no file or link.
fn read(
    workspace: &Workspace,
    path: &OsStr,
) -> Result<Option<(TreeItem, Vec<u8>)>, WorkspaceError> {
    let full = workspace.scanner.root.join(path);
    match workspace.scanner.content(&full) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput => Ok(None),
            _ => Err(WorkspaceError::io(full)(error)),
        },
    }
}

impl PatchTrial {
    fn changes(&self) -> Result<Vec<FileChange>, PatchError> {
        let before = NamedTree { tree: &self.before, name: BEFORE };
        let after = NamedTree { tree: &self.after, name: &self.name };
        Ok(measure::compare(&self.store, before, after)?)
    }
}

/// Says why a path is out of bounds.
fn guard(path: &OsStr) -> Result<(), &'static str> {
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_gits = |part: &OsStr| part.eq_ignore_ascii_case(".git");
    if path.is_empty() || !Path::new(path).components().all(is_inside) {
        return Err("is out of the project");
    }
    if Path::new(path).iter().any(is_gits) {
        return Err("belongs to git");
    }
    match SealedPath::of(path.as_bytes()) {
        Some(SealedPath::Salve) => Err("belongs to Salve"),
        Some(SealedPath::Git) => Err("belongs to git"),
        Some(SealedPath::Agent | SealedPath::Editor) => Err("says what runs without a person"),
        None => Ok(()),
    }
}

/// Returns whether a link at `path` with this target leads to somewhere in the project.
fn stays_inside(path: &OsStr, target: &OsStr) -> bool {
    let from = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut at = PathBuf::from(from);
    for part in Path::new(target).components() {
        match part {
            Component::Normal(part) => at.push(part),
            Component::CurDir => {}
            Component::ParentDir if at.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !at.iter().any(|part| part == ".git" || part == ".salve")
}

/// Returns the permissions that a file gets: its own, but for whether it may be run.
fn permissions(before: Option<&TreeItem>, kind: Kind) -> u16 {
    match (before, kind) {
        (_, Kind::Link) => 0,
        (Some(item), kind) if item.kind == kind => item.permissions,
        (_, Kind::Plain) => 0o644,
        (_, Kind::Executable) => 0o755,
    }
}

/// Sends the files before as one commit.
fn send(
    to: &mut dyn Write,
    items: &BTreeMap<Rel, TreeItem>,
    contents: &BTreeMap<Rel, Vec<u8>>,
) -> io::Result<()> {
    writeln!(to, "commit {BEFORE}\ncommitter Salve <salve@localhost> 0 +0000\ndata 0")?;
    for (path, item) in items {
        let content = contents.get(path).map(Vec::as_slice).unwrap_or_default();
        writeln!(to, "M {} inline {}", item.kind.mode(), quote(path))?;
        writeln!(to, "data {}", content.len())?;
        to.write_all(content)?;
        writeln!(to)?;
    }
    writeln!(to, "done")
}

/// Takes git's own words off what it said.
fn plain(said: &str) -> String {
    let lines = said.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("; ").replace("does not exist in index", "is not there")
}
