//! The fleet: how it stands, orders to its jobs, and answers to what they ask.

use std::time::{Duration, Instant};

use axum::extract::Path;
use axum::response::Response;
use jiff::Timestamp;
use salve_core::scrub::Scrubbed;
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::work::ControlRequest;
use super::{json, parse, written};
use crate::store::{AnswerId, FleetOrder, FleetWord, Store, StoreError};
use crate::subjects::job::{FleetBoard, JobOrderError, expect_taken, seal_answer, tell_queue};
use crate::web::fleet_watch::FleetWatch;
use crate::web::problem::HttpProblem;
use crate::web::project_handle::ProjectHandle;
use crate::web::views::{FleetView, ViewError};

/// How long a worker may take to judge an answer before it is left to it.
const PATIENCE: Duration = Duration::from_secs(8);

/// How often it is looked whether one has.
const LOOK: Duration = Duration::from_millis(250);

/// The longest remark that is kept.
const LONGEST_NOTE: usize = 2000;

fn watch_of(project: &ProjectHandle) -> Result<FleetWatch, HttpProblem> {
    project.fleet.clone().ok_or_else(|| {
        HttpProblem::missing("the project has no fleet").next("set `fleet.url` in salve.toml")
    })
}

fn failed(error: StoreError) -> HttpProblem {
    ViewError::from(error).into()
}

pub(super) async fn fleet(
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let seen: std::sync::Arc<FleetView> = watch_of(&project)?.seen();
    json(&headers, &*seen)
}

pub(super) async fn control(
    Path(run): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let request: ControlRequest = parse(&body)?;
    let give = move |store: &Store, board: &FleetBoard| -> Result<&'static str, HttpProblem> {
        let missing = || HttpProblem::missing("there is no such run in the fleet");
        let wanted = run.replace('-', "").to_ascii_lowercase();
        let is_meant =
            |id: salve_core::id::JobId| id.0.simple().to_string() == wanted || id.short() == wanted;
        let of = board.jobs().map(|one| &one.job).find(|job| is_meant(job.id()));
        let of = of.ok_or_else(missing)?;
        let order = request.order(of)?;
        expect_taken(of, order, &person).map_err(|error| match error {
            JobOrderError::Store(error) => failed(error),
            error @ JobOrderError::NotTaken { .. } => HttpProblem::conflict(error.to_string()),
        })?;
        let fleet = store.fleet().ok_or_else(missing)?;
        let (job, at) = (of.id(), Timestamp::now());
        let placed = FleetOrder { version: 1, job, order, by: person, at };
        fleet.order(&placed).map_err(failed)?;
        tell_queue(store, of, order).map_err(failed)?;
        Ok(order.as_str())
    };
    let order = watch_of(&project)?.ask(give).await??;
    written(&serde_json::json!({ "ok": true, "said": format!("{order} was ordered.") }))
}

/// What a person answers to a question of a fleet's job.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FleetAnswerWord {
    /// Yes to the question.
    Approve,
    /// No to it.
    Reject,
    /// The matter is settled.
    Resolve,
}

/// An answer to the question of a fleet's job that was shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct FleetAnswerRequest {
    /// The answer.
    answer: FleetAnswerWord,
    /// The question's number, as it was shown.
    question: u32,
    /// The hash of what was asked about, as it was shown.
    digest: String,
    /// A remark, kept with the answer.
    #[serde(default)]
    note: Option<String>,
}

pub(super) async fn answer(
    Path(incident): Path<String>,
    PersonRequest { project, body, .. }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let request: FleetAnswerRequest = parse(&body)?;
    let fleet = watch_of(&project)?;
    let placed = fleet.ask(move |store, board| place(store, board, &incident, request)).await??;
    let since = Instant::now();
    let verdict = loop {
        let look = move |store: &Store, _: &FleetBoard| {
            store.fleet().map(|fleet| fleet.verdict(placed)).transpose().map(Option::flatten)
        };
        match fleet.ask(look).await?.map_err(failed)? {
            None if since.elapsed() < PATIENCE => tokio::time::sleep(LOOK).await,
            found => break found,
        }
    };
    let said = match verdict {
        None => "Kept. No worker has judged it yet.".to_owned(),
        Some(verdict) => match (verdict.person, verdict.why) {
            (Some(person), _) => format!("Taken by {} as the word of {person}.", verdict.by),
            (None, why) => {
                let why = why.map_or_else(String::new, |why| why.to_string());
                let problem = format!("{} does not take the answer: {why}", verdict.by);
                return Err(HttpProblem::conflict(problem)
                    .next("its settings list who may answer: salve fleet key"));
            }
        },
    };
    written(&serde_json::json!({ "ok": true, "said": said }))
}

/// Seals an answer with the key of the user whose page this is, and hands it to the fleet.
fn place(
    store: &Store,
    board: &FleetBoard,
    incident: &str,
    request: FleetAnswerRequest,
) -> Result<AnswerId, HttpProblem> {
    let over =
        || HttpProblem::conflict("this question is no longer open; look at what is asked now");
    let asked = board.jobs().filter_map(|one| one.open_question());
    let question = asked.into_iter().find(|question| {
        let is_meant = question.binding.incident.to_string() == incident;
        let is_shown = question.binding.number == request.question
            && question.binding.digest.to_string() == request.digest;
        is_meant && is_shown
    });
    let question = question.ok_or_else(over)?;
    let word = match request.answer {
        FleetAnswerWord::Approve if question.is_mislabelled() => return Err(over()),
        FleetAnswerWord::Approve => FleetWord::Approve,
        FleetAnswerWord::Reject => FleetWord::Reject,
        FleetAnswerWord::Resolve => FleetWord::Resolve,
    };
    let note = request.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    let note: Option<Scrubbed> =
        note.map(|note| crate::scrub::scrubber().scrub(note).head(LONGEST_NOTE));
    let answer = seal_answer(question.binding, word, note)
        .map_err(|error| HttpProblem::conflict(error.to_string()).next("salve fleet key"))?;
    store.fleet().ok_or_else(over)?.answer(&answer).map_err(failed)
}
