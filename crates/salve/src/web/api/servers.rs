//! Servers: their logs, and orders to them.

use axum::extract::Path;
use axum::response::Response;
use salve_core::event::ServerOrder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::{Decided, json, parse, written};
use crate::web::decide::order_server;
use crate::web::problem::HttpProblem;
use crate::web::views::ViewError;

pub(super) async fn logs(
    ProjectView { project, query, headers }: ProjectView,
) -> Result<Response, HttpProblem> {
    let wanted = query.log();
    json(&headers, &project.ask(move |reader| reader.logs().view(&wanted)).await??)
}

pub(super) async fn server_log(
    Path(name): Path<String>,
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let log = project.ask(move |reader| -> Result<_, ViewError> {
        // Only the log of a server that the journal knows: a name is not a path.
        let is_known = reader.servers().list()?.iter().any(|server| server.server == name);
        if is_known { reader.logs().of_server(&name) } else { Ok(None) }
    });
    json(&headers, &log.await??.ok_or_else(|| HttpProblem::missing("no log is kept"))?)
}

/// An order to a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct ServerOrderRequest {
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

pub(super) async fn server_order(
    Path(name): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let ServerOrderRequest { order } = parse(&body)?;
    let (order, said) = match order {
        ServerOrderWord::Start => (ServerOrder::Start, "The server is started."),
        ServerOrderWord::Stop => (ServerOrder::Stop, "The server is stopped."),
        ServerOrderWord::Restart => (ServerOrder::Restart, "The server is started again."),
    };
    let seq = project.ask(move |reader| order_server(reader, &name, order, &person)).await??;
    written(&Decided::new(seq, said))
}
