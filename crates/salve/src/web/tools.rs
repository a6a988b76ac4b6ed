//! `/mcp`: the repair tools for agents, by the page's own tokens.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;

use super::AppState;
use super::access::Visitor;
use super::problem::HttpProblem;
use super::security::BODY_BYTES;
use crate::page_access::AccessRight;

/// The tools of one project.
pub(super) struct NamedTools {
    /// The project's name in addresses.
    pub(super) project: String,
    /// What answers.
    pub(super) route: MethodRouter,
}

/// Returns the routes: the first project's tools at `/mcp`, every project's at `/mcp/NAME`.
pub(super) fn routes(all: Vec<NamedTools>) -> Router<AppState> {
    let mut routes = Router::new();
    if let Some(first) = all.first() {
        routes = routes.route("/mcp", first.route.clone().with_state(()));
    }
    for NamedTools { project, route } in all {
        routes = routes.route(&format!("/mcp/{project}"), route.with_state(()));
    }
    routes.layer(middleware::from_fn(only_reporters))
}

/// Lets those pass who may report, with a body of the usual size.
async fn only_reporters(visitor: Visitor, request: Request, next: Next) -> Response {
    match visitor.right {
        AccessRight::Agent | AccessRight::Operator => {}
        AccessRight::Viewer => {
            let detail = "this token may only look";
            return HttpProblem::new(StatusCode::FORBIDDEN, detail)
                .next("salve serve token new agent NAME")
                .into_response();
        }
    }
    // The protocol's own reader has no limit, and a body in chunks announces no length.
    let (head, body) = request.into_parts();
    let most = usize::try_from(BODY_BYTES).unwrap_or(usize::MAX);
    match to_bytes(body, most).await {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(_) => {
            HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large").into_response()
        }
    }
}
