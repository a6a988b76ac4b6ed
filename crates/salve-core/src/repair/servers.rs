//! The servers under care, as the journal tells.

use jiff::Timestamp;
use serde::Serialize;

use super::exit_text;
use crate::event::{Entry, Event, Process, ServerEvent};

/// A server under care.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its name.
    pub server: String,
    /// How it is, as far as is known.
    pub state: ServerState,
    /// How it ended, if it did.
    pub exit: Option<String>,
    /// Where it answered last.
    pub url: Option<String>,
    /// What runs.
    pub command: String,
    #[serde(skip)]
    pub process: Option<Process>,
    /// Its process's id.
    pub pid: Option<u32>,
    /// When this was last heard of.
    pub since: Timestamp,
    /// When it was started last, if the journal still knows.
    #[serde(skip)]
    pub started: Option<Timestamp>,
}

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Its process runs and was not yet found well.
    Starting,
    /// It was found well.
    Up,
    /// Its process ended.
    Stopped,
}

/// Returns the servers that entries tell of, the one heard of last at the end.
pub fn servers<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::Server(ServerEvent::Started { server, process, command, .. }) => {
                let url = take(&mut servers, server.as_str()).and_then(|known| known.url);
                servers.push(Server {
                    server: server.to_string(),
                    state: ServerState::Starting,
                    exit: None,
                    url,
                    command: command.to_string(),
                    pid: Some(process.pid),
                    process: Some(process.clone()),
                    since: *at,
                    started: Some(*at),
                });
            }
            Event::Server(ServerEvent::Up { server, url }) => {
                let Some(mut known) = take(&mut servers, server.as_str()) else { continue };
                known.state = ServerState::Up;
                known.url = url.as_ref().map(ToString::to_string).or(known.url);
                servers.push(Server { since: *at, ..known });
            }
            Event::Server(ServerEvent::Stopped { server, exit }) => {
                let Some(known) = take(&mut servers, server.as_str()) else { continue };
                servers.push(Server {
                    state: ServerState::Stopped,
                    exit: Some(exit_text(exit)),
                    pid: None,
                    process: None,
                    since: *at,
                    ..known
                });
            }
            _ => {}
        }
    }
    servers
}

fn take(servers: &mut Vec<Server>, name: &str) -> Option<Server> {
    let at = servers.iter().position(|server| server.server == name)?;
    Some(servers.remove(at))
}
