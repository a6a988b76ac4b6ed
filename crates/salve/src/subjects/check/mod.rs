//! Checks under care: run, and if red, healed until green, or told honestly why not.
//!
//! [`Clinic`] holds what all checks of one run share; [`Clinic::heal`] takes one check to its end.
//! As with servers there is one thread and one inbox: what takes time (the check itself, a remedy,
//! a snapshot, an agent) runs on a thread of its own and answers by the inbox. What is decided
//! comes from core.

mod agents;
mod breakers;
mod case;
mod checkup;
mod context;
mod doubt;
mod effects;
mod installed;
mod learn;
mod offers;
mod plan;
mod prove;
mod quest;
mod records;
mod recover;
mod remedies;
mod resumed;
mod run;
mod stages;
mod state;
mod team;
mod tell;
mod trials;

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use salve_core::event::{Amounts, Digest, Entry, Proof, Report};
use salve_core::fingerprint::Rules;
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Run as Effecting};
use salve_core::scrub::Scrubbed;

pub use crate::heal::run::Ran;
pub use plan::{CheckPlan, HealPlan};
pub use records::{RecordError, Records};
pub use trials::{Kept, Trial, Trials};

use crate::agent::AgentEvent;
use crate::heal::agents::Agents;
use crate::heal::shelf::Shelf;
use crate::heal::{Desk, Presence};
use crate::process::Care;
use crate::project::Project;
use crate::workspace::FileChange;

/// Something that reached a check's care.
#[derive(Debug)]
pub enum Input {
    /// The check's command came to its end.
    Ran {
        /// The effect that this run was to verify.
        verifies: Option<Effecting>,
        /// How.
        ran: Ran,
    },
    /// An effect came back.
    Done {
        /// The effect.
        effect: Effecting,
        /// What it reports.
        report: Report,
    },
    /// The state that a repair left was measured.
    Measured {
        /// The effect that changed it, or measured it.
        effect: Effecting,
        /// The hash of that state.
        tree: Digest,
        /// The files that changed.
        files: Vec<FileChange>,
    },
    /// The runs that a proof needs came back.
    Tried {
        /// The effect that they are to verify.
        effect: Effecting,
        /// What they showed.
        trials: Box<Trials>,
    },
    /// The files were put into another state, to see how the check does there.
    Moved {
        /// The effect that is to be verified.
        effect: Effecting,
        /// Whether that was possible.
        report: Report,
    },
    /// An agent of ours did something.
    Agent {
        /// The effect that it was started for.
        effect: Effecting,
        /// What it did.
        event: AgentEvent,
    },
    /// Entries that appeared in the journal.
    Journal(Vec<Entry>),
    /// Something that a person should know.
    Note(String),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// How the care of one check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
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

/// What is shown to whoever runs the checks.
pub trait Face {
    /// A check's incident took in an entry.
    fn entry(&mut self, check: &str, incident: &Incident, entry: &Entry);
    /// Something about a check that is no part of an incident.
    fn remark(&mut self, check: &str, remark: &Remark);
}

/// Something about a check that is no part of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It is about to run.
    Running {
        /// What runs.
        command: Scrubbed,
    },
    /// It is green.
    Green {
        /// How long it took.
        took: Duration,
    },
    /// What a green check was found to prove.
    Judged {
        /// The proof.
        proof: Proof,
        /// Why.
        why: Scrubbed,
    },
    /// An earlier run of Salve asked, and nobody has answered yet.
    Asks {
        /// The incident that asks.
        incident: IncidentId,
    },
    /// Something that a person should know.
    Note(Scrubbed),
}

/// What all checks of one run share.
pub struct Clinic<'a> {
    /// The project.
    pub project: Project,
    /// Where incidents meet the journal.
    pub desk: Desk<'a>,
    /// What starts and ends processes.
    pub care: Care,
    /// What recognises failures.
    pub rules: &'a Rules,
    /// Where remedies are taken from.
    pub shelf: Shelf<'a>,
    /// How healing goes.
    pub heal: HealPlan,
    /// What is kept of heals beside the journal.
    pub records: Records,
    /// What it takes to start agents, where they are.
    pub agents: Option<Agents<'a>>,
    /// Where everything arrives, and how to get there.
    pub inbox: (Sender<Input>, Receiver<Input>),
    /// Who is shown what happens.
    pub face: &'a mut dyn Face,
    /// Whether somebody is there.
    pub presence: Presence,
    /// The person who wants the checks run, if a person does.
    pub by: Option<salve_core::event::Actor>,
    /// What all heals of this run have cost so far.
    pub spent: Amounts,
    /// Processes that checks and agents of this run left behind.
    pub orphans: usize,
}
