//! A tree that an agent works in itself, while the rest of the machine is out of its reach.
//!
//! It is for a tree that is nobody's work in progress, such as the workspace of a job, whose checkpoints
//! are the way back. Everything else is as in a [`PrivateLayer`](super::PrivateLayer).
//!
//! **Invariant:** what runs here writes to the tree, to the places that are named and to what is thrown
//! away, and to nothing else.

use std::path::{Path, PathBuf};

use super::plan::{LayerMounts, LayerPlan, PlanKind};
use super::scratch::{self, LayerScratch, ThrowAway};
use super::{LayerCommand, LayerError, LayerLaunch, LayerMeans};
use crate::workspace::error::WorkspaceError;
use crate::workspace::shadow;

/// A tree in which commands work while the rest of the machine is out of their reach.
#[derive(Debug)]
pub struct HeldTree {
    root: PathBuf,
    /// What is covered and thrown away; without it only Landlock holds the commands.
    throw_away: Option<ThrowAway>,
    scratch: LayerScratch,
}

impl HeldTree {
    /// Holds commands to a tree as this machine can.
    ///
    /// # Errors
    ///
    /// When nothing on this machine can hold them, or what it needs cannot be made.
    pub fn over(root: &Path) -> Result<Self, LayerError> {
        let held = Self::by(root, LayerMeans::here())?;
        if scratch::can_start(held.launch(&scratch::trial(root))) {
            return Ok(held);
        }
        Self::by(root, &LayerMeans::Copy)
    }

    /// Holds them by certain means.
    pub(super) fn by(root: &Path, means: &LayerMeans) -> Result<Self, LayerError> {
        let root = root.to_path_buf();
        match means {
            // The kernel takes no upper directory that lies in what it covers.
            LayerMeans::Overlay { base } if !base.starts_with(&root) => {
                let scratch = LayerScratch::claim(base)?;
                let throw_away = Some(ThrowAway::lay(&scratch, base, &root)?);
                Ok(Self { root, throw_away, scratch })
            }
            LayerMeans::Overlay { .. } | LayerMeans::Copy => {
                let scratch = LayerScratch::claim(&shadow::usual_base())?;
                Ok(Self { root, throw_away: None, scratch })
            }
            LayerMeans::None => Err(LayerError::Unheld),
        }
    }

    /// Lays a command ready and returns how it is started.
    ///
    /// # Errors
    ///
    /// When what it is told cannot be written.
    pub fn launch(&self, command: &LayerCommand) -> Result<LayerLaunch, WorkspaceError> {
        let mut plan = LayerPlan::of(command, &self.root);
        plan.writable.push(self.root.clone().into_os_string());
        let env = match &self.throw_away {
            Some(ThrowAway { caches, temporary }) => {
                let (caches, temporary) = (caches.clone(), temporary.clone());
                let mounts = LayerMounts { caches, temporary, ..LayerMounts::default() };
                plan.kind = PlanKind::Mounts(mounts);
                Vec::new()
            }
            None => self.scratch.open_to(&mut plan).to_vec(),
        };
        self.scratch.ready(&plan, env)
    }
}
