//! What a team tells Salve, in the journal: issues, calls for help, and proposals.
//!
//! `salve report` and the tools of agents come through here, so both are held to the same rules.
//!
//! **Invariant:** nothing here runs anything: a proposal is only written down, and whoever heals
//! puts it to the gate.

mod tool_patch;
mod view;

pub use tool_patch::{
    ProposedToolPatch, RawToolPatch, find_tool_patch, propose_tool_patch, tool_patch_digest,
};
pub use view::{OpenIncident, OpenIssue, OpenProposal, OpenTeamWork, open};

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Entry, Event, IssueSettled, SubjectKind, TeamEvent};
use salve_core::id::{IncidentId, IssueId};
use salve_core::incident::{Incident, Phase};
use salve_core::scrub::Scrubber;
use salve_core::team::{
    About, MOST_ISSUES, MOST_PROPOSALS, RawFix, RawIssue, Refused, Team, accept,
};

use crate::store::{Appended, Store, StoreError, Stream, StreamPosition};

/// How many entries back one looks.
const LOOKED_BACK: usize = 5_000;

/// How often what changed meanwhile is looked at again.
const TRIES: usize = 8;

/// Why what a team says is not taken.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// It does not fit.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No open incident and no open issue has this id.
    #[error("no open issue or incident has the id `{0}`")]
    Unknown(String),
    /// The id fits several.
    #[error("several ids begin with `{0}`")]
    Ambiguous(String),
    /// Salve knows nothing of this project.
    #[error("Salve has cared for nothing in this project yet")]
    NoProject,
    /// Only a person may say this.
    #[error("only a person may say that an issue is settled")]
    NotAPerson,
    /// Others kept writing.
    #[error("others keep writing about this")]
    Restless,
    /// The journal cannot be used.
    #[error("the journal cannot be used: {0}")]
    Store(#[from] StoreError),
}

impl TeamError {
    /// Returns what can be done about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Refused(refused) => refused.advice(),
            Self::Unknown(_) => "See what is open: heal_get_open_issues, or `salve report`.".into(),
            Self::Ambiguous(_) => "Give the whole id.".into(),
            Self::NoProject => "Ask the user to run `salve heal -- COMMAND` once.".into(),
            Self::NotAPerson => "Ask the person you work for.".into(),
            Self::Restless => "Try again.".into(),
            Self::Store(error) => error.advice(),
        }
    }
}

/// An issue that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssueReceipt {
    pub issue: IssueId,
    /// Whether it was known before.
    pub is_known: bool,
}

/// Reads what the team told so far.
pub fn read(store: &Store) -> Result<Team, StoreError> {
    Ok(Team::of(&entries(store)?))
}

fn entries(store: &Store) -> Result<Vec<Entry>, StoreError> {
    store.journal().tail(&Stream::Team, LOOKED_BACK)
}

/// Writes what `word` makes of what the team told so far, unless others were faster; `Err` of
/// `word` is passed on, `None` writes nothing.
fn say<T>(
    store: &Store,
    by: &Actor,
    mut word: impl FnMut(&Team) -> Result<(T, Option<(Option<IncidentId>, Event)>), TeamError>,
) -> Result<T, TeamError> {
    for _ in 0..TRIES {
        let known = entries(store)?;
        let after = known.last().map_or(0, |entry| entry.seq);
        let (answer, said) = word(&Team::of(&known))?;
        let Some((incident, event)) = said else { return Ok(answer) };
        let draft = Draft { at: Timestamp::now(), by: by.clone(), incident, event };
        let unless = StreamPosition { stream: Stream::Team, after };
        match store.journal().append_after(&unless, vec![draft])? {
            Appended::Written(_) => return Ok(answer),
            Appended::Refused(_) => {}
        }
    }
    Err(TeamError::Restless)
}

/// Takes an issue in; the same one that is open already is not written twice.
pub fn report(
    store: &Store,
    by: &Actor,
    raw: &RawIssue,
    checks: &[String],
    scrubber: &Scrubber,
) -> Result<IssueReceipt, TeamError> {
    let id = IssueId(uuid::Uuid::new_v4());
    let event = accept::issue(id, raw, checks, scrubber)?;
    say(store, by, |team| {
        let alike = team.open().find(|known| {
            matches!(&event, Event::Team(TeamEvent::IssueReported { text, check, files, auto_fix, .. })
                if (text, check, files, *auto_fix)
                    == (&known.text, &known.check, &known.files, known.auto_fix))
        });
        if let Some(known) = alike {
            return Ok((IssueReceipt { issue: known.id, is_known: true }, None));
        }
        let open = team.open().count();
        if open >= MOST_ISSUES {
            return Err(Refused::TooMany(open).into());
        }
        Ok((IssueReceipt { issue: id, is_known: false }, Some((None, event.clone()))))
    })
}

/// Takes a proposal in, about the incident or issue whose id begins with `given`.
pub fn propose(
    store: &Store,
    by: &Actor,
    given: &str,
    raw: &RawFix,
    scrubber: &Scrubber,
) -> Result<About, TeamError> {
    let (fix, why) = accept::fix(raw, scrubber)?;
    say(store, by, |team| {
        let about = find(store, team, given, scrubber)?;
        if team.about(about).any(|known| known.fix == fix) {
            return Ok((about, None));
        }
        let made = team.about(about).count();
        if made >= MOST_PROPOSALS {
            return Err(Refused::TooMany(made).into());
        }
        let (incident, issue) = address(about);
        let event =
            Event::Team(TeamEvent::FixProposed { issue, fix: fix.clone(), why: why.clone() });
        Ok((about, Some((incident, event))))
    })
}

/// Asks everybody for proposals about the incident or issue whose id begins with `given`.
pub fn want(
    store: &Store,
    by: &Actor,
    given: &str,
    note: Option<&str>,
    scrubber: &Scrubber,
) -> Result<About, TeamError> {
    let note = accept::note("message", note, scrubber)?;
    say(store, by, |team| {
        let about = find(store, team, given, scrubber)?;
        let asked = team.wanted.iter().filter(|(_, of)| *of == about).count();
        if asked >= MOST_PROPOSALS {
            return Err(Refused::TooMany(asked).into());
        }
        let (incident, issue) = address(about);
        Ok((
            about,
            Some((incident, Event::Team(TeamEvent::FixWanted { issue, note: note.clone() }))),
        ))
    })
}

/// Takes in that an issue is settled, as a person says.
pub fn settle(
    store: &Store,
    by: &Actor,
    given: &str,
    note: Option<&str>,
    scrubber: &Scrubber,
) -> Result<IssueId, TeamError> {
    if by.person().is_none() {
        return Err(TeamError::NotAPerson);
    }
    let note = accept::note("note", note, scrubber)?;
    say(store, by, |team| match find(store, team, given, scrubber)? {
        About::Issue(issue) => {
            let how = IssueSettled::Said { note: note.clone() };
            Ok((issue, Some((None, Event::Team(TeamEvent::IssueSettled { issue, how })))))
        }
        About::Incident(_) => Err(unknown(given, scrubber)),
    })
}

fn address(about: About) -> (Option<IncidentId>, Option<IssueId>) {
    match about {
        About::Incident(id) => (Some(id), None),
        About::Issue(id) => (None, Some(id)),
    }
}

/// Returns the open issue, or the open incident of a check, whose id begins with `given`.
fn find(store: &Store, team: &Team, given: &str, scrubber: &Scrubber) -> Result<About, TeamError> {
    let digits = given.trim();
    let bare = ["heal-", "issue-"].iter().find_map(|kind| digits.strip_prefix(kind));
    let digits: String = bare.unwrap_or(digits).chars().filter(|c| *c != '-').take(40).collect();
    let is_hex = digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    if !(4..=32).contains(&digits.len()) || !is_hex {
        return Err(unknown(given, scrubber));
    }
    let is_meant = |id: IssueId| id.0.simple().to_string().starts_with(&digits);
    let issues = team.open().map(|issue| issue.id).filter(|id| is_meant(*id)).map(About::Issue);
    let mut found: Vec<About> = issues.collect();
    for id in store.journal().incidents_like(&digits)? {
        if is_open_check(store, id)? {
            found.push(About::Incident(id));
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(unknown(given, scrubber)),
        _ => Err(TeamError::Ambiguous(digits)),
    }
}

fn unknown(given: &str, scrubber: &Scrubber) -> TeamError {
    let given: String = given.chars().take(60).collect();
    TeamError::Unknown(scrubber.scrub(&given).into_string())
}

fn is_open_check(store: &Store, id: IncidentId) -> Result<bool, StoreError> {
    let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX)?;
    Ok(Incident::replay(&entries).is_ok_and(|incident| is_for_a_team(&incident)))
}

/// Returns whether proposals about an incident are of use.
fn is_for_a_team(incident: &Incident) -> bool {
    let is_driven = match incident.subject().kind {
        SubjectKind::Server | SubjectKind::Check | SubjectKind::Iteration => true,
        SubjectKind::Tool | SubjectKind::Step => false,
    };
    is_driven && !matches!(incident.phase(), Phase::Closed(_))
}
