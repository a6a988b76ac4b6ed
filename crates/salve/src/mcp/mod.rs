//! The tools and resources that agents reach over the Model Context Protocol.
//!
//! [`RepairTools`] knows the journal and answers; it is plain and synchronous. Sessions reach it through
//! the store's handle, so that a slow disk never holds up the protocol. A `Session` speaks the
//! protocol with one client; `news` says what of the journal concerns it.
//!
//! **Invariant:** whatever comes in here is written as [`salve_core::event::Actor::Agent`], who
//! may report and never decide.

mod access;
mod debug_tools;
mod error;
mod http;
mod memory_tools;
mod mounted;
mod news;
mod repair_tools;
mod resource;
mod session;
mod skill_tool;
mod team;
mod tool;

pub use error::RepairToolsError;
pub use http::{HttpError, Ready, serve_http};
pub use mounted::tools_route;
pub use repair_tools::{RepairTools, RepairToolsPlace};

use std::future::Future;
use std::io;

use rmcp::ServiceExt;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use access::ToolAccess;
use session::Session;

/// Serves one client over stdin and stdout until it leaves.
///
/// # Errors
///
/// When the system does not give what is needed to wait for input.
pub fn serve_stdio(place: RepairToolsPlace) -> io::Result<()> {
    let runtime = runtime()?;
    let access = ToolAccess::new(place);
    runtime.block_on(until_told_to_end(&access, async {
        let session = Session::new(access.clone());
        // A client that does not get as far as a session has nothing more to be told.
        if let Ok(running) = session.serve(rmcp::transport::stdio_pipes()).await {
            let _ended = running.waiting().await;
        }
    }))?;
    access.close();
    // A thread may still be blocked on stdin; it ends with the process.
    runtime.shutdown_background();
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs `work` until it is done or the process is told to end.
async fn until_told_to_end(access: &ToolAccess, work: impl Future<Output = ()>) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        () = work => {}
        () = access.tend() => {}
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
