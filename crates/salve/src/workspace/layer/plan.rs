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
    /// Overlays, mounted in this order.
    Overlay {
        /// Overlays of caches, mounted before the others; without one, that cache is read-only.
        caches: Vec<OverlayMount>,
        /// Each of them.
        overlays: Vec<OverlayMount>,
    },
    /// A copy, which is among what may be written to.
    Copy,
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
