//! What is remembered: shown, asked about, and changed by people.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, MemoryEvent};
use salve_core::id::Signature;
use salve_core::memory::{
    Knowledge, KnowledgeChange, KnowledgeEdit, RememberedKind, RememberedRemedy,
};
use salve_core::scrub::Scrubbed;
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::{html_answer, json, parse, written};
use crate::learned::{Learned, LearnedError};
use crate::project::Project;
use crate::store::Store;
use crate::web::pages::memory_answer;
use crate::web::problem::HttpProblem;
use crate::web::views::{ProjectReader, ViewError};

pub(super) async fn memory(
    ProjectView { project, query, headers }: ProjectView,
) -> Result<Response, HttpProblem> {
    let wanted = query.memory();
    let view = project.ask(move |reader| reader.memory().view(&wanted)).await??;
    json(&headers, &view)
}

/// A failure that memory is asked about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct MemoryCheckRequest {
    /// What the failure printed.
    text: String,
}

impl MemoryCheckRequest {
    fn text(body: &Bytes) -> Result<String, HttpProblem> {
        let Self { text } = parse(body)?;
        if text.trim().is_empty() {
            Err(HttpProblem::bad_request("there is no failure in an empty text"))
        } else {
            Ok(text)
        }
    }
}

pub(super) async fn check(
    ProjectView { project, .. }: ProjectView,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let text = MemoryCheckRequest::text(&body)?;
    written(&project.ask(move |reader| reader.memory().answer(&text)).await??)
}

/// Answers the same as HTML, for the page.
pub(super) async fn check_fragment(
    ProjectView { project, .. }: ProjectView,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let text = MemoryCheckRequest::text(&body)?;
    let answer = project.ask(move |reader| reader.memory().answer(&text)).await??;
    Ok(html_answer(memory_answer(&answer).into_string()))
}

/// Says that a failure is to be forgotten.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct ForgetRequest {}

pub(super) async fn forget(
    Path(signature): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let by = Actor::Person { name: person };
    let ForgetRequest {} = parse(&body)?;
    let signature = signature_of(&signature)?;
    let change = move |reader: &mut ProjectReader| -> Result<(), HttpProblem> {
        known(reader, signature)?;
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(unknown)?;
        store.memory().forget(signature).map_err(ViewError::from)?;
        let event = Event::Memory(MemoryEvent::Forgotten { signature });
        let draft = Draft { at: Timestamp::now(), by, incident: None, event };
        store.journal().append(draft).map_err(ViewError::from)?;
        sync(reader)
    };
    project.ask(change).await??;
    done("Forgotten.")
}

/// Says that your own memory across projects is to know it, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct PromoteRequest {}

pub(super) async fn promote(
    Path(signature): Path<String>,
    PersonRequest { project, body, .. }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let PromoteRequest {} = parse(&body)?;
    let signature = signature_of(&signature)?;
    let change = move |reader: &mut ProjectReader| -> Result<(), HttpProblem> {
        let known = known(reader, signature)?;
        let homeless = || HttpProblem::conflict("there is no place for your own memory");
        let dir = crate::dirs::data().ok_or_else(homeless)?;
        let own = Store::open(&Project::of_user(dir)).map_err(ViewError::from)?;
        own.memory().merge(&[known]).map_err(ViewError::from)?;
        Ok(())
    };
    project.ask(change).await??;
    done("It serves all your projects from now on.")
}

/// How a known remedy is to be from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct RemedyEditRequest {
    /// The remedy as it is now: a command, patch or instruction; a new one is taught if absent.
    #[serde(default)]
    old: Option<String>,
    /// What takes its place; it is dropped if absent or empty.
    #[serde(default)]
    new: Option<String>,
}

pub(super) async fn edit(
    Path(signature): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let request: RemedyEditRequest = parse(&body)?;
    let signature = signature_of(&signature)?;
    let change = move |reader: &mut ProjectReader| -> Result<(), HttpProblem> {
        let known = known(reader, signature)?;
        let scrubber = reader.scrubber().clone();
        let changes = remedy_changes(&known, &request, &person, |text| scrubber.scrub(text))?;
        let at = Timestamp::now();
        let edit = KnowledgeEdit { failure: known.failure, at, changes };
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(unknown)?;
        store.memory().edit(&[edit]).map_err(ViewError::from)?;
        sync(reader)
    };
    project.ask(change).await??;
    done("Saved.")
}

/// Returns what an edit changes: a remedy that reads otherwise is another one, without a record.
fn remedy_changes(
    known: &Knowledge,
    request: &RemedyEditRequest,
    person: &Scrubbed,
    scrub: impl Fn(&str) -> Scrubbed,
) -> Result<Vec<KnowledgeChange>, HttpProblem> {
    let mut kind = RememberedKind::Command;
    let mut changes = Vec::new();
    if let Some(old) = &request.old {
        let is_meant = |remedy: &&RememberedRemedy| remedy.text.as_str() == old.as_str();
        let mut remedies = known.remedies.iter().map(|tried| &tried.remedy);
        let old = remedies.find(is_meant).ok_or_else(|| {
            HttpProblem::conflict("this remedy is not known any more").next("GET /api/memory")
        })?;
        kind = old.kind;
        changes.push(KnowledgeChange::Dropped(old.clone()));
    }
    let new = request.new.as_deref().map(str::trim).filter(|new| !new.is_empty());
    if let Some(new) = new {
        let remedy = RememberedRemedy { kind, text: scrub(new) };
        let (at, by) = (Timestamp::now(), person.clone());
        changes.push(KnowledgeChange::Taught { remedy, at, by });
    }
    if changes.is_empty() {
        Err(HttpProblem::bad_request("nothing is changed"))
    } else {
        Ok(changes)
    }
}

fn signature_of(given: &str) -> Result<Signature, HttpProblem> {
    given.parse().map_err(|_| unknown())
}

fn unknown() -> HttpProblem {
    HttpProblem::missing("nothing is known about this failure").next("GET /api/memory")
}

fn known(reader: &mut ProjectReader, signature: Signature) -> Result<Knowledge, HttpProblem> {
    let store = reader.store().map_err(ViewError::from)?.ok_or_else(unknown)?;
    store.memory().recall(signature).map_err(ViewError::from)?.ok_or_else(unknown)
}

/// Writes the shared files again after a change.
fn sync(reader: &mut ProjectReader) -> Result<(), HttpProblem> {
    let config = reader.settings().config()?;
    let scrubber = reader.scrubber().clone();
    let store = reader.store().map_err(ViewError::from)?.ok_or_else(unknown)?;
    match Learned::new(store, &scrubber, config.fingerprint_rules()).sync() {
        Ok(_) => Ok(()),
        Err(LearnedError::Store(error)) => Err(ViewError::from(error).into()),
        Err(LearnedError::Write(error)) => Err(HttpProblem::conflict(format!(
            "memory has changed, but a shared file could not be written: {error}"
        ))),
    }
}

fn done(said: &str) -> Result<Response, HttpProblem> {
    written(&serde_json::json!({ "ok": true, "said": said }))
}
