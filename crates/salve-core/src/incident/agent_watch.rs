//! What agents say about their work on an incident, and what is known of those that were started.

use jiff::Timestamp;

use super::{Ignored, Launched, Marks, later};
use crate::event::{AgentMark, Change, IncidentPolicy};

/// What is known of the agent at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentWatch {
    marks: Marks,
    launched: Option<Launched>,
}

/// The effect in which an agent is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentWait {
    /// The effect's number.
    pub(super) effect: u32,
    /// Since when it is waited for.
    pub(super) since: Timestamp,
}

impl AgentWatch {
    /// Takes in how far the agent of an attempt says it is.
    pub(super) fn mark(
        &mut self,
        attempt: u32,
        mark: AgentMark,
        reported: Change,
        now: Timestamp,
    ) -> Result<(), Ignored> {
        if self.marks.attempt != attempt {
            self.marks = Marks { attempt, ..Marks::default() };
        }
        if self.marks.wrote {
            return Err(Ignored::NoNews);
        }
        self.marks.engaged.get_or_insert(now);
        self.marks.reported = Change {
            files: self.marks.reported.files.max(reported.files),
            lines: self.marks.reported.lines.max(reported.lines),
        };
        self.marks.wrote = mark == AgentMark::WroteFiles;
        Ok(())
    }

    /// Takes in that an agent was started, which has ended by `until` at the latest; one whose service was
    /// too busy is started again for the same effect.
    pub(super) fn launch(&mut self, effect: u32, until: Timestamp) -> Result<(), Ignored> {
        let is_known = |known: Launched| known.effect == effect && known.until >= until;
        if self.launched.is_some_and(is_known) {
            return Err(Ignored::NoNews);
        }
        self.launched = Some(Launched { effect, until });
        Ok(())
    }

    /// Returns when to stop waiting for the agent.
    pub(super) fn deadline(&self, wait: AgentWait, policy: &IncidentPolicy) -> Timestamp {
        if let Some(launched) = self.launched.filter(|launched| launched.effect == wait.effect) {
            // Whoever started the agent ends it; this is for the case that nobody does.
            return launched.until;
        }
        match self.marks.engaged {
            Some(engaged) => later(engaged.max(wait.since), policy.write_ms),
            // Whoever drives the incident starts one when that time is over; this is for the case that
            // nobody does.
            None if policy.starts.is_some() => {
                later(wait.since, policy.engage_ms.saturating_add(policy.write_ms))
            }
            None => later(wait.since, policy.engage_ms),
        }
    }

    /// Tells whether the agent of an attempt says that it has finished.
    pub(super) fn has_written(&self, attempt: u32) -> bool {
        self.marks.wrote && self.marks.attempt == attempt
    }

    /// Tells whether an agent has taken the attempt up.
    pub(super) fn is_engaged(&self, attempt: u32) -> bool {
        self.marks.engaged.is_some() && self.marks.attempt == attempt
    }

    /// Returns what the agent of an attempt said it changed.
    pub(super) fn reported(&self, attempt: u32) -> Change {
        if self.marks.attempt == attempt { self.marks.reported } else { Change::default() }
    }
}
