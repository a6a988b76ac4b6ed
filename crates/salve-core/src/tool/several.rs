//! Several servers that one client sees as one.
//!
//! What concerns all of them is asked of all, and their answers are put together; everything else
//! goes to the one whose matter it is, as it is. A tool or prompt gets its server's name in front
//! only where two servers have one of the same name. Requests of servers get ids of their own, since
//! each server counts for itself.
//!
//! **Invariant:** no server answers what another one was asked or tells of it, nor has a tool under
//! a name that begins with another one's.

mod merge;
mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::merge::GatheredAnswers;
use self::message::RoutedMessage;
use super::batch::{BatchMessages, GatheredAnswer, RequestBatches};
use super::envelope::{Envelope, MessageId};

/// Requests that all servers answer together.
const OF_ALL: [&str; 8] = [
    "initialize",
    "server/discover",
    "ping",
    "logging/setLevel",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];
/// Requests that begin a connection.
const GREETINGS: [&str; 2] = ["initialize", "server/discover"];
/// The protocol's numbers for parameters that are wrong, and for a connection that was closed.
const INVALID_PARAMS: i32 = -32_602;
const CONNECTION_CLOSED: i32 = -32_000;

/// A line that goes somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchedLine {
    /// To the server of this place.
    ToServer(usize, Vec<u8>),
    ToClient(Vec<u8>),
}

/// Whose a name is, and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NameRoute {
    at: usize,
    name: String,
}

/// What a request names that only one server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedKind {
    Tool,
    Prompt,
    /// A prompt whose argument is being completed.
    Completion,
}

impl NamedKind {
    /// Returns where among the parameters the name is.
    const fn pointer(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "/name",
            Self::Completion => "/ref/name",
        }
    }
}

/// What a list of names tells: whose each of them is.
#[derive(Clone, Debug, Default)]
struct RouteTable {
    is_known: bool,
    routes: BTreeMap<String, NameRoute>,
}

/// A request of ours for a list that a client did not ask for in time.
#[derive(Clone, Debug)]
struct HeldCalls {
    own: MessageId,
    lines: Vec<Vec<u8>>,
}

/// One client's connection with several servers.
#[derive(Debug)]
pub struct ServerSwitch {
    names: Vec<String>,
    gone: BTreeSet<usize>,
    /// Requests that several servers answer.
    gathering: HashMap<MessageId, GatheredAnswers>,
    /// Requests that one server answers.
    routed: HashMap<MessageId, usize>,
    /// By what the client wants to be told of the progress of which request.
    progress: HashMap<MessageId, MessageId>,
    /// Requests of servers, by the ids that the client knows.
    asked: HashMap<MessageId, (usize, MessageId)>,
    numbers: u64,
    tools: RouteTable,
    prompts: RouteTable,
    resources: BTreeMap<String, usize>,
    held: Option<HeldCalls>,
    batches: RequestBatches,
}

impl ServerSwitch {
    /// Makes a connection with servers of these names.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            names,
            gone: BTreeSet::new(),
            gathering: HashMap::new(),
            routed: HashMap::new(),
            progress: HashMap::new(),
            asked: HashMap::new(),
            numbers: 0,
            tools: RouteTable::default(),
            prompts: RouteTable::default(),
            resources: BTreeMap::new(),
            held: None,
            batches: RequestBatches::default(),
        }
    }

    /// Takes in a line of the client's.
    pub fn client_sends(&mut self, line: &[u8]) -> Vec<SwitchedLine> {
        let Some(batch) = BatchMessages::of(line) else {
            let lines = self.pass_from_client(line);
            return self.gather_batches(lines);
        };
        self.batches.begin(batch.asked.clone());
        let all = batch.lines();
        let lines = all.split_inclusive(|&byte| byte == b'\n');
        let lines = lines.flat_map(|line| self.pass_from_client(line)).collect();
        self.gather_batches(lines)
    }

    /// Keeps the answers to what came in a batch until the last of them is there.
    fn gather_batches(&mut self, lines: Vec<SwitchedLine>) -> Vec<SwitchedLine> {
        let gather = |line| match line {
            SwitchedLine::ToServer(..) => Some(line),
            SwitchedLine::ToClient(answer) => {
                let Envelope::Response { id, .. } = Envelope::of(&answer) else {
                    return Some(SwitchedLine::ToClient(answer));
                };
                match self.batches.take_in(&id, &answer) {
                    GatheredAnswer::Single => Some(SwitchedLine::ToClient(answer)),
                    GatheredAnswer::Kept => None,
                    GatheredAnswer::Whole(answers) => Some(SwitchedLine::ToClient(answers)),
                }
            }
        };
        lines.into_iter().filter_map(gather).collect()
    }

    fn pass_from_client(&mut self, line: &[u8]) -> Vec<SwitchedLine> {
        let Some(message) = RoutedMessage::read(line) else { return self.pass_to_first(line) };
        match (message.id(), message.method()) {
            (Some(id), Some(method)) => self.request(id, &method, message, line),
            (None, Some(method)) => self.notification(&method, &message, line),
            (Some(id), None) => self.answer_to_server(&id, message),
            (None, None) => Vec::new(),
        }
    }

    fn request(
        &mut self,
        id: MessageId,
        method: &str,
        message: RoutedMessage,
        line: &[u8],
    ) -> Vec<SwitchedLine> {
        if let Some(token) = message.raw_param("/_meta/progressToken") {
            self.progress.insert(MessageId::from_json(&token), id.clone());
        }
        if OF_ALL.contains(&method) {
            return self.ask_all(id, method, message, line);
        }
        match method {
            "tools/call" if !self.tools.is_known => self.hold(line),
            "tools/call" => self.by_name(id, NamedKind::Tool, message, line),
            "prompts/get" => self.by_name(id, NamedKind::Prompt, message, line),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                let uri = message.param("/uri");
                match uri.and_then(|uri| self.resources.get(&uri).copied()) {
                    Some(at) => self.route_to(id, at, line.to_vec()),
                    // A template of any server may fit.
                    None => self.ask_all(id, method, message, line),
                }
            }
            "completion/complete" if message.param("/ref/name").is_some() => {
                self.by_name(id, NamedKind::Completion, message, line)
            }
            "completion/complete" => self.ask_all(id, method, message, line),
            // Nobody can say whose matter a method of the future is.
            _ => {
                let first = self.living().next();
                match first {
                    Some(at) => self.route_to(id, at, line.to_vec()),
                    None => vec![refused(&id, CONNECTION_CLOSED, "all servers have ended")],
                }
            }
        }
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.names.len()).filter(|at| !self.gone.contains(at))
    }

    fn pass_to_first(&self, line: &[u8]) -> Vec<SwitchedLine> {
        self.living()
            .next()
            .map(|at| SwitchedLine::ToServer(at, line.to_vec()))
            .into_iter()
            .collect()
    }

    fn route_to(&mut self, id: MessageId, at: usize, line: Vec<u8>) -> Vec<SwitchedLine> {
        if self.gone.contains(&at) {
            let text = format!("the server {} has ended", self.names[at]);
            return vec![refused(&id, CONNECTION_CLOSED, &text)];
        }
        self.routed.insert(id, at);
        vec![SwitchedLine::ToServer(at, line)]
    }

    fn ask_all(
        &mut self,
        id: MessageId,
        method: &str,
        message: RoutedMessage,
        line: &[u8],
    ) -> Vec<SwitchedLine> {
        let asked: BTreeSet<usize> = self.living().collect();
        if asked.is_empty() {
            return vec![refused(&id, CONNECTION_CLOSED, "all servers have ended")];
        }
        let lines = asked.iter().map(|at| SwitchedLine::ToServer(*at, line.to_vec())).collect();
        let gathering = GatheredAnswers::new(method, message, asked, self.names.len());
        self.gathering.insert(id, gathering);
        lines
    }

    /// Sends a request to the server whose name it names, by the name that it has there.
    fn by_name(
        &mut self,
        id: MessageId,
        kind: NamedKind,
        mut message: RoutedMessage,
        line: &[u8],
    ) -> Vec<SwitchedLine> {
        let name = message.param(kind.pointer()).unwrap_or_default();
        let (table, first) = match kind {
            NamedKind::Tool => (&self.tools, None),
            // One that nobody has listed may be of the first.
            NamedKind::Prompt | NamedKind::Completion => (&self.prompts, self.living().next()),
        };
        let route = table.routes.get(&name).cloned();
        match (route, first) {
            (Some(NameRoute { at, name: own }), _) if own == name => {
                self.route_to(id, at, line.to_vec())
            }
            (Some(NameRoute { at, name: own }), _) => {
                message.set_param(kind.pointer(), &own);
                self.route_to(id, at, message.line())
            }
            (None, Some(at)) => self.route_to(id, at, line.to_vec()),
            (None, None) => vec![refused(&id, INVALID_PARAMS, &format!("Unknown tool: {name}"))],
        }
    }

    /// Keeps a call until it is known whose the tools are.
    fn hold(&mut self, line: &[u8]) -> Vec<SwitchedLine> {
        if let Some(held) = &mut self.held {
            held.lines.push(line.to_vec());
            return Vec::new();
        }
        let own = self.own_id();
        self.held = Some(HeldCalls { own: own.clone(), lines: vec![line.to_vec()] });
        let asks =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}}\n", own.as_json());
        match RoutedMessage::read(asks.as_bytes()) {
            Some(message) => self.ask_all(own, "tools/list", message, asks.as_bytes()),
            None => Vec::new(),
        }
    }

    fn own_id(&mut self) -> MessageId {
        self.numbers += 1;
        MessageId::from_json(&format!("\"salve-{}\"", self.numbers))
    }

    fn notification(
        &mut self,
        method: &str,
        message: &RoutedMessage,
        line: &[u8],
    ) -> Vec<SwitchedLine> {
        let cancelled =
            message.raw_param("/requestId").filter(|_| method == "notifications/cancelled");
        let cancelled = cancelled.map(|id| MessageId::from_json(&id));
        let only = cancelled.as_ref().and_then(|id| self.routed.remove(id));
        let mut lines: Vec<SwitchedLine> = match only {
            Some(at) => vec![SwitchedLine::ToServer(at, line.to_vec())],
            None => self.living().map(|at| SwitchedLine::ToServer(at, line.to_vec())).collect(),
        };
        let finished = cancelled.and_then(|id| self.batches.leave_out(&id));
        lines.extend(finished.map(SwitchedLine::ToClient));
        lines
    }

    /// Gives the client's answer back under the id that the server knows.
    fn answer_to_server(
        &mut self,
        id: &MessageId,
        mut message: RoutedMessage,
    ) -> Vec<SwitchedLine> {
        let Some((at, own)) = self.asked.remove(id) else { return Vec::new() };
        message.set("id", own.as_json());
        vec![SwitchedLine::ToServer(at, message.line())]
    }

    /// Takes in a line of a server's.
    pub fn server_sends(&mut self, at: usize, line: &[u8]) -> Vec<SwitchedLine> {
        let lines = self.pass_from_server(at, line);
        self.gather_batches(lines)
    }

    fn pass_from_server(&mut self, at: usize, line: &[u8]) -> Vec<SwitchedLine> {
        let pass = || vec![SwitchedLine::ToClient(line.to_vec())];
        let Some(mut message) = RoutedMessage::read(line) else { return self.batch(at, line) };
        match (message.id(), message.method()) {
            (Some(id), Some(_)) => {
                let own = self.own_id();
                message.set("id", own.as_json());
                self.asked.insert(own, (at, id));
                vec![SwitchedLine::ToClient(message.line())]
            }
            (None, Some(method)) => self.told(at, &method, message, line),
            (Some(id), None) => {
                if self.gathering.contains_key(&id) {
                    return self.gathered(&id, at, &message);
                }
                // A server answers what it was asked, and nothing in another one's name.
                if self.routed.get(&id) != Some(&at) {
                    return Vec::new();
                }
                self.routed.remove(&id);
                self.progress.retain(|_, of| *of != id);
                pass()
            }
            (None, None) => pass(),
        }
    }

    /// Takes in several messages in one line, each by itself; what cannot be read goes nowhere.
    fn batch(&mut self, at: usize, line: &[u8]) -> Vec<SwitchedLine> {
        let parts: Vec<Box<RawValue>> = serde_json::from_slice(line).unwrap_or_default();
        // One within another would be no message.
        let objects = parts.iter().filter(|part| part.get().starts_with('{'));
        let lines = objects.map(|part| format!("{}\n", part.get()));
        lines.flat_map(|line| self.pass_from_server(at, line.as_bytes())).collect()
    }

    fn told(
        &mut self,
        at: usize,
        method: &str,
        mut message: RoutedMessage,
        line: &[u8],
    ) -> Vec<SwitchedLine> {
        match method {
            "notifications/tools/list_changed" => self.tools.is_known = false,
            "notifications/cancelled" => {
                let asked = message.raw_param("/requestId").map(|id| MessageId::from_json(&id));
                let own = self
                    .asked
                    .iter()
                    .find(|(_, known)| known.0 == at && Some(&known.1) == asked.as_ref());
                // A server calls off what it asked itself.
                let Some(own) = own.map(|(own, _)| own.as_json().to_owned()) else {
                    return Vec::new();
                };
                message.set_raw_param("requestId", &own);
                return vec![SwitchedLine::ToClient(message.line())];
            }
            "notifications/progress" => {
                let token = message.raw_param("/progressToken");
                let of = token.and_then(|token| self.progress.get(&MessageId::from_json(&token)));
                // A server tells of the progress of what it was asked.
                let is_its =
                    |id| self.routed.get(id) == Some(&at) || self.gathering.contains_key(id);
                if !of.is_some_and(is_its) {
                    return Vec::new();
                }
            }
            _ => {}
        }
        vec![SwitchedLine::ToClient(line.to_vec())]
    }

    /// Takes in one server's part of an answer.
    fn gathered(
        &mut self,
        id: &MessageId,
        at: usize,
        message: &RoutedMessage,
    ) -> Vec<SwitchedLine> {
        let Some(gathering) = self.gathering.get_mut(id) else { return Vec::new() };
        if let Some(next) = gathering.take(at, message) {
            return vec![SwitchedLine::ToServer(at, next)];
        }
        self.finish(id)
    }

    /// Answers a request that all have answered.
    fn finish(&mut self, id: &MessageId) -> Vec<SwitchedLine> {
        if !self.gathering.get(id).is_some_and(GatheredAnswers::is_complete) {
            return Vec::new();
        }
        let Some(gathering) = self.gathering.remove(id) else { return Vec::new() };
        self.progress.retain(|_, of| of != id);
        let merged = gathering.merged(&self.names);
        match gathering.method() {
            "tools/list" => self.tools = RouteTable { is_known: true, routes: merged.routes },
            "prompts/list" => self.prompts = RouteTable { is_known: true, routes: merged.routes },
            "resources/list" => self.resources.extend(merged.resources),
            _ => {}
        }
        if self.held.as_ref().is_some_and(|held| held.own == *id) {
            let held = self.held.take().map(|held| held.lines).unwrap_or_default();
            self.tools.is_known = true;
            return held.iter().flat_map(|line| self.pass_from_client(line)).collect();
        }
        let member = if merged.is_error { "error" } else { "result" };
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":{}}}\n",
            id.as_json(),
            merged.body
        );
        vec![SwitchedLine::ToClient(line.into_bytes())]
    }

    /// Answers greetings with what there is by now: a server that is late joins when it comes.
    pub fn greeting_is_overdue(&mut self) -> Vec<SwitchedLine> {
        let late = self.gathering.iter_mut().filter(|(_, gathering)| {
            GREETINGS.contains(&gathering.method()) && gathering.has_any()
        });
        let ids: Vec<MessageId> = late
            .map(|(id, gathering)| {
                gathering.give_up();
                id.clone()
            })
            .collect();
        let lines = ids.iter().flat_map(|id| self.finish(id)).collect();
        self.gather_batches(lines)
    }

    /// Takes in that a server is gone for good.
    pub fn server_ended(&mut self, at: usize) -> Vec<SwitchedLine> {
        self.gone.insert(at);
        let mut lines = Vec::new();
        let text =
            format!("the server {} has ended; the call may have taken effect", self.names[at]);
        self.routed.retain(|id, to| {
            if *to == at {
                lines.push(refused(id, CONNECTION_CLOSED, &text));
            }
            *to != at
        });
        let ids: Vec<MessageId> = self.gathering.keys().cloned().collect();
        for id in ids {
            if let Some(gathering) = self.gathering.get_mut(&id) {
                gathering.ended(at, &text);
            }
            lines.extend(self.finish(&id));
        }
        self.gather_batches(lines)
    }

    /// Returns whether no server is left.
    pub fn is_deserted(&self) -> bool {
        self.gone.len() == self.names.len()
    }
}

/// Returns the answer to a request that nobody answers.
fn refused(id: &MessageId, code: i32, text: &str) -> SwitchedLine {
    let error = json!({ "code": code, "message": text });
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", id.as_json());
    SwitchedLine::ToClient(line.into_bytes())
}

/// Returns a value as it is written.
fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests;
