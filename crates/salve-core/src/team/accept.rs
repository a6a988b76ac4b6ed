//! What may be reported and proposed: the same for people and agents.

use crate::event::{Event, Fix, FixKind, TeamEvent};
use crate::id::IssueId;
use crate::scrub::{Scrubbed, Scrubber};

/// The longest text of an issue, a reason or a note, in bytes.
pub const LONGEST_TEXT: usize = 4_000;
/// The most files that an issue names.
pub const MOST_FILES: usize = 50;
/// The longest path, in bytes.
pub const LONGEST_PATH: usize = 400;
/// The longest command or instruction, in bytes.
pub const LONGEST_WORDS: usize = 8_000;
/// The longest patch, in bytes.
pub const LONGEST_PATCH: usize = 64 << 10;

/// An issue as it came in.
#[derive(Clone, Debug, Default)]
pub struct RawIssue {
    /// What is wrong.
    pub text: String,
    /// The check that shows it.
    pub check: Option<String>,
    /// The files it is about.
    pub files: Vec<String>,
    /// Whether Salve may act on it.
    pub auto_fix: bool,
}

/// A proposal as it came in.
#[derive(Clone, Debug, Default)]
pub struct RawFix {
    /// `command`, `patch` or `instruction`.
    pub kind: String,
    /// What is to be tried.
    pub text: String,
    /// Why it should help.
    pub why: Option<String>,
}

/// Why something is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It says nothing.
    #[error("the {0} is empty")]
    Empty(&'static str),
    /// It is longer than what is kept.
    #[error("the {what} is longer than {most} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// It has characters that would not be seen, or would be seen as something else.
    #[error("the {0} holds characters that cannot be shown")]
    Unseen(&'static str),
    /// There is no such check.
    #[error("there is no check `{given}`")]
    NoCheck {
        given: Scrubbed,
        /// The checks there are.
        known: Vec<String>,
    },
    /// It names more files than are kept.
    #[error("more than {MOST_FILES} files are named")]
    TooManyFiles,
    /// A path leads out of the project.
    #[error("`{0}` is no path below the project's directory")]
    Outside(Scrubbed),
    /// There is no such kind of fix.
    #[error("`{0}` is no kind of fix")]
    NoKind(Scrubbed),
    /// There is a secret in what is proposed.
    #[error("there is a secret in the {0}")]
    Secret(&'static str),
    /// Too much is open already.
    #[error("there are {0} of these already")]
    TooMany(usize),
}

impl Refused {
    /// Returns what can be done about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Empty(what) => format!("Say what the {what} is."),
            Self::TooLong { .. } => "Say it shorter.".into(),
            Self::Unseen(_) => "Leave control characters out.".into(),
            Self::NoCheck { known, .. } if known.is_empty() => {
                "The settings name no checks; leave the check out.".into()
            }
            Self::NoCheck { known, .. } => format!("The checks are: {}.", known.join(", ")),
            Self::TooManyFiles => "Name those that matter most.".into(),
            Self::Outside(_) => "Name files from the project's directory on.".into(),
            Self::NoKind(_) => {
                let kinds: Vec<_> = FixKind::ALL.iter().map(|kind| kind.as_str()).collect();
                format!("The kinds are: {}.", kinds.join(", "))
            }
            Self::Secret(_) => {
                "Propose it without; say in words where the secret comes from.".into()
            }
            Self::TooMany(_) => "See what becomes of those first.".into(),
        }
    }
}

/// Returns the event by which an issue is reported; `checks` are those of the settings.
///
/// # Errors
///
/// When a part of it is empty, too long, or names what is not there.
pub fn issue(
    id: IssueId,
    raw: &RawIssue,
    checks: &[String],
    scrubber: &Scrubber,
) -> Result<Event, Refused> {
    let text = words("text", &raw.text, LONGEST_TEXT)?;
    let check = raw.check.as_deref().map(|check| known(check, checks, scrubber)).transpose()?;
    if raw.files.len() > MOST_FILES {
        return Err(Refused::TooManyFiles);
    }
    let files = raw.files.iter().map(|file| path(file, scrubber));
    Ok(Event::Team(TeamEvent::IssueReported {
        issue: id,
        text: scrubber.scrub(text),
        check,
        files: files.collect::<Result<_, _>>()?,
        auto_fix: raw.auto_fix,
    }))
}

/// Returns the fix that is proposed, and why.
///
/// # Errors
///
/// When a part of it is empty, too long, of no known kind, or holds a secret.
pub fn fix(raw: &RawFix, scrubber: &Scrubber) -> Result<(Fix, Option<Scrubbed>), Refused> {
    let named = |kind: &&FixKind| kind.as_str() == raw.kind;
    let Some(&kind) = FixKind::ALL.iter().find(named) else {
        let given: String = raw.kind.chars().take(60).collect();
        return Err(Refused::NoKind(scrubber.scrub(&given)));
    };
    let given = match kind {
        FixKind::Command | FixKind::Instruction => words(kind.as_str(), &raw.text, LONGEST_WORDS)?,
        FixKind::Patch => patch(&raw.text)?,
    };
    let text = scrubber.scrub(given);
    if text.as_str() != given {
        return Err(Refused::Secret(kind.as_str()));
    }
    Ok((Fix { kind, text }, note("reason", raw.why.as_deref(), scrubber)?))
}

/// Returns a remark without secrets, if it says anything.
///
/// # Errors
///
/// When it is too long or cannot be shown.
pub fn note(
    what: &'static str,
    text: Option<&str>,
    scrubber: &Scrubber,
) -> Result<Option<Scrubbed>, Refused> {
    match text.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => words(what, text, LONGEST_TEXT).map(|text| Some(scrubber.scrub(text))),
        None => Ok(None),
    }
}

/// Returns a text for people without the white space around it.
fn words<'t>(what: &'static str, text: &'t str, most: usize) -> Result<&'t str, Refused> {
    if text.len() > most {
        return Err(Refused::TooLong { what, most });
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(Refused::Empty(what));
    }
    if text.chars().any(|c| is_unseen(c) && !matches!(c, '\n' | '\r' | '\t')) {
        Err(Refused::Unseen(what))
    } else {
        Ok(text)
    }
}

/// Returns a patch as it is: in source code, any character may be meant.
fn patch(text: &str) -> Result<&str, Refused> {
    if text.len() > LONGEST_PATCH {
        return Err(Refused::TooLong { what: "patch", most: LONGEST_PATCH });
    }
    if text.trim().is_empty() {
        return Err(Refused::Empty("patch"));
    }
    if text.contains('\0') { Err(Refused::Unseen("patch")) } else { Ok(text) }
}

fn known(check: &str, checks: &[String], scrubber: &Scrubber) -> Result<Scrubbed, Refused> {
    let check = check.trim();
    if checks.iter().any(|known| known == check) {
        return Ok(scrubber.scrub(check));
    }
    let given: String = check.chars().take(60).collect();
    Err(Refused::NoCheck { given: scrubber.scrub(&given), known: checks.to_vec() })
}

fn path(path: &str, scrubber: &Scrubber) -> Result<Scrubbed, Refused> {
    if path.len() > LONGEST_PATH {
        return Err(Refused::TooLong { what: "path", most: LONGEST_PATH });
    }
    if path.trim().is_empty() {
        return Err(Refused::Empty("path"));
    }
    if path.chars().any(is_unseen) {
        return Err(Refused::Unseen("path"));
    }
    let leads_out =
        path.starts_with(['/', '~', '\\']) || path.split(['/', '\\']).any(|p| p == "..");
    if leads_out {
        Err(Refused::Outside(scrubber.scrub(path)))
    } else {
        Ok(scrubber.scrub(path.strip_prefix("./").unwrap_or(path)))
    }
}

/// Returns whether a character is not seen, or turns around what is.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
