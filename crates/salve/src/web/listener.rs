//! Takes connections, as many as are good for us, and drops those that stall.
//!
//! `axum::serve` has no limits of its own: a client that sends one byte a minute, or reads none,
//! would keep its connection for ever.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::page_client::ConnectionEnds;

/// How many connections are served at once; further ones wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 4096;

/// How long a client may take to send a request's head, and to stay without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the kernel keeps a connection whose other side takes nothing.
const STALL_MS: u32 = 30_000;

/// How much of a request's head is kept in memory.
const HEAD_BYTES: usize = 32 * 1024;

/// Serves connections until the future is dropped.
pub(super) async fn accept_connections(listener: TcpListener, app: Router) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of file descriptors, mostly: others have to leave first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Without them nothing is decided by this connection.
        let ends = stream.local_addr().ok().map(|server| ConnectionEnds { client, server });
        let service = ConnectionService { app: TowerToHyperService::new(app.clone()), ends };
        tokio::spawn(async move {
            serve_connection(stream, service).await;
            drop(place);
        });
    }
}

/// What one connection asks; every request is told whose it is.
///
/// A layer would do the same, and copy every route for every connection.
struct ConnectionService {
    app: TowerToHyperService<Router>,
    ends: Option<ConnectionEnds>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Some(ends) = self.ends {
            request.extensions_mut().insert(ends);
        }
        self.app.call(request)
    }
}

async fn serve_connection(stream: TcpStream, service: ConnectionService) {
    // Without these the connection only lives longer than it should.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, STALL_MS);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES);
    // What goes wrong on a connection concerns its client alone.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
