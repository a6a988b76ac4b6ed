//! Which process sends a request, so that no token decides in the hands of what Salve started.
//!
//! The page listens on this machine only, so the other end of each connection is a process here. The
//! kernel's table of connections names its socket, and what it has open tells whose that is.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::probe::{ConnectionClients, connection_clients};
use crate::process::answerer;

/// Both ends of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionEnds {
    /// The client's.
    pub(super) client: SocketAddr,
    /// Ours.
    pub(super) server: SocketAddr,
}

/// Refuses a request of a process that Salve, or an agent attached to one of these projects, started.
pub(super) async fn judge(ends: Option<ConnectionEnds>, roots: Vec<PathBuf>) -> Result<(), String> {
    let ends = ends.ok_or_else(|| "its connection is not known".to_owned())?;
    let looked = tokio::task::spawn_blocking(move || look(ends, &roots)).await;
    looked.unwrap_or_else(|error| Err(error.to_string()))
}

fn look(ends: ConnectionEnds, roots: &[PathBuf]) -> Result<(), String> {
    match connection_clients(ends.client, ends.server) {
        ConnectionClients::Seen(pids) => pids.into_iter().try_for_each(|pid| {
            answerer::judge_page_client(pid, roots).map_err(|refusal| refusal.to_string())
        }),
        ConnectionClients::Unseen { uid } => {
            answerer::judge_unseen_client(uid, roots).map_err(|refusal| refusal.to_string())
        }
        ConnectionClients::Gone => Err("it did not wait for the answer".to_owned()),
    }
}
