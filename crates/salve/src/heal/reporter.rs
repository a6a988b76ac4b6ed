//! What is shown to whoever started a run.

use std::time::Duration;

use salve_core::event::{Entry, ProcessExit, Proof};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::scrub::Scrubbed;

/// Shows what happens to the subjects of a run.
pub trait Reporter {
    /// A subject's incident took in an entry.
    fn entry(&mut self, subject: &str, incident: &Incident, entry: &Entry);
    /// Something about a subject that is no part of an incident.
    fn remark(&mut self, subject: &str, remark: &Remark);
}

/// Something about a subject that is no part of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A server was started.
    Started {
        /// What runs.
        command: Scrubbed,
    },
    /// A server was found well.
    Well {
        /// Where it answers.
        url: Option<Scrubbed>,
        /// How long that took.
        after: Duration,
        /// The status of its answer, if that was asked for by HTTP.
        status: Option<u16>,
    },
    /// A server whose incident waits for a person is started again.
    TriedAgain {
        /// What runs.
        command: Scrubbed,
        why: Scrubbed,
    },
    /// A server that was started again while its incident waits for a person failed as before.
    StillFails {
        /// The line that says why.
        line: Scrubbed,
        /// What it waits for, if that is known.
        missing: Option<String>,
    },
    /// A server was found well after a remedy; the incident tells the rest.
    Verified {
        /// Where it answers.
        url: Option<Scrubbed>,
        /// How long it stayed so.
        soak: Duration,
    },
    /// A server ended by itself, as it should.
    Ended {
        /// How.
        exit: ProcessExit,
    },
    /// A server was stopped because somebody wanted it.
    Stopped,
    /// A server starts on another port, since another worktree of the repository holds its own.
    Moved {
        /// What happened, in words.
        text: Scrubbed,
        /// The port that it gets.
        port: u16,
    },
    /// A check is about to run.
    Running {
        /// What runs.
        command: Scrubbed,
    },
    /// A check is green.
    Green {
        /// How long it took.
        took: Duration,
    },
    /// A check watches for edits instead of ending, so it was ended.
    Watches {
        /// The command that does the same once, if that is known.
        once: Option<String>,
    },
    /// What a green check was found to prove.
    Judged { proof: Proof, why: Scrubbed },
    /// An earlier run of Salve asked, and nobody has answered yet.
    Asks {
        /// The incident that asks.
        incident: IncidentId,
    },
    /// The run ends while an incident cools down, so a person has to act.
    LeftToPerson { incident: IncidentId },
    /// Something that a person should know.
    Note(Scrubbed),
}
