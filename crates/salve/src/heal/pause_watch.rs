//! How long a pause is waited out where nobody is there.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::{Case, Presence, SubjectContext};

/// How long a pause in the midst of healing is waited out where nobody is there.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Since when an incident has been paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct PauseWatch {
    since: Option<Timestamp>,
}

/// What a pause means for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseStanding {
    /// There is none, or somebody is there to lift it.
    None,
    /// It is waited out until then.
    Waits(Instant),
    /// It has lasted too long, and a person was told what holds.
    TooLong,
}

impl PauseWatch {
    /// Looks at a subject's incident.
    ///
    /// What was not begun is not waited for; what was may be about to be resumed.
    pub fn look(&mut self, at: usize, context: &mut SubjectContext<'_, '_>) -> PauseStanding {
        let incident = context.incident(at);
        let held = incident.and_then(|one| Some((one.id().short(), one.paused_by()?.clone())));
        let (id, by) = match held {
            Some(held) if context.base.presence == Presence::Unattended => held,
            Some(_) | None => {
                self.since = None;
                return PauseStanding::None;
            }
        };
        let now = context.base.writer.now();
        let since = *self.since.get_or_insert(now);
        let has_begun = context.cases.get(at).is_some_and(Case::has_chosen);
        let patience = if has_begun { PATIENCE } else { SignedDuration::ZERO };
        let until = since.saturating_add(patience).unwrap_or(Timestamp::MAX);
        if until > now {
            return PauseStanding::Waits(context.base.writer.instant(until));
        }
        let text = format!(
            "healing is paused by {by}, and nobody is here to wait for: write RESUME to \
             .salve/CONTROL.md, or `salve resume heal-{id}`, and run it again"
        );
        context.note(at, &text);
        PauseStanding::TooLong
    }
}
