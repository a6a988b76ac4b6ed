//! What one server wrote: passed on, kept for evidence, logged.
//!
//! Bytes go through untouched, or line by line behind the server's name when several share one
//! terminal. The newest lines stay in memory, and the log is written from there by a thread of
//! its own, which may fall behind a flood and then says how much it left out.

mod log;
mod outlet;
mod pump;
mod tail;
mod work_output;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

pub use log::{Logs, OLDER, older};
pub use outlet::Outlet;
pub(super) use pump::{OutputPipe, Passed, Pump};
use salve_core::server::{LocalUrl, UrlFinder};
pub use tail::OutputSide;
pub use work_output::{AgentWords, WorkOutput};

use self::tail::{LONGEST, Tail};
use super::lock;

/// How many lines [`Capture::tail`] returns unless told otherwise.
pub const LINES: usize = 500;

/// How a server's output looks among others'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputStyle {
    /// Byte for byte as it came.
    Plain,
    /// Line by line, each behind this text.
    Prefixed(String),
}

/// What one server writes, over all its restarts.
pub struct Capture {
    outlet: Arc<Outlet>,
    look: OutputStyle,
    lines: usize,
    tail: Mutex<Tail>,
    finder: Mutex<UrlFinder>,
    /// Wakes whoever writes its log, if somebody does.
    bell: OnceLock<Arc<log::LogWaker>>,
}

impl Capture {
    /// Returns a capture that passes on to `outlet` and keeps the last lines.
    pub fn new(outlet: Arc<Outlet>, look: OutputStyle) -> Capture {
        let (tail, finder, bell) = Default::default();
        Capture { outlet, look, lines: LINES, tail, finder, bell }
    }

    /// Returns it keeping another number of lines.
    #[must_use]
    pub fn with_lines(self, lines: usize) -> Capture {
        Capture { lines, ..self }
    }

    /// Returns whether output and errors lead to one place, where their order shows.
    pub(in crate::process) fn keeps_order(&self) -> bool {
        self.outlet.is_one()
    }

    /// Returns the last lines of the present run of the process, as it wrote them.
    pub fn tail(&self) -> String {
        let bytes = lock(&self.tail).last(self.lines);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns what the present run wrote from a position on, within the same bounds.
    pub fn tail_since(&self, position: u64) -> String {
        let bytes = lock(&self.tail).last_since(position, self.lines);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns how much was written so far, over all runs.
    pub fn written(&self) -> u64 {
        lock(&self.tail).end()
    }

    /// Returns the first address on this machine that the present run of the process told.
    pub fn url(&self) -> Option<LocalUrl> {
        let finder = lock(&self.finder);
        finder.url().cloned().or_else(|| finder.url_when_quiet())
    }

    /// Marks that a new process writes from here on.
    pub fn mark_start(&self) {
        // Only a log shows it: what was written before the mark is no evidence.
        let began = format!(
            "[salve: started at {}]\n",
            jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default()
        );
        {
            let mut tail = lock(&self.tail);
            tail.close_lines();
            tail.push(OutputSide::Out, began.as_bytes());
            tail.mark_start();
        }
        *lock(&self.finder) = UrlFinder::default();
    }

    /// Keeps what was read.
    fn keep(&self, side: OutputSide, bytes: &[u8]) {
        lock(&self.tail).push(side, bytes);
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        let mut finder = lock(&self.finder);
        if !finder.is_done() {
            finder.push(bytes);
        }
    }

    /// Keeps and passes on a line that did not come through a pipe of the process's own, among what
    /// it complains of.
    pub(crate) fn take_in(&self, line: &[u8]) {
        self.keep(OutputSide::Err, line);
        self.outlet.write(OutputSide::Err, line);
    }

    /// Passes on what was read; `open` holds a prefixed line until it ends.
    fn pass(&self, side: OutputSide, bytes: &[u8], open: &mut Vec<u8>) {
        match &self.look {
            OutputStyle::Plain => self.outlet.write(side, bytes),
            OutputStyle::Prefixed(prefix) => {
                let text = prefixed(prefix, bytes, open);
                self.outlet.write(side, &text);
            }
        }
    }

    /// Passes on a line that will not end any more.
    fn pass_rest(&self, side: OutputSide, open: &mut Vec<u8>) {
        if !open.is_empty() {
            self.pass(side, b"\n", open);
        }
    }
}

/// Returns the lines of `open` and `bytes` that have ended, each behind `prefix`.
fn prefixed(prefix: &str, bytes: &[u8], open: &mut Vec<u8>) -> Vec<u8> {
    let mut text = Vec::with_capacity(open.len() + bytes.len() + prefix.len());
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let is_long = open.len() + line.len() > LONGEST;
        let has_ended = line.last() == Some(&b'\n');
        if !has_ended && !is_long {
            open.extend_from_slice(line);
            continue;
        }
        text.extend_from_slice(prefix.as_bytes());
        text.append(open);
        text.extend_from_slice(line);
        if !has_ended {
            text.push(b'\n');
        }
    }
    text
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("look", &self.look).finish_non_exhaustive()
    }
}
