//! Failed calls behind the proxy: held back, healed, tried again, and only then answered.
//!
//! Each failed call is healed on a thread of its own, because a fix may take a minute and other
//! calls go on meanwhile; that one cause is fixed once is [`Flight`](crate::tools::Flight)'s matter.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::tool::envelope::{Envelope, MessageId, RequestAnswer};
use salve_core::tool::failure::{FailedCall, failure_in, may_be_failure};
use salve_core::tool::rule::{HealChoice, ToolFix};
use salve_core::tool::session::{WaitingRequest, called_tool};
use serde_json::{Value, json};

use super::FailureMeans;
use super::link::{Happened, Link, ServerWire};
use super::wire::write_all;
use crate::tools::{HealMeans, Healed};

/// How long a tool that fixes something may take.
const FIX_LIMIT: Duration = Duration::from_secs(120);
/// A store and regular expressions need more than a pump does.
const STACK: usize = 2 << 20;

/// What becomes of an answer to a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFate {
    /// The client gets it.
    Pass,
    /// It is a failure that is being looked into.
    Kept,
}

/// A call that is being tried again.
struct RetriedCall {
    call: FailedCall,
    fix: ToolFix,
    means: HealMeans,
}

/// Heals what fails.
pub(super) struct CallHealing {
    link: Arc<Link>,
    on_failure: FailureMeans,
    retried: Mutex<HashMap<MessageId, RetriedCall>>,
    own: Mutex<HashMap<MessageId, Sender<Vec<u8>>>>,
    fixes: AtomicU64,
}

impl CallHealing {
    pub(super) fn new(link: Arc<Link>, on_failure: FailureMeans) -> Self {
        let (retried, own, fixes) = Default::default();
        Self { link, on_failure, retried, own, fixes }
    }

    /// Gathers the means to heal and to learn.
    pub(super) fn means(&self) -> Option<HealMeans> {
        (self.on_failure)()
    }

    /// Looks at the answer to a tool call.
    pub(super) fn look_at(
        self: &Arc<Self>,
        request: WaitingRequest,
        envelope: &Envelope,
        line: &[u8],
    ) -> AnswerFate {
        let is_error = matches!(envelope, Envelope::Response { answer: RequestAnswer::Error, .. });
        let failure = if is_error || may_be_failure(line) { failure_in(line) } else { None };
        let retried = (request.retries > 0).then(|| lock(&self.retried).remove(&request.id));
        let answer = line.to_vec();
        let (own, id) = (Arc::clone(self), request.id.clone());
        let work: Box<dyn FnOnce() + Send> = match (failure, retried.flatten()) {
            (None, None) => {
                self.link.watch().worked(&request);
                return AnswerFate::Pass;
            }
            (None, Some(retried)) => {
                self.link.watch().worked(&request);
                // The client need not wait for what is only written down.
                spawn(Box::new(move || retried.worked()));
                return AnswerFate::Pass;
            }
            (Some(text), Some(retried)) => {
                Box::new(move || own.failed_again(&request, &answer, &text, &retried))
            }
            (Some(text), None) => Box::new(move || own.heal(request, &answer, &text)),
        };
        self.link.session().begin_healing(&id);
        if spawn(work) {
            AnswerFate::Kept
        } else {
            self.link.session().end_healing(&id);
            AnswerFate::Pass
        }
    }

    /// Takes in the answer to a call of our own.
    pub(super) fn own_answer(&self, id: &MessageId, line: &[u8]) {
        if let Some(waits) = lock(&self.own).remove(id) {
            // Whoever waited too long has gone on.
            let _ = waits.send(line.to_vec());
        }
    }

    fn heal(&self, request: WaitingRequest, answer: &[u8], text: &str) {
        let Some(means) = (self.on_failure)() else {
            if self.link.session().end_healing(&request.id) {
                self.link.to_client(answer);
            }
            return;
        };
        let tool = request.line.as_deref().and_then(called_tool).unwrap_or_default();
        let call = means.judge_failure(&tool, text);
        let fix = match self.choose(&means, &call, &request) {
            Ok(fix) => fix,
            Err(note) => {
                let answer = UnhealedAnswer { request: &request, line: answer, note };
                return self.give_up(&answer, &means, &call);
            }
        };
        let waited = self.link.now_ms().saturating_sub(request.since_ms);
        let waited = SignedDuration::from_millis(i64::try_from(waited).unwrap_or(i64::MAX));
        let began = Timestamp::now().checked_sub(waited).unwrap_or(Timestamp::MIN);
        if let Err(error) = means.fix(&fix, began, &mut |fix| self.by_server(fix)) {
            let note = Some(format!("Salve tried to heal this call: {error}."));
            let answer = UnhealedAnswer { request: &request, line: answer, note };
            return self.give_up(&answer, &means, &call);
        }
        let mut retried = lock(&self.retried);
        let mut session = self.link.session();
        if session.end_healing(&request.id) {
            retried.insert(request.id.clone(), RetriedCall { call, fix, means });
            session.retry(request, self.link.now_ms());
            drop(session);
            drop(retried);
            self.link.deliver();
        }
    }

    /// Returns what to do, or else what the client is told besides its answer.
    fn choose(
        &self,
        means: &HealMeans,
        call: &FailedCall,
        request: &WaitingRequest,
    ) -> Result<ToolFix, Option<String>> {
        if !means.may_retry(request.retries) || request.line.is_none() {
            return Err(None);
        }
        let hints = self.link.session().hints(&call.tool).unwrap_or_default();
        let has_tool = |tool: &str| self.link.session().hints(tool).is_some();
        match means.choose(call, hints, &has_tool) {
            HealChoice::Fix(fix) => Ok(fix),
            HealChoice::Nothing => Err(None),
            HealChoice::MayHaveActed => Err(Some(
                "Salve did not repeat this call: it may have taken effect. Look before you call it \
                 again."
                    .to_owned(),
            )),
            HealChoice::Person(why) => Err(Some(format!("Salve did nothing about it: {why}."))),
        }
    }

    /// Does what only the proxy can.
    fn by_server(&self, fix: &ToolFix) -> Result<(), String> {
        match fix {
            ToolFix::Restart => {
                // Nothing more goes to the old server; the new one gets all that waits.
                *self.link.server() = ServerWire::Awaited;
                self.link.tell(Happened::Restart);
                Ok(())
            }
            ToolFix::Call { tool, arguments } => self.call(tool, arguments),
            ToolFix::Run { .. } | ToolFix::ConnectVpn { .. } | ToolFix::Wait { .. } => Ok(()),
        }
    }

    fn call(&self, tool: &str, arguments: &[(String, String)]) -> Result<(), String> {
        let number = self.fixes.fetch_add(1, Ordering::Relaxed);
        let id = MessageId::from_json(&format!("\"salve-fix-{number}\""));
        let arguments: serde_json::Map<String, Value> =
            arguments.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let params = json!({ "name": tool, "arguments": arguments });
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":{params}}}\n",
            id.as_json()
        );
        let (tell, answered) = mpsc::channel();
        lock(&self.own).insert(id.clone(), tell);
        let is_sent = {
            let wire = self.link.server();
            self.link.session().call_for_self(id.clone());
            matches!(&*wire, ServerWire::Up(fd) if write_all(fd, line.as_bytes()).is_ok())
        };
        let answer = is_sent.then(|| answered.recv_timeout(FIX_LIMIT).ok()).flatten();
        lock(&self.own).remove(&id);
        let answer = answer.ok_or_else(|| format!("`{tool}` did not answer"))?;
        match failure_in(&answer) {
            None => Ok(()),
            Some(text) => Err(format!("`{tool}` failed: {text}")),
        }
    }

    fn failed_again(
        &self,
        request: &WaitingRequest,
        answer: &[u8],
        text: &str,
        retried: &RetriedCall,
    ) {
        let RetriedCall { call, fix, means } = retried;
        let again = means.judge_failure(&call.tool, text);
        if again.category == call.category {
            means.judge_fix(fix, false);
        }
        let note = format!(
            "Salve {} and tried this call again, which did not help: a person has to look.",
            fix.describe()
        );
        let answer = UnhealedAnswer { request, line: answer, note: Some(note) };
        self.give_up(&answer, means, call);
    }

    /// Gives the client its answer, with a word on what was done, and writes it down.
    fn give_up(&self, answer: &UnhealedAnswer<'_>, means: &HealMeans, call: &FailedCall) {
        let UnhealedAnswer { request, note, .. } = answer;
        let known = self.link.watch().failed(&request.id, request.line.as_ref(), call);
        if self.link.session().end_healing(&request.id) {
            let notes: Vec<&str> = note.iter().chain(&known).map(String::as_str).collect();
            let noted = (!notes.is_empty()).then(|| notes.join(" "));
            let noted =
                noted.as_deref().and_then(|note| annotated(answer.line, &means.scrub(note)));
            self.link.to_client(noted.as_deref().unwrap_or(answer.line));
        }
        means.record(&Healed { call, resolution: None, is_healed: false });
    }
}

/// A failed answer that the client gets after all.
struct UnhealedAnswer<'a> {
    request: &'a WaitingRequest,
    line: &'a [u8],
    /// What the client is told besides.
    note: Option<String>,
}

impl RetriedCall {
    /// Writes down that a call works again.
    fn worked(&self) {
        self.means.judge_fix(&self.fix, true);
        let resolution = Some(self.fix.describe());
        self.means.record(&Healed { call: &self.call, resolution, is_healed: true });
    }
}

/// Returns a failed answer with another text in it; nothing if it cannot be read.
fn annotated(answer: &[u8], note: &str) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(answer).ok()?;
    if let Some(content) = message.pointer_mut("/result/content").and_then(Value::as_array_mut) {
        content.push(json!({ "type": "text", "text": note }));
    } else if let Some(text) = message.pointer_mut("/error/message") {
        *text = json!(format!("{} {note}", text.as_str().unwrap_or_default()));
    } else {
        return None;
    }
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    Some(line)
}

/// Starts a thread; returns whether there is one.
fn spawn(work: Box<dyn FnOnce() + Send>) -> bool {
    std::thread::Builder::new().name("salve-heal".to_owned()).stack_size(STACK).spawn(work).is_ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for CallHealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Healing").finish_non_exhaustive()
    }
}
