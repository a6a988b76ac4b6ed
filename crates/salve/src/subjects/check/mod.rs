//! Checks under care: run, and if red, healed until green, or told honestly why not.
//!
//! [`CheckSubject`] is one check. It runs the check and judges what a green run proves; the driver
//! does everything else. What takes time runs on a thread of its own and answers by its queue.

mod check_subject;
mod issues;
mod plan;
mod prove;
mod trials;

use salve_core::event::{Proof, Report};
use salve_core::incident::Run;

pub use check_subject::CheckSubject;
pub use plan::CheckTerms;
pub use trials::{Kept, Trial, Trials};

use crate::heal::run::Ran;

/// Something that happened to a check.
#[derive(Debug)]
enum CheckNews {
    /// The check's command came to its end.
    Ran {
        /// The effect that this run was to verify.
        verifies: Option<Run>,
        /// How.
        ran: Ran,
    },
    /// The runs that a proof needs came back.
    Tried {
        /// The effect that they are to verify.
        effect: Run,
        /// What they showed.
        trials: Box<Trials>,
    },
    /// The files were put into another state, to see how the check does there.
    Moved {
        /// The effect that is to be verified.
        effect: Run,
        /// Whether that was possible.
        report: Report,
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
    /// It is red, and was called off.
    CalledOff,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}
