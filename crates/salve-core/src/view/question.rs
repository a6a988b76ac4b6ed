//! The questions of an incident to a person, and what became of each.

use std::fmt;

use jiff::Timestamp;

use super::IncidentView;
use crate::event::{Digest, PersonQuestion, RemedyVerdict};
use crate::scrub::Scrubbed;

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedQuestion {
    /// Its number within the incident, from 1.
    pub number: u32,
    /// What is asked.
    pub question: PersonQuestion,
    /// What an answer is bound to.
    pub digest: Digest,
    /// When it was first asked.
    pub at: Timestamp,
    /// The entry that led to it.
    pub seq: u64,
    /// Why a person is needed, in a few words.
    pub reason: Scrubbed,
    /// The command it is about, if it is about one.
    pub command: Option<Scrubbed>,
    /// How it was settled, if it is.
    pub settled: Option<SettledQuestion>,
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledQuestion {
    pub how: QuestionSettled,
    /// The entry that settled it.
    pub seq: u64,
    /// How long that took.
    pub took_ms: u64,
}

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
pub struct GivenAnswer {
    pub who: Option<Scrubbed>,
    /// What it settled.
    pub how: QuestionSettled,
    /// The command it was about, if it was about one.
    pub command: Option<Scrubbed>,
    /// What was remarked.
    pub note: Option<Scrubbed>,
}

impl GivenAnswer {
    /// Tells whether whoever plans next should know: a bare yes says nothing new.
    pub fn is_news(&self) -> bool {
        match self.how {
            QuestionSettled::Approved => self.note.is_some(),
            QuestionSettled::Rejected | QuestionSettled::Resolved => true,
            QuestionSettled::Superseded => false,
        }
    }
}

impl fmt::Display for GivenAnswer {
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

/// Returns why a person is needed, in the few words that a loop's files have for it.
pub(super) fn short_reason(view: &IncidentView, question: PersonQuestion) -> Scrubbed {
    let last = view.remedies().last();
    let literal = match question {
        PersonQuestion::Remedy => match last {
            Some(remedy) => return remedy.reason.clone(),
            None => "the command is not in auto_approve",
        },
        PersonQuestion::NothingLeft => {
            let denied = last.filter(|remedy| remedy.verdict == RemedyVerdict::Deny);
            let finding = view.incident().findings().first().map(|finding| &finding.what);
            let known = view.trouble().or(denied.map(|remedy| &remedy.reason)).or(finding);
            match known {
                Some(known) => return known.clone(),
                None => "nothing is known to try",
            }
        }
        PersonQuestion::ChangeTooLarge => "the change is larger than may stay without a person",
        PersonQuestion::Conflict => "the repair and a person edited the same lines",
        PersonQuestion::Exhausted(_) => "the recovery's budget is used up",
        PersonQuestion::NoProgress => "the same failure keeps coming back",
        PersonQuestion::RollBackFailed => "a change that did not help could not be undone",
        PersonQuestion::SnapshotFailed => "the files could not be kept safe before the command",
        PersonQuestion::Masked => "the tests only looked well",
        PersonQuestion::Flaky => "the tests execute and do not by turns",
        PersonQuestion::MayHaveActed => "a command may or may not have acted",
        PersonQuestion::Tripped(_) => "a breaker stopped recovery",
        PersonQuestion::Ordered => "a person wanted to be asked",
    };
    Scrubbed::literal(literal)
}
