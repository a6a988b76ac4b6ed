//! `salve start`, `stop` and `restart`: what people want of servers that another salve runs.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{Draft, Event, ServerEvent, ServerOrder};
use salve_core::repair::{ServerState, servers};
use serde::Serialize;

use super::{CliError, Exit, Output, project};
use crate::project::Project;
use crate::store::{Follower, Journal, Store, Stream};
use crate::subjects::server::cared_for;

/// How long a server may take to do as told before that is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far back the journal is looked at for how a server is.
const RECENT: usize = 400;

/// Arguments of `salve start`, `stop` and `restart`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server [default: the only one]
    name: Option<String>,
}

/// What came of it, for `--json`.
#[derive(Debug, Serialize)]
struct ServerCommandDone<'a> {
    version: u32,
    server: &'a str,
    done: &'static str,
}

/// Gives the order and waits until it was followed.
pub(super) fn run(args: &Args, order: ServerOrder, out: &Output) -> Result<Exit, CliError> {
    let project = project::locate(out)?;
    let scrubber = project::scrubber();
    let name = name(&project, args.name.as_deref())?;
    let store = Store::open(&project)?;
    let journal = store.journal();
    let before = state(journal, &name)?;
    match (order, before) {
        (ServerOrder::Start, Some(ServerState::Starting | ServerState::Up)) => {
            return done(&name, "runs already", out);
        }
        (ServerOrder::Stop, Some(ServerState::Stopped) | None) => {
            return done(&name, "is down already", out);
        }
        (ServerOrder::Start | ServerOrder::Stop | ServerOrder::Restart, _) => {}
    }
    let event = Event::Server(ServerEvent::Ordered { server: scrubber.scrub(&name), order });
    let by = project::speaker(&scrubber);
    let draft = Draft { at: Timestamp::now(), by, incident: None, event };
    let after = journal.append(draft)?.seq;
    let mut follower = journal.follow(after, Stream::Servers);
    let Some(did) = wait(&mut *follower, &name, order)? else {
        return Err(CliError::failed(format!("`{name}` has not done so yet"))
            .because("a repair may be going on")
            .hint("salve status"));
    };
    done(&name, did, out)
}

fn done(server: &str, done: &'static str, out: &Output) -> Result<Exit, CliError> {
    if out.json() {
        out.fact(&ServerCommandDone { version: 1, server, done })?;
    } else {
        out.remark(format!("{server} {done}"));
    }
    Ok(Exit::Well)
}

/// Returns how a server is, as the journal tells.
fn state(journal: &dyn Journal, name: &str) -> Result<Option<ServerState>, CliError> {
    let entries = journal.tail(&Stream::Servers, RECENT)?;
    let known = servers(&entries).into_iter().find(|server| server.server == name);
    Ok(known.map(|server| server.state))
}

/// Returns which running server is meant.
pub(super) fn name(project: &Project, given: Option<&str>) -> Result<String, CliError> {
    let running = cared_for(project, &project::scrubber())
        .map_err(|error| CliError::failed("cannot tell which servers run").because(error))?;
    let all = || format!("running here: {}", running.join(", "));
    match (given, running.as_slice()) {
        (_, []) => {
            Err(CliError::failed("no salve runs servers of this project")
                .hint("start them: salve dev"))
        }
        (Some(name), _) if running.iter().any(|one| one == name) => Ok(name.to_owned()),
        (Some(name), _) => {
            Err(CliError::usage(format!("no server `{name}` is cared for")).hint(all()))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(CliError::usage("which server?").hint(all())),
    }
}

/// Waits until the server has done as told, and returns what it did.
fn wait(
    follower: &mut dyn Follower,
    name: &str,
    order: ServerOrder,
) -> Result<Option<&'static str>, CliError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        for entry in follower.next(left)? {
            match (order, &entry.event) {
                (ServerOrder::Stop, Event::Server(ServerEvent::Stopped { server, .. }))
                    if *server == name =>
                {
                    return Ok(Some("stopped"));
                }
                (ServerOrder::Start, Event::Server(ServerEvent::Started { server, .. }))
                    if *server == name =>
                {
                    return Ok(Some("started"));
                }
                (ServerOrder::Restart, Event::Server(ServerEvent::Started { server, .. }))
                    if *server == name =>
                {
                    return Ok(Some("restarted"));
                }
                _ => {}
            }
        }
    }
}
