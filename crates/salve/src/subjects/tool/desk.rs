//! Where failed calls wait for somebody who heals them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::ProcessExit;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::ToolFix;
use salve_core::tool::session::ToolHints;
use serde_json::Value;

use crate::heal::inbox::InboxMessage;

/// What a call answered that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// It worked, and whoever called has the answer.
    Worked,
    /// It failed again, and whoever called still waits.
    Failed {
        /// What it said.
        text: String,
    },
    /// Whoever called does not want an answer any more.
    Gone,
}

/// Fixes that need the server of a tool.
pub trait ServerFixes: Send + Sync {
    /// Calls another tool of the server, or starts the server again.
    ///
    /// # Errors
    ///
    /// What went wrong, in words.
    fn carry_out(&self, fix: &ToolFix) -> Result<(), String>;

    /// Calls a tool of the server that only reads, and returns what it says; nothing where the
    /// server has no such tool.
    fn read(&self, tool: &str) -> Option<Result<String, String>>;
}

/// Whoever made a call, can make it again, and waits for its answer.
pub trait ToolCaller: Send {
    /// Returns what the server says about calling the tool twice.
    fn hints(&self) -> ToolHints;

    /// Tells whether the server has a tool of this name.
    fn has_tool(&self, tool: &str) -> bool;

    /// Tells whether the call can be made again at all.
    fn can_repeat(&self) -> bool;

    /// Returns who carries out what needs the server.
    fn server(&self) -> Arc<dyn ServerFixes>;

    /// Makes the call again and waits for what comes of it.
    fn call_again(&mut self) -> CallAnswer;

    /// Hands over the last failure as it is, with a word on what was done about it; `call` is what
    /// it was found to be, where somebody looked.
    fn give_up(&mut self, call: Option<&FailedCall>, note: Option<&str>);

    /// Takes in what made the call work.
    fn healed(&mut self, _by: &str) {}

    /// Takes in what was done that helped, after which the call failed of something else.
    fn failed_otherwise(&mut self, _after: &str) {}
}

/// A call that failed and whose caller waits.
pub struct FailingCall {
    /// The tool, or the command.
    pub tool: String,
    /// What it was called with, where that is known apart from the tool; not scrubbed.
    pub arguments: Value,
    /// What it said, not scrubbed.
    pub text: String,
    /// How its process ended, where it was one.
    pub exit: Option<ProcessExit>,
    /// When the call began that failed.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// How often it was made again by now.
    pub retries: u32,
    /// What was done that helped, in words, after which it failed of something else.
    pub so_far: Vec<String>,
    /// Who waits.
    pub caller: Box<dyn ToolCaller>,
}

/// Failed calls that nobody has taken up yet.
pub struct CallDesk {
    state: Mutex<DeskState>,
    changed: Condvar,
    /// Starts somebody who serves the desk; tells whether that worked.
    start: Box<dyn Fn(Arc<CallDesk>) -> bool + Send + Sync>,
}

#[derive(Default)]
struct DeskState {
    waiting: VecDeque<FailingCall>,
    server: DeskServer,
}

/// Whoever serves a desk.
#[derive(Default)]
enum DeskServer {
    /// Nobody.
    #[default]
    None,
    /// Somebody, who looks for calls by himself as yet.
    Coming,
    /// Somebody, who is woken when a call comes.
    There(Sender<InboxMessage>),
}

impl CallDesk {
    /// Returns an empty desk; `start` is called when the first call comes.
    pub fn new(start: impl Fn(Arc<CallDesk>) -> bool + Send + Sync + 'static) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { state, changed, start: Box::new(start) })
    }

    /// Returns a desk with one call, which the caller serves himself.
    pub fn with_call(call: FailingCall) -> Arc<Self> {
        let desk = Self::new(|_| true);
        desk.submit(call);
        desk
    }

    /// Takes in a failed call. If nobody can be found who serves the desk, its caller gets the
    /// failure as it is.
    pub fn submit(self: &Arc<Self>, call: FailingCall) {
        let mut state = self.lock();
        state.waiting.push_back(call);
        match &state.server {
            DeskServer::None => {
                state.server = DeskServer::Coming;
                drop(state);
                if !(self.start)(Arc::clone(self)) {
                    self.give_up();
                    self.leave();
                }
            }
            DeskServer::Coming => {}
            // One who is gone looks once more before leaving.
            DeskServer::There(wake) => drop(wake.send(InboxMessage::Woken)),
        }
    }

    /// Says who is to be woken when a call comes.
    pub(super) fn attend(&self, wake: Sender<InboxMessage>) {
        self.lock().server = DeskServer::There(wake);
    }

    /// Returns the call that waits longest.
    pub(super) fn take(&self) -> Option<FailingCall> {
        self.lock().waiting.pop_front()
    }

    /// Tells whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Hands every call back as it is.
    pub fn give_up(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for mut call in waiting {
            call.caller.give_up(None, None);
        }
    }

    /// Ends serving the desk, unless another call waits; tells whether it has ended.
    pub fn leave(&self) -> bool {
        let mut state = self.lock();
        if !state.waiting.is_empty() {
            state.server = DeskServer::Coming;
            return false;
        }
        state.server = DeskServer::None;
        self.changed.notify_all();
        true
    }

    /// Waits until nobody serves the desk any more, and no longer than `limit`.
    pub fn wait_until_done(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while !matches!(state.server, DeskServer::None) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FailingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingCall").field("tool", &self.tool).finish_non_exhaustive()
    }
}

impl fmt::Debug for CallDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallDesk").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Nobody(Arc<AtomicU32>);

    impl ToolCaller for Nobody {
        fn hints(&self) -> ToolHints {
            ToolHints::default()
        }
        fn has_tool(&self, _: &str) -> bool {
            false
        }
        fn can_repeat(&self) -> bool {
            true
        }
        fn server(&self) -> Arc<dyn ServerFixes> {
            struct None;
            impl ServerFixes for None {
                fn carry_out(&self, _: &ToolFix) -> Result<(), String> {
                    Ok(())
                }
                fn read(&self, _: &str) -> Option<Result<String, String>> {
                    Option::None
                }
            }
            Arc::new(None)
        }
        fn call_again(&mut self) -> CallAnswer {
            CallAnswer::Gone
        }
        fn give_up(&mut self, _: Option<&FailedCall>, _: Option<&str>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn call(given_up: &Arc<AtomicU32>) -> FailingCall {
        FailingCall {
            tool: "t".into(),
            arguments: Value::Null,
            text: "no".into(),
            exit: None,
            began: Timestamp::UNIX_EPOCH,
            took: Duration::ZERO,
            retries: 0,
            so_far: Vec::new(),
            caller: Box::new(Nobody(Arc::clone(given_up))),
        }
    }

    #[test]
    fn a_desk_is_served_once_and_again_when_a_call_comes_late() {
        let (starts, given_up) = (Arc::new(AtomicU32::new(0)), Arc::default());
        let counted = Arc::clone(&starts);
        let desk = CallDesk::new(move |_| counted.fetch_add(1, Ordering::SeqCst) < 2);
        desk.submit(call(&given_up));
        desk.submit(call(&given_up));
        assert_eq!(starts.load(Ordering::SeqCst), 1);
        assert!(desk.take().is_some() && !desk.leave(), "one still waits");
        assert!(desk.take().is_some() && desk.leave());
        desk.submit(call(&given_up));
        assert_eq!(starts.load(Ordering::SeqCst), 2, "whoever served it had left");
        assert!(desk.take().is_some() && desk.leave());
        desk.submit(call(&given_up));
        assert_eq!(
            given_up.load(Ordering::SeqCst),
            1,
            "nobody came, and the caller got its answer"
        );
        desk.wait_until_done(Duration::from_secs(60));
    }
}
