//! A private layer over the project's tree, in which an agent works.
//!
//! Inside a mount namespace of its own, the project's path is an overlay: the real tree below, and an
//! empty directory of ours above it that takes every write. What lies in that directory *is* the
//! change: exact, complete however late it was written, and found without a scan of the tree. Paths
//! stay what they are, so programs that name their own place go on working. The rest of the file
//! system is read-only, but for places that are named; temporary files go to overlays that are thrown
//! away. Other processes of the user are out of sight and out of reach.
//!
//! Where the kernel or the distribution allows no such namespace, the agent gets a copy beside the
//! real tree ([`Shadow`]), and Landlock keeps its writes there.
//!
//! **Invariants:** nothing that runs in a layer changes the real tree; a sealed path
//! ([`SealedPath`](salve_core::sealed_path::SealedPath)) is in no change; what is taken over is exactly
//! what was measured.

mod change;
mod enter;
mod held;
mod hidden;
mod ignore;
mod means;
mod merge;
mod mounts;
mod plan;
mod scratch;
mod take;
#[cfg(test)]
mod tests;
mod upper;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use super::scan::{Scanner, is_salves};
use super::shadow::Shadow;
use super::tree::WorkingTree;
use super::{Snapshot, Workspace};

pub use change::LayerChange;
pub use enter::enter_layer;
pub use held::HeldTree;
pub use means::LayerMeans;
pub use take::{TakeOverError, TakenOver};

use plan::{LayerMounts, LayerPlan, OverlayMount, PlanKind};
use scratch::{LayerScratch, ThrowAway};

/// Where programs put temporary files; each gets a throw-away overlay.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Gives each path in its arguments what is laid out for it below the first, in a layer.
const EXCHANGE: &str = r#"
staged=$1; shift
for path; do
  rm -f -- "./$path" || exit 1
  above=$(dirname -- "./$path")
  if [ -e "$staged/$path" ] || [ -L "$staged/$path" ]; then
    mkdir -p -- "$above" && cp -Pp -- "$staged/$path" "./$path" || exit 1
  else
    # Those that are empty now go with it.
    rmdir -p -- "$above" 2> /dev/null
  fi
done
exit 0
"#;

/// A private layer over the project's tree; it is removed with this value.
#[derive(Debug)]
pub struct PrivateLayer {
    root: PathBuf,
    ground: LayerGround,
    /// Last, so that it goes after all that lies in it.
    scratch: LayerScratch,
}

/// What a layer is made of.
enum LayerGround {
    /// An overlay, whose upper directory this is.
    Overlay { upper: PathBuf, work: PathBuf, inner: Vec<OverlayMount>, throw_away: ThrowAway },
    /// A copy, and what was in it at first.
    Copy { shadow: Box<Shadow>, first: Box<WorkingTree> },
}

impl std::fmt::Debug for LayerGround {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Overlay { upper, .. } => write!(f, "Overlay({})", upper.display()),
            Self::Copy { shadow, .. } => write!(f, "Copy({})", shadow.root().display()),
        }
    }
}

/// A command that is to run in a layer.
#[derive(Clone, Debug)]
pub struct LayerCommand {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it starts, by its real path.
    pub dir: PathBuf,
    /// Files and directories outside of the layer that it may write to; those that are not there are
    /// passed over.
    pub writable: Vec<PathBuf>,
    /// What it sees of the machine.
    pub sight: LayerSight,
}

/// What a command in a layer sees of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSight {
    /// No socket by which other programs do as they are told, and nothing that is Salve's own.
    Agent,
    /// All of it, as where the user works: a check may need a service of the machine.
    Check,
}

/// How a command is started so that it runs in the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerLaunch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it starts.
    pub dir: PathBuf,
    /// Variables to add to our own.
    pub env: Vec<(OsString, OsString)>,
}

/// Why there is no layer.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Nothing on this machine keeps an agent from the real tree.
    #[error("nothing on this machine can keep an agent's writes out of the project")]
    Unheld,
    /// Nothing is kept of the files as they are, so their change could not be told.
    #[error("no state from before the attempt is kept")]
    NothingKept,
    /// A file or directory could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

impl Workspace {
    /// Makes a layer over the tree as this machine can.
    ///
    /// # Errors
    ///
    /// When nothing on this machine can hold it, or it cannot be made.
    pub fn private_layer(&self, base: &Snapshot) -> Result<PrivateLayer, LayerError> {
        let layer = self.private_layer_by(base, LayerMeans::here())?;
        if layer.can_be_entered() {
            return Ok(layer);
        }
        // Not every file system can lie below an overlay.
        self.private_layer_by(base, &LayerMeans::Copy)
    }

    /// Makes a layer by certain means.
    ///
    /// # Errors
    ///
    /// When the means are none, or it cannot be made.
    pub fn private_layer_by(
        &self,
        base: &Snapshot,
        means: &LayerMeans,
    ) -> Result<PrivateLayer, LayerError> {
        match means.on(&self.scanner.root) {
            LayerMeans::Overlay { base } => Ok(self.overlay_layer(&base)?),
            LayerMeans::Copy => Ok(self.copy_layer(base)?),
            LayerMeans::None => Err(LayerError::Unheld),
        }
    }

    fn overlay_layer(&self, base: &Path) -> Result<PrivateLayer, WorkspaceError> {
        let scratch = LayerScratch::claim(base)?;
        let root = self.scanner.root.clone();
        let (upper, work) = overlay_dirs(scratch.dir(), &root, "tree")?;
        let throw_away = ThrowAway::lay(&scratch, base, &root)?;
        let lay = |(at, place)| scratch.overlay(place, &format!("inner{at}"));
        let inner = mounts::derived_below(&root).unwrap_or_default().into_iter();
        let inner = inner.enumerate().map(lay).collect::<Result<_, _>>()?;
        let ground = LayerGround::Overlay { upper, work, inner, throw_away };
        Ok(PrivateLayer { root, ground, scratch })
    }

    fn copy_layer(&self, base: &Snapshot) -> Result<PrivateLayer, WorkspaceError> {
        let shadow = Box::new(self.shadow(base)?);
        let scratch = LayerScratch::claim(&self.shadows)?;
        let first = Box::new(self.copy_tree(&shadow)?);
        let ground = LayerGround::Copy { shadow, first };
        let root = self.scanner.root.clone();
        let layer = PrivateLayer { root, ground, scratch };
        // What an agent is told to read, such as a crash log, is in no snapshot.
        let entries = fs::read_dir(&layer.root).into_iter().flatten().flatten();
        for name in entries.map(|entry| entry.file_name()).filter(|name| is_salves(name)) {
            layer.show_through(&layer.root.join(name))?;
        }
        Ok(layer)
    }

    /// Returns what is in a copy, with the ignored files that people write.
    fn copy_tree(&self, shadow: &Shadow) -> Result<WorkingTree, WorkspaceError> {
        let scanner = self.copy_scanner(shadow);
        let mut tree = scanner.scan([])?;
        while upper::open_closed(shadow.root(), tree.gaps.keys()) {
            tree = scanner.scan([])?;
        }
        let ignored = super::ignored::look(&scanner, &tree, []);
        tree.items.extend(ignored.tree.items);
        Ok(tree)
    }

    fn copy_scanner(&self, shadow: &Shadow) -> Scanner {
        let git = match self.scanner.git.store() {
            Some(store) => super::git::Git::private(shadow.root(), store.to_path_buf()),
            None => super::git::Git::at(shadow.root()),
        };
        let (root, format) = (shadow.root().to_path_buf(), self.scanner.format);
        Scanner::new(root, git, format, self.scanner.limits)
    }
}

impl PrivateLayer {
    /// Says whether it is an overlay or a copy, for people.
    pub fn kind(&self) -> &'static str {
        match self.ground {
            LayerGround::Overlay { .. } => "overlay",
            LayerGround::Copy { .. } => "copy",
        }
    }

    /// Tells whether a command can be run in it.
    fn can_be_entered(&self) -> bool {
        match &self.ground {
            LayerGround::Copy { .. } => true,
            LayerGround::Overlay { .. } => {
                scratch::can_start(self.launch(&scratch::trial(&self.root)))
            }
        }
    }

    /// Returns where files may be laid out that are to be exchanged in it; `state` is Salve's directory of
    /// the project.
    pub(super) fn staging(&self, state: &Path) -> PathBuf {
        match &self.ground {
            // Where the overlay itself lies may be covered.
            LayerGround::Overlay { .. } => state.join("patches"),
            LayerGround::Copy { .. } => self.scratch.dir().join("patches"),
        }
    }

    /// Gives these paths what is laid out for them, and takes away those for which nothing is.
    ///
    /// # Errors
    ///
    /// When it cannot be done; the layer is of no use then.
    pub(super) fn exchange(&self, staged: &Path, paths: &[OsString]) -> Result<(), WorkspaceError> {
        let words = ["/bin/sh", "-c", EXCHANGE, "sh"].map(OsString::from).into_iter();
        let argv = words.chain([staged.into()]).chain(paths.iter().cloned()).collect();
        let (dir, writable, sight) = (self.root.clone(), Vec::new(), LayerSight::Check);
        let launch = self.launch(&LayerCommand { argv, dir, writable, sight })?;
        scratch::run(launch).map_err(WorkspaceError::io(&self.root))
    }

    /// Lets a directory of the real tree show through, to be written to by commands that may.
    ///
    /// # Errors
    ///
    /// When it cannot be shown in a copy.
    pub fn show_through(&self, real: &Path) -> Result<(), WorkspaceError> {
        let LayerGround::Copy { shadow, .. } = &self.ground else { return Ok(()) };
        let place = shadow.path(real);
        if place.exists() {
            return Ok(());
        }
        let parent = place.parent().unwrap_or(&place);
        fs::create_dir_all(parent).map_err(WorkspaceError::io(parent))?;
        std::os::unix::fs::symlink(real, &place).map_err(WorkspaceError::io(&place))
    }

    /// Returns what a command wrote in the layer as if it had run in the real tree.
    pub fn told(&self, output: &str) -> String {
        match &self.ground {
            LayerGround::Overlay { .. } => output.to_owned(),
            LayerGround::Copy { shadow, .. } => shadow.told(output),
        }
    }

    /// Lays a command ready and returns how it is started.
    ///
    /// # Errors
    ///
    /// When what it is told cannot be written.
    pub fn launch(&self, command: &LayerCommand) -> Result<LayerLaunch, WorkspaceError> {
        let mut plan = LayerPlan::of(command, &self.root);
        match &self.ground {
            LayerGround::Overlay { upper, work, inner, throw_away } => {
                let ThrowAway { caches, temporary } = throw_away.clone();
                let [place, upper, work] =
                    [&self.root, upper, work].map(|path| path.clone().into_os_string());
                let tree = Some(OverlayMount { place, upper, work });
                plan.kind =
                    PlanKind::Mounts(LayerMounts { caches, temporary, tree, inner: inner.clone() });
                self.scratch.ready(&plan, Vec::new())
            }
            LayerGround::Copy { shadow, .. } => {
                plan.dir = shadow.path(&command.dir).into_os_string();
                plan.argv = command.argv.iter().map(|word| shadow.word(word)).collect();
                plan.writable.push(shadow.root().as_os_str().to_owned());
                let mut env = shadow.env().to_vec();
                env.extend(self.scratch.open_to(&mut plan));
                self.scratch.ready(&plan, env)
            }
        }
    }
}

/// Makes the two directories of an overlay of `place`.
fn overlay_dirs(
    scratch: &Path,
    place: &Path,
    name: &str,
) -> Result<(PathBuf, PathBuf), WorkspaceError> {
    let [upper, work] = ["upper", "work"].map(|kind| scratch.join(format!("{name}-{kind}")));
    for dir in [&upper, &work] {
        fs::create_dir(dir).map_err(WorkspaceError::io(dir))?;
    }
    // The overlay's top has the permissions of the upper directory, not of what lies below.
    let mode = fs::metadata(place).map_or(0o755, |meta| meta.permissions().mode() & 0o7777);
    let given = fs::set_permissions(&upper, fs::Permissions::from_mode(mode | 0o700));
    given.map_err(WorkspaceError::io(&upper))?;
    Ok((upper, work))
}

/// Returns where this user's programs put temporary files.
fn temporary_places() -> Vec<PathBuf> {
    let own = std::env::temp_dir();
    let mut places: Vec<PathBuf> = TEMPORARY.iter().map(PathBuf::from).collect();
    // Below one of the others it is part of its overlay already.
    if !places.iter().any(|place| own.starts_with(place)) && own.is_absolute() {
        places.push(own);
    }
    places.retain(|place| fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir()));
    places
}

/// Returns the words and variables that start this very program in one of its parts in a layer.
#[cfg(not(test))]
fn launcher(part: &str, what: &OsStr) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    // By the kernel's own link: the file of this name may be another version by now.
    let words = [OsStr::new("/proc/self/exe"), OsStr::new(part), what];
    (words.map(OsStr::to_owned).to_vec(), Vec::new())
}

#[cfg(test)]
use tests::launcher;
