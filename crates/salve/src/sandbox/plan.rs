//! What a process is told that takes the bounds on itself and then becomes the command.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::means::{Processes, Sockets, Spaces};
use super::sockets::Kinds;
use crate::config::Network;

/// A command with its bounds. Both sides are the same program, so it needs no version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SandboxPlan {
    /// The program and its arguments.
    pub(super) argv: Vec<OsString>,
    /// Its whole environment, but for the marks by which Salve knows its processes.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Whether the kernel is to hold it.
    pub(super) hold: Hold,
    /// Files and directories that it may write to.
    pub(super) writes: Vec<OsString>,
    /// Directories that it may write to without changing them, parents first.
    pub(super) thrown: Vec<ThrownPlace>,
    /// Directories that it may write to but not move or remove, parents first; all are there.
    pub(super) pinned: Vec<OsString>,
    /// What it may not write to although it lies below such a directory; all are there.
    pub(super) sealed: Vec<OsString>,
    /// What it may write to although it lies below something sealed; all are there.
    pub(super) reopened: Vec<OsString>,
    /// Sockets of other programs that it must not reach.
    pub(super) covered: Vec<OsString>,
    /// Whether its system calls can be filtered.
    pub(super) calls: Sockets,
    /// The namespaces it gets.
    pub(super) spaces: Spaces,
    /// Whether it sees no processes but its own.
    pub(super) processes: Processes,
    /// What it reaches by network.
    pub(super) network: Network,
    /// The ports it may connect to if that is the web.
    pub(super) ports: Vec<u16>,
    /// The sockets it can make, if the kernel can say.
    pub(super) sockets: Option<Kinds>,
    /// A list of name servers, and in whose place it belongs.
    pub(super) servers: Option<(OsString, OsString)>,
    /// How much processor time each of its processes may use, in seconds.
    pub(super) cpu_seconds: u64,
    /// The process that wants it run, with which it ends.
    pub(super) parent: u32,
    /// Where to say why it was not run.
    pub(super) refusal: OsString,
    /// Where to say which signal ended it, if its exit code cannot.
    pub(super) signal: OsString,
}

/// Whether the kernel holds a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Hold {
    /// It must; else the command is not run.
    Must,
    /// It cannot on this machine, and a person has agreed.
    Cannot,
}

/// A directory whose changes end with the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ThrownPlace {
    /// The directory.
    pub(super) place: OsString,
    /// Where the changes go, for the time being.
    pub(super) upper: OsString,
    /// Where the kernel works on them.
    pub(super) work: OsString,
}
