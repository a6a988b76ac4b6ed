//! What is answered when something is wrong: RFC 9457's problem details.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// What went wrong, for people and for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct HttpProblem {
    /// The HTTP status code.
    pub(super) status: u16,
    /// The kind of problem, in a few words that do not vary.
    pub(super) title: String,
    /// What is wrong with this very request.
    pub(super) detail: String,
    /// What to do next, if something can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl HttpProblem {
    /// Makes a problem with the words that belong to its status.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Self { status: status.as_u16(), title, detail: detail.into(), next: None }
    }

    /// Says what to do next.
    #[must_use]
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Says that the request is malformed.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Says that there is no such thing.
    pub(super) fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Says that the thing has changed since the client looked, or does not take this.
    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// How much of a refusal's text is told.
const REFUSAL_BYTES: usize = 4096;

/// Turns what the framework refuses in plain text, such as a query that cannot be read, into a
/// problem like all others; tools have a protocol of their own.
pub(super) async fn tell_refusals(request: Request, next: Next) -> Response {
    let is_tools = request.uri().path().starts_with("/mcp");
    let response = next.run(request).await;
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_plain = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if is_tools || !is_plain || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = to_bytes(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    HttpProblem::new(status, String::from_utf8_lossy(&text)).into_response()
}

/// Answers requests for what does not exist.
pub(super) async fn not_found() -> HttpProblem {
    HttpProblem::missing("nothing is served here").next("GET /api/openapi.json lists what is")
}

/// Answers requests with a method that the address does not take.
pub(super) async fn method_not_allowed() -> HttpProblem {
    HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
}
