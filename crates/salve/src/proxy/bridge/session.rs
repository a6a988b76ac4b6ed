//! What is known of the session with a server that is reached by HTTP, and of the requests under way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use salve_core::tool::envelope::MessageId;
use salve_core::tool::session::ClientGreeting;
use serde_json::Value;
use ureq::Agent;
use ureq::config::Config;

/// What is known of the session with the server.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpSession {
    pub(super) id: Option<String>,
    pub(super) protocol: Option<String>,
    /// How the client began it.
    pub(super) greeting: ClientGreeting,
    /// How often it was begun.
    pub(super) generation: u64,
}

/// A request of the client's.
#[derive(Clone, Debug)]
pub(super) struct BridgedRequest {
    pub(super) id: MessageId,
    pub(super) method: String,
    pub(super) line: Vec<u8>,
    /// What it says, if it can be read.
    pub(super) message: Value,
    /// Whether it is of the newer protocol, which has no sessions.
    pub(super) is_modern: bool,
}

/// The requests under way, each on a connection of its own.
#[derive(Debug)]
pub(super) struct RequestsUnderWay {
    config: Config,
    /// Whose connections are open and free.
    idle: Mutex<Vec<Agent>>,
    running: Mutex<HashMap<MessageId, RunningRequest>>,
}

#[derive(Debug)]
struct RunningRequest {
    agent: Agent,
    is_modern: bool,
    is_cancelled: bool,
}

/// What a client's word that it wants no answer any more means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// The server hears of it by the end of the connection.
    CutOff,
    /// The server has to be told.
    ToBeTold,
    /// There is no such request.
    Unknown,
}

impl RequestsUnderWay {
    pub(super) fn new(config: Config) -> Self {
        Self { config, idle: Mutex::default(), running: Mutex::default() }
    }

    /// Returns what speaks for nobody else meanwhile, so that it can be cut off alone.
    pub(super) fn agent(&self) -> Agent {
        lock(&self.idle).pop().unwrap_or_else(|| self.config.clone().into())
    }

    /// Takes an agent back whose request is over.
    pub(super) fn give_back(&self, agent: Agent) {
        lock(&self.idle).push(agent);
    }

    /// Notes that a request is under way.
    pub(super) fn begin(&self, request: &BridgedRequest) -> Agent {
        let agent = self.agent();
        let is_modern = request.is_modern;
        let running = RunningRequest { agent: agent.clone(), is_modern, is_cancelled: false };
        lock(&self.running).insert(request.id.clone(), running);
        agent
    }

    /// Returns whether the client wants no answer any more.
    pub(super) fn is_cancelled(&self, id: &MessageId) -> bool {
        lock(&self.running).get(id).is_some_and(|running| running.is_cancelled)
    }

    /// Notes that a request is over; returns whether the client still wanted its answer.
    pub(super) fn end(&self, id: &MessageId, agent: Agent) -> bool {
        let running = lock(&self.running).remove(id);
        let is_wanted = running.is_none_or(|running| !running.is_cancelled);
        if is_wanted {
            self.give_back(agent);
        }
        is_wanted
    }

    /// Takes in that the client wants no answer any more.
    ///
    /// In the newer protocol the end of a request's connection is what tells its server so.
    pub(super) fn cancel(&self, id: &MessageId) -> Cancelled {
        let mut running = lock(&self.running);
        let Some(request) = running.get_mut(id) else { return Cancelled::Unknown };
        request.is_cancelled = true;
        if !request.is_modern {
            return Cancelled::ToBeTold;
        }
        request.agent.clone().shutdown();
        Cancelled::CutOff
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.running).is_empty()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
