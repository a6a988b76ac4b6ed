//! Watches calls for mistakes that are known, and learns new ones.
//!
//! While no pattern is known and nothing has failed, a call costs a look at one flag. Patterns are
//! read once when the proxy begins, beside the server's start, and again when one was learned.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::memory::usage::Level;
use salve_core::prevention::category::is_infrastructure;
use salve_core::prevention::index::{PatternIndex, UsageWarning};
use salve_core::prevention::session::{
    CallOutcome, CallSession, FinishedCall, ToolCall, UsageLesson,
};
use salve_core::tool::envelope::MessageId;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::session::{MessageLine, WaitingRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::HealMeans;

/// The largest request that is looked into.
const LARGEST: usize = 16 << 10;
/// How many calls that worked are kept for the case that a later one fails.
const RECENT: usize = 64;
/// How many patterns an agent is told of before its first call.
const PRIMED: usize = 10;
/// How long a greeting waits for the patterns.
const LOADING: Duration = Duration::from_millis(300);

/// Watches the calls of one client.
pub(super) struct CallWatch {
    state: Mutex<WatchState>,
    is_watching: AtomicBool,
    loaded: Condvar,
    keeping: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct WatchState {
    is_loaded: bool,
    means: Option<Arc<HealMeans>>,
    index: Arc<PatternIndex>,
    session: CallSession,
    warned: HashMap<MessageId, Vec<UsageWarning>>,
    recent: VecDeque<MessageLine>,
}

impl CallWatch {
    pub(super) fn new() -> Self {
        let (state, is_watching, loaded, keeping) = Default::default();
        Self { state, is_watching, loaded, keeping }
    }

    /// Reads the patterns.
    pub(super) fn load(&self, means: Option<HealMeans>) {
        let means = means.filter(|means| means.prevention().enabled).map(Arc::new);
        let index = means.as_ref().map(|means| means.pattern_index()).unwrap_or_default();
        let mut state = self.state();
        if !index.is_empty() {
            self.is_watching.store(true, Ordering::Relaxed);
        }
        (state.index, state.means, state.is_loaded) = (Arc::new(index), means, true);
        drop(state);
        self.loaded.notify_all();
    }

    /// Looks at a call before it is made; returns why it is not made, if it is not.
    pub(super) fn before(self: &Arc<Self>, id: &MessageId, line: &[u8]) -> Option<String> {
        if !self.is_watching.load(Ordering::Relaxed) {
            return None;
        }
        let call = call_in(line)?;
        let mut state = self.state();
        if !state.index.knows(&call.tool) {
            return None;
        }
        let index = Arc::clone(&state.index);
        let worked = state.session.worked_before(&call);
        let warnings = index.check(&call.tool, &call.arguments, &worked, Timestamp::now());
        drop(worked);
        if warnings.is_empty() {
            return None;
        }
        let blocks = state.means.as_ref().is_some_and(|means| means.prevention().block);
        if blocks && warnings.iter().any(|warning| warning.level == Level::Strongest) {
            let text = format!("Salve did not make this call. {}", told(&warnings));
            let finished = state.session.finished(&index, call, CallOutcome::Blocked, &warnings);
            self.keep(&state, finished.lessons);
            return Some(text);
        }
        state.warned.insert(id.clone(), warnings);
        None
    }

    /// Takes in that a call worked.
    pub(super) fn worked(self: &Arc<Self>, request: &WaitingRequest) {
        let Some(line) = request.line.as_ref().filter(|line| line.len() <= LARGEST) else { return };
        let mut state = self.state();
        if !self.is_watching.load(Ordering::Relaxed) {
            state.recent.push_back(Arc::clone(line));
            if state.recent.len() > RECENT {
                state.recent.pop_front();
            }
            return;
        }
        let Some(call) = call_in(line) else { return };
        let warnings = state.warned.remove(&request.id).unwrap_or_default();
        let finished = state.finish(call, CallOutcome::Worked, &warnings);
        self.keep(&state, finished.lessons);
    }

    /// Takes in that a call failed; returns what the client is told besides.
    pub(super) fn failed(
        self: &Arc<Self>,
        id: &MessageId,
        line: Option<&MessageLine>,
        failed: &FailedCall,
    ) -> Option<String> {
        let call = call_in(line.filter(|line| line.len() <= LARGEST)?)?;
        let mut state = self.state();
        state.means.as_ref()?;
        self.is_watching.store(true, Ordering::Relaxed);
        for earlier in std::mem::take(&mut state.recent) {
            if let Some(earlier) = call_in(&earlier) {
                state.finish(earlier, CallOutcome::Worked, &[]);
            }
        }
        let outcome = if is_infrastructure(failed) {
            CallOutcome::Hindered
        } else {
            CallOutcome::Failed { error: failed.text.clone() }
        };
        let warnings = state.warned.remove(id).unwrap_or_default();
        let FinishedCall { lessons, note } = state.finish(call, outcome, &warnings);
        self.keep(&state, lessons);
        let warning = (!warnings.is_empty()).then(|| told(&warnings));
        match (warning, note) {
            (Some(warning), Some(note)) => Some(format!("{warning} {note}")),
            (warning, note) => warning.or(note),
        }
    }

    /// Returns an answer to a greeting or a list of tools with what is known to fail; nothing if
    /// nothing is.
    pub(super) fn primed(&self, method: &str, line: &[u8]) -> Option<Vec<u8>> {
        if !matches!(method, "initialize" | "server/discover" | "tools/list") {
            return None;
        }
        let state = self.state();
        let index = if state.is_loaded {
            Arc::clone(&state.index)
        } else {
            let waited = self.loaded.wait_timeout_while(state, LOADING, |state| !state.is_loaded);
            Arc::clone(&waited.unwrap_or_else(PoisonError::into_inner).0.index)
        };
        let advice = index.advice_before_calls(PRIMED, Timestamp::now());
        if advice.is_empty() {
            return None;
        }
        let mut message: Value = serde_json::from_slice(line).ok()?;
        let result = message.get_mut("result")?;
        if method == "tools/list" {
            for tool in result.get_mut("tools")?.as_array_mut()? {
                let name = tool.get("name")?.as_str()?.to_owned();
                let known = advice.iter().filter(|advice| advice.tool == name);
                let known: Vec<&str> = known.map(|advice| advice.advice.as_str()).collect();
                if !known.is_empty() {
                    append(tool, "description", &format!("Known to fail: {}", known.join(" ")));
                }
            }
        } else {
            let lines = advice.iter().map(|advice| format!("- {}: {}", advice.tool, advice.advice));
            let lines = lines.collect::<Vec<_>>().join("\n");
            append(result, "instructions", &format!("Calls that are known to fail:\n{lines}"));
        }
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        Some(line)
    }

    /// Ends the session, and waits until all is kept.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let lessons = state.session.end();
        let means = state.means.clone();
        drop(state);
        for thread in lock(&self.keeping).drain(..) {
            // A thread that died kept nothing; nothing else depends on it.
            let _ = thread.join();
        }
        if let Some(means) = means {
            means.take_in_lessons(&lessons);
        }
    }

    /// Keeps what was learned, away from the way of the calls.
    fn keep(self: &Arc<Self>, state: &WatchState, lessons: Vec<UsageLesson>) {
        let (Some(means), false) = (state.means.clone(), lessons.is_empty()) else { return };
        let own = Arc::clone(self);
        let work = move || {
            if means.take_in_lessons(&lessons) {
                let index = Arc::new(means.pattern_index());
                own.state().index = index;
            }
        };
        let thread = std::thread::Builder::new().name("salve-learn".to_owned()).spawn(work);
        lock(&self.keeping).extend(thread);
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        lock(&self.state)
    }
}

impl WatchState {
    fn finish(
        &mut self,
        call: ToolCall,
        outcome: CallOutcome,
        warnings: &[UsageWarning],
    ) -> FinishedCall {
        let index = Arc::clone(&self.index);
        self.session.finished(&index, call, outcome, warnings)
    }
}

/// Returns the answer to a call that was not made.
pub(super) fn blocked_answer(id: &MessageId, text: &str) -> Vec<u8> {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", id.as_json()).into_bytes()
}

fn told(warnings: &[UsageWarning]) -> String {
    warnings.iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn append(object: &mut Value, key: &str, text: &str) {
    let before = object.get(key).and_then(Value::as_str).unwrap_or_default();
    let joined = if before.is_empty() { text.to_owned() } else { format!("{before}\n\n{text}") };
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), joined.into());
    }
}

fn call_in(line: &[u8]) -> Option<ToolCall> {
    #[derive(Deserialize)]
    struct CallRequest {
        params: CallParams,
    }
    #[derive(Deserialize)]
    struct CallParams {
        name: String,
        #[serde(default)]
        arguments: Option<serde_json::Map<String, Value>>,
    }
    let CallRequest { params } = serde_json::from_slice(line).ok()?;
    Some(ToolCall { tool: params.name, arguments: params.arguments.unwrap_or_default() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for CallWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallWatch").finish_non_exhaustive()
    }
}
