//! The same tools over HTTP, for clients on this machine that show the token.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::desk::Desk;
use super::session::{Manner, Session};
use super::{Place, runtime, until_told_to_end};
use crate::project::ProjectError;

/// The token's file below `.salve`.
const FILE: &str = "mcp-token";

/// Why the tools cannot be served over HTTP.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Others than this machine could reach it.
    #[error("{0} can be reached from other machines")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The token cannot be kept.
    #[error("cannot keep the token in {}", .0.display())]
    Token(PathBuf, #[source] io::Error),
    /// There is no place for the token.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The system failed.
    #[error("cannot wait for connections")]
    Wait(#[source] io::Error),
}

/// Where the tools are served.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The address clients connect to.
    pub url: String,
    /// What clients show.
    pub token: String,
    /// The file that holds the token.
    pub file: PathBuf,
}

/// Serves clients on this machine until told to end; `ready` is called once it can.
///
/// # Errors
///
/// When the address is not this machine's own or in use, or the token cannot be kept.
pub fn serve_http(
    place: Place,
    addr: SocketAddr,
    ready: impl FnOnce(&Ready),
) -> Result<(), HttpError> {
    if !addr.ip().is_loopback() {
        return Err(HttpError::NotLoopback(addr));
    }
    let file = place.project.make_state_dir()?.join(FILE);
    let token = kept_token(&file).map_err(|error| HttpError::Token(file.clone(), error))?;
    let runtime = runtime().map_err(HttpError::Wait)?;
    let listen = |error| HttpError::Listen(addr, error);
    let listener = runtime.block_on(TcpListener::bind(addr)).map_err(listen)?;
    let addr = listener.local_addr().map_err(listen)?;
    let desk = Desk::open(place);
    ready(&Ready { url: format!("http://{addr}/mcp"), token: token.clone(), file });
    let served = runtime.block_on(until_told_to_end(async {
        // It ends only with the process.
        let _ended = axum::serve(listener, router(&desk, addr, &token)).await;
    }));
    desk.close();
    runtime.shutdown_background();
    served.map_err(HttpError::Wait)
}

fn router(desk: &Desk, addr: SocketAddr, token: &str) -> Router {
    let port = addr.port();
    let origins = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    let desk = desk.clone();
    let service = StreamableHttpService::new(
        move || Ok(Session::of(desk.clone(), Manner::Http)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let want: [u8; 32] = Sha256::digest(token).into();
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(want, only_with_token))
}

/// Lets only requests pass that show the token.
async fn only_with_token(State(want): State<[u8; 32]>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    // Hashes are compared, so that the time it takes tells nothing about the token.
    let fits = shown.is_some_and(|shown| <[u8; 32]>::from(Sha256::digest(shown.trim())) == want);
    if fits {
        return next.run(request).await;
    }
    let text = "show the token: Authorization: Bearer …; it is in .salve/mcp-token\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

/// Returns the token kept in `path`, making it if there is none; it is its owner's alone.
fn kept_token(path: &Path) -> io::Result<String> {
    match read_token(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let owner_only = std::fs::Permissions::from_mode(0o600);
    let mut file =
        tempfile::Builder::new().prefix(".mcp-token-").permissions(owner_only).tempfile_in(dir)?;
    writeln!(file, "{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        // Of several that make it at once, one wins and all use its token.
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        Ok(_) | Err(_) => read_token(path),
    }
}

fn read_token(path: &Path) -> io::Result<String> {
    let meta = std::fs::symlink_metadata(path)?;
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if !meta.is_file() || meta.permissions().mode() & 0o077 != 0 {
        return Err(bad("others may read or replace it; remove it, and a new one is made"));
    }
    let token = std::fs::read_to_string(path)?.trim().to_owned();
    match token.len() >= 32 && token.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(token),
        false => Err(bad("it holds no token; remove it, and a new one is made")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_made_once_and_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let token = kept_token(&path).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(kept_token(&path).unwrap(), token);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_token_that_others_may_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        kept_token(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kept_token(&path).is_err());
    }
}
