//! What most requests have in common: which project they are about, and who makes them.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use salve_core::scrub::Scrubbed;

use crate::web::AppState;
use crate::web::access::Visitor;
use crate::web::pages::ViewQuery;
use crate::web::problem::HttpProblem;
use crate::web::project_handle::ProjectHandle;

/// A look at one project, by anybody who has a token.
pub(super) struct ProjectView {
    pub(super) project: ProjectHandle,
    pub(super) query: ViewQuery,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<AppState> for ProjectView {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, HttpProblem> {
        let _visitor = Visitor::from_request_parts(parts, state).await?;
        let query: Result<Query<ViewQuery>, _> = Query::from_request_parts(parts, state).await;
        let Query(query) =
            query.map_err(|refusal| HttpProblem::bad_request(refusal.body_text()))?;
        let project = state.project(query.project.as_deref())?.clone();
        Ok(Self { project, query, headers: parts.headers.clone() })
    }
}

/// A decision about one project, by somebody who may decide.
pub(super) struct PersonRequest {
    /// The name under which they speak.
    pub(super) person: Scrubbed,
    pub(super) project: ProjectHandle,
    pub(super) body: Bytes,
}

impl FromRequest<AppState> for PersonRequest {
    type Rejection = HttpProblem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, HttpProblem> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, state).await?;
        let person = visitor.decider(&state.person)?;
        let ProjectView { project, .. } =
            ProjectView::from_request_parts(&mut parts, state).await?;
        let body = Bytes::from_request(Request::from_parts(parts, body), state).await;
        let body =
            body.map_err(|refusal| HttpProblem::new(refusal.status(), refusal.body_text()))?;
        Ok(Self { person, project, body })
    }
}
