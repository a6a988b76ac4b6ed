//! What agents say about their work on an incident, and what is known of those that were started.

use super::step::Taken;
use super::{Ignored, Incident, Launched, Marks, later};
use crate::event::{AgentMark, Change};

impl Incident {
    /// Takes in how far an agent says it is.
    pub(super) fn marked(&mut self, attempt: u32, mark: AgentMark, reported: Change) -> Taken {
        if attempt != self.attempt() {
            return Err(Ignored::Stale);
        }
        if self.marks.attempt != attempt {
            self.marks = Marks { attempt, ..Marks::default() };
        }
        if self.marks.wrote {
            return Err(Ignored::NoNews);
        }
        self.marks.engaged.get_or_insert(self.clock);
        self.marks.reported = Change {
            files: self.marks.reported.files.max(reported.files),
            lines: self.marks.reported.lines.max(reported.lines),
        };
        self.marks.wrote = mark == AgentMark::WroteFiles;
        if self.is_written() {
            self.applied();
        }
        Ok(None)
    }

    /// Takes in that an agent was started for the effect that runs.
    pub(super) fn launched(&mut self, effect: u32, limit_ms: u64) -> Taken {
        if self.agent_deadline().is_none() || !self.is_running(effect) {
            return Err(Ignored::Stale);
        }
        if self.launched.is_some_and(|launched| launched.effect == effect) {
            return Err(Ignored::NoNews);
        }
        self.launched = Some(Launched { effect, until: later(self.clock, limit_ms) });
        Ok(None)
    }

    /// Tells whether the agent that is waited for has finished.
    pub(super) fn is_written(&self) -> bool {
        self.agent_deadline().is_some() && self.marks.wrote && self.marks.attempt == self.attempt()
    }
}
