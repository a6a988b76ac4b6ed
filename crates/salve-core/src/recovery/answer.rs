//! What people answer to the questions of a recovery, and what became of it.

use std::fmt;

use crate::event::Report;
use crate::scrub::Scrubbed;

/// What became of a command that a person approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fulfilment {
    /// It has not run.
    NotRun,
    /// It was begun, and nobody has said how it ended.
    Running,
    /// It ended without an error.
    Succeeded,
    /// It ended with one, or outlived its time-out.
    Failed,
    /// Salve ended while it ran: it is verified, and never run again.
    Interrupted,
}

impl Fulfilment {
    /// Returns the word for it in `escalation.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Fulfilment::NotRun => "not_run",
            Fulfilment::Running => "running",
            Fulfilment::Succeeded => "succeeded",
            Fulfilment::Failed => "failed",
            Fulfilment::Interrupted => "interrupted",
        }
    }

    /// Returns what became of a command that reports so.
    pub(super) fn of(report: &Report) -> Self {
        match report {
            Report::Done => Fulfilment::Succeeded,
            Report::Failed { exit: Some(_), .. } | Report::TimedOut => Fulfilment::Failed,
            Report::Failed { exit: None, .. }
            | Report::NoAgent
            | Report::Measured(_)
            | Report::Verified { .. } => Fulfilment::NotRun,
        }
    }
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// A person said yes.
    Approved,
    /// A person said no.
    Rejected,
    /// A person settled the matter otherwise.
    Resolved,
    /// Something else was proposed meanwhile.
    Superseded,
}

impl Settled {
    /// Returns the word for it in `escalation.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Settled::Approved => "approved",
            Settled::Rejected => "rejected",
            Settled::Resolved => "resolved",
            Settled::Superseded => "superseded",
        }
    }
}

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who.
    pub who: Option<Scrubbed>,
    /// What it settled.
    pub how: Settled,
    /// The command it was about, if it was about one.
    pub command: Option<Scrubbed>,
    /// What was remarked.
    pub note: Option<Scrubbed>,
}

impl Answer {
    /// Tells whether whoever plans next should know: a bare yes says nothing new.
    pub fn is_news(&self) -> bool {
        match self.how {
            Settled::Approved => self.note.is_some(),
            Settled::Rejected | Settled::Resolved => true,
            Settled::Superseded => false,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.who.as_ref().map_or("a person", Scrubbed::as_str);
        let (verb, how) = match self.how {
            Settled::Approved => ("approved", ""),
            Settled::Rejected => ("declined", ""),
            Settled::Resolved => ("settled", " by hand"),
            Settled::Superseded => ("was not asked again about", ""),
        };
        write!(f, "{who} {verb} ")?;
        match &self.command {
            Some(command) => write!(f, "the recovery `{command}`{how}")?,
            None => write!(f, "the recovery of the tests{how}")?,
        }
        self.note.as_ref().map_or(Ok(()), |note| write!(f, ": {note}"))
    }
}
