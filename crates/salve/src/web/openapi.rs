//! The API's description, made of the same types that the handlers read and write.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::api::{
    AcceptRequest, AnswerLinkAnswer, AnswerLinkRequest, AnswerRequest, ControlRequest, Decided,
    FleetAnswerRequest, ForgetRequest, LoopOrderRequest, MemoryCheckRequest, NoticeTestRequest,
    OrderRequest, PromoteRequest, RefillRequest, RemedyEditRequest, RuleWordRequest,
    ServerOrderRequest, SessionOpened, SessionRequest, UndoBody,
};
use super::pages::ExportedIncident;
use super::problem::HttpProblem;
use super::views::{
    AttemptDiff, FleetView, IncidentDetails, IncidentPage, LogView, MemoryView, ProjectOverview,
    SettingsView, TextTail, WhatIfAnswer, WhatIfRequest, WorkView,
};
use crate::page_access::AccessRight;

/// One thing that the API does.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    query: &'static [&'static str],
    request: Option<Value>,
    response: Value,
    media: &'static str,
}

/// Answers with the description.
pub(super) async fn document() -> Response {
    let text = describe().to_string();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Returns the description as OpenAPI 3.1.
pub(super) fn describe() -> Value {
    // The version of OpenAPI below takes this draft as it is.
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<HttpProblem>();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations(&mut generator) {
        let entry = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = entry {
            methods.insert(operation.method.to_owned(), operation.describe(&problem));
        }
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Salve", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

impl Operation {
    fn describe(&self, problem: &impl serde::Serialize) -> Value {
        let in_path = self.path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            Some(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        });
        let in_query = self
            .query
            .iter()
            .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        let mut described = json!({
            "summary": self.summary,
            "parameters": parameters,
            "responses": {
                "200": { "description": "Done", "content": { self.media: { "schema": self.response } } },
                "default": {
                    "description": "It was refused, or failed",
                    "content": { "application/problem+json": { "schema": problem } },
                },
            },
        });
        if let (Some(request), Value::Object(fields)) = (&self.request, &mut described) {
            let body = json!({ "required": true, "content": { "application/json": { "schema": request } } });
            fields.insert("requestBody".to_owned(), body);
        }
        described
    }
}

/// The media type of most answers.
const JSON: &str = "application/json";

fn read<R: JsonSchema>(
    generator: &mut SchemaGenerator,
    path: &'static str,
    summary: &'static str,
    query: &'static [&'static str],
) -> Operation {
    let response = generator.subschema_for::<R>().to_value();
    Operation { method: "get", path, summary, query, request: None, response, media: JSON }
}

/// Describes what is read and is no JSON.
fn text(
    path: &'static str,
    summary: &'static str,
    query: &'static [&'static str],
    media: &'static str,
) -> Operation {
    let response = json!({ "type": "string" });
    Operation { method: "get", path, summary, query, request: None, response, media }
}

fn write<B: JsonSchema, R: JsonSchema>(
    generator: &mut SchemaGenerator,
    path: &'static str,
    summary: &'static str,
) -> Operation {
    let request = Some(generator.subschema_for::<B>().to_value());
    let response = generator.subschema_for::<R>().to_value();
    Operation { method: "post", path, summary, query: &["project"], request, response, media: JSON }
}

/// Nothing need be sent.
#[derive(JsonSchema)]
struct NoBody {}

/// It was done.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Done {
    /// Whether all of it was done.
    ok: bool,
    /// What came of it, for people.
    said: Option<String>,
}

/// Facts whose shape core defines.
type AnyObject = Map<String, Value>;

/// The projects that are shown.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ShownProjects {
    projects: Vec<ShownProject>,
    /// What the token allows.
    right: AccessRight,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ShownProject {
    /// Its name in addresses.
    name: String,
    /// Its directory.
    root: String,
}

fn operations(generator: &mut SchemaGenerator) -> Vec<Operation> {
    let mut all = reads(generator);
    all.extend(texts());
    all.extend(incident_writes(generator));
    all.extend(other_writes(generator));
    all
}

/// The query of what is about one project.
const OF_PROJECT: &[&str] = &["project"];

fn texts() -> Vec<Operation> {
    vec![
        text("/healthz", "Whether the server answers", &[], "text/plain"),
        text("/metrics", "Numbers in Prometheus' format", &[], "text/plain"),
        text(
            "/api/incidents/{id}/export.html",
            "All of an incident as a page of its own",
            OF_PROJECT,
            "text/html",
        ),
        text(
            "/api/statistics.csv",
            "One table of what incidents add up to: days, weeks, classes or failures",
            &["project", "days", "table"],
            "text/csv",
        ),
        text(
            "/api/events",
            "The journal as it grows; Last-Event-ID goes on",
            &["project", "after"],
            "text/event-stream",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table: one row for each route")]
fn reads(generator: &mut SchemaGenerator) -> Vec<Operation> {
    let list: &[&str] = &["project", "state", "subject", "q", "before", "limit"];
    let one = OF_PROJECT;
    vec![
        read::<AnyObject>(generator, "/api/openapi.json", "This description", &[]),
        read::<ShownProjects>(
            generator,
            "/api/projects",
            "The projects that are shown, and what the token allows",
            &[],
        ),
        read::<ProjectOverview>(
            generator,
            "/api/status",
            "Servers, open incidents and what was said last",
            one,
        ),
        read::<IncidentPage>(
            generator,
            "/api/incidents",
            "Incidents, the newest first, page by page",
            list,
        ),
        read::<IncidentDetails>(
            generator,
            "/api/incidents/{id}",
            "One incident's whole story",
            one,
        ),
        read::<TextTail>(
            generator,
            "/api/incidents/{id}/evidence",
            "What the failure left behind",
            one,
        ),
        read::<TextTail>(
            generator,
            "/api/incidents/{id}/transcript",
            "What agents that Salve started said",
            one,
        ),
        read::<Vec<AttemptDiff>>(
            generator,
            "/api/incidents/{id}/diff",
            "What each attempt changed",
            one,
        ),
        read::<ExportedIncident>(
            generator,
            "/api/incidents/{id}/export.json",
            "All of it in one file",
            one,
        ),
        read::<TextTail>(generator, "/api/servers/{name}/log", "The end of a server's log", one),
        read::<LogView>(
            generator,
            "/api/logs",
            "The lines of a log that fit",
            &["project", "server", "q", "show"],
        ),
        read::<MemoryView>(
            generator,
            "/api/memory",
            "What is remembered",
            &["project", "whose", "q", "skip"],
        ),
        read::<AnyObject>(
            generator,
            "/api/statistics",
            "What incidents add up to",
            &["project", "days"],
        ),
        read::<SettingsView>(
            generator,
            "/api/settings",
            "Settings and rules, each with where it comes from",
            one,
        ),
        read::<WorkView>(generator, "/api/work", "Jobs and loops", one),
        read::<FleetView>(
            generator,
            "/api/fleet",
            "The fleet: its workers, jobs and questions",
            one,
        ),
    ]
}

fn incident_writes(generator: &mut SchemaGenerator) -> Vec<Operation> {
    vec![
        write::<SessionRequest, SessionOpened>(
            generator,
            "/api/session",
            "Turn a one-time code into a session",
        ),
        write::<NoBody, Done>(generator, "/api/session/end", "End this session"),
        Operation {
            media: "text/html",
            ..write::<AnswerLinkRequest, String>(
                generator,
                "/api/answer-link",
                "Show the one question that a link answers; needs no token",
            )
        },
        write::<AnswerLinkAnswer, Decided>(
            generator,
            "/api/answer-link/answer",
            "Answer it, once; needs no token",
        ),
        write::<AnswerRequest, Decided>(
            generator,
            "/api/incidents/{id}/answer",
            "Approve, reject or settle",
        ),
        write::<WhatIfRequest, WhatIfAnswer>(
            generator,
            "/api/incidents/{id}/what-if",
            "Replay it under other settings",
        ),
        write::<OrderRequest, Decided>(
            generator,
            "/api/incidents/{id}/order",
            "Pause, resume, call off, …",
        ),
        write::<RefillRequest, Decided>(generator, "/api/incidents/{id}/refill", "Grant more"),
        write::<UndoBody, Done>(
            generator,
            "/api/incidents/{id}/undo",
            "Give the files back, or take that back",
        ),
        write::<ServerOrderRequest, Decided>(
            generator,
            "/api/servers/{name}/order",
            "Start, stop or restart",
        ),
    ]
}

fn other_writes(generator: &mut SchemaGenerator) -> Vec<Operation> {
    vec![
        write::<MemoryCheckRequest, AnyObject>(
            generator,
            "/api/memory/check",
            "What is known about a failure",
        ),
        write::<ForgetRequest, Done>(generator, "/api/memory/{signature}/forget", "Forget it"),
        write::<PromoteRequest, Done>(
            generator,
            "/api/memory/{signature}/promote",
            "Know it in all your projects",
        ),
        write::<RemedyEditRequest, Done>(
            generator,
            "/api/memory/{signature}/edit",
            "Change, drop or teach a remedy",
        ),
        write::<AcceptRequest, Done>(
            generator,
            "/api/settings/accept",
            "Accept a change of the settings that waits",
        ),
        write::<RuleWordRequest, Decided>(
            generator,
            "/api/rules/{rule}/word",
            "Accept an earned rule, or withdraw it",
        ),
        write::<NoticeTestRequest, Done>(
            generator,
            "/api/notices/test",
            "Try every way of telling people",
        ),
        write::<ControlRequest, AnyObject>(
            generator,
            "/api/task-runs/{run}/control",
            "Pause, resume, cancel, retry, reset a job",
        ),
        write::<LoopOrderRequest, Decided>(
            generator,
            "/api/loops/{name}/order",
            "Pause, resume, retry, skip, stop a loop",
        ),
        write::<ControlRequest, AnyObject>(
            generator,
            "/api/fleet/jobs/{run}/control",
            "Pause, resume, cancel, retry, reset a job of the fleet",
        ),
        write::<FleetAnswerRequest, AnyObject>(
            generator,
            "/api/fleet/questions/{incident}/answer",
            "Answer a question of a job of the fleet, with your own key",
        ),
    ]
}
