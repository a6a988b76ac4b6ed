//! By what an agent can be given a layer on this machine, found out by making one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::plan::{LayerMounts, LayerPlan, OverlayMount, PlanKind};
use super::{enter, hidden, launcher, mounts, overlay_dirs};
use crate::dirs;
use crate::sandbox::{Landlock, Means};
use crate::workspace::error::WorkspaceError;
use crate::workspace::scratch_dir::ScratchDir;

/// The program that a trial runs.
const TRIAL: &str = "/bin/sh";

/// By what an agent gets a layer on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerMeans {
    /// An overlay, whose upper directory lies in `base`.
    Overlay {
        /// A directory on a file system that can hold one.
        base: PathBuf,
    },
    /// A copy of the tree, and Landlock.
    Copy,
    /// Nothing.
    None,
}

impl LayerMeans {
    /// Finds out by what, once.
    pub fn here() -> &'static LayerMeans {
        static HERE: OnceLock<LayerMeans> = OnceLock::new();
        HERE.get_or_init(|| Self::among(&usual_bases()))
    }

    /// Finds out by what over one tree.
    pub fn over(root: &Path) -> LayerMeans {
        Self::here().on(root)
    }

    /// Returns these means where they suit a tree, and else a copy.
    pub(super) fn on(&self, root: &Path) -> LayerMeans {
        match self {
            Self::Overlay { base } if suits(base, root) => self.clone(),
            Self::Overlay { .. } => Self::without_overlay(),
            Self::Copy => Self::Copy,
            Self::None => Self::None,
        }
    }

    /// Finds out by what, with these places for upper directories.
    pub(super) fn among(bases: &[PathBuf]) -> LayerMeans {
        let works = |base: &&PathBuf| works_in(base).unwrap_or(false);
        match bases.iter().find(works) {
            Some(base) => Self::Overlay { base: base.clone() },
            None => Self::without_overlay(),
        }
    }

    fn without_overlay() -> LayerMeans {
        if Means::here().landlock == Landlock::None { Self::None } else { Self::Copy }
    }
}

/// Tells whether an overlay of a tree can have its upper directory in `base`, and shows all of the tree.
fn suits(base: &Path, root: &Path) -> bool {
    // The kernel takes no upper directory that lies in what it covers, and devices are covered anew.
    let is_beside = !base.starts_with(root) && !root.starts_with("/dev");
    is_beside && hidden::owners_are_mapped(root) && mounts::derived_below(root).is_some()
}

/// Returns where upper directories may lie, the best first: an overlay takes none on another overlay,
/// as in a container, where memory has to do.
fn usual_bases() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let name = format!("salve-layers-{user}");
    let cache = dirs::cache().map(|cache| cache.join("layers"));
    let bases = cache.into_iter().chain([Path::new("/dev/shm").join(name)]);
    // Temporary files are covered by an overlay themselves, and none may lie in what it covers.
    let temporary = super::temporary_places();
    bases.filter(|base| !temporary.iter().any(|place| base.starts_with(place))).collect()
}

/// Makes a layer with its upper directory in `base`, and looks whether a write stays in it.
fn works_in(base: &Path) -> Result<bool, WorkspaceError> {
    let lair = ScratchDir::claim(base)?;
    let io = WorkspaceError::io;
    // Not in `base`: devices are covered too, and memory lies among them.
    let temporary = std::env::temp_dir();
    let held = tempfile::tempdir().map_err(io(&temporary))?;
    let place = held.path().to_path_buf();
    fs::write(place.join("old"), "old").map_err(io(&place))?;
    let (upper, work) = overlay_dirs(lair.dir(), &place, "trial")?;
    let [place_word, upper_word, work_word] =
        [&place, &upper, &work].map(|path| path.clone().into_os_string());
    let overlay = OverlayMount { place: place_word, upper: upper_word, work: work_word };
    // A changed, a removed and a replaced entry are all that a layer is made of.
    let script = "echo new >> old && mkdir d && rm old && echo x > d/x";
    let plan = LayerPlan {
        argv: [TRIAL, "-c", script].map(OsString::from).to_vec(),
        dir: place.clone().into_os_string(),
        kind: PlanKind::Mounts(LayerMounts { tree: Some(overlay), ..LayerMounts::default() }),
        writable: Vec::new(),
        // The trial itself may lie among what is hidden.
        hidden: hidden::places()
            .into_iter()
            .filter(|hidden| !place.starts_with(hidden))
            .map(PathBuf::into_os_string)
            .collect(),
        owner: std::process::id(),
    };
    let file = lair.dir().join("plan");
    let told = serde_json::to_vec(&plan).map_err(std::io::Error::other);
    told.and_then(|told| fs::write(&file, told)).map_err(io(&file))?;
    let (argv, env) = launcher(enter::OUTER, file.as_os_str());
    let Some((program, args)) = argv.split_first() else { return Ok(false) };
    let mut command = Command::new(program);
    command.args(args).envs(env).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = command.status().map_err(io(&file))?;
    let is_kept = fs::read(place.join("old")).is_ok_and(|old| old == b"old");
    Ok(ended.success() && is_kept && upper.join("d/x").exists())
}
