//! What this process knows of an incident besides the journal.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::check::Results;
use salve_core::check::proof::Colour;
use salve_core::event::Digest;
use salve_core::incident::Run as Effecting;
use salve_core::playbook::Diagnosis;

use crate::heal::cause::Evidence;
use crate::heal::shelf::Cure;
use crate::workspace::PackageGuard;

/// What this process knows of the incident besides the journal.
#[derive(Default)]
pub(super) struct Case {
    /// The effect that runs in this process.
    pub(super) effect: Option<Effecting>,
    /// What the first failure was found to be.
    pub(super) first: Option<Evidence>,
    /// What the last failure was found to be.
    pub(super) seen: Option<Evidence>,
    /// The failure that the present remedy is tried against.
    pub(super) tried: Option<Evidence>,
    /// What was made of its cause.
    pub(super) diagnosis: Option<Diagnosis>,
    /// What each remedy that was put to the gate would do.
    pub(super) cures: Vec<Cure>,
    /// The remedies that did not help, as far as this process tried them.
    pub(super) failed: Vec<Digest>,
    /// The state that the present repair left.
    pub(super) tree: Option<Digest>,
    /// How often it was only run again.
    pub(super) reruns: u32,
    /// The turns of agents that left everything as it was.
    pub(super) turns: Turns,
    /// Whether calling the agent again is of no use: it cannot work here and now.
    pub(super) agent_is_out: bool,
    /// Whether it is only being run again.
    pub(super) is_again: bool,
    /// Whether the present command changed files that a snapshot holds.
    pub(super) changed: bool,
    /// How the unrepaired state came out, each time that it ran.
    pub(super) earlier: Vec<Colour>,
    /// The change that may not have been needed, while that is found out.
    pub(super) doubt: Option<Doubt>,
    /// The installed packages as they were before the agent that works, where they are kept.
    pub(super) packages: Option<PackageGuard>,
    /// Since when no installed package was edited, if those that were are put back.
    pub(super) packages_since: Option<Timestamp>,
    /// What the green run that is being proven said.
    pub(super) green: Option<Results>,
    /// How long the last run that was red took.
    pub(super) took: Duration,
    /// Since which entry, and until when, proposals are waited for.
    pub(super) called: Option<(u64, Timestamp)>,
    /// The proposals of which it was said that the gate denies them.
    pub(super) denied: Vec<Digest>,
    /// Since when it has been paused.
    pub(super) paused: Option<Timestamp>,
    /// Why something could not be kept, so that it is said once.
    pub(super) complaint: Option<String>,
}

/// A change without which the check passed in a directory beside the tree.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Why it is in doubt.
    pub(super) why: String,
    /// Whether the tree is without it now.
    pub(super) tree: Tree,
}

/// How the tree is while a change is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// As it was before the change.
    Without,
    /// With the change again.
    With,
}

/// Turns of one model in a row that left everything as it was.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The model, if it was not the agent's own choice.
    pub(super) model: Option<String>,
    /// How many.
    pub(super) idle: u32,
}
