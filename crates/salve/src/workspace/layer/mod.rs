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
mod hidden;
mod means;
mod merge;
mod mounts;
mod plan;
mod take;
#[cfg(test)]
mod tests;
mod upper;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::WorkspaceError;
use super::scan::{Scanner, is_salves};
use super::scratch_dir::ScratchDir;
use super::shadow::Shadow;
use super::tree::WorkingTree;
use super::{Snapshot, Workspace};
use crate::sandbox;

pub use change::LayerChange;
pub use enter::enter_layer;
pub use means::LayerMeans;
pub use take::{TakeOverError, TakenOver};

use plan::{LayerPlan, OverlayMount, PlanKind};

/// Where programs put temporary files; each gets a throw-away overlay.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// A private layer over the project's tree; it is removed with this value.
#[derive(Debug)]
pub struct PrivateLayer {
    root: PathBuf,
    ground: LayerGround,
    /// How many commands have been laid ready in it.
    commands: AtomicU32,
    /// Last, so that it goes after all that lies in it.
    lair: ScratchDir,
}

/// What a layer is made of.
enum LayerGround {
    /// An overlay, whose upper directory this is.
    Overlay {
        upper: PathBuf,
        work: PathBuf,
        temporary: Vec<OverlayMount>,
        /// Where tools keep what they download.
        caches: Vec<OverlayMount>,
    },
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
        match means {
            // The kernel takes no upper directory that lies in what it covers.
            LayerMeans::Overlay { base }
                if !base.starts_with(&self.scanner.root)
                    && hidden::owners_are_mapped(&self.scanner.root) =>
            {
                Ok(self.overlay_layer(base)?)
            }
            LayerMeans::Overlay { .. } | LayerMeans::Copy => Ok(self.copy_layer(base)?),
            LayerMeans::None => Err(LayerError::Unheld),
        }
    }

    fn overlay_layer(&self, base: &Path) -> Result<PrivateLayer, WorkspaceError> {
        let lair = ScratchDir::claim(base)?;
        let gone = base.to_path_buf();
        // What makers that were killed left may be large, and nobody waits for its removal.
        std::thread::spawn(move || drop(ScratchDir::left(&gone)));
        let root = self.scanner.root.clone();
        let make = |place: &Path, name: &str| overlay_dirs(lair.dir(), place, name);
        let (upper, work) = make(&root, "tree")?;
        let throw_away = |place: PathBuf, name: String| {
            let (upper, work) = make(&place, &name)?;
            let [place, upper, work] = [place, upper, work].map(PathBuf::into_os_string);
            Ok(OverlayMount { place, upper, work })
        };
        let numbered = |kind: &'static str| move |at: usize| format!("{kind}{at}");
        let places = temporary_places().into_iter().enumerate();
        let temporary = places.map(|(at, place)| throw_away(place, numbered("temporary")(at)));
        let temporary = temporary.collect::<Result<_, WorkspaceError>>()?;
        let caches =
            sandbox::cache_places(&root).into_iter().filter(|place| !base.starts_with(place));
        let caches = caches.enumerate();
        let caches = caches.map(|(at, place)| throw_away(place, numbered("cache")(at)));
        let caches = caches.collect::<Result<_, WorkspaceError>>()?;
        let ground = LayerGround::Overlay { upper, work, temporary, caches };
        Ok(PrivateLayer { root, ground, commands: AtomicU32::new(0), lair })
    }

    fn copy_layer(&self, base: &Snapshot) -> Result<PrivateLayer, WorkspaceError> {
        let shadow = Box::new(self.shadow(base)?);
        let lair = ScratchDir::claim(&self.shadows)?;
        let first = Box::new(self.copy_tree(&shadow)?);
        let ground = LayerGround::Copy { shadow, first };
        let root = self.scanner.root.clone();
        let layer = PrivateLayer { root, ground, commands: AtomicU32::new(0), lair };
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
        if let LayerGround::Copy { .. } = &self.ground {
            return true;
        }
        let argv = ["/bin/sh", "-c", ":"].map(OsString::from).to_vec();
        let (dir, writable, sight) = (self.root.clone(), Vec::new(), LayerSight::Agent);
        let Ok(launch) = self.launch(&LayerCommand { argv, dir, writable, sight }) else {
            return false;
        };
        let Some((program, args)) = launch.argv.split_first() else { return false };
        let mut command = Command::new(program);
        command.args(args).envs(launch.env).current_dir(launch.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
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
        let count = self.commands.fetch_add(1, Ordering::Relaxed);
        let file = self.lair.dir().join(format!("command{count}"));
        let (plan, dir, mut env) = self.plan(command);
        let told = serde_json::to_vec(&plan).map_err(io::Error::other);
        told.and_then(|told| fs::write(&file, told)).map_err(WorkspaceError::io(&file))?;
        let (argv, also) = launcher(enter::OUTER, file.as_os_str());
        env.extend(also);
        Ok(LayerLaunch { argv, dir, env })
    }

    fn hidden(&self) -> Vec<OsString> {
        let hidden = hidden::places().into_iter().filter(|place| !self.root.starts_with(place));
        hidden.map(PathBuf::into_os_string).collect()
    }

    fn plan(&self, command: &LayerCommand) -> (LayerPlan, PathBuf, Vec<(OsString, OsString)>) {
        let writable = command.writable.iter().map(|place| place.clone().into_os_string());
        let mut plan = LayerPlan {
            argv: command.argv.clone(),
            dir: command.dir.clone().into_os_string(),
            kind: PlanKind::Copy,
            writable: writable.collect(),
            hidden: match command.sight {
                LayerSight::Agent => self.hidden(),
                LayerSight::Check => Vec::new(),
            },
            owner: std::process::id(),
        };
        match &self.ground {
            LayerGround::Overlay { upper, work, temporary, caches } => {
                let tree = OverlayMount {
                    place: self.root.clone().into_os_string(),
                    upper: upper.clone().into_os_string(),
                    work: work.clone().into_os_string(),
                };
                // The tree comes last: it may lie among temporary files.
                let overlays = temporary.iter().cloned().chain([tree]).collect();
                plan.kind = PlanKind::Overlay { caches: caches.clone(), overlays };
                (plan, command.dir.clone(), Vec::new())
            }
            LayerGround::Copy { shadow, .. } => {
                let dir = shadow.path(&command.dir);
                plan.argv = command.argv.iter().map(|word| shadow.word(word)).collect();
                plan.dir = dir.clone().into_os_string();
                let own = [shadow.root(), self.lair.dir()];
                plan.writable.extend(own.map(|place| place.as_os_str().to_owned()));
                let mut env = shadow.env().to_vec();
                let temporary = self.lair.dir().as_os_str().to_owned();
                env.extend(["TMPDIR", "TMP", "TEMP"].map(|name| (name.into(), temporary.clone())));
                (plan, dir, env)
            }
        }
    }
}

/// Makes the two directories of an overlay of `place`.
fn overlay_dirs(
    lair: &Path,
    place: &Path,
    name: &str,
) -> Result<(PathBuf, PathBuf), WorkspaceError> {
    let [upper, work] = ["upper", "work"].map(|kind| lair.join(format!("{name}-{kind}")));
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
