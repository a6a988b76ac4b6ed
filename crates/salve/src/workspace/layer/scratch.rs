//! The private directory of a layer, from which its commands are started.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::plan::{LayerPlan, OverlayMount, PlanKind};
use super::{LayerCommand, LayerLaunch, LayerSight, enter, hidden, launcher, overlay_dirs};
use crate::sandbox;
use crate::workspace::error::WorkspaceError;
use crate::workspace::scratch_dir::ScratchDir;

/// The variables by which programs know where temporary files belong.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// The private directory of a layer; it is removed with this value.
#[derive(Debug)]
pub(super) struct LayerScratch {
    /// How many commands have been laid ready in it.
    commands: AtomicU32,
    place: ScratchDir,
}

impl LayerScratch {
    /// Makes one in `base`.
    pub(super) fn claim(base: &Path) -> Result<Self, WorkspaceError> {
        let place = ScratchDir::claim(base)?;
        let gone = base.to_path_buf();
        // What makers that were killed left may be large, and nobody waits for its removal.
        std::thread::spawn(move || drop(ScratchDir::left(&gone)));
        Ok(Self { commands: AtomicU32::new(0), place })
    }

    pub(super) fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// Makes the directories of an overlay of `place`.
    pub(super) fn overlay(
        &self,
        place: PathBuf,
        name: &str,
    ) -> Result<OverlayMount, WorkspaceError> {
        let (upper, work) = overlay_dirs(self.dir(), &place, name)?;
        let [place, upper, work] = [place, upper, work].map(PathBuf::into_os_string);
        Ok(OverlayMount { place, upper, work })
    }

    /// Lets a command that only Landlock holds put its temporary files here; returns the variables that
    /// tell it so.
    pub(super) fn open_to(&self, plan: &mut LayerPlan) -> [(OsString, OsString); 3] {
        let place = self.dir().as_os_str();
        plan.writable.push(place.to_owned());
        TEMPORARY.map(|name| (name.into(), place.to_owned()))
    }

    /// Lays a command ready and returns how it is started.
    pub(super) fn ready(
        &self,
        plan: &LayerPlan,
        mut env: Vec<(OsString, OsString)>,
    ) -> Result<LayerLaunch, WorkspaceError> {
        let count = self.commands.fetch_add(1, Ordering::Relaxed);
        let file = self.dir().join(format!("command{count}"));
        let told = serde_json::to_vec(plan).map_err(io::Error::other);
        told.and_then(|told| fs::write(&file, told)).map_err(WorkspaceError::io(&file))?;
        let (argv, also) = launcher(enter::OUTER, file.as_os_str());
        env.extend(also);
        Ok(LayerLaunch { argv, dir: PathBuf::from(&plan.dir), env })
    }
}

impl LayerPlan {
    /// Returns the plan of a command over the tree at `root`, without mounts.
    pub(super) fn of(command: &LayerCommand, root: &Path) -> Self {
        let hidden = || hidden::places().into_iter().filter(|place| !root.starts_with(place));
        Self {
            argv: command.argv.clone(),
            dir: command.dir.clone().into_os_string(),
            kind: PlanKind::Landlock,
            writable: command.writable.iter().map(|place| place.clone().into()).collect(),
            hidden: match command.sight {
                LayerSight::Agent => hidden().map(PathBuf::into_os_string).collect(),
                LayerSight::Check => Vec::new(),
            },
            owner: std::process::id(),
        }
    }
}

/// Overlays of what programs write besides their work: temporary files, and what tools download.
#[derive(Clone, Debug)]
pub(super) struct ThrowAway {
    pub(super) caches: Vec<OverlayMount>,
    pub(super) temporary: Vec<OverlayMount>,
}

impl ThrowAway {
    /// Makes their directories in a scratch directory that lies in `base`, for commands over the tree at `root`.
    pub(super) fn lay(
        scratch: &LayerScratch,
        base: &Path,
        root: &Path,
    ) -> Result<Self, WorkspaceError> {
        let lay = |place: PathBuf, name: String| scratch.overlay(place, &name);
        let temporary = super::temporary_places().into_iter().enumerate();
        let temporary = temporary.map(|(at, place)| lay(place, format!("temporary{at}")));
        let temporary = temporary.collect::<Result<_, WorkspaceError>>()?;
        let caches = sandbox::cache_places(root).into_iter();
        let caches = caches.filter(|place| !base.starts_with(place)).enumerate();
        let caches = caches.map(|(at, place)| lay(place, format!("cache{at}")));
        let caches = caches.collect::<Result<_, WorkspaceError>>()?;
        Ok(Self { caches, temporary })
    }
}

/// Returns a command that does nothing, to see whether it starts.
pub(super) fn trial(root: &Path) -> LayerCommand {
    let argv = ["/bin/sh", "-c", ":"].map(OsString::from).to_vec();
    let (dir, writable, sight) = (root.to_path_buf(), Vec::new(), LayerSight::Agent);
    LayerCommand { argv, dir, writable, sight }
}

/// Tells whether a command that was laid ready starts and ends well.
pub(super) fn can_start(launch: Result<LayerLaunch, WorkspaceError>) -> bool {
    launch.is_ok_and(|launch| run(launch).is_ok())
}

/// Runs a short command that was laid ready.
pub(super) fn run(launch: LayerLaunch) -> io::Result<()> {
    let (program, args) = launch.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).envs(launch.env).current_dir(launch.dir).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}", output.status, said.trim_end())))
}
