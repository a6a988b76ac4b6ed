//! The HTTP API: everything that the page does, as JSON.

mod answer_link;
mod fleet;
mod incidents;
mod memory;
mod request;
mod servers;
mod session;
mod settings;
mod statistics;
mod work;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use salve_core::event::Digest;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use answer_link::{AnswerLinkAnswer, AnswerLinkRequest};
pub(super) use fleet::FleetAnswerRequest;
pub(super) use incidents::{AnswerRequest, OrderRequest, RefillRequest, UndoBody};
pub(super) use memory::{ForgetRequest, MemoryCheckRequest, PromoteRequest, RemedyEditRequest};
pub(super) use servers::ServerOrderRequest;
pub(super) use session::{SessionOpened, SessionRequest};
pub(super) use settings::{AcceptRequest, NoticeTestRequest, RuleWordRequest};
pub(super) use work::{ControlRequest, LoopOrderRequest};

use self::request::ProjectView;
use super::access::Visitor;
use super::decide::{DecideError, WrittenDecision};
use super::problem::HttpProblem;
use super::project_handle::ProjectHandle;
use super::views::{ProjectOverview, ViewError};
use super::{AppState, openapi, security};
use crate::page_access::AccessError;
use crate::reading::IncidentNotFound;
use crate::undo::UndoError;
use crate::workspace::RestoreError;

/// Returns the routes that everybody may use.
pub(super) fn open_routes() -> Router<AppState> {
    Router::new()
        .route("/api/session", post(session::open_session))
        .route("/api/answer-link", post(answer_link::show))
        .route("/api/answer-link/answer", post(answer_link::answer))
        .route("/healthz", get(healthz))
        .layer(security::body_limit())
}

/// Returns the routes that need a token.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/openapi.json", get(openapi::document))
        .route("/api/session/end", post(session::end_session))
        .route("/api/projects", get(projects))
        .route("/api/status", get(status))
        .route("/api/incidents", get(incidents::incidents))
        .route("/api/incidents/{id}", get(incidents::incident))
        .route("/api/incidents/{id}/evidence", get(incidents::evidence))
        .route("/api/incidents/{id}/transcript", get(incidents::transcript))
        .route("/api/incidents/{id}/diff", get(incidents::diff))
        .route("/api/incidents/{id}/export.json", get(incidents::export_json))
        .route("/api/incidents/{id}/export.html", get(incidents::export_html))
        .route("/api/incidents/{id}/what-if", post(incidents::what_if))
        .route("/fragment/incidents/{id}/what-if", post(incidents::what_if_fragment))
        .route("/api/incidents/{id}/answer", post(incidents::answer))
        .route("/api/incidents/{id}/order", post(incidents::order))
        .route("/api/incidents/{id}/refill", post(incidents::refill))
        .route("/api/incidents/{id}/undo", post(incidents::undo))
        .route("/api/logs", get(servers::logs))
        .route("/api/servers/{name}/log", get(servers::server_log))
        .route("/api/servers/{name}/order", post(servers::server_order))
        .route("/api/memory", get(memory::memory))
        .route("/api/memory/check", post(memory::check))
        .route("/api/memory/{signature}/forget", post(memory::forget))
        .route("/api/memory/{signature}/promote", post(memory::promote))
        .route("/api/memory/{signature}/edit", post(memory::edit))
        .route("/fragment/memory/check", post(memory::check_fragment))
        .route("/api/statistics", get(statistics::statistics))
        .route("/api/statistics.csv", get(statistics::statistics_csv))
        .route("/api/settings", get(settings::settings))
        .route("/api/settings/accept", post(settings::accept))
        .route("/api/rules/{rule}/word", post(settings::rule_word))
        .route("/api/notices/test", post(settings::test_notices))
        .route("/api/work", get(work::work))
        .route("/api/task-runs/{run}/control", post(work::control))
        .route("/api/loops/{name}/order", post(work::order_loop))
        .route("/api/fleet", get(fleet::fleet))
        .route("/api/fleet/jobs/{run}/control", post(fleet::control))
        .route("/api/fleet/questions/{incident}/answer", post(fleet::answer))
        .layer(security::body_limit())
}

/// A decision that was written to the journal.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::web) struct Decided {
    /// Always true.
    ok: bool,
    /// The number of the journal's entry.
    seq: u64,
    /// What follows from it, for people.
    said: String,
}

impl Decided {
    /// Returns the answer about an entry that was written.
    fn new(seq: u64, said: impl Into<String>) -> Self {
        Self { ok: true, seq, said: said.into() }
    }

    /// Returns the answer about a decision; who has to be there for it to take effect is said, too.
    fn about(decision: WrittenDecision, said: &str) -> Self {
        let WrittenDecision { seq, is_heard } = decision;
        Self::new(seq, if is_heard { said.to_owned() } else { format!("{said} {UNHEARD}") })
    }
}

/// Says that nobody hears a decision now.
const UNHEARD: &str = "No salve cares for it now; it takes effect when one does again.";

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
            ViewError::Settings(_) => {
                HttpProblem::conflict(error.to_string()).next("salve config check")
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
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Answers with HTML.
fn html_answer(text: String) -> Response {
    let mut response = text.into_response();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

fn written(value: &impl Serialize) -> Result<Response, HttpProblem> {
    json(&HeaderMap::new(), value)
}

async fn healthz() -> &'static str {
    "ok\n"
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
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let overview = project.ask(ProjectOverview::read).await??;
    json(&headers, &overview)
}
