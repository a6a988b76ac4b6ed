//! A server that is reached by HTTP, as one that is reached by standard input and output.
//!
//! `salve proxy --url` puts this behind the proxy like any other server, so that supervision,
//! healing and repeating hold for it without another word. Each request is one POST; its answer is
//! JSON or a stream of events, and each message of either is one line on standard output. A session
//! that the server has forgotten is started over, as the client began it.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use salve_core::tool::envelope::{Envelope, MessageId};
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body, Error};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the server may take to hear that the session is over.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long answers that are under way are waited for when the client sends no more.
const LAST_ANSWERS: Duration = Duration::from_secs(60);
/// How much of an answer that is no message is told.
const TOLD: u64 = 300;
/// The protocol's number for a connection that was closed.
const CONNECTION_CLOSED: i32 = -32_000;
/// The name under which a request of the newer protocol says its version.
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

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

/// What is known of the session with the server.
#[derive(Clone, Debug, Default)]
struct HttpSession {
    id: Option<String>,
    protocol: Option<String>,
    /// How the client began it.
    initialize: Option<Vec<u8>>,
    initialized: Option<Vec<u8>>,
    /// How often it was begun.
    generation: u64,
}

struct HttpBridge {
    target: BridgeTarget,
    agent: Agent,
    session: Mutex<HttpSession>,
    /// Held while a session is started over, so that one does it for all.
    renewing: Mutex<()>,
    out: Mutex<io::Stdout>,
    running: AtomicUsize,
}

/// Why a request has no answer.
enum Unanswered {
    /// The session is not known any more.
    NoSession,
    /// For this reason.
    Failed(String),
}

/// Passes messages between standard input and output and a server until the input ends.
///
/// # Errors
///
/// When the input cannot be read.
pub fn run(target: BridgeTarget) -> io::Result<()> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .user_agent(concat!("salve/", env!("CARGO_PKG_VERSION")))
        .build();
    let bridge = Arc::new(HttpBridge {
        target,
        agent: config.into(),
        session: Mutex::default(),
        renewing: Mutex::default(),
        out: Mutex::new(io::stdout()),
        running: AtomicUsize::new(0),
    });
    let mut input = BufReader::new(io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        bridge.pass(&line);
    }
    let deadline = Instant::now() + LAST_ANSWERS;
    while bridge.running.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    bridge.leave();
    Ok(())
}

impl HttpBridge {
    /// Sends one message of the client; what has to be in its order is waited for.
    fn pass(self: &Arc<Self>, line: &[u8]) {
        let line = line.trim_ascii().to_vec();
        match Envelope::of(&line) {
            Envelope::Request { id, method } if method == "initialize" => {
                self.session().initialize = Some(line.clone());
                self.ask(&id, &method, &line);
            }
            Envelope::Request { id, method } => {
                let own = Arc::clone(self);
                self.running.fetch_add(1, Ordering::SeqCst);
                let work = {
                    let id = id.clone();
                    move || {
                        own.ask(&id, &method, &line);
                        own.running.fetch_sub(1, Ordering::SeqCst);
                    }
                };
                if thread::Builder::new().name("salve-post".to_owned()).spawn(work).is_err() {
                    self.running.fetch_sub(1, Ordering::SeqCst);
                    self.refuse(&id, "the system has no thread left for this request");
                }
            }
            Envelope::Blank => {}
            Envelope::Notification { method } => {
                if method == "notifications/initialized" {
                    self.session().initialized = Some(line.clone());
                }
                self.tell(&line);
                if method == "notifications/initialized" {
                    self.listen();
                }
            }
            Envelope::Response { .. }
            | Envelope::Batch
            | Envelope::Foreign
            | Envelope::Text
            | Envelope::Malformed { .. } => self.tell(&line),
        }
    }

    /// Sends what wants no answer.
    fn tell(&self, line: &[u8]) {
        if let Ok(response) = self.post(line) {
            // What a server sends all the same is the client's.
            let _ = self.take_in(response, None);
        }
    }

    /// Sends a request, and answers it in any case.
    fn ask(&self, id: &MessageId, method: &str, line: &[u8]) {
        let generation = self.session().generation;
        let asked = match self.asked(id, method, line) {
            Err(Unanswered::NoSession) => match self.renew(generation) {
                Ok(()) => self.asked(id, method, line),
                Err(why) => Err(why),
            },
            asked => asked,
        };
        match asked {
            Ok(()) => {}
            Err(Unanswered::NoSession) => self.refuse(id, "the server does not keep the session"),
            Err(Unanswered::Failed(why)) => self.refuse(id, &why),
        }
    }

    fn asked(&self, id: &MessageId, method: &str, line: &[u8]) -> Result<(), Unanswered> {
        let response = self.post(line).map_err(Unanswered::Failed)?;
        let code = response.status();
        if code.as_u16() == 404 && self.session().id.is_some() {
            return Err(Unanswered::NoSession);
        }
        if !code.is_success() {
            return Err(Unanswered::Failed(complaint(response)));
        }
        if method == "initialize" {
            let session = header(&response, "mcp-session-id");
            self.session().id = session;
        }
        let is_answered = self.take_in(response, Some(id)).map_err(|error| {
            Unanswered::Failed(format!("connection reset while it answered: {error}"))
        })?;
        if is_answered {
            return Ok(());
        }
        Err(Unanswered::Failed("connection reset: it sent no answer to this request".to_owned()))
    }

    /// Starts a session over, once for all who found it gone.
    fn renew(&self, generation: u64) -> Result<(), Unanswered> {
        let _one = lock(&self.renewing);
        let session = self.session().clone();
        if session.generation != generation {
            return Ok(());
        }
        let Some(initialize) = session.initialize else { return Err(Unanswered::NoSession) };
        self.session().id = None;
        let response = self.post(&initialize).map_err(Unanswered::Failed)?;
        if !response.status().is_success() {
            return Err(Unanswered::Failed(complaint(response)));
        }
        let id = header(&response, "mcp-session-id");
        {
            let mut session = self.session();
            (session.id, session.generation) = (id, generation + 1);
        }
        if let Some(initialized) = session.initialized {
            self.tell(&initialized);
        }
        Ok(())
    }

    fn post(&self, line: &[u8]) -> Result<Response<Body>, String> {
        let session = self.session().clone();
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let said = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let protocol = said(VERSION).map(str::to_owned).or(session.protocol);
        let mut request = self
            .agent
            .post(&self.target.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let own = [
            ("mcp-session-id", session.id),
            ("mcp-protocol-version", protocol),
            ("mcp-method", said("/method").map(str::to_owned)),
            ("mcp-name", said("/params/name").filter(|name| name.is_ascii()).map(str::to_owned)),
        ];
        for (name, value) in own {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        for header in &self.target.headers {
            request = request.header(&header.name, &header.value);
        }
        request.send(line).map_err(|error| unreached(&error))
    }

    /// Takes in an answer; tells whether the request of this id was answered.
    fn take_in(&self, response: Response<Body>, id: Option<&MessageId>) -> io::Result<bool> {
        let is_stream = header(&response, "content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut body = response.into_body().into_reader();
        let mut is_answered = false;
        if !is_stream {
            let mut text = Vec::new();
            body.read_to_end(&mut text)?;
            return Ok(!text.trim_ascii().is_empty() && self.message(text, id));
        }
        let mut lines = BufReader::new(body);
        let (mut line, mut data) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let is_over = lines.read_until(b'\n', &mut line)? == 0;
            let said = line.strip_suffix(b"\n").unwrap_or(&line);
            let said = said.strip_suffix(b"\r").unwrap_or(said);
            if let Some(more) = said.strip_prefix(b"data:") {
                if !data.is_empty() {
                    data.push(b' ');
                }
                data.extend_from_slice(more.strip_prefix(b" ").unwrap_or(more));
            } else if said.is_empty() && !data.is_empty() {
                is_answered |= self.message(std::mem::take(&mut data), id);
            }
            if is_over || (is_answered && id.is_some()) {
                return Ok(is_answered);
            }
        }
    }

    /// Hands one message to the client; tells whether it answers the request of this id.
    fn message(&self, mut text: Vec<u8>, id: Option<&MessageId>) -> bool {
        // Outside of strings only, where JSON takes a line's end for white space.
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        let envelope = Envelope::of(&text);
        let is_answer = matches!(&envelope, Envelope::Response { id: own, .. } if Some(own) == id);
        if is_answer && let Ok(message) = serde_json::from_slice::<Value>(&text) {
            let protocol = message.pointer("/result/protocolVersion").and_then(Value::as_str);
            if let Some(protocol) = protocol {
                self.session().protocol = Some(protocol.to_owned());
            }
        }
        text.push(b'\n');
        self.write(&text);
        is_answer
    }

    /// Listens to what the server says unasked, if it does.
    fn listen(self: &Arc<Self>) {
        let own = Arc::clone(self);
        let work = move || {
            let session = own.session().clone();
            let mut request = own.agent.get(&own.target.url).header("accept", "text/event-stream");
            for (name, value) in
                [("mcp-session-id", session.id), ("mcp-protocol-version", session.protocol)]
            {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            for header in &own.target.headers {
                request = request.header(&header.name, &header.value);
            }
            if let Ok(response) = request.call()
                && response.status().is_success()
            {
                // A server that stops speaking unasked still answers.
                let _ = own.take_in(response, None);
            }
        };
        // Without it, only what is said unasked is missing.
        let _ = thread::Builder::new().name("salve-listen".to_owned()).spawn(work);
    }

    /// Tells the server that the session is over.
    fn leave(&self) {
        let Some(id) = self.session().id.clone() else { return };
        let request = self.agent.delete(&self.target.url).header("mcp-session-id", id);
        // Its own time-out ends a session that is not told.
        let _ = request.config().timeout_global(Some(FAREWELL)).build().call();
    }

    fn refuse(&self, id: &MessageId, why: &str) {
        let body = json!({ "code": CONNECTION_CLOSED, "message": why });
        let id = id.as_json();
        self.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}\n").as_bytes());
    }

    fn write(&self, line: &[u8]) {
        let mut out = lock(&self.out);
        // A proxy that reads no more has gone, and ends us.
        let _ = out.write_all(line).and_then(|()| out.flush());
    }

    fn session(&self) -> MutexGuard<'_, HttpSession> {
        lock(&self.session)
    }
}

fn header(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Says what an answer says that is no message.
fn complaint(response: Response<Body>) -> String {
    let code = response.status();
    let mut why = format!("HTTP {code}");
    if let Some(wait) = header(&response, "retry-after") {
        why.push_str(&format!("; Retry-After: {wait}"));
    }
    let mut text = String::new();
    let body = response.into_body().into_reader().take(TOLD);
    if io::read_to_string(body).map(|said| text = said).is_ok() && !text.trim().is_empty() {
        why.push_str(&format!(": {}", text.trim()));
    }
    why
}

/// Says why a server was not reached, in the words by which failures are told apart.
fn unreached(error: &Error) -> String {
    match error {
        Error::HostNotFound => "no such host".to_owned(),
        Error::Timeout(ureq::Timeout::Connect) => "network unreachable: no connection".to_owned(),
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "connection refused".to_owned()
        }
        Error::Io(error) => format!("connection reset: {error}"),
        error => format!("the server cannot be reached: {error}"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
