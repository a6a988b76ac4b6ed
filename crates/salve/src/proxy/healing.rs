//! Failed calls behind the proxy: held back, healed, tried again, and only then answered.
//!
//! What passes is not touched. A failure goes to the [`CallDesk`], where one incident stands for all
//! calls that failed of one cause; here is what only the proxy can do for it: make the call again,
//! call another tool of the server, restart the server, and answer the client.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::tool::envelope::{Envelope, MessageId, RequestAnswer};
use salve_core::tool::failure::{FailedCall, failure_in, may_be_failure};
use salve_core::tool::rule::ToolFix;
use salve_core::tool::session::{ToolHints, WaitingRequest, call_arguments, called_tool};
use serde_json::{Value, json};

use super::link::{Happened, Link, ServerWire};
use super::wire::write_all;
use crate::subjects::tool::{
    CallAnswer, CallDesk, FAILED_OTHERWISE, FailingCall, ServerFixes, ToolCaller,
};

/// How long a tool that fixes something may take.
const FIX_LIMIT: Duration = Duration::from_secs(120);
/// How often it is looked whether the client still wants the answer to a call that is made again.
const LOOK: Duration = Duration::from_millis(200);
/// How long what is under way may take when the client has gone.
const LAST_HEALS: Duration = Duration::from_secs(3);

/// What becomes of an answer to a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFate {
    /// The client gets it.
    Pass,
    /// It is a failure that is being looked into.
    Kept,
}

/// What came of making a call again.
enum RetriedAnswer {
    Worked,
    Failed { line: Vec<u8>, text: String },
}

/// Heals what fails.
pub(super) struct CallHealing {
    link: Arc<Link>,
    desk: Arc<CallDesk>,
    retried: Mutex<HashMap<MessageId, Sender<RetriedAnswer>>>,
    own: Mutex<HashMap<MessageId, Sender<Vec<u8>>>>,
    fixes: AtomicU64,
}

impl CallHealing {
    pub(super) fn new(link: Arc<Link>, desk: Arc<CallDesk>) -> Self {
        let (retried, own, fixes) = Default::default();
        Self { link, desk, retried, own, fixes }
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
        let retried = if request.retries > 0 { self.retried().remove(&request.id) } else { None };
        match (failure, retried) {
            (None, retried) => {
                self.worked(&request, retried);
                AnswerFate::Pass
            }
            (Some(text), Some(tell)) => {
                let id = request.id;
                self.link.session().begin_healing(&id);
                let failed = RetriedAnswer::Failed { line: line.to_vec(), text };
                if tell.send(failed).is_ok() {
                    return AnswerFate::Kept;
                }
                self.link.session().end_healing(&id);
                AnswerFate::Pass
            }
            (Some(_), None) if request.retries > 0 => AnswerFate::Pass,
            (Some(text), None) => {
                self.link.session().begin_healing(&request.id);
                self.desk.submit(self.failing(request, line, text));
                AnswerFate::Kept
            }
        }
    }

    /// Takes in a result that was too long to be looked at; what failed says so in fewer words.
    pub(super) fn passed(&self, request: &WaitingRequest) {
        let retried = if request.retries > 0 { self.retried().remove(&request.id) } else { None };
        self.worked(request, retried);
    }

    fn worked(&self, request: &WaitingRequest, retried: Option<Sender<RetriedAnswer>>) {
        if let Some(tell) = retried {
            // Whoever made it again has gone where nobody hears of it.
            let _ = tell.send(RetriedAnswer::Worked);
        }
        self.link.watch().worked(request);
    }

    fn failing(
        self: &Arc<Self>,
        request: WaitingRequest,
        answer: &[u8],
        text: String,
    ) -> FailingCall {
        let took = Duration::from_millis(self.link.now_ms().saturating_sub(request.since_ms));
        let ago = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        FailingCall {
            tool: request.line.as_deref().and_then(called_tool).unwrap_or_default(),
            arguments: request.line.as_deref().and_then(call_arguments).unwrap_or_default(),
            text,
            exit: None,
            began: Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::MIN),
            took,
            retries: request.retries,
            so_far: Vec::new(),
            caller: Box::new(ProxiedCall {
                healing: Arc::clone(self),
                request,
                answer: answer.to_vec(),
                done: Vec::new(),
            }),
        }
    }

    /// Takes in the answer to a call of our own.
    pub(super) fn own_answer(&self, id: &MessageId, line: &[u8]) {
        if let Some(waits) = lock(&self.own).remove(id) {
            // Whoever waited too long has gone on.
            let _ = waits.send(line.to_vec());
        }
    }

    /// Waits until what is under way is in the journal.
    pub(super) fn finish(&self) {
        self.desk.wait_until_done(LAST_HEALS);
    }

    fn retried(&self) -> MutexGuard<'_, HashMap<MessageId, Sender<RetriedAnswer>>> {
        lock(&self.retried)
    }

    /// Calls a tool for ourselves and returns its answer.
    fn call(&self, tool: &str, arguments: &[(String, String)]) -> Result<Vec<u8>, String> {
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
            None => Ok(answer),
            Some(text) => Err(format!("`{tool}` failed: {text}")),
        }
    }
}

impl ServerFixes for CallHealing {
    fn carry_out(&self, fix: &ToolFix) -> Result<(), String> {
        match fix {
            ToolFix::Restart => {
                // Nothing more goes to the old server; the new one gets all that waits.
                *self.link.server() = ServerWire::Awaited;
                self.link.tell(Happened::Restart);
                Ok(())
            }
            ToolFix::Call { tool, arguments } => self.call(tool, arguments).map(drop),
            ToolFix::Run { .. } | ToolFix::ConnectVpn { .. } | ToolFix::Wait { .. } => Ok(()),
        }
    }

    fn read(&self, tool: &str) -> Option<Result<String, String>> {
        self.link.session().hints(tool)?;
        Some(self.call(tool, &[]).map(|answer| text_of(&answer)))
    }
}

/// A failed call of the client.
struct ProxiedCall {
    healing: Arc<CallHealing>,
    request: WaitingRequest,
    /// The last failure, as the server sent it.
    answer: Vec<u8>,
    /// What helped, after which it failed of something else.
    done: Vec<String>,
}

impl ToolCaller for ProxiedCall {
    fn hints(&self) -> ToolHints {
        let tool = self.request.line.as_deref().and_then(called_tool).unwrap_or_default();
        self.healing.link.session().hints(&tool).unwrap_or_default()
    }

    fn has_tool(&self, tool: &str) -> bool {
        self.healing.link.session().hints(tool).is_some()
    }

    fn can_repeat(&self) -> bool {
        self.request.line.is_some()
    }

    fn server(&self) -> Arc<dyn ServerFixes> {
        Arc::clone(&self.healing) as Arc<dyn ServerFixes>
    }

    fn call_again(&mut self) -> CallAnswer {
        let (link, id) = (&self.healing.link, &self.request.id);
        let (tell, answered) = mpsc::channel();
        let mut retried = self.healing.retried();
        let mut session = link.session();
        if !session.end_healing(id) {
            return CallAnswer::Gone;
        }
        retried.insert(id.clone(), tell);
        session.retry(self.request.clone(), link.now_ms());
        drop((session, retried));
        link.deliver();
        let mut has_gone = false;
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(RetriedAnswer::Worked) => return CallAnswer::Worked,
                Ok(RetriedAnswer::Failed { line, text }) => {
                    self.answer = line;
                    self.request.retries += 1;
                    return CallAnswer::Failed { text };
                }
                // It was cancelled, or answered because the server died; an answer that was on its
                // way is there by the next look.
                Err(RecvTimeoutError::Timeout) if has_gone => {
                    self.healing.retried().remove(id);
                    return CallAnswer::Gone;
                }
                Err(RecvTimeoutError::Timeout) => has_gone = !link.session().waits_for(id),
                Err(RecvTimeoutError::Disconnected) => return CallAnswer::Gone,
            }
        }
    }

    fn failed_otherwise(&mut self, after: &str) {
        self.done.push(after.to_owned());
    }

    fn give_up(&mut self, call: Option<&FailedCall>, note: Option<&str>) {
        let (link, request) = (&self.healing.link, &self.request);
        let watch = link.watch();
        let known = call.and_then(|call| watch.failed(&request.id, request.line.as_ref(), call));
        if !link.session().end_healing(&request.id) {
            return;
        }
        let done = (note.is_none() && !self.done.is_empty()).then(|| {
            let done = self.done.join(", then ");
            format!("Salve {done} and called again, {FAILED_OTHERWISE}.")
        });
        let notes: Vec<&str> =
            note.into_iter().chain(done.as_deref()).chain(known.as_deref()).collect();
        let noted = (!notes.is_empty()).then(|| annotated(&self.answer, &notes.join(" ")));
        link.answer(&request.id, noted.flatten().as_deref().unwrap_or(&self.answer));
    }
}

/// Returns the text of an answer.
fn text_of(answer: &[u8]) -> String {
    let message: Value = serde_json::from_slice(answer).unwrap_or_default();
    let content = message.pointer("/result/content").and_then(Value::as_array);
    let texts = content.into_iter().flatten().filter_map(|one| one.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns an answer with another text in it; nothing if it cannot be read.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for CallHealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallHealing").finish_non_exhaustive()
    }
}
