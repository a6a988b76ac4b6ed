//! Where an incident stands, and what is known of the remedy in question.

use jiff::Timestamp;

use super::agent_watch::AgentWait;
use crate::event::{
    Authority, Change, Digest, Effect, IncidentOutcome, PersonQuestion, Remedy, RemedyKind,
};
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
        outcome: IncidentOutcome,
        /// When the watch is over.
        from: Timestamp,
    },
    /// Over: no entry changes it any more, except that late costs are still charged.
    Closed(IncidentOutcome),
}

impl Phase {
    /// Returns whether the effect of this number was requested and has not come back.
    pub(super) fn is_running(&self, effect: u32) -> bool {
        match *self {
            Self::Doing { effect: running, .. }
            | Self::Asking { told: Told::Telling(running), .. } => running == effect,
            Self::Choosing
            | Self::Due { .. }
            | Self::Asking { .. }
            | Self::CoolingDown { .. }
            | Self::Ending { .. }
            | Self::Closed(_) => false,
        }
    }

    /// Returns the effect in which an agent is waited for, if the remedy in question is one.
    pub(super) fn agent_wait(&self, remedy: Option<RemedyKind>) -> Option<AgentWait> {
        match *self {
            Self::Doing { effect, what: Effect::Apply { .. }, since }
                if remedy == Some(RemedyKind::Agent) =>
            {
                Some(AgentWait { effect, since })
            }
            Self::Choosing
            | Self::Due { .. }
            | Self::Doing { .. }
            | Self::Asking { .. }
            | Self::CoolingDown { .. }
            | Self::Ending { .. }
            | Self::Closed(_) => None,
        }
    }

    /// Lets go of it; nobody watches a healed subject any more, so its next failure is another.
    pub(super) fn let_go(&mut self, now: Timestamp) {
        if let Self::Ending { from, .. } = self {
            *from = (*from).min(now);
        }
    }
}

/// Whether the person who is asked knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Not yet.
    No,
    /// The effect of this number is telling them.
    Telling(u32),
    Yes,
}

/// The remedy in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub remedy: Remedy,
    /// On whose word it runs; `None` until somebody allowed it.
    pub authority: Option<Authority>,
    /// The failure it is tried against.
    pub signature: Signature,
    /// How far it got.
    pub reach: TrialReach,
    /// Where its change was made.
    pub ground: TrialGround,
    /// What it was found to have changed, once that was measured.
    pub measured: Option<Change>,
}

impl Trial {
    /// Tells whether what changed meanwhile is known to be the remedy's own work.
    ///
    /// Whoever edits files beside an agent in the workspace itself cannot be told from it, and of a remedy
    /// that a kill cut short nobody knows what it did and what was edited since.
    pub fn is_attributable(&self) -> bool {
        match (self.ground, self.reach) {
            (TrialGround::Layer, _) => true,
            (TrialGround::Workspace, TrialReach::Unsure) => false,
            (
                TrialGround::Workspace,
                TrialReach::Untouched | TrialReach::InLayer | TrialReach::Applied,
            ) => self.remedy.kind != RemedyKind::Agent,
        }
    }
}

/// Where a trial's change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialGround {
    /// In the workspace itself.
    Workspace,
    /// In a private layer over it.
    Layer,
}

/// How far a trial got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialReach {
    /// Nothing has been done.
    Untouched,
    /// It acts, or acted, in a private layer; the workspace is as it was.
    InLayer,
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
    /// Whoever applied it was gone before it had ended: it may have run in part, and would perhaps
    /// have helped.
    CutShort,
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
