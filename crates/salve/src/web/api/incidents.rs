//! Incidents: their stories, and what people answer, order and undo.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use jiff::Timestamp;
use salve_core::event::{Actor, Amounts, PersonOrder};
use salve_core::scrub::{Scrubbed, Scrubber};
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::{Decided, html_answer, json, parse, written};
use crate::heal::people::{PersonAnswer, PersonWord};
use crate::undo::{UndoDirection, UndoRequest, undo_repair};
use crate::web::assets::STYLE;
use crate::web::decide::decide;
use crate::web::pages::{ExportedIncident, export_page, what_if_answer};
use crate::web::problem::HttpProblem;
use crate::web::project_handle::ProjectHandle;
use crate::web::views::{ProjectReader, ViewError, WhatIfAnswer, WhatIfRequest, replay_incident};
use crate::workspace::Again;

/// The longest remark that is kept.
const LONGEST_NOTE: usize = 2000;

pub(super) async fn incidents(
    ProjectView { project, query, headers }: ProjectView,
) -> Result<Response, HttpProblem> {
    let wanted = query.incidents();
    let page = project.ask(move |reader| reader.incidents().page(&wanted)).await??;
    json(&headers, &page)
}

pub(super) async fn incident(
    Path(id): Path<String>,
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let details = project.ask(move |reader| reader.incidents().details(&id)).await??;
    json(&headers, &details)
}

pub(super) async fn evidence(
    Path(id): Path<String>,
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let evidence = project.ask(move |reader| reader.incident_files().evidence(&id)).await??;
    json(&headers, &evidence.ok_or_else(|| HttpProblem::missing("no evidence is kept"))?)
}

pub(super) async fn transcript(
    Path(id): Path<String>,
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let transcript = project.ask(move |reader| reader.incident_files().transcript(&id)).await??;
    let missing = || HttpProblem::missing("no agent of Salve's worked on it, or nothing is kept");
    json(&headers, &transcript.ok_or_else(missing)?)
}

pub(super) async fn diff(
    Path(id): Path<String>,
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let diffs = project.ask(move |reader| -> Result<_, ViewError> {
        let id = reader.incidents().details(&id)?.story.repair.repair_id;
        reader.incident_files().diffs(id)
    });
    json(&headers, &diffs.await??)
}

async fn exported(project: &ProjectHandle, id: String) -> Result<ExportedIncident, HttpProblem> {
    let export = move |reader: &mut ProjectReader| -> Result<ExportedIncident, ViewError> {
        let incident = reader.incidents().details(&id)?;
        let evidence = reader.incident_files().evidence(&id)?;
        let transcript = reader.incident_files().transcript(&id)?;
        // Snapshots that cannot be read cost the changes, not the story.
        let diffs =
            reader.incident_files().diffs(incident.story.repair.repair_id).unwrap_or_default();
        Ok(ExportedIncident {
            version: 1,
            exported_at: Timestamp::now(),
            incident,
            evidence,
            transcript,
            diffs,
        })
    };
    Ok(project.ask(export).await??)
}

pub(super) async fn export_json(
    Path(id): Path<String>,
    ProjectView { project, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    written(&exported(&project, id).await?)
}

pub(super) async fn export_html(
    Path(id): Path<String>,
    ProjectView { project, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let exported = exported(&project, id).await?;
    Ok(html_answer(export_page(&exported, STYLE).into_string()))
}

async fn replayed(
    project: &ProjectHandle,
    id: String,
    body: &Bytes,
) -> Result<WhatIfAnswer, HttpProblem> {
    let request: WhatIfRequest = parse(body)?;
    Ok(project.ask(move |reader| replay_incident(reader, &id, &request)).await??)
}

pub(super) async fn what_if(
    Path(id): Path<String>,
    ProjectView { project, .. }: ProjectView,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    written(&replayed(&project, id, &body).await?)
}

/// Answers the same as HTML, for the page.
pub(super) async fn what_if_fragment(
    Path(id): Path<String>,
    ProjectView { project, .. }: ProjectView,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let answer = replayed(&project, id, &body).await?;
    Ok(html_answer(what_if_answer(&answer).into_string()))
}

/// What a person answers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerWord {
    /// Yes to the question.
    Approve,
    /// No to it.
    Reject,
    /// The matter is settled.
    Resolve,
}

/// An answer to the question that was shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct AnswerRequest {
    /// The answer.
    answer: AnswerWord,
    /// The question's number, as it was shown.
    #[serde(default)]
    question: Option<u32>,
    /// The hash of what was asked about, as it was shown.
    #[serde(default)]
    digest: Option<String>,
    /// A remark, kept with the answer.
    #[serde(default)]
    note: Option<String>,
}

impl AnswerRequest {
    fn decision(self, scrubber: &Scrubber) -> Result<PersonWord, HttpProblem> {
        let note = self.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
        let note: Option<Scrubbed> = note.map(|note| scrubber.scrub(note).head(LONGEST_NOTE));
        let answered = |note| {
            let shown =
                || HttpProblem::bad_request("say which question is answered, and its digest");
            let digest = serde_json::Value::String(self.digest.clone().ok_or_else(shown)?);
            let digest = serde_json::from_value(digest).map_err(|_| shown())?;
            let question = Some(self.question.ok_or_else(shown)?);
            Ok(PersonAnswer { note, question, shown: Some(digest) })
        };
        match self.answer {
            AnswerWord::Approve => answered(note).map(PersonWord::Approve),
            AnswerWord::Reject => answered(note).map(PersonWord::Reject),
            AnswerWord::Resolve => Ok(PersonWord::Resolve(note)),
        }
    }
}

/// Writes a decision about the incident whose id begins with `given`.
pub(super) async fn write_decision(
    handle: &ProjectHandle,
    given: String,
    person: Scrubbed,
    decision: impl FnOnce(&Scrubber) -> Result<PersonWord, HttpProblem> + Send + 'static,
) -> Result<Response, HttpProblem> {
    let decided = handle.ask(move |reader| -> Result<Decided, HttpProblem> {
        let decision = decision(reader.scrubber())?;
        let said = decision_words(&decision);
        let id = reader.incidents().view(&given)?.id();
        Ok(Decided::about(decide(reader, id, &person, decision)?, said))
    });
    written(&decided.await??)
}

/// Returns what a decision is called once it is taken.
fn decision_words(word: &PersonWord) -> &'static str {
    match word {
        PersonWord::Approve(_) => "Approved.",
        PersonWord::Reject(_) => "Rejected.",
        PersonWord::Resolve(_) => "Settled.",
        PersonWord::Order(PersonOrder::Pause) => "Paused: nothing new is begun.",
        PersonWord::Order(PersonOrder::Resume) => "It goes on.",
        PersonWord::Order(PersonOrder::Skip) => "The remedy is left out.",
        PersonWord::Order(PersonOrder::Retry) => "It is tried again.",
        PersonWord::Order(PersonOrder::Abort) => "Called off.",
        PersonWord::Order(PersonOrder::Escalate) => "You will be asked.",
        PersonWord::Refill(_) => "Granted.",
    }
}

pub(super) async fn answer(
    Path(id): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let request: AnswerRequest = parse(&body)?;
    write_decision(&project, id, person, move |scrubber| request.decision(scrubber)).await
}

/// An order to an incident.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct OrderRequest {
    /// The order.
    order: IncidentOrder,
}

/// What an incident can be told.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum IncidentOrder {
    /// Start nothing new until resumed.
    Pause,
    /// Go on.
    Resume,
    /// Leave the present remedy out.
    Skip,
    /// Try again, within the budget.
    Retry,
    /// Call it off.
    Abort,
    /// Ask a person.
    Escalate,
}

pub(super) async fn order(
    Path(id): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let OrderRequest { order } = parse(&body)?;
    let order = match order {
        IncidentOrder::Pause => PersonOrder::Pause,
        IncidentOrder::Resume => PersonOrder::Resume,
        IncidentOrder::Skip => PersonOrder::Skip,
        IncidentOrder::Retry => PersonOrder::Retry,
        IncidentOrder::Abort => PersonOrder::Abort,
        IncidentOrder::Escalate => PersonOrder::Escalate,
    };
    write_decision(&project, id, person, move |_| Ok(PersonWord::Order(order))).await
}

/// What a person grants an incident.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct RefillRequest {
    /// Attempts.
    #[serde(default)]
    attempts: u64,
    /// Tokens.
    #[serde(default)]
    tokens: u64,
    /// Minutes.
    #[serde(default)]
    minutes: u64,
}

pub(super) async fn refill(
    Path(id): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let RefillRequest { attempts, tokens, minutes } = parse(&body)?;
    let wall_ms = minutes.saturating_mul(60_000);
    let granted = Amounts { attempts, tokens, wall_ms, ..Amounts::default() };
    if granted == Amounts::default() {
        return Err(HttpProblem::bad_request("nothing is granted"));
    }
    write_decision(&project, id, person, move |_| Ok(PersonWord::Refill(granted))).await
}

/// What is to be undone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct UndoBody {
    /// Only this attempt; the whole repair if absent.
    #[serde(default)]
    attempt: Option<u32>,
    /// Whether files that were changed again since are undone too; their present state is kept.
    #[serde(default)]
    overwrite: bool,
    /// Which way to go.
    #[serde(default)]
    direction: UndoWay,
}

/// Which way an undoing goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UndoWay {
    /// To the files before the repair.
    #[default]
    Undo,
    /// Back to the files that the repair left.
    Redo,
}

pub(super) async fn undo(
    Path(id): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let by = Actor::Person { name: person };
    let UndoBody { attempt, overwrite, direction } = parse(&body)?;
    let direction = match direction {
        UndoWay::Undo => UndoDirection::Undo,
        UndoWay::Redo => UndoDirection::Redo,
    };
    let changed_since = if overwrite { Again::Overwrite } else { Again::Refuse };
    let request = UndoRequest { attempt, changed_since, direction };
    let restored = project.ask(move |reader| -> Result<_, HttpProblem> {
        let id = reader.incidents().view(&id)?.id();
        let scrubber = reader.scrubber().clone();
        let missing = || HttpProblem::missing("there is no journal");
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(missing)?;
        Ok(undo_repair(store, id, &request, by, &scrubber)?)
    });
    let restored = restored.await??;
    let verb = if direction == UndoDirection::Undo { "as before the repair" } else { "back again" };
    let said = match restored.files.as_slice() {
        [] => "Nothing had to be changed.".to_owned(),
        [file] => format!("{file} is {verb}."),
        files => format!("{} files are {verb}: {}.", files.len(), files.join(", ")),
    };
    let (files, left) = (restored.files, restored.left);
    written(&serde_json::json!({ "ok": true, "said": said, "files": files, "left": left }))
}
