//! A server that is reached by HTTP, as one that is reached by standard input and output.
//!
//! `salve proxy --url` puts this behind the proxy like any other server, so that supervision,
//! healing and repeating hold for it without another word. Each request is one POST; its answer is
//! JSON or a stream of events, and each message of either is one line on standard output. A stream
//! that is cut off is taken up where it was, and a session that the server has forgotten is started
//! over as the client began it.

mod address;
mod events;
mod response;
mod session;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use salve_core::tool::envelope::{Envelope, MessageId};
use salve_core::tool::http_header::version_of;
use salve_core::tool::session::cancelled_id;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body};

pub use self::address::{BridgeTarget, HttpHeader};

use self::address::ServerAddress;
use self::events::{EventReader, StreamPlace};
use self::response::{
    REFUSED, answer_in, complaint, header, is_error, is_stream, refused_text, told_refusal,
};
use self::session::{BridgedRequest, Cancelled, HttpSession, RequestsUnderWay};
use super::words;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long answers that are under way are waited for when the client sends no more.
const LAST_ANSWERS: Duration = Duration::from_secs(60);
/// How often in a row a server may be out of reach that is asked to go on with an answer.
const MOST_RESUMES: u32 = 5;
/// The longest pause before it is asked again whether the server has something to say unasked.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many pages of tools are read to learn which arguments are told in headers.
const MOST_PAGES: usize = 50;
/// How long a server is waited for that was there before and refuses connections: whoever starts it
/// again is about it, and what was never delivered may be sent again.
const RETURN: Duration = Duration::from_secs(5);
/// The pauses between looks whether it is there again.
const RETURN_LOOK: Duration = Duration::from_millis(100);
/// The protocol's number for a connection that was closed.
const CONNECTION_CLOSED: i32 = -32_000;
/// The protocol's number for a method that the server does not know.
const METHOD_NOT_FOUND: i32 = -32_601;
/// The protocol's number for a request whose headers and body do not agree.
const HEADER_MISMATCH: i32 = -32_020;
/// Refusals that say more by their number than by their words.
const TOLD_BY_STATUS: [u16; 4] = [401, 403, 407, 429];

struct HttpBridge {
    server: ServerAddress,
    under_way: RequestsUnderWay,
    session: Mutex<HttpSession>,
    /// Held while a session is started over, so that one does it for all.
    renewing: Mutex<()>,
    is_listening: AtomicBool,
    /// Whether the server has ever said anything.
    was_there: AtomicBool,
    out: Mutex<io::Stdout>,
}

/// Why a request has no answer.
enum Unanswered {
    /// The session is not known any more.
    NoSession,
    /// The server answered with this error of the protocol.
    Refused(Value),
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
        server: ServerAddress::new(target),
        under_way: RequestsUnderWay::new(config),
        session: Mutex::default(),
        renewing: Mutex::default(),
        is_listening: AtomicBool::new(false),
        was_there: AtomicBool::new(false),
        out: Mutex::new(io::stdout()),
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
    while !bridge.under_way.is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    bridge.server.leave(&bridge.under_way.agent(), &bridge.session_now());
    Ok(())
}

impl HttpBridge {
    /// Sends one message of the client; what has to be in its order is waited for.
    fn pass(self: &Arc<Self>, line: &[u8]) {
        let line = line.trim_ascii();
        match Envelope::of(line) {
            Envelope::Request { id, method } => self.request(id, method, line),
            Envelope::Blank => {}
            Envelope::Notification { method } if method == "notifications/cancelled" => {
                self.cancel(line);
            }
            Envelope::Notification { method } => {
                let is_beginning = method == "notifications/initialized";
                if is_beginning {
                    self.session().greeting.initialized(Some(line));
                }
                self.tell(line);
                if is_beginning {
                    self.listen();
                }
            }
            Envelope::Response { .. }
            | Envelope::Batch
            | Envelope::Foreign
            | Envelope::Text
            | Envelope::Malformed { .. } => self.tell(line),
        }
    }

    fn request(self: &Arc<Self>, id: MessageId, method: String, line: &[u8]) {
        self.session().greeting.asked(&id, &method, &Arc::from(line));
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let is_modern = version_of(&message).is_some();
        let is_first = method == "initialize";
        let request = BridgedRequest { id, method, line: line.to_vec(), message, is_modern };
        let agent = self.under_way.begin(&request);
        if is_first {
            return self.ask(&request, agent);
        }
        let (own, id) = (Arc::clone(self), request.id.clone());
        let work = move || own.ask(&request, agent);
        if thread::Builder::new().name("salve-post".to_owned()).spawn(work).is_err() {
            self.under_way.cancel(&id);
            self.refuse(&id, "the system has no thread left for this request");
        }
    }

    /// Tells the server that the client wants no answer any more, as its protocol has it.
    fn cancel(&self, line: &[u8]) {
        let cancelled = cancelled_id(line).map(|id| self.under_way.cancel(&id));
        let has_session = self.session().greeting.beginning().is_some();
        match cancelled {
            Some(Cancelled::CutOff) => {}
            // It was answered meanwhile, and the newer protocol has no such word.
            Some(Cancelled::Unknown) | None if !has_session => {}
            Some(Cancelled::ToBeTold | Cancelled::Unknown) | None => self.tell(line),
        }
    }

    /// Sends what wants no answer.
    fn tell(&self, line: &[u8]) {
        let agent = self.under_way.agent();
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        if let Ok(response) = self.server.post(&agent, &self.session_now(), line, &message)
            && response.status().is_success()
        {
            // What a server sends all the same is the client's.
            let _ = self.take_in(response, None, &mut StreamPlace::default());
        }
        self.under_way.give_back(agent);
    }

    /// Sends a request, and answers it unless the client has lost interest.
    fn ask(self: &Arc<Self>, request: &BridgedRequest, agent: Agent) {
        let generation = self.session().generation;
        let asked = match self.asked(request, &agent) {
            Err(Unanswered::NoSession) => match self.renew(generation, &agent) {
                Ok(()) => self.asked(request, &agent),
                Err(why) => Err(why),
            },
            Err(Unanswered::Refused(error)) if self.learned_headers(request, &error, &agent) => {
                self.asked(request, &agent)
            }
            asked => asked,
        };
        let is_wanted = self.under_way.end(&request.id, agent);
        match asked {
            Ok(()) => {}
            Err(_) if !is_wanted => {}
            Err(Unanswered::NoSession) => {
                self.refuse(&request.id, "the server does not keep the session");
            }
            Err(Unanswered::Refused(error)) => self.answer_with(&request.id, &error),
            Err(Unanswered::Failed(why)) => self.refuse(&request.id, &why),
        }
    }

    fn asked(&self, request: &BridgedRequest, agent: &Agent) -> Result<(), Unanswered> {
        let response = self.delivered(request, agent).map_err(Unanswered::Failed)?;
        self.was_there.store(true, Ordering::Relaxed);
        if !response.status().is_success() {
            return Err(self.refusal(response, request.is_modern));
        }
        if request.method == "initialize" {
            let session = header(&response, "mcp-session-id");
            self.session().id = session;
        }
        let mut place = StreamPlace::default();
        let mut read = self.take_in(response, Some(request), &mut place);
        let mut in_vain = 0;
        loop {
            let why = match read {
                Ok(true) => return Ok(()),
                Ok(false) => "it sent no answer to this request".to_owned(),
                Err(error) => format!("while it answered: {error}"),
            };
            let is_over = in_vain >= MOST_RESUMES || self.under_way.is_cancelled(&request.id);
            if place.last_id.is_none() || is_over {
                return Err(Unanswered::Failed(format!("connection reset: {why}")));
            }
            thread::sleep(place.pause());
            read = match self.server.get(agent, &self.session_now(), &place) {
                Ok(response) if is_stream(&response) => {
                    in_vain = 0;
                    self.take_in(response, Some(request), &mut place)
                }
                Ok(response) => {
                    let why = format!("it does not go on with its answer: {}", complaint(response));
                    return Err(Unanswered::Failed(format!("connection reset: {why}")));
                }
                Err(why) => {
                    in_vain += 1;
                    Err(io::Error::other(why))
                }
            };
        }
    }

    /// Posts a request, also to a server that is just being started again.
    fn delivered(&self, request: &BridgedRequest, agent: &Agent) -> Result<Response<Body>, String> {
        let begun = Instant::now();
        loop {
            let posted =
                self.server.post(agent, &self.session_now(), &request.line, &request.message);
            let is_away = matches!(&posted, Err(why) if why == REFUSED)
                && self.was_there.load(Ordering::Relaxed);
            let is_over = begun.elapsed() >= RETURN || self.under_way.is_cancelled(&request.id);
            if !is_away || is_over {
                return posted;
            }
            thread::sleep(RETURN_LOOK);
        }
    }

    /// Says what it means that the server did not take a request.
    fn refusal(&self, response: Response<Body>, is_modern: bool) -> Unanswered {
        let status = response.status().as_u16();
        let has_session = !is_modern && self.session().id.is_some();
        let later = header(&response, "retry-after");
        let code = response.status();
        let text = refused_text(response);
        // Many servers say so by 400, as the examples of an SDK do.
        let names_session = || status == 400 && text.to_lowercase().contains("session");
        if has_session && (status == 404 || names_session()) {
            return Unanswered::NoSession;
        }
        let why = told_refusal(code.to_string(), later.as_deref(), &text);
        if TOLD_BY_STATUS.contains(&status) || later.is_some() {
            return Unanswered::Failed(why);
        }
        let said = serde_json::from_str::<Value>(&text).ok();
        match said.as_ref().and_then(|said| said.get("error")).filter(|error| is_error(error)) {
            Some(error) => Unanswered::Refused(error.clone()),
            // By which a client that asks for the newer protocol learns that this is an older server.
            None if status == 404 => {
                Unanswered::Refused(json!({ "code": METHOD_NOT_FOUND, "message": why }))
            }
            None => Unanswered::Failed(why),
        }
    }

    /// Reads which arguments are told in headers if the server misses some; tells whether that is
    /// worth another try. Such a request has not been looked at any further.
    fn learned_headers(&self, request: &BridgedRequest, error: &Value, agent: &Agent) -> bool {
        let is_missed = error.get("code").and_then(Value::as_i64) == Some(HEADER_MISMATCH.into());
        let meta = request.message.pointer("/params/_meta");
        let Some(meta) = meta.filter(|_| is_missed && request.method == "tools/call") else {
            return false;
        };
        let mut params = json!({ "_meta": meta });
        for page in 0..MOST_PAGES {
            let id = format!("salve-tools-{page}");
            let asked =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
            let posted =
                self.server.post(agent, &self.session_now(), asked.to_string().as_bytes(), &asked);
            let Some(answer) = posted.ok().and_then(answer_in) else { return page > 0 };
            self.server.listed(&answer);
            match answer.pointer("/result/nextCursor") {
                Some(cursor) if cursor.is_string() => params["cursor"] = cursor.clone(),
                _ => return true,
            }
        }
        true
    }

    /// Starts a session over, once for all who found it gone.
    fn renew(self: &Arc<Self>, generation: u64, agent: &Agent) -> Result<(), Unanswered> {
        let _one = lock(&self.renewing);
        let session = self.session_now();
        if session.generation != generation {
            return Ok(());
        }
        let Some(beginning) = session.greeting.beginning() else {
            return Err(Unanswered::NoSession);
        };
        self.session().id = None;
        let message: Value = serde_json::from_slice(&beginning.line).unwrap_or_default();
        let posted = self.server.post(agent, &self.session_now(), &beginning.line, &message);
        let response = posted.map_err(Unanswered::Failed)?;
        if !response.status().is_success() {
            return Err(Unanswered::Failed(complaint(response)));
        }
        let id = header(&response, "mcp-session-id");
        drop(response);
        {
            let mut session = self.session();
            (session.id, session.generation) = (id, generation + 1);
        }
        let settings = session.greeting.settings().map(|set| &set.line);
        for line in session.greeting.read_word().into_iter().chain(settings) {
            let message: Value = serde_json::from_slice(line).unwrap_or_default();
            // The client was answered when it said so first.
            let _ = self.server.post(agent, &self.session_now(), line, &message).map(answer_in);
        }
        self.listen();
        for list in session.greeting.lists() {
            self.write(&words::list_changed(list));
        }
        Ok(())
    }

    /// Takes in an answer; tells whether the request was answered.
    fn take_in(
        &self,
        response: Response<Body>,
        request: Option<&BridgedRequest>,
        place: &mut StreamPlace,
    ) -> io::Result<bool> {
        let has_events = is_stream(&response);
        let mut body = response.into_body().into_reader();
        if !has_events {
            let mut text = Vec::new();
            body.read_to_end(&mut text)?;
            return Ok(!text.trim_ascii().is_empty() && self.message(text, request));
        }
        let mut events = EventReader::new(body);
        let mut is_answered = false;
        while let Some(said) = events.next(place)? {
            is_answered |= self.message(said, request);
            if is_answered && request.is_some() {
                break;
            }
        }
        Ok(is_answered)
    }

    /// Hands one message to the client; tells whether it answers the request.
    fn message(&self, mut text: Vec<u8>, request: Option<&BridgedRequest>) -> bool {
        // Outside of strings only, where JSON takes a line's end for white space.
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        let envelope = Envelope::of(&text);
        let answered = request.filter(
            |request| matches!(&envelope, Envelope::Response { id, .. } if *id == request.id),
        );
        if let Some(request) = answered {
            self.learn(request, &text);
        }
        text.push(b'\n');
        self.write(&text);
        answered.is_some()
    }

    /// Takes from an answer what later requests need.
    fn learn(&self, request: &BridgedRequest, text: &[u8]) {
        let is_read = matches!(&*request.method, "initialize" | "tools/list");
        let message = is_read.then(|| serde_json::from_slice::<Value>(text).ok()).flatten();
        let Some(message) = message else { return };
        if request.method == "tools/list" {
            return self.server.listed(&message);
        }
        let protocol = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        let mut session = self.session();
        session.protocol = protocol.map(str::to_owned).or_else(|| session.protocol.take());
        session.greeting.answered(Some(text));
    }

    /// Listens to what the server says unasked, as long as it does.
    fn listen(self: &Arc<Self>) {
        if self.is_listening.swap(true, Ordering::SeqCst) {
            return;
        }
        let own = Arc::clone(self);
        let work = move || {
            let (agent, mut place, mut in_vain) =
                (own.under_way.agent(), StreamPlace::default(), 0_u32);
            loop {
                match own.server.get(&agent, &own.session_now(), &place) {
                    Ok(response) if is_stream(&response) => {
                        in_vain = 0;
                        // One that is cut off is asked for again.
                        let _ = own.take_in(response, None, &mut place);
                    }
                    // It says nothing unasked, or not in this session any more.
                    Ok(_) => break,
                    Err(_) => in_vain = in_vain.saturating_add(1),
                }
                let pause = place.pause().saturating_mul(1 << in_vain.min(5));
                thread::sleep(pause.min(LONGEST_PAUSE));
            }
            own.is_listening.store(false, Ordering::SeqCst);
        };
        // Without it, only what is said unasked is missing.
        if thread::Builder::new().name("salve-listen".to_owned()).spawn(work).is_err() {
            self.is_listening.store(false, Ordering::SeqCst);
        }
    }

    fn refuse(&self, id: &MessageId, why: &str) {
        self.answer_with(id, &json!({ "code": CONNECTION_CLOSED, "message": why }));
    }

    fn answer_with(&self, id: &MessageId, error: &Value) {
        let id = id.as_json();
        self.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n").as_bytes());
    }

    fn write(&self, line: &[u8]) {
        let mut out = lock(&self.out);
        // A proxy that reads no more has gone, and ends us.
        let _ = out.write_all(line).and_then(|()| out.flush());
    }

    /// Returns the session as it is, so that nobody waits for its lock while a server answers.
    fn session_now(&self) -> HttpSession {
        self.session().clone()
    }

    fn session(&self) -> MutexGuard<'_, HttpSession> {
        lock(&self.session)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
