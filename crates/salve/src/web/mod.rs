//! The page and the HTTP API that `salve serve` gives to browsers and scripts on this machine.
//!
//! Every request passes `security` first, then `access` says who asks and what they may do. A
//! `ProjectHandle` leads to the one thread that owns a project's store; `views` reads what a page
//! shows, `pages` turns it into HTML, `live` pushes it as it changes, `api` gives the same facts
//! as JSON, and `decide` writes what people decide. `dev_page` serves the pages of servers under
//! care that include Salve's script. The browser gets one script and one style sheet,
//! both in `assets/`.
//!
//! **Invariant:** whoever only shows an agent's or a viewer's token writes nothing that decides.

mod access;
mod ansi;
mod api;
mod assets;
mod decide;
mod dev_page;
mod fleet_watch;
mod listener;
mod live;
mod live_feed;
mod metrics;
mod openapi;
mod page_client;
mod pages;
mod problem;
mod project_handle;
mod security;
mod tools;
mod views;
mod visible;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use salve_core::notify::PublicAddress;
use salve_core::scrub::Scrubbed;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

pub use fleet_watch::FleetWatch;
pub use project_handle::WatchedProject;

use crate::page_access::{AccessError, AccessFile};
use access::AccessList;
use dev_page::ReportBudget;
use live::OpenStreams;
use project_handle::ProjectHandle;
use security::AllowedHosts;
use tools::NamedTools;

/// The port that the page is served on unless another is asked for.
pub const DEFAULT_PORT: u16 = 7717;

/// What is served, and to whom.
#[derive(Debug)]
pub struct ServeOptions {
    /// The projects that are shown; the first is shown unless another is asked for.
    pub projects: Vec<WatchedProject>,
    /// Where to listen; only this machine's own addresses are taken.
    pub address: SocketAddr,
    /// Another address that leads here, such as that of a proxy with TLS.
    pub public: Option<PublicAddress>,
    /// What happens when the port is taken.
    pub when_taken: WhenTaken,
    /// Where tokens, sessions and one-time codes are kept.
    pub access: AccessFile,
    /// The name under which the person at the browser speaks.
    pub person: Scrubbed,
}

/// What happens when the port is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenTaken {
    /// It is an error: this very port was asked for.
    Fail,
    /// A free port is used.
    UseAnother,
}

/// Where the page is, and the code that opens it once.
#[derive(Clone, Debug)]
pub struct PageAddress {
    /// The page's address without a code.
    pub url: String,
    /// The page's address with a code that is good once; the code never reaches a server's log,
    /// because browsers do not send what follows `#`.
    pub link: String,
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Others than this machine could reach it.
    #[error("{0} can be reached from other machines")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Tokens and sessions cannot be kept.
    #[error("cannot keep who may use the page")]
    Access(#[from] AccessError),
    /// The system failed.
    #[error("cannot wait for connections")]
    Wait(#[source] io::Error),
}

/// What every handler knows.
#[derive(Clone, Debug)]
struct AppState {
    projects: Arc<[ProjectHandle]>,
    access: Arc<AccessList>,
    person: Scrubbed,
    reports: Arc<ReportBudget>,
    streams: OpenStreams,
}

impl AppState {
    /// Returns the directories of all projects that are shown.
    fn roots(&self) -> Vec<std::path::PathBuf> {
        self.projects.iter().map(|project| project.root.clone()).collect()
    }
}

/// A page that can be opened, before anybody is served.
struct PreparedPage {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    app: Router,
    address: PageAddress,
}

impl PreparedPage {
    fn new(options: ServeOptions) -> Result<Self, WebError> {
        let ServeOptions { projects, address, public, when_taken, access, person } = options;
        if !address.ip().is_loopback() {
            return Err(WebError::NotLoopback(address));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(WebError::Wait)?;
        let listener = runtime.block_on(listen(address, when_taken))?;
        let address = listener.local_addr().map_err(|error| WebError::Listen(address, error))?;
        let url = format!("http://{address}/");
        let code = access.new_code()?;
        let routes: Vec<_> = projects.iter().map(|watched| watched.tools.clone()).collect();
        let handles = runtime.block_on(async { ProjectHandle::open_all(projects) });
        let named = handles.iter().zip(routes);
        let tools = named.map(|(of, route)| NamedTools { project: of.name.clone(), route });
        let tools = tools.collect();
        let access = Arc::new(AccessList::new(access));
        let (reports, streams) = (Arc::default(), OpenStreams::default());
        let state = AppState { projects: handles.into(), access, person, reports, streams };
        let app = router(state, tools, AllowedHosts::of(address, public.as_ref()));
        let address = PageAddress { link: format!("{url}#code={code}"), url };
        Ok(Self { runtime, listener, app, address })
    }
}

/// Serves the page until told to end; `ready` is called once it can be opened.
///
/// # Errors
///
/// When the address is not this machine's own or in use, or access cannot be kept.
pub fn serve(options: ServeOptions, ready: impl FnOnce(&PageAddress)) -> Result<(), WebError> {
    let PreparedPage { runtime, listener, app, address } = PreparedPage::new(options)?;
    ready(&address);
    let served = runtime.block_on(until_told_to_end(listener::accept_connections(listener, app)));
    runtime.shutdown_background();
    served.map_err(WebError::Wait)
}

/// Serves the page on a thread of its own for as long as the process lives; signals stay with
/// whoever runs the process.
///
/// # Errors
///
/// When the address is not this machine's own or in use, or access cannot be kept.
pub fn serve_in_background(options: ServeOptions) -> Result<PageAddress, WebError> {
    let PreparedPage { runtime, listener, app, address } = PreparedPage::new(options)?;
    let work = move || runtime.block_on(listener::accept_connections(listener, app));
    std::thread::Builder::new().name("page".to_owned()).spawn(work).map_err(WebError::Wait)?;
    Ok(address)
}

async fn listen(address: SocketAddr, when_taken: WhenTaken) -> Result<TcpListener, WebError> {
    match TcpListener::bind(address).await {
        Err(error)
            if error.kind() == io::ErrorKind::AddrInUse && when_taken == WhenTaken::UseAnother =>
        {
            let any = SocketAddr::new(address.ip(), 0);
            TcpListener::bind(any).await.map_err(|error| WebError::Listen(any, error))
        }
        bound => bound.map_err(|error| WebError::Listen(address, error)),
    }
}

/// Returns everything that is served, behind the layer that refuses what no browser page of ours
/// and no honest script would send.
fn router(state: AppState, tools: Vec<NamedTools>, hosts: AllowedHosts) -> Router {
    let data = live::routes().merge(api::routes()).route("/metrics", get(metrics::metrics));
    let data = data.merge(tools::routes(tools));
    let data = data.layer(middleware::from_fn_with_state(state.clone(), access::identify));
    assets::routes()
        .merge(api::open_routes())
        .merge(dev_page::routes())
        .merge(data)
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(middleware::from_fn(problem::tell_refusals))
        .layer(middleware::from_fn(security::limit))
        .layer(middleware::from_fn_with_state(Arc::new(hosts), security::guard))
        .with_state(state)
}

/// Runs `work` until it is done or the process is told to end.
async fn until_told_to_end(work: impl Future<Output = ()>) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        () = work => {}
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
