//! What people answer to the questions of a recovery, and what became of it.

use std::fmt;

use crate::event::EffectReport;
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
    pub(super) fn of(report: &EffectReport) -> Self {
        match report {
            EffectReport::Done => Fulfilment::Succeeded,
            EffectReport::Failed { exit: Some(_), .. } | EffectReport::TimedOut => {
                Fulfilment::Failed
            }
            EffectReport::Failed { exit: None, .. }
            | EffectReport::NoAgent
            | EffectReport::Measured(_)
            | EffectReport::Verified { .. } => Fulfilment::NotRun,
        }
    }
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionSettled {
    /// A person said yes.
    Approved,
    /// A person said no.
    Rejected,
    /// A person settled the matter otherwise.
    Resolved,
    /// Something else was proposed meanwhile.
    Superseded,
}

impl QuestionSettled {
    /// Returns the word for it in `escalation.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            QuestionSettled::Approved => "approved",
            QuestionSettled::Rejected => "rejected",
            QuestionSettled::Resolved => "resolved",
            QuestionSettled::Superseded => "superseded",
        }
    }
}

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryAnswer {
    /// Who.
    pub who: Option<Scrubbed>,
    /// What it settled.
    pub how: QuestionSettled,
    /// The command it was about, if it was about one.
    pub command: Option<Scrubbed>,
    /// What was remarked.
    pub note: Option<Scrubbed>,
}

impl RecoveryAnswer {
    /// Tells whether whoever plans next should know: a bare yes says nothing new.
    pub fn is_news(&self) -> bool {
        match self.how {
            QuestionSettled::Approved => self.note.is_some(),
            QuestionSettled::Rejected | QuestionSettled::Resolved => true,
            QuestionSettled::Superseded => false,
        }
    }
}

impl fmt::Display for RecoveryAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.who.as_ref().map_or("a person", Scrubbed::as_str);
        let (verb, how) = match self.how {
            QuestionSettled::Approved => ("approved", ""),
            QuestionSettled::Rejected => ("declined", ""),
            QuestionSettled::Resolved => ("settled", " by hand"),
            QuestionSettled::Superseded => ("was not asked again about", ""),
        };
        write!(f, "{who} {verb} ")?;
        match &self.command {
            Some(command) => write!(f, "the recovery `{command}`{how}")?,
            None => write!(f, "the recovery of the tests{how}")?,
        }
        self.note.as_ref().map_or(Ok(()), |note| write!(f, ": {note}"))
    }
}
