//! The HTTP API: everything that the page does, as JSON.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use salve_core::event::{Actor, Amounts, Digest, PersonOrder, ServerOrder};
use salve_core::scrub::{Scrubbed, Scrubber};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::access::{AccessError, AccessRight, Visitor};
use super::decide::{DecideError, decide, order_server};
use super::pages::ViewQuery;
use super::problem::HttpProblem;
use super::project_handle::ProjectHandle;
use super::views::{ProjectReader, ViewError};
use super::{AppState, openapi, security};
use crate::heal::people::{PersonAnswer, PersonWord};
use crate::reading::IncidentNotFound;
use crate::undo::{UndoDirection, UndoError, UndoRequest, undo_repair};
use crate::workspace::{Again, RestoreError};

/// The longest remark that is kept.
const LONGEST_NOTE: usize = 2000;

/// Returns the routes that everybody may use.
pub(super) fn open_routes() -> Router<AppState> {
    Router::new()
        .route("/api/session", post(open_session))
        .route("/healthz", get(healthz))
        .layer(security::body_limit())
}

/// Returns the routes that need a token.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/openapi.json", get(openapi::document))
        .route("/api/session/end", post(end_session))
        .route("/api/projects", get(projects))
        .route("/api/status", get(status))
        .route("/api/incidents", get(incidents))
        .route("/api/incidents/{id}", get(incident))
        .route("/api/incidents/{id}/evidence", get(evidence))
        .route("/api/incidents/{id}/diff", get(diff))
        .route("/api/incidents/{id}/answer", post(answer))
        .route("/api/incidents/{id}/order", post(order))
        .route("/api/incidents/{id}/refill", post(refill))
        .route("/api/incidents/{id}/undo", post(undo))
        .route("/api/servers/{name}/log", get(server_log))
        .route("/api/servers/{name}/order", post(server_order))
        .layer(security::body_limit())
}

impl AppState {
    /// Returns the project that is meant: the first unless one is named.
    pub(super) fn project(&self, name: Option<&str>) -> Result<&ProjectHandle, HttpProblem> {
        let found = match name {
            Some(name) => self.projects.iter().find(|handle| handle.name == name),
            None => self.projects.first(),
        };
        found.ok_or_else(|| {
            HttpProblem::missing("there is no such project").next("GET /api/projects")
        })
    }
}

impl From<ViewError> for HttpProblem {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Incident(IncidentNotFound::Unknown(_) | IncidentNotFound::Malformed(_)) => {
                HttpProblem::missing(error.to_string()).next("GET /api/incidents")
            }
            ViewError::Incident(IncidentNotFound::Ambiguous { .. }) => {
                HttpProblem::conflict(error.to_string()).next("give more digits")
            }
            ViewError::Incident(IncidentNotFound::Store(_))
            | ViewError::Store(_)
            | ViewError::Workspace(_)
            | ViewError::File(..) => {
                HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        }
    }
}

impl From<DecideError> for HttpProblem {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::View(error) => error.into(),
            DecideError::AnotherQuestion | DecideError::Refused(_) | DecideError::Restless => {
                HttpProblem::conflict(error.to_string()).next("GET the incident again")
            }
            DecideError::NoSuchServer(_) => HttpProblem::missing(error.to_string()),
        }
    }
}

impl From<UndoError> for HttpProblem {
    fn from(error: UndoError) -> Self {
        match &error {
            UndoError::Restore(RestoreError::ChangedSince { .. }) => {
                HttpProblem::conflict(error.to_string())
                    .next("send \"overwrite\": true to undo those files too; they are kept")
            }
            UndoError::BeingHealed | UndoError::NothingKept | UndoError::NotUndone => {
                HttpProblem::conflict(error.to_string())
            }
            UndoError::Restore(_) | UndoError::Workspace(_) | UndoError::Store(_) => {
                HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        }
    }
}

impl From<AccessError> for HttpProblem {
    fn from(error: AccessError) -> Self {
        HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// Reads a body; what is not of its shape is refused with the place.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, HttpProblem> {
    serde_json::from_slice(body).map_err(|error| HttpProblem::bad_request(error.to_string()))
}

/// Answers with JSON, or with 304 where the client has it already.
fn json(headers: &HeaderMap, value: &impl Serialize) -> Result<Response, HttpProblem> {
    let failed =
        |_| HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the answer cannot be written");
    let body = serde_json::to_vec(value).map_err(failed)?;
    let tag = Digest::of(&[&body]).to_string();
    let tag = format!("\"{}\"", tag.chars().take(16).collect::<String>());
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => body.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

fn written(value: &impl Serialize) -> Result<Response, HttpProblem> {
    json(&HeaderMap::new(), value)
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// The one-time code that `salve serve` put behind the `#` of the page's address.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionRequest {
    /// The code; it is good once.
    code: String,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionOpened {
    /// What to send as `Authorization: Bearer …`.
    token: String,
    /// What it allows.
    right: AccessRight,
}

async fn open_session(State(state): State<AppState>, body: Bytes) -> Result<Response, HttpProblem> {
    let SessionRequest { code } = parse(&body)?;
    let refused = || {
        HttpProblem::new(StatusCode::UNAUTHORIZED, "this code was used already or is too old")
            .next("salve serve --link")
    };
    let token = state.access.redeem(&code)?.ok_or_else(refused)?;
    written(&SessionOpened { token, right: AccessRight::Operator })
}

async fn end_session(
    State(state): State<AppState>,
    visitor: Visitor,
) -> Result<Response, HttpProblem> {
    state.access.end_session(&visitor)?;
    written(&serde_json::json!({ "ok": true }))
}

async fn projects(
    State(state): State<AppState>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let of = |handle: &ProjectHandle| serde_json::json!({ "name": handle.name, "root": handle.root.display().to_string() });
    let projects: Vec<_> = state.projects.iter().map(of).collect();
    json(&headers, &serde_json::json!({ "projects": projects, "right": visitor.right }))
}

async fn status(
    State(state): State<AppState>,
    _visitor: Visitor,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let handle = state.project(query.project.as_deref())?;
    let overview = handle.ask(ProjectReader::overview).await??;
    json(&headers, &overview)
}

async fn incidents(
    State(state): State<AppState>,
    _visitor: Visitor,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let (handle, wanted) = (state.project(query.project.as_deref())?, query.incidents());
    let page = handle.ask(move |reader| reader.incidents(&wanted)).await??;
    json(&headers, &page)
}

async fn incident(
    State(state): State<AppState>,
    _visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let handle = state.project(query.project.as_deref())?;
    let details = handle.ask(move |reader| reader.incident(&id)).await??;
    json(&headers, &details)
}

async fn evidence(
    State(state): State<AppState>,
    _visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let handle = state.project(query.project.as_deref())?;
    let evidence = handle.ask(move |reader| reader.evidence(&id)).await??;
    json(&headers, &evidence.ok_or_else(|| HttpProblem::missing("no evidence is kept"))?)
}

async fn diff(
    State(state): State<AppState>,
    _visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let handle = state.project(query.project.as_deref())?;
    let diffs = handle.ask(move |reader| -> Result<_, ViewError> {
        let id = reader.incident(&id)?.story.repair.repair_id;
        reader.diffs(id)
    });
    json(&headers, &diffs.await??)
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
pub(super) struct AnswerRequest {
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

/// A decision that was written to the journal.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Decided {
    /// Always true.
    ok: bool,
    /// The number of the journal's entry.
    seq: u64,
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
async fn write_decision(
    handle: &ProjectHandle,
    given: String,
    person: Scrubbed,
    decision: impl FnOnce(&Scrubber) -> Result<PersonWord, HttpProblem> + Send + 'static,
) -> Result<Response, HttpProblem> {
    let seq = handle.ask(move |reader| -> Result<u64, HttpProblem> {
        let decision = decision(reader.scrubber())?;
        let id = reader.incident_view(&given)?.id();
        Ok(decide(reader, id, &person, decision)?)
    });
    written(&Decided { ok: true, seq: seq.await?? })
}

async fn answer(
    State(state): State<AppState>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let person = visitor.decider(&state.person)?;
    let request: AnswerRequest = parse(&body)?;
    let handle = state.project(query.project.as_deref())?;
    write_decision(handle, id, person, move |scrubber| request.decision(scrubber)).await
}

/// An order to an incident.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderRequest {
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

async fn order(
    State(state): State<AppState>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let person = visitor.decider(&state.person)?;
    let OrderRequest { order } = parse(&body)?;
    let order = match order {
        IncidentOrder::Pause => PersonOrder::Pause,
        IncidentOrder::Resume => PersonOrder::Resume,
        IncidentOrder::Skip => PersonOrder::Skip,
        IncidentOrder::Retry => PersonOrder::Retry,
        IncidentOrder::Abort => PersonOrder::Abort,
        IncidentOrder::Escalate => PersonOrder::Escalate,
    };
    let handle = state.project(query.project.as_deref())?;
    write_decision(handle, id, person, move |_| Ok(PersonWord::Order(order))).await
}

/// What a person grants an incident.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RefillRequest {
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

async fn refill(
    State(state): State<AppState>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let person = visitor.decider(&state.person)?;
    let RefillRequest { attempts, tokens, minutes } = parse(&body)?;
    let wall_ms = minutes.saturating_mul(60_000);
    let granted = Amounts { attempts, tokens, wall_ms, ..Amounts::default() };
    if granted == Amounts::default() {
        return Err(HttpProblem::bad_request("nothing is granted"));
    }
    let handle = state.project(query.project.as_deref())?;
    write_decision(handle, id, person, move |_| Ok(PersonWord::Refill(granted))).await
}

/// What is to be undone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoBody {
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

async fn undo(
    State(state): State<AppState>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let by = Actor::Person { name: visitor.decider(&state.person)? };
    let UndoBody { attempt, overwrite, direction } = parse(&body)?;
    let request = UndoRequest {
        attempt,
        changed_since: if overwrite { Again::Overwrite } else { Again::Refuse },
        direction: match direction {
            UndoWay::Undo => UndoDirection::Undo,
            UndoWay::Redo => UndoDirection::Redo,
        },
    };
    let handle = state.project(query.project.as_deref())?;
    let restored = handle.ask(move |reader| -> Result<_, HttpProblem> {
        let id = reader.incident_view(&id)?.id();
        let scrubber = reader.scrubber().clone();
        let missing = || HttpProblem::missing("there is no journal");
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(missing)?;
        Ok(undo_repair(store, id, &request, by, &scrubber)?)
    });
    let restored = restored.await??;
    written(&serde_json::json!({ "ok": true, "files": restored.files, "left": restored.left }))
}

async fn server_log(
    State(state): State<AppState>,
    _visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let handle = state.project(query.project.as_deref())?;
    let log = handle.ask(move |reader| -> Result<_, ViewError> {
        // Only the log of a server that the journal knows: a name is not a path.
        let is_known = reader.servers()?.iter().any(|server| server.server == name);
        if is_known { reader.server_log(&name) } else { Ok(None) }
    });
    json(&headers, &log.await??.ok_or_else(|| HttpProblem::missing("no log is kept"))?)
}

/// An order to a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerOrderRequest {
    /// The order.
    order: ServerOrderWord,
}

/// What a server can be told.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ServerOrderWord {
    /// Start it, also during a cooldown.
    Start,
    /// Stop it.
    Stop,
    /// Stop it and start it again.
    Restart,
}

async fn server_order(
    State(state): State<AppState>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query<ViewQuery>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let person = visitor.decider(&state.person)?;
    let ServerOrderRequest { order } = parse(&body)?;
    let order = match order {
        ServerOrderWord::Start => ServerOrder::Start,
        ServerOrderWord::Stop => ServerOrder::Stop,
        ServerOrderWord::Restart => ServerOrder::Restart,
    };
    let handle = state.project(query.project.as_deref())?;
    let seq = handle.ask(move |reader| order_server(reader, &name, order, &person)).await??;
    written(&Decided { ok: true, seq })
}
