//! Checks under care: run, and if red, healed until green, or told honestly why not.
//!
//! [`CheckSubject`] is one check. It runs the check and judges what a green run proves; the driver
//! does everything else. What takes time runs on a thread of its own and answers by its queue.

mod check_subject;
mod green_memory;
mod in_layer;
mod issues;
mod plan;
mod prove;
mod trials;

use salve_core::event::{EffectReport, Proof};
use salve_core::incident::DueEffect;

pub use check_subject::CheckSubject;
pub use plan::CheckTerms;
pub use trials::{CheckTrials, KeptVerifierFile, ShownInLayer, TrialOutcome};

use crate::heal::run::CommandRunEnd;

/// Something that happened to a check.
#[derive(Debug)]
enum CheckNews {
    /// The check's command came to its end.
    Ran {
        /// The effect that this run was to verify.
        verifies: Option<DueEffect>,
        /// How.
        ran: CommandRunEnd,
    },
    /// The runs that a proof needs came back.
    Tried {
        /// The effect that they are to verify.
        effect: DueEffect,
        /// What they showed.
        trials: Box<CheckTrials>,
    },
    /// The check ran in the private layer of an agent, and without its change.
    ShownInLayer {
        /// The effect that asked for it.
        effect: DueEffect,
        /// What it showed.
        shown: Box<ShownInLayer>,
    },
    /// The files were put into another state, to see how the check does there.
    Moved {
        /// The effect that is to be verified.
        effect: DueEffect,
        /// Whether that was possible.
        report: EffectReport,
    },
}

/// How the care of one check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckEnd {
    /// It was green at once.
    Green,
    /// It was red and is green, with this proof.
    Healed(Proof),
    /// It is red, and a person has to decide.
    NeedsPerson,
    /// It watches for edits instead of ending, so it says nothing.
    Watches,
    /// It is red, and was called off.
    CalledOff,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}
