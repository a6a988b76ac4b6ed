//! What a team tells Salve: issues, and proposals how to fix them.
//!
//! [`accept`] judges what comes in, the same for people and agents; [`Team`] is what the journal
//! knows; [`Team::ranked`] says in which order proposals are tried.
//!
//! **Invariant:** a proposal is written as it came or not at all: with a secret taken out it would
//! be another one.

pub mod accept;

pub use accept::{RawFix, RawIssue, Refused};

use jiff::Timestamp;

use crate::event::{Actor, Entry, Event, Fix, FixKind, IssueSettled, TeamEvent};
use crate::id::{IncidentId, IssueId};
use crate::scrub::Scrubbed;

/// The most issues that may be open.
pub const MOST_ISSUES: usize = 200;

/// The most proposals, and the most calls for them, about one thing.
pub const MOST_PROPOSALS: usize = 20;

/// What a proposal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// An incident of a check.
    Incident(IncidentId),
    /// A reported issue.
    Issue(IssueId),
}

/// An issue that somebody reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub id: IssueId,
    /// When it was reported.
    pub at: Timestamp,
    /// By whom.
    pub by: Actor,
    /// What is wrong.
    pub text: Scrubbed,
    /// The check that shows it.
    pub check: Option<Scrubbed>,
    /// The files it is about.
    pub files: Vec<Scrubbed>,
    /// Whether Salve may act on it.
    pub auto_fix: bool,
    pub settled: Option<IssueSettled>,
}

impl Issue {
    /// Returns whether Salve acts on it when it heals this check.
    pub fn is_for(&self, check: &str) -> bool {
        let names = self.check.as_ref().is_some_and(|named| named.as_str() == check);
        names && self.auto_fix && self.settled.is_none()
    }
}

/// A fix that somebody proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamProposal {
    /// Its place in the journal.
    pub seq: u64,
    /// When it was made.
    pub at: Timestamp,
    /// By whom.
    pub by: Actor,
    pub about: About,
    /// What is to be tried.
    pub fix: Fix,
    /// Why it should help.
    pub why: Option<Scrubbed>,
}

/// What the journal knows of what a team told.
#[derive(Clone, Debug, Default)]
pub struct Team {
    /// The issues, oldest first.
    pub issues: Vec<Issue>,
    /// The proposals, oldest first.
    pub proposals: Vec<TeamProposal>,
    /// What proposals were wanted for, oldest first, with the entry's number.
    pub wanted: Vec<(u64, About)>,
}

impl Team {
    /// Reads entries of the journal, oldest first; those of other kinds are passed over.
    pub fn of(entries: &[Entry]) -> Self {
        let mut team = Self::default();
        for entry in entries {
            team.hear(entry);
        }
        team
    }

    fn hear(&mut self, entry: &Entry) {
        let about = |issue: Option<IssueId>| match (issue, entry.incident) {
            (Some(issue), _) => Some(About::Issue(issue)),
            (None, Some(incident)) => Some(About::Incident(incident)),
            (None, None) => None,
        };
        match &entry.event {
            Event::Team(TeamEvent::IssueReported { issue: id, text, check, files, auto_fix }) => {
                let is_known = self.issues.iter().any(|issue| issue.id == *id);
                let (at, by) = (entry.at, entry.by.clone());
                let (text, check, files) = (text.clone(), check.clone(), files.clone());
                let (id, auto_fix, settled) = (*id, *auto_fix, None);
                let issue = Issue { id, at, by, text, check, files, auto_fix, settled };
                self.issues.extend((!is_known).then_some(issue));
            }
            Event::Team(TeamEvent::IssueSettled { issue: id, how })
                if may_settle(&entry.by, how) =>
            {
                if let Some(issue) = self.issues.iter_mut().find(|issue| issue.id == *id) {
                    issue.settled.get_or_insert_with(|| how.clone());
                }
            }
            Event::Team(TeamEvent::FixWanted { issue, .. }) => {
                self.wanted.extend(about(*issue).map(|about| (entry.seq, about)));
            }
            Event::Team(TeamEvent::FixProposed { issue, fix, why }) => {
                let Some(about) = about(*issue) else { return };
                let (by, fix, why) = (entry.by.clone(), fix.clone(), why.clone());
                self.proposals.push(TeamProposal {
                    seq: entry.seq,
                    at: entry.at,
                    by,
                    about,
                    fix,
                    why,
                });
            }
            _ => {}
        }
    }

    /// Returns the issues that are not settled.
    pub fn open(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter().filter(|issue| issue.settled.is_none())
    }

    /// Returns the issues that Salve acts on when it heals a check.
    pub fn of_check<'t>(&'t self, check: &'t str) -> impl Iterator<Item = &'t Issue> {
        self.issues.iter().filter(move |issue| issue.is_for(check))
    }

    /// Returns the proposals about one thing.
    pub fn about(&self, about: About) -> impl Iterator<Item = &TeamProposal> {
        self.proposals.iter().filter(move |proposal| proposal.about == about)
    }

    /// Returns what is proposed for these incidents of a check, in the order in which it is tried.
    pub fn ranked(&self, incidents: &[IncidentId], check: &str) -> Vec<&TeamProposal> {
        let issues: Vec<&Issue> = self.of_check(check).collect();
        let is_meant = |proposal: &&TeamProposal| match proposal.about {
            About::Incident(id) => incidents.contains(&id),
            About::Issue(id) => issues.iter().any(|issue| issue.id == id),
        };
        let is_reporters = |by: &Actor| issues.iter().any(|issue| issue.by == *by);
        let mut meant: Vec<&TeamProposal> = self.proposals.iter().filter(is_meant).collect();
        meant.sort_by_key(|one| (!is_reporters(&one.by), one.fix.kind, one.seq));
        meant
    }
}

/// Returns whether it is theirs to say that an issue is settled so.
fn may_settle(by: &Actor, how: &IssueSettled) -> bool {
    match how {
        IssueSettled::Green { .. } => by.process().is_some(),
        IssueSettled::Said { .. } => by.person().is_some(),
    }
}

/// Says in words that a fix was proposed.
pub fn proposed(fix: &Fix) -> String {
    match fix.kind {
        FixKind::Command => format!("proposed the command `{}`", first_line(&fix.text)),
        FixKind::Patch => {
            format!("proposed a patch of {} lines", fix.text.as_str().lines().count())
        }
        FixKind::Instruction => format!("proposed to tell an agent: {}", first_line(&fix.text)),
    }
}

/// Returns the first line of a text, not too long.
fn first_line(text: &Scrubbed) -> Scrubbed {
    text.lines().next().unwrap_or_default().head(200)
}

#[cfg(test)]
mod tests;
