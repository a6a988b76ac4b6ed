//! What a piece of long work writes, for whoever shows that it goes on.

use std::sync::{Arc, Mutex, Weak};

use super::Capture;
use crate::process::lock;

/// Where the output of the work under way is found; its copies share it.
#[derive(Clone, Debug, Default)]
pub struct WorkOutput {
    capture: Arc<Mutex<Weak<Capture>>>,
}

impl WorkOutput {
    /// Takes over the output of work that begins.
    pub fn follow(&self, capture: &Arc<Capture>) {
        *lock(&self.capture) = Arc::downgrade(capture);
    }

    /// Returns the last line that the work under way wrote, without spaces around it.
    pub fn last_line(&self) -> Option<String> {
        let capture = lock(&self.capture).upgrade()?;
        let tail = capture.tail();
        let last = tail.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        // What a line that redraws itself shows in the end is behind its last return.
        last.rsplit('\r').next().map(str::to_owned)
    }
}
