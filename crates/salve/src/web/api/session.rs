//! Signing a browser in and out.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{parse, written};
use crate::page_access::AccessRight;
use crate::web::AppState;
use crate::web::access::Visitor;
use crate::web::problem::HttpProblem;

/// The one-time code that `salve serve` put behind the `#` of the page's address.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct SessionRequest {
    /// The code; it is good once.
    code: String,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::web) struct SessionOpened {
    /// What to send as `Authorization: Bearer …`.
    token: String,
    /// What it allows.
    right: AccessRight,
}

pub(super) async fn open_session(
    State(state): State<AppState>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let SessionRequest { code } = parse(&body)?;
    let refused = || {
        HttpProblem::new(StatusCode::UNAUTHORIZED, "this code was used already or is too old")
            .next("salve serve --link")
    };
    let token = state.access.redeem(&code)?.ok_or_else(refused)?;
    written(&SessionOpened { token, right: AccessRight::Operator })
}

pub(super) async fn end_session(
    State(state): State<AppState>,
    visitor: Visitor,
) -> Result<Response, HttpProblem> {
    state.access.end_session(&visitor)?;
    written(&serde_json::json!({ "ok": true }))
}
