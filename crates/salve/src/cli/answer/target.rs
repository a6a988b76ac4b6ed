//! Which incident is meant: by its id, by its loop, or because it is the only one that asks.

use salve_core::event::SubjectKind;
use salve_core::id::IncidentId;
use salve_core::repair::{self};
use salve_core::view::IncidentView;

use super::AnswerKind;
use crate::cli::CliError;
use crate::cli::events::{find, visible};
use crate::reading::open_incidents;
use crate::store::Journal;

/// How many incidents back one looks for those that ask.
const LOOKED_BACK: usize = 200;

/// Which incident is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum IncidentTarget<'a> {
    /// The one whose id begins so.
    Id(&'a str),
    /// The one that asks, if it is the only one.
    OnlyOne,
    Loop(&'a str),
}

/// An incident that somebody may speak to.
struct OpenToAnswers {
    id: IncidentId,
    subject: SubjectKind,
    name: String,
    /// What it asks, if it does.
    asks: Option<String>,
}

impl IncidentTarget<'_> {
    /// Finds the incident for a word that is to be said.
    pub(super) fn find(
        self,
        journal: &dyn Journal,
        word: AnswerKind,
    ) -> Result<IncidentId, CliError> {
        match self {
            IncidentTarget::Id(id) => find(journal, id),
            IncidentTarget::OnlyOne => only_one(open(journal)?, word),
            IncidentTarget::Loop(name) => of_loop(open(journal)?, name, word),
        }
    }
}

/// Returns the incidents that are not over, the newest first.
fn open(journal: &dyn Journal) -> Result<Vec<OpenToAnswers>, CliError> {
    let told = |view: IncidentView| OpenToAnswers {
        id: view.id(),
        subject: view.subject().kind,
        name: view.subject().name.to_string(),
        asks: repair::ask(&view).map(|ask| ask.why),
    };
    Ok(open_incidents(journal, LOOKED_BACK)?.into_iter().map(told).collect())
}

/// Returns every incident that asks, the newest first.
pub(super) fn asking(journal: &dyn Journal) -> Result<Vec<IncidentId>, CliError> {
    let asking = open(journal)?.into_iter().filter(|one| one.asks.is_some());
    Ok(asking.map(|one| one.id).collect())
}

/// Returns the only incident that is not over.
pub(super) fn only_open(journal: &dyn Journal) -> Result<IncidentId, CliError> {
    let open = open(journal)?;
    match open.as_slice() {
        [one] => Ok(one.id),
        [] => Err(CliError::failed("no incident is open").hint("salve incidents")),
        several => {
            let lines =
                several.iter().map(|one| format!("{}    {}", one.id.short(), visible(&one.name)));
            let lines: Vec<String> = lines.collect();
            Err(CliError::usage("several incidents are open; say which is meant")
                .hint(lines.join("\n       ")))
        }
    }
}

fn only_one(open: Vec<OpenToAnswers>, word: AnswerKind) -> Result<IncidentId, CliError> {
    let asking: Vec<OpenToAnswers> = open.into_iter().filter(|one| one.asks.is_some()).collect();
    match asking.as_slice() {
        [one] => Ok(one.id),
        [] => Err(CliError::failed("no incident asks anything").hint("salve incidents")),
        several => {
            let lines = several.iter().map(|one| {
                let why = one.asks.as_deref().unwrap_or_default();
                let (word, id, name) = (word.as_str(), one.id.short(), visible(&one.name));
                format!("salve {word} {id}    {name}: {}", visible(why))
            });
            let lines: Vec<String> = lines.collect();
            Err(CliError::usage("several incidents ask; say which is meant")
                .hint(lines.join("\n       ")))
        }
    }
}

fn of_loop(open: Vec<OpenToAnswers>, name: &str, word: AnswerKind) -> Result<IncidentId, CliError> {
    let mut its: Vec<OpenToAnswers> = open;
    its.retain(|one| one.subject == SubjectKind::Iteration && one.name == name);
    let found = match word {
        AnswerKind::Approve | AnswerKind::Reject => its.iter().find(|one| one.asks.is_some()),
        // What is settled by hand need not have come to a question.
        AnswerKind::Resolve => its.iter().find(|one| one.asks.is_some()).or_else(|| its.first()),
    };
    found.map(|one| one.id).ok_or_else(|| {
        let shown = visible(name);
        CliError::failed(format!("the recovery of loop `{shown}` asks nothing"))
            .hint("salve incidents iteration")
    })
}
