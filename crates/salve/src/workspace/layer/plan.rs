//! What the process is told that becomes a command in a layer.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// A command and its layer. Both sides are the same program, so it needs no version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerPlan {
    /// The program and its arguments.
    pub(super) argv: Vec<OsString>,
    /// Where it starts.
    pub(super) dir: OsString,
    /// What the layer is made of.
    pub(super) kind: PlanKind,
    /// What it may write to outside of the layer.
    pub(super) writable: Vec<OsString>,
    /// What it must not see, although it could else be read or connected to.
    pub(super) hidden: Vec<OsString>,
    /// The process that starts it, with which it ends.
    pub(super) owner: u32,
}

/// What the layer is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PlanKind {
    /// Mounts in namespaces of its own.
    Mounts(LayerMounts),
    /// No namespaces: Landlock keeps the command to what it may write to.
    Landlock,
}

/// What is mounted, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerMounts {
    /// Overlays of caches; without one, that cache is read-only.
    pub(super) caches: Vec<OverlayMount>,
    /// Overlays of places for temporary files.
    pub(super) temporary: Vec<OverlayMount>,
    /// The overlay of the tree, which may lie among temporary files; without one the tree is among what
    /// may be written to.
    pub(super) tree: Option<OverlayMount>,
    /// Overlays of what else is mounted in the tree, which that of the tree does not show.
    pub(super) inner: Vec<OverlayMount>,
}

/// One overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OverlayMount {
    /// The directory that it covers.
    pub(super) place: OsString,
    /// Where the changes go.
    pub(super) upper: OsString,
    /// Where the kernel prepares them.
    pub(super) work: OsString,
}
