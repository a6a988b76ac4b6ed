//! Servers that failed while another Salve repairs the project: they have their turn after it.

use std::time::{Duration, Instant};

use salve_core::watch::ServerSight;

use super::servers::Servers;
use super::{Held, ProcessState, StartCause, lock};
use crate::heal::{SubjectContext, millis};
use crate::store::StoreError;

/// How often it is looked whether the other repair is over.
pub(super) const LOCK_LOOK: Duration = Duration::from_millis(250);

impl Servers {
    /// Gives those servers their turn that waited for another Salve, if its repair is over, and returns
    /// when to look again.
    pub(super) fn look_at_lock(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        let now = Instant::now();
        let next = self.all.iter().filter_map(|server| server.awaits_lock).min();
        let Some(due) = next.filter(|due| *due <= now) else { return Ok(next) };
        let base = &*context.base;
        if lock::is_held_by_another(base.project.root(), &base.writer.me, &base.writer.scrubber) {
            for server in self.all.iter_mut().filter(|server| server.awaits_lock.is_some()) {
                server.awaits_lock = Some(due.max(now) + LOCK_LOOK);
            }
            return Ok(Some(now + LOCK_LOOK));
        }
        for at in 0..self.all.len() {
            let server = &mut self.all[at];
            if server.awaits_lock.take().is_none() || server.held != Held::No {
                continue;
            }
            match &mut server.state {
                // If that repair did not mend it too, it fails once more, and is repaired.
                ProcessState::Down => {
                    server.skipped = false;
                    server.cause = StartCause::Changed("the other repair is over".to_owned());
                    context.note(at, "the other repair is over, so it starts again");
                    self.one(at, context).start(None)?;
                }
                // It is ill: another look tells whether it still is.
                ProcessState::Up(life) => {
                    server.skipped = false;
                    let turn = life.watch.hear(millis(life.since.elapsed()), ServerSight::Moved);
                    self.one(at, context).turned(turn)?;
                }
                ProcessState::Clearing(_) => server.awaits_lock = Some(now + LOCK_LOOK),
            }
        }
        Ok(self.all.iter().filter_map(|server| server.awaits_lock).min())
    }
}
