//! What a proxy has to remember between a client and its server, and nothing more.
//!
//! Requests that wait for their answer, so that none is lost when the server dies; how the client
//! greeted the server, so that a new one can be greeted the same way; and which tools may be called
//! twice. All of it is bounded by what is in flight.
//!
//! **Invariant:** a request that may have acted is never sent twice.

mod greeting;
mod hints;
mod limits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::batch::{GatheredAnswer, RequestBatches};
use super::envelope::{Envelope, MessageId};
use super::rule::ToolPattern;
pub use greeting::{ClientGreeting, GreetingRequest};
pub use hints::ToolHints;
pub use limits::ToolTimeLimit;

/// Requests that only ask, or that set what they set however often they come.
const REPEATABLE_METHODS: [&str; 13] = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
];
/// Requests by which a client and a server meet, in both generations of the protocol.
const GREETINGS: [&str; 2] = ["initialize", "server/discover"];
/// How often one request may be sent again because the server died of it, or beside it.
const MOST_REPEATS: u32 = 1;

/// The bytes of one message, shared between those who wait for its answer and those who send it.
pub type MessageLine = Arc<[u8]>;

/// A request of the client that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRequest {
    pub id: MessageId,
    /// What it asks for.
    pub method: String,
    /// Its bytes; without them it cannot be sent again, as with one that was too long to keep.
    pub line: Option<MessageLine>,
    /// When it came, in milliseconds of the proxy's own clock.
    pub since_ms: u64,
    /// How often it has been sent again because its answer was a failure.
    pub retries: u32,
    /// Its place among all requests.
    order: u64,
    /// Whether the server has had it whole.
    is_delivered: bool,
    repeats: u32,
}

/// What becomes of a message from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// The server gets it.
    Deliver,
    /// It answers a server that is gone.
    Drop,
}

/// What becomes of a message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// The client gets it.
    Pass,
    /// The client gets it, and it answers this request.
    PassAnswer(WaitingRequest),
    /// It answers the proxy's own greeting of a new server.
    Greeted,
    /// It answers a tool call of the proxy's own.
    OwnAnswer(MessageId),
    /// It answers something that only the proxy asked, or that the client was answered already.
    Drop,
}

/// What is to be done about the requests that a dead server leaves; all others are delivered to the
/// next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftRequests {
    /// Those to answer now, because they may have acted or can no longer be sent.
    pub refuse: Vec<RefusedRequest>,
    /// The dead server's own requests, which the client need not answer any more.
    pub withdrawn: Vec<MessageId>,
}

/// A request that the proxy answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    pub id: MessageId,
    /// What it asked for.
    pub method: String,
    /// What it may have done.
    pub effect: PossibleEffect,
}

/// Whether a request that was not answered may have done something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PossibleEffect {
    /// It never reached the server, or it only asks.
    None,
    MayHaveActed,
}

/// One client's connection with its server, over all the server's restarts.
#[derive(Clone, Debug, Default)]
pub struct ProxySession {
    waiting: HashMap<MessageId, WaitingRequest>,
    requests: u64,
    has_answered: bool,
    greeting: ClientGreeting,
    /// Requests of the proxy's own, and those that the client has been answered already.
    swallowed: HashSet<MessageId>,
    greets: Option<MessageId>,
    /// Tool calls of the proxy's own.
    own_calls: HashSet<MessageId>,
    /// Calls whose failure is being healed, and that the client still wants to be answered.
    healing: HashSet<MessageId>,
    asked_by_server: HashSet<MessageId>,
    withdrawn: Vec<MessageId>,
    batches: RequestBatches,
    /// The answers of batches that waited only for what the client has called off.
    finished_batches: Vec<Vec<u8>>,
    hints: HashMap<String, ToolHints>,
    declared: Vec<(ToolPattern, ToolHints)>,
    limits: Vec<ToolTimeLimit>,
}

impl ProxySession {
    /// Takes in what the settings say about tools.
    pub fn declare(&mut self, tools: Vec<(ToolPattern, ToolHints)>) {
        self.declared = tools;
    }

    /// Takes in a message of the client; `line` is missing where it was too long to keep.
    pub fn client_sends(
        &mut self,
        envelope: &Envelope,
        line: Option<&[u8]>,
        now_ms: u64,
    ) -> FromClient {
        match envelope {
            Envelope::Request { id, method } => {
                self.await_answer(id, method, line.map(Arc::from), now_ms);
            }
            Envelope::Notification { method } => self.note(method, line),
            Envelope::Response { id, .. } => {
                if let Some(at) = self.withdrawn.iter().position(|withdrawn| withdrawn == id) {
                    self.withdrawn.swap_remove(at);
                    return FromClient::Drop;
                }
                self.asked_by_server.remove(id);
            }
            // What is nothing to us is left to the server, as without a proxy.
            Envelope::Batch
            | Envelope::Blank
            | Envelope::Foreign
            | Envelope::Text
            | Envelope::Malformed { .. } => {}
        }
        FromClient::Deliver
    }

    fn await_answer(
        &mut self,
        id: &MessageId,
        method: &str,
        line: Option<MessageLine>,
        now_ms: u64,
    ) {
        if let Some(line) = &line {
            self.greeting.asked(id, method, line);
        }
        self.requests += 1;
        let request = WaitingRequest {
            id: id.clone(),
            method: method.to_owned(),
            line,
            since_ms: now_ms,
            retries: 0,
            order: self.requests,
            is_delivered: false,
            repeats: 0,
        };
        self.waiting.insert(id.clone(), request);
    }

    fn note(&mut self, method: &str, line: Option<&[u8]>) {
        match method {
            "notifications/initialized" => self.greeting.initialized(line),
            "notifications/cancelled" => {
                if let Some(id) = line.and_then(cancelled_id) {
                    self.waiting.remove(&id);
                    self.healing.remove(&id);
                    self.finished_batches.extend(self.batches.leave_out(&id));
                }
            }
            _ => {}
        }
    }

    /// Notes that the client wants the answers to these requests in one line.
    pub fn begin_batch(&mut self, asked: Vec<MessageId>) {
        self.batches.begin(asked);
    }

    /// Takes in an answer on its way to the client, whoever gives it.
    pub fn gather(&mut self, id: &MessageId, answer: &[u8]) -> GatheredAnswer {
        self.batches.take_in(id, answer)
    }

    /// Notes that the client has got an answer by itself, since it was too long to be kept.
    pub fn passed_by_itself(&mut self, id: &MessageId) {
        self.finished_batches.extend(self.batches.leave_out(id));
    }

    /// Returns, once, the answers of batches that wait for nothing any more.
    pub fn finished_batches(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.finished_batches)
    }

    /// Notes that the server has had all of a request.
    pub fn delivered(&mut self, id: &MessageId) {
        if let Some(request) = self.waiting.get_mut(id) {
            request.is_delivered = true;
        }
    }

    /// Takes in a message of the server; `line` is missing where it was too long to keep.
    pub fn server_sends(&mut self, envelope: &Envelope, line: Option<&[u8]>) -> FromServer {
        match envelope {
            Envelope::Request { id, .. } => {
                self.asked_by_server.insert(id.clone());
                FromServer::Pass
            }
            Envelope::Response { id, .. } => self.answered(id, line),
            Envelope::Notification { .. }
            | Envelope::Batch
            | Envelope::Blank
            | Envelope::Foreign
            | Envelope::Text
            | Envelope::Malformed { .. } => FromServer::Pass,
        }
    }

    fn answered(&mut self, id: &MessageId, line: Option<&[u8]>) -> FromServer {
        if self.greets.take_if(|greets| greets == id).is_some() {
            return FromServer::Greeted;
        }
        if self.swallowed.remove(id) {
            return FromServer::Drop;
        }
        if self.own_calls.remove(id) {
            return FromServer::OwnAnswer(id.clone());
        }
        let Some(request) = self.waiting.remove(id) else {
            // Whoever answers a call twice that is being healed would answer the client twice.
            let is_answered = self.healing.contains(id);
            return if is_answered { FromServer::Drop } else { FromServer::Pass };
        };
        self.has_answered = true;
        match (&*request.method, line) {
            ("initialize", line) => self.greeting.answered(line),
            ("tools/list", Some(line)) => self.hints.extend(hints::hints_of(line)),
            _ => {}
        }
        FromServer::PassAnswer(request)
    }

    /// Returns the one request that waits for the server, if it is the only one.
    pub fn only_waiting(&self) -> Option<&MessageId> {
        let mut delivered = self.waiting.values().filter(|request| request.is_delivered);
        delivered.next().filter(|_| delivered.next().is_none()).map(|request| &request.id)
    }

    /// Answers a request in the server's place; a later answer of the server is dropped.
    pub fn take_over(&mut self, id: &MessageId) -> Option<RefusedRequest> {
        let request = self.waiting.remove(id)?;
        self.swallowed.insert(id.clone());
        Some(self.refused(&request))
    }

    /// Returns since when the oldest request waits for its answer.
    pub fn waits_since(&self) -> Option<u64> {
        self.waiting.values().map(|request| request.since_ms).min()
    }

    /// Returns whether this request waits for its answer.
    pub fn waits_for(&self, id: &MessageId) -> bool {
        self.waiting.contains_key(id)
    }

    /// Returns whether any request waits for its answer.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a request of the proxy's own, whose answer nobody else gets.
    pub fn ask_for_self(&mut self, id: MessageId) {
        self.swallowed.insert(id);
    }

    /// Returns whether a request of the proxy's own still waits for its answer.
    pub fn waits_for_own(&self, id: &MessageId) -> bool {
        self.swallowed.contains(id)
    }

    /// Notes that a failed call is being healed.
    pub fn begin_healing(&mut self, id: &MessageId) {
        self.healing.insert(id.clone());
    }

    /// Ends the healing of a call; returns whether the client still wants its answer.
    pub fn end_healing(&mut self, id: &MessageId) -> bool {
        self.healing.remove(id)
    }

    /// Lets a healed call wait for another answer; it is delivered like any other.
    pub fn retry(&mut self, request: WaitingRequest, now_ms: u64) {
        let retries = request.retries + 1;
        let retried = WaitingRequest {
            retries,
            since_ms: now_ms,
            is_delivered: false,
            repeats: 0,
            ..request
        };
        self.waiting.insert(retried.id.clone(), retried);
    }

    /// Adds a tool call of the proxy's own.
    pub fn call_for_self(&mut self, id: MessageId) {
        self.own_calls.insert(id);
    }

    /// Returns what the server says about a tool, if it has listed it.
    pub fn hints(&self, tool: &str) -> Option<ToolHints> {
        self.hints.get(tool).copied()
    }

    /// Decides about all that a server leaves that has died.
    pub fn server_ended(&mut self) -> LeftRequests {
        self.swallowed.clear();
        self.own_calls.clear();
        self.greets = None;
        let mut left = LeftRequests::default();
        left.withdrawn.extend(self.asked_by_server.drain());
        self.withdrawn.extend(left.withdrawn.iter().cloned());
        let mut waiting: Vec<WaitingRequest> = self.waiting.drain().map(|(_, one)| one).collect();
        waiting.sort_unstable_by_key(|request| request.order);
        for mut request in waiting {
            let refused = self.refused(&request);
            // How often a server may die of its greeting is the supervisor's business.
            let is_fresh = request.repeats < MOST_REPEATS
                || !request.is_delivered
                || GREETINGS.contains(&&*request.method);
            if request.line.is_some() && refused.effect == PossibleEffect::None && is_fresh {
                request.repeats += u32::from(request.is_delivered);
                request.is_delivered = false;
                self.waiting.insert(request.id.clone(), request);
            } else {
                left.refuse.push(refused);
            }
        }
        left
    }

    /// Returns what the server has not had yet, in its order.
    pub fn undelivered(&self) -> Vec<(MessageId, MessageLine)> {
        let mut left: Vec<&WaitingRequest> =
            self.waiting.values().filter(|request| !request.is_delivered).collect();
        left.sort_unstable_by_key(|request| request.order);
        let sent = |request: &WaitingRequest| Some((request.id.clone(), request.line.clone()?));
        left.into_iter().filter_map(sent).collect()
    }

    /// Gives up on what came before `since_ms` and has not been delivered.
    pub fn refuse_undelivered(&mut self, since_ms: u64) -> Vec<RefusedRequest> {
        let mut refused = Vec::new();
        self.waiting.retain(|id, request| {
            let is_over = !request.is_delivered && request.since_ms < since_ms;
            if is_over {
                let (id, method) = (id.clone(), request.method.clone());
                refused.push(RefusedRequest { id, method, effect: PossibleEffect::None });
            }
            !is_over
        });
        refused
    }

    /// Gives up on everything that waits; nothing is sent to a server any more.
    pub fn refuse_all(&mut self) -> Vec<RefusedRequest> {
        let mut waiting: Vec<WaitingRequest> = self.waiting.drain().map(|(_, one)| one).collect();
        waiting.sort_unstable_by_key(|request| request.order);
        waiting.iter().map(|request| self.refused(request)).collect()
    }

    fn refused(&self, request: &WaitingRequest) -> RefusedRequest {
        let is_harmless = !request.is_delivered || self.is_repeatable(request);
        let effect = if is_harmless { PossibleEffect::None } else { PossibleEffect::MayHaveActed };
        RefusedRequest { id: request.id.clone(), method: request.method.clone(), effect }
    }

    /// Returns whether sending a request twice does no more than sending it once.
    fn is_repeatable(&self, request: &WaitingRequest) -> bool {
        if request.method != "tools/call" {
            return REPEATABLE_METHODS.contains(&&*request.method);
        }
        let name = request.line.as_deref().and_then(called_tool);
        let Some(name) = name else { return false };
        let declared = self.declared.iter().filter(|(pattern, _)| pattern.matches(&name));
        let mut hints = declared.map(|(_, hints)| hints).chain(self.hints.get(&name));
        hints.any(|hints| hints.is_read_only || hints.is_idempotent)
    }

    /// Begins to greet a new server as the client greeted the first; returns nothing where the
    /// client did not, or is still waiting for the answer.
    pub fn greet(&mut self) -> Option<MessageLine> {
        let beginning = self.greeting.beginning()?;
        self.greets = Some(beginning.id.clone());
        Some(Arc::clone(&beginning.line))
    }

    /// Returns what a greeted server is told before anything else: what the client had set.
    pub fn settle_in(&mut self) -> Vec<MessageLine> {
        let mut lines: Vec<MessageLine> = self.greeting.read_word().cloned().into_iter().collect();
        for set in self.greeting.settings() {
            // One that has no answer yet is repeated with the others, and answered to the client.
            if !self.waiting.contains_key(&set.id) {
                self.swallowed.insert(set.id.clone());
                lines.push(Arc::clone(&set.line));
            }
        }
        lines
    }

    /// Returns whether a server has ever answered the client.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Returns which lists of the server the client should read again, as the protocol names them.
    pub fn lists(&self) -> &[&'static str] {
        self.greeting.lists()
    }
}

/// Returns whose request a cancellation is about.
pub fn cancelled_id(line: &[u8]) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "requestId", borrow)]
        request_id: &'a serde_json::value::RawValue,
    }
    let cancelled: Cancelled<'_> = serde_json::from_slice(line).ok()?;
    Some(MessageId::from_json(cancelled.params.request_id.get()))
}

pub fn called_tool(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct CalledTool {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    serde_json::from_slice::<CalledTool>(line).ok().map(|call| call.params.name)
}

/// Returns what a `tools/call` hands to its tool.
pub fn call_arguments(line: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Call {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        arguments: Option<Value>,
    }
    serde_json::from_slice::<Call>(line).ok()?.params.arguments
}

#[cfg(test)]
mod tests;
