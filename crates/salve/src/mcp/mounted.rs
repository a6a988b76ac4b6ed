//! The same tools as part of another server, which says who may use them.

use std::sync::{Arc, Once};

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any_service};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::RepairToolsPlace;
use super::access::ToolAccess;
use super::http::{MOST_SESSIONS, SESSION};
use super::session::{Manner, Session};

/// Returns the repair tools of a project as one route of a server that checks host, origin, size
/// and token itself.
pub fn tools_route(place: RepairToolsPlace) -> MethodRouter {
    let access = ToolAccess::new(place);
    let sessions = Arc::new(LocalSessionManager::default());
    // Where nobody uses the tools, nobody has to look whether clients are still there.
    let tended = Arc::new(Once::new());
    let begin = move || {
        let tending = access.clone();
        tended.call_once(|| drop(tokio::spawn(async move { tending.tend().await })));
        Ok(Session::of(access.clone(), Manner::Http))
    };
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(begin, Arc::clone(&sessions), config);
    any_service(service).layer(middleware::from_fn_with_state(sessions, refuse_too_many))
}

async fn refuse_too_many(
    State(sessions): State<Arc<LocalSessionManager>>,
    request: Request,
    next: Next,
) -> Response {
    let is_new = request.method() == Method::POST && !request.headers().contains_key(SESSION);
    if is_new && sessions.sessions.read().await.len() >= MOST_SESSIONS {
        let text = "too many sessions are open; end one, or try again later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    next.run(request).await
}
