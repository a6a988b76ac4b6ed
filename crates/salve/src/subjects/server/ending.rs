//! How a server's processes come to their end: by themselves, by an order, by a signal to Salve.

use std::time::Duration;

use salve_core::event::{ProcessExit, RepairMode};

use super::life::ServerCare;
use super::{AfterEnd, CaredServer, Ending, LifeNews, ProcessState, ServerRun};
use crate::heal::inbox::InboxMessage;
use crate::heal::interruption::{Interruption, Patience, Tidied};
use crate::heal::spawn_thread;
use crate::process::{ProcessEnd, Running, Supervisor};
use crate::store::StoreError;
use crate::workspace::Workspace;

/// How long what a server wrote last may take to be passed on before its end is told.
const LAST_LINES: Duration = Duration::from_millis(200);

/// How long a reader of ours may take to read the last of what a server wrote.
const PASSING: Duration = Duration::from_secs(5);

/// How long a server that did not tidy up in time has after it is asked for the last time.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// What is said of a command that goes to the background.
const LEFT_BEHIND: &str = "the command ended and left processes in the background, which end with \
                           it; give Salve one that stays in the foreground";

/// Ends all that runs of a server, and returns how many of its processes had to be ended by force.
type EndRun = Box<dyn FnOnce(&Supervisor, &Running) -> usize + Send>;

impl ServerCare<'_, '_, '_> {
    /// Ends whatever is left of the server, then goes on with `then`.
    pub(super) fn clear(&mut self, then: AfterEnd) {
        let grace = self.server.plan.timing.stop;
        self.end_run(then, Box::new(move |care, running| care.end(running, grace).killed));
    }

    /// Hands on the signal by which the user ends Salve, and ends what it leaves.
    ///
    /// As without Salve, the server may do with it what it does, for as long as that takes, where
    /// somebody is there to press Ctrl-C once more.
    pub(super) fn interrupt(&mut self, signal: i32) {
        let (at, grace) = (self.at, self.server.plan.timing.stop);
        let inbox = self.context.base.inbox.sender();
        let interruption = Interruption::new(signal, grace, move |text| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = inbox.send(InboxMessage::Note { subject: at, text });
        });
        let end = move |care: &Supervisor, running: &Running| {
            interrupt_run(care, running, interruption, grace)
        };
        self.end_run(AfterEnd::Stopped, Box::new(end));
    }

    fn end_run(&mut self, then: AfterEnd, end: EndRun) {
        let server = &mut *self.server;
        let running = match std::mem::replace(&mut server.state, ProcessState::Clearing(then)) {
            ProcessState::Up(life) => Some(life.running),
            ProcessState::Down | ProcessState::Clearing(_) => None,
        };
        let base = &*self.context.base;
        let care = base.care.clone();
        let project = (base.terms.mode == RepairMode::Agent).then(|| base.project.clone());
        let news = self.shared.news_of(self.at, server.generation);
        spawn_thread("ending", move || {
            let killed = running.as_ref().map_or(0, |running| end(&care, running));
            let exit = running.and_then(|running| {
                // A reader that takes longer gets the rest while we go on.
                let _is_passed = running.wait_for_output(PASSING);
                running.ended().map(|ended| ended.exit)
            });
            // A tree that cannot be read is unlike any other.
            let tree = project.and_then(|project| Workspace::open(&project).ok()?.tree().ok());
            news(LifeNews::Cleared(Ending { exit, killed, tree }));
        });
    }

    /// Takes in that the server's process ended by itself.
    pub(super) fn exited(&mut self, ended: ProcessEnd) -> Result<(), StoreError> {
        let ProcessState::Up(life) = &self.server.state else { return Ok(()) };
        let (verifies, base) = (life.verifies, &*self.context.base);
        // What an agent does about it is judged by the files too, and reading them takes a while.
        let at_once = base.terms.mode == RepairMode::Legacy || ended.exit == ProcessExit::Code(0);
        let left = base.care.leftovers(&life.running);
        if at_once && left.is_empty() {
            // Its own last words come before what is said of it.
            let _is_passed = life.running.wait_for_output(LAST_LINES);
            let state = std::mem::replace(&mut self.server.state, ProcessState::Down);
            if let ProcessState::Up(life) = state {
                let ServerRun { running, .. } = *life;
                self.server.last_run = Some(running);
            }
            return self.gone(ended, None, verifies);
        }
        if ended.exit == ProcessExit::Code(0) && !left.is_empty() {
            self.context.note(self.at, LEFT_BEHIND);
        }
        self.clear(AfterEnd::Gone { ended, verifies });
        Ok(())
    }

    /// Says that some of the server's processes did not end by themselves when somebody wanted that.
    pub(super) fn tell_of_force(&mut self, then: &AfterEnd, killed: usize) {
        let is_wanted = match then {
            AfterEnd::Stopped | AfterEnd::Restart | AfterEnd::Verify(_) => true,
            // It was ended because it hung, or by itself.
            AfterEnd::Unwell { .. } | AfterEnd::Gone { .. } => false,
        };
        if is_wanted && killed > 0 {
            let grace = self.server.plan.timing.stop.as_secs_f64();
            let text = format!(
                "it did not end within {grace} s and was ended by force; server.stop_grace_ms \
                 gives it longer"
            );
            self.context.note(self.at, &text);
        }
    }
}

/// Hands a signal on to all that runs of a server, ends what that leaves, and returns how many of its
/// processes had to be ended by force.
pub(super) fn interrupt_run(
    care: &Supervisor,
    running: &Running,
    interruption: Interruption,
    grace: Duration,
) -> usize {
    let wait = |pause| {
        std::thread::sleep(pause);
        Patience::Left
    };
    let grace = match interruption.hand_on(care, running, wait) {
        Tidied::Done => grace,
        Tidied::NotInTime => grace.min(LAST_GRACE),
    };
    care.end(running, grace).killed
}

impl CaredServer {
    /// Waits until what its last run wrote has been passed on, as long as its reader may take.
    pub(super) fn wait_for_output(&self) {
        if let Some(running) = &self.last_run {
            // A reader that takes longer loses the rest.
            let _is_passed = running.wait_for_output(PASSING);
        }
    }
}
