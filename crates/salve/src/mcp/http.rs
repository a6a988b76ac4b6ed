//! The same tools over HTTP, for clients on this machine that show the token.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::access::ToolAccess;
use super::session::{Manner, Session};
use super::{RepairToolsPlace, runtime, until_told_to_end};
use crate::files::{FileKind, read_text};
use crate::project::ProjectError;

/// The token's file below `.salve`.
const FILE: &str = "mcp-token";

/// The header by which a client names its session.
pub(super) const SESSION: &str = "mcp-session-id";

/// How JSON may be announced.
const JSON: [&[u8]; 2] = [b"application/json", b"application/json; charset=utf-8"];

/// How many connections are served at once.
const MOST_CONNECTIONS: usize = 64;

/// How many sessions may be open at once.
pub(super) const MOST_SESSIONS: usize = 32;

/// How long a client may take to send the head of a request.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// How long to wait where no connection can be taken.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// The file that holds the token which clients show.
    pub file: PathBuf,
}

/// Serves clients on this machine until told to end; `ready` is called once it can.
///
/// # Errors
///
/// When the address is not this machine's own or in use, or the token cannot be kept.
pub fn serve_http(
    place: RepairToolsPlace,
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
    let access = ToolAccess::new(place);
    ready(&Ready { url: format!("http://{addr}/mcp"), file });
    let served = runtime.block_on(until_told_to_end(&access, async {
        serve(listener, router(&access, addr, &token)).await;
    }));
    access.close();
    runtime.shutdown_background();
    served.map_err(HttpError::Wait)
}

/// Serves one connection after the other, each in its own time and so many at once; it ends only
/// with the process.
async fn serve(listener: TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // No more files may be open just now.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
            // Whoever speaks no HTTP is no client.
            let _ended = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

fn router(access: &ToolAccess, addr: SocketAddr, token: &str) -> Router {
    let port = addr.port();
    let hosts = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
    let origins = hosts.clone().map(|host| format!("http://{host}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(origins.clone())
        .enforce_origin_validation();
    let access = access.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(
        move || Ok(Session::of(access.clone(), Manner::Http)),
        Arc::clone(&sessions),
        config,
    );
    let want: [u8; 32] = Sha256::digest(token).into();
    let door = Arc::new(HttpDoor { hosts, origins, sessions });
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(door, only_proper))
        .layer(middleware::from_fn_with_state(want, only_with_token))
}

/// What a request has to say of itself.
struct HttpDoor {
    hosts: [String; 3],
    origins: [String; 3],
    sessions: Arc<LocalSessionManager>,
}

impl HttpDoor {
    /// Returns why a request is not let in, if so.
    ///
    /// A page in the user's browser can send requests here under a name of its own. Its `Host` then
    /// names that, its `Origin` says where it came from, and it may not send JSON unasked.
    fn refuses(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        let headers = request.headers();
        let all = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let is_one_of =
            |value: &[u8], known: &[String]| known.iter().any(|k| k.as_bytes() == value);
        let mut hosts = all(header::HOST);
        let is_ours = hosts.next().is_some_and(|host| is_one_of(host, &self.hosts));
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let is_ours = is_ours && authority.is_none_or(|host| is_one_of(host, &self.hosts));
        if !is_ours || hosts.next().is_some() {
            return Some((StatusCode::FORBIDDEN, "name this very address and port as the host\n"));
        }
        let mut origins = all(header::ORIGIN);
        let is_known = origins.next().is_none_or(|origin| is_one_of(origin, &self.origins));
        if !is_known || origins.next().is_some() {
            return Some((StatusCode::FORBIDDEN, "this origin is not served\n"));
        }
        let mut types = all(header::CONTENT_TYPE);
        let is_json = types.next().is_some_and(|text| JSON.iter().any(|json| json == &text));
        if request.method() == Method::POST && (!is_json || types.next().is_some()) {
            return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json\n"));
        }
        None
    }

    /// Returns whether one more session would be one too many.
    async fn is_full(&self) -> bool {
        self.sessions.sessions.read().await.len() >= MOST_SESSIONS
    }
}

/// Lets only requests pass that can come from a client on this machine, and only so many.
async fn only_proper(State(door): State<Arc<HttpDoor>>, request: Request, next: Next) -> Response {
    if let Some(refusal) = door.refuses(&request) {
        return refusal.into_response();
    }
    let is_new = request.method() == Method::POST && !request.headers().contains_key(SESSION);
    if is_new && door.is_full().await {
        let text = "too many sessions are open; end one, or try again later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    next.run(request).await
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
    let token = read_text(path, FileKind::Note)?.trim().to_owned();
    if token.len() >= 32 && token.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(token)
    } else {
        Err(bad("it holds no token; remove it, and a new one is made"))
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
