//! What is written in passing: one after the other, and awaited at the end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use salve_core::event::Mode;
use salve_core::id::IncidentId;

use super::crash_log::CrashLog;
use super::fleet::Fleet;
use super::{Input, Seen};
use crate::heal::spawn_thread;

/// How long a writer waits for those before it; one of them may have come to nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets writers write in the order in which they began, and others wait for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Scribing(Arc<(Mutex<Turns>, Condvar)>);

#[derive(Debug, Default)]
struct Turns {
    begun: u64,
    done: u64,
}

impl Scribing {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next turn.
    pub(super) fn begin(&self) -> u64 {
        let mut turns = self.turns();
        turns.begun += 1;
        turns.begun
    }

    /// Writes when all who began earlier are done.
    pub(super) fn in_turn<T>(&self, turn: u64, write: impl FnOnce() -> T) -> T {
        let earlier = |turns: &mut Turns| turns.done + 1 < turn;
        drop(self.0.1.wait_timeout_while(self.turns(), PATIENCE, earlier));
        let written = write();
        self.turns().done += 1;
        self.0.1.notify_all();
        written
    }

    /// Waits until all who began are done, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let busy = |turns: &mut Turns| turns.done < turns.begun;
        // What is not written by then is not waited for.
        drop(self.0.1.wait_timeout_while(self.turns(), limit, busy));
    }
}

impl Fleet<'_> {
    /// Writes the crash log of the present incident.
    pub(super) fn log_crash(&mut self, at: usize) {
        let server = &self.servers[at];
        let (Some(incident), Some(evidence)) = (&server.incident, &server.case.seen) else {
            return;
        };
        let (id, evidence) = (incident.id(), evidence.clone());
        self.write_log(at, id, evidence);
    }

    /// Writes a crash log: at once where an agent is going to read it, else in passing.
    pub(super) fn write_log(&mut self, at: usize, incident: IncidentId, evidence: Seen) {
        let plan = &self.servers[at].plan;
        let log = CrashLog {
            incident,
            at: self.desk.now(),
            server: self.desk.scrubber.scrub(&plan.name),
            command: plan.command.clone(),
            uptime: evidence.uptime,
            symptom: evidence.found.symptom,
            findings: evidence.findings,
            evidence: evidence.found.output,
        };
        let root = self.root.clone();
        match self.repair.mode {
            Mode::Agent => {
                if let Err(error) = log.write(&root) {
                    self.note(at, &format!("cannot write the crash log: {error}"));
                }
            }
            Mode::Legacy => {
                let (post, done) = (self.post.clone(), at);
                let turn = self.scribing.begin();
                let scribing = self.scribing.clone();
                spawn_thread("crash log", move || {
                    let written = scribing.in_turn(turn, || log.write(&root));
                    if let Err(error) = written {
                        let text = format!("cannot write the crash log: {error}");
                        let _ = post.send(Input::Note { server: done, text });
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_first_is_written_first() {
        let scribing = Scribing::default();
        let turns = [scribing.begin(), scribing.begin(), scribing.begin()];
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for turn in turns.into_iter().rev() {
                let (scribing, order) = (&scribing, &order);
                scope.spawn(move || scribing.in_turn(turn, || order.lock().unwrap().push(turn)));
            }
        });
        scribing.wait(Duration::ZERO);
        assert_eq!(*order.lock().unwrap(), turns);
    }
}
