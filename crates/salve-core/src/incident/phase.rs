//! Where an incident stands, and what is known of the remedy in question.

use jiff::Timestamp;

use crate::event::{Authority, Change, Digest, Effect, IncidentOutcome, PersonQuestion, Remedy};
use crate::id::Signature;

/// Where an incident stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is chosen for the present symptom.
    Choosing,
    /// An effect is to run, not before `from`.
    Due {
        /// The effect.
        what: Effect,
        /// The earliest time.
        from: Timestamp,
    },
    /// An effect was requested and has not come back.
    Doing {
        /// The effect's number.
        effect: u32,
        /// The effect.
        what: Effect,
        /// When it was requested.
        since: Timestamp,
    },
    /// A person has to decide.
    Asking {
        /// The question's number, from 1.
        number: u32,
        /// The question.
        question: PersonQuestion,
        /// What an answer is bound to.
        digest: Digest,
        /// Whether the person was told.
        told: Told,
    },
    /// The budget is used up and nothing is tried for a while.
    CoolingDown {
        /// When that is over.
        until: Timestamp,
    },
    /// The outcome is clear and holds from `from`, unless the subject falls ill again.
    Ending {
        /// The outcome.
        outcome: IncidentOutcome,
        /// When the watch is over.
        from: Timestamp,
    },
    /// Over: no entry changes it any more, except that late costs are still charged.
    Closed(IncidentOutcome),
}

/// Whether the person who is asked knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Not yet.
    No,
    /// The effect of this number is telling them.
    Telling(u32),
    /// Yes.
    Yes,
}

/// The remedy in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The remedy.
    pub remedy: Remedy,
    /// On whose word it runs; `None` until somebody allowed it.
    pub authority: Option<Authority>,
    /// The failure it is tried against.
    pub signature: Signature,
    /// How far it got.
    pub reach: TrialReach,
    /// What it was found to have changed, once that was measured.
    pub measured: Option<Change>,
}

/// How far a trial got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialReach {
    /// Nothing has been done.
    Untouched,
    /// It was applied by the process that verifies it.
    Applied,
    /// It may have been applied, in part or whole, by a process that is gone.
    Unsure,
}

/// How a remedy that was considered fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsideredRemedy {
    /// The remedy's hash.
    pub digest: Digest,
    /// The failure it was meant for.
    pub signature: Signature,
    /// How it fared.
    pub fate: RemedyFate,
}

/// How a remedy fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemedyFate {
    /// It ran and did not help.
    Failed,
    /// The gate denied it.
    Denied,
    /// A person declined it or had it left out.
    Declined,
}

/// What an agent told about the present attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(super) attempt: u32,
    pub(super) engaged: Option<Timestamp>,
    pub(super) wrote: bool,
    pub(super) reported: Change,
}

/// An agent that Salve started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    /// The effect it was started for.
    pub(super) effect: u32,
    /// When it has ended at the latest.
    pub(super) until: Timestamp,
}

/// What follows when a change has been undone or a running effect has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Choose,
    Ask(PersonQuestion),
    End(IncidentOutcome),
}
