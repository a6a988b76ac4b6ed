//! Sends messages to a server that is reached by HTTP, with the headers that it wants.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use salve_core::tool::http_header::{ArgumentHeaders, headers_of, version_of};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::events::StreamPlace;
use super::response::unreached;
use super::session::HttpSession;

/// How long the server may take to hear that the session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where a server is reached.
#[derive(Clone, Debug)]
pub struct BridgeTarget {
    /// Its address.
    pub url: String,
    /// What is sent with each request besides.
    pub headers: Vec<HttpHeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

impl HttpHeader {
    /// Reads `Name: value`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once(':')?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        (!name.is_empty()).then_some(Self { name, value })
    }
}

/// The server's address, and what is known of the headers that its tools want.
#[derive(Debug)]
pub(super) struct ServerAddress {
    target: BridgeTarget,
    argument_headers: Mutex<ArgumentHeaders>,
}

impl ServerAddress {
    pub(super) fn new(target: BridgeTarget) -> Self {
        Self { target, argument_headers: Mutex::default() }
    }

    /// Takes in an answer to `tools/list`.
    pub(super) fn listed(&self, answer: &Value) {
        lock(&self.argument_headers).listed(answer);
    }

    /// Sends a message.
    pub(super) fn post(
        &self,
        agent: &Agent,
        session: &HttpSession,
        line: &[u8],
        message: &Value,
    ) -> Result<Response<Body>, String> {
        let version = version_of(message).map(str::to_owned);
        // The newer protocol has no sessions.
        let id = session.id.clone().filter(|_| version.is_none());
        let protocol = version.or_else(|| session.protocol.clone());
        let mut request = agent
            .post(&self.target.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in [("mcp-session-id", id), ("mcp-protocol-version", protocol)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let arguments = lock(&self.argument_headers).of_call(message);
        for header in headers_of(message).into_iter().chain(arguments) {
            request = request.header(header.name, header.value);
        }
        for header in &self.target.headers {
            request = request.header(&header.name, &header.value);
        }
        request.send(line).map_err(|error| unreached(&error))
    }

    /// Asks the server to go on with a stream, or for what it says unasked.
    pub(super) fn get(
        &self,
        agent: &Agent,
        session: &HttpSession,
        place: &StreamPlace,
    ) -> Result<Response<Body>, String> {
        let mut request = agent.get(&self.target.url).header("accept", "text/event-stream");
        let own = [
            ("mcp-session-id", session.id.clone()),
            ("mcp-protocol-version", session.protocol.clone()),
            ("last-event-id", place.last_id.clone()),
        ];
        for (name, value) in own {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        for header in &self.target.headers {
            request = request.header(&header.name, &header.value);
        }
        request.call().map_err(|error| unreached(&error))
    }

    /// Tells the server that the session is over.
    pub(super) fn leave(&self, agent: &Agent, session: &HttpSession) {
        let Some(id) = session.id.clone() else { return };
        let mut request = agent.delete(&self.target.url).header("mcp-session-id", id);
        for header in &self.target.headers {
            request = request.header(&header.name, &header.value);
        }
        // Its own time-out ends a session that is not told.
        let _ = request.config().timeout_global(Some(FAREWELL)).build().call();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
