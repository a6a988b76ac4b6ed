//! What Ctrl-C and other signals do to a call: the command gets them first.
//!
//! The command has a session of its own, so the terminal's signals do not reach it by themselves;
//! and one that tidies up when it is interrupted has to have the time for it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use super::{CallError, GRACE};
use crate::process::{Running, Supervisor, outlives_terminal, stand_still};

/// Whom signals go to.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    command: Mutex<Option<Pid>>,
    has_come: AtomicBool,
}

impl Interrupts {
    /// Hands the first signal to the command; where none runs, or at the second, all ends.
    pub(super) fn listen(care: Supervisor) -> io::Result<Arc<Self>> {
        let interrupts = Arc::new(Self::default());
        let hangup = (!outlives_terminal()).then_some(SIGHUP);
        let ending = [SIGINT, SIGTERM, SIGQUIT, SIGTSTP].into_iter().chain(hangup);
        let mut signals = signal_hook::iterator::Signals::new(ending)?;
        let own = Arc::clone(&interrupts);
        let work = move || {
            for signal in signals.forever() {
                if signal == SIGTSTP {
                    stand_still();
                    continue;
                }
                let is_first = !own.has_come.swap(true, Ordering::SeqCst);
                if !(is_first && own.hand_over(signal)) {
                    care.wind_up(|_| true, GRACE);
                    std::process::exit(128 + signal);
                }
            }
        };
        std::thread::Builder::new().name("salve-signals".to_owned()).spawn(work)?;
        Ok(interrupts)
    }

    /// Starts a command, which gets the signals from its very beginning.
    pub(super) fn start(
        &self,
        spawn: impl FnOnce() -> Result<Running, CallError>,
    ) -> Result<Running, CallError> {
        let mut command = self.command();
        let running = spawn()?;
        *command = i32::try_from(running.process().pid).ok().and_then(Pid::from_raw);
        Ok(running)
    }

    /// Says that the command has ended.
    pub(super) fn ended(&self) {
        *self.command() = None;
    }

    fn command(&self) -> MutexGuard<'_, Option<Pid>> {
        self.command.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether there was any signal.
    pub(super) fn have_come(&self) -> bool {
        self.has_come.load(Ordering::SeqCst)
    }

    /// Hands a signal to the command and all that it started; tells whether there is one.
    fn hand_over(&self, signal: i32) -> bool {
        // Held meanwhile, so that the number cannot be another's by now.
        let command = self.command();
        let signal = match signal {
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            SIGQUIT => Signal::QUIT,
            _ => Signal::TERM,
        };
        command.is_some_and(|group| kill_process_group(group, signal).is_ok())
    }
}
