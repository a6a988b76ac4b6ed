//! Answers to the questions of a fleet's jobs: sealed with the person's own key, judged by the worker
//! that asks.

use std::io::Write as _;
use std::time::{Duration, Instant};

use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::{AnswerKind, refuse_agents};
use crate::cli::job::fleet::{FleetArgs, fleet_of};
use crate::cli::{CliError, Exit, Output, events};
use crate::person_key::PersonKeyError;
use crate::store::{AnswerId, AnswerVerdict, FleetWord, Store};
use crate::subjects::job::{FleetQuestion, questions_in_fleet, seal_answer};

/// How long a worker may take to judge an answer before it is left to it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether one has.
const LOOK: Duration = Duration::from_millis(200);

/// What is said to a question of a fleet.
pub(super) struct FleetTelling<'a> {
    pub(super) word: AnswerKind,
    /// The incident that asks, or the run that waits; nothing, if there is only one.
    pub(super) id: Option<&'a str>,
    pub(super) note: Option<Scrubbed>,
    pub(super) question: Option<u32>,
}

/// What came of an answer, for `--json`.
#[derive(Debug, Serialize)]
struct FleetAnswerLine {
    version: u32,
    id: String,
    run: String,
    said: &'static str,
    /// Whether it counts; nothing, if no worker has judged it yet.
    taken: Option<bool>,
    /// The worker that judged it.
    worker: Option<String>,
    /// Under which name it counts there.
    person: Option<String>,
    why: Option<String>,
}

/// Answers a question of a fleet, if one of it is meant: it was named on the command line, or its jobs
/// ask this while nothing here does.
pub(super) fn answer_in_fleet(
    telling: &FleetTelling<'_>,
    fleet: &FleetArgs,
    is_known_here: impl FnOnce() -> Result<bool, CliError>,
    out: &Output,
) -> Result<Option<Exit>, CliError> {
    if !fleet.is_named() && is_known_here()? {
        return Ok(None);
    }
    let Some(store) = fleet.open(out)? else { return Ok(None) };
    refuse_agents("decide about an incident")?;
    let asked = questions_in_fleet(&store)?;
    let found = match find(&asked, telling)? {
        Some(found) => found,
        None if fleet.is_named() => {
            let what = telling.id.map_or("no job of the fleet asks anything".to_owned(), |id| {
                format!("no job of the fleet asks `{}`", events::visible(id))
            });
            return Err(CliError::failed(what).hint("salve jobs --fleet URL"));
        }
        None => return Ok(None),
    };
    say(found, telling, &store, out).map(Some)
}

/// Returns the question that is meant, if there is one.
fn find<'q>(
    asked: &'q [FleetQuestion],
    telling: &FleetTelling<'_>,
) -> Result<Option<&'q FleetQuestion>, CliError> {
    let wanted = telling.id.map(|id| {
        let id = id.trim();
        id.strip_prefix("heal-").unwrap_or(id).replace('-', "").to_ascii_lowercase()
    });
    let is_meant = |question: &&FleetQuestion| {
        let Some(wanted) = &wanted else { return true };
        let (incident, job) = (question.binding.incident, question.binding.job);
        !wanted.is_empty()
            && (incident.0.simple().to_string().starts_with(wanted)
                || incident.short().starts_with(wanted)
                || job.short().starts_with(wanted))
    };
    let found: Vec<&FleetQuestion> = asked.iter().filter(is_meant).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let word = telling.word.as_str();
            let lines: Vec<String> = several
                .iter()
                .map(|one| {
                    let (id, run) = (one.binding.incident.short(), one.binding.job.short());
                    format!("salve {word} {id}    run {run}: {}", events::visible(&one.open.why))
                })
                .collect();
            Err(CliError::usage("several jobs ask; say which is meant")
                .hint(lines.join("\n       ")))
        }
    }
}

fn say(
    question: &FleetQuestion,
    telling: &FleetTelling<'_>,
    store: &Store,
    out: &Output,
) -> Result<Exit, CliError> {
    let (number, run) = (question.binding.number, question.binding.job.short());
    if telling.question.is_some_and(|wanted| wanted != number) {
        return Err(CliError::failed(format!("question {number} is open now"))
            .because(question.open.why.clone())
            .hint(format!("look at it first: salve show {run}")));
    }
    if telling.word == AnswerKind::Approve && question.is_mislabelled() {
        return Err(CliError::failed("what is shown is not what a yes would allow")
            .because("the command's text does not fit the hash that the question is bound to")
            .hint(format!("salve reject {}", question.binding.incident.short())));
    }
    let word = match telling.word {
        AnswerKind::Approve => FleetWord::Approve,
        AnswerKind::Reject => FleetWord::Reject,
        AnswerKind::Resolve => FleetWord::Resolve,
    };
    let answer = seal_answer(question.binding, word, telling.note.clone())?;
    let id = fleet_of(store)?.answer(&answer)?;
    let verdict = wait(store, id)?;
    tell(question, word, verdict.as_ref(), out)?;
    match verdict {
        Some(AnswerVerdict { person: None, why, by, .. }) => {
            let why = why.map_or_else(String::new, |why| why.to_string());
            let by = events::visible(by.as_str());
            Err(CliError::failed(format!("{by} does not take the answer"))
                .because(events::visible(&why))
                .hint(format!(
                    "its settings list who may answer: people = [\"NAME:{}\"]",
                    answer.key
                )))
        }
        Some(_) | None => Ok(Exit::Well),
    }
}

/// Waits for a worker to judge an answer.
fn wait(store: &Store, id: AnswerId) -> Result<Option<AnswerVerdict>, CliError> {
    let since = Instant::now();
    loop {
        match fleet_of(store)?.verdict(id)? {
            None if since.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            found => return Ok(found),
        }
    }
}

fn tell(
    question: &FleetQuestion,
    word: FleetWord,
    verdict: Option<&AnswerVerdict>,
    out: &Output,
) -> Result<(), CliError> {
    let (id, run) = (question.binding.incident.short(), question.binding.job.short());
    if out.json() {
        return out.fact(&FleetAnswerLine {
            version: 1,
            id,
            run,
            said: word.as_str(),
            taken: verdict.map(|verdict| verdict.person.is_some()),
            worker: verdict.map(|verdict| verdict.by.to_string()),
            person: verdict.and_then(|verdict| verdict.person.as_ref()).map(|one| one.to_string()),
            why: verdict.and_then(|verdict| verdict.why.as_ref()).map(|why| why.to_string()),
        });
    }
    let said = match word {
        FleetWord::Approve => "approved",
        FleetWord::Reject => "rejected",
        FleetWord::Resolve => "settled",
    };
    match verdict {
        Some(AnswerVerdict { person: Some(person), by, .. }) => {
            let (person, by) = (events::visible(person.as_str()), events::visible(by.as_str()));
            writeln!(out.stdout(), "heal-{id}  {person} {said} it; {by} takes the answer")?;
            out.remark(format!("  the job {run} goes on with it: salve show {run}"));
        }
        Some(_) => {}
        None => {
            writeln!(out.stdout(), "heal-{id}  {said}; no worker has judged the answer yet")?;
            out.remark("  it is kept for whoever asked, or takes the job over: salve workers");
        }
    }
    Ok(())
}

impl From<PersonKeyError> for CliError {
    fn from(error: PersonKeyError) -> Self {
        let hint = match &error {
            PersonKeyError::NoHome => "set HOME".to_owned(),
            PersonKeyError::File { path, .. } => format!("look at {}", path.display()),
            PersonKeyError::NotBuilt => "cargo install salve --features fleet".to_owned(),
            PersonKeyError::Unusable => "move it away, and a new one is made".to_owned(),
        };
        Self::failed("your key cannot be used").because(error).hint(hint)
    }
}
