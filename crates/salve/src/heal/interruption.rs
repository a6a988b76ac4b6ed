//! A signal that ends Salve, handed on to what Salve runs, so that it can tidy up.
//!
//! What Salve starts leads a session of its own, so the terminal's signals do not reach it by
//! themselves.

use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::process::{Running, Supervisor, hears_ctrl_c};

/// How long something may tidy up before that is said.
const UNSAID: Duration = Duration::from_secs(1);

/// How often it is looked whether something still tidies up.
const LOOK: Duration = Duration::from_millis(50);

/// A signal that ends Salve, and how long what runs may tidy up after it.
pub struct Interruption {
    signal: i32,
    /// Without one, it may tidy up until it is ended by another signal.
    limit: Option<Duration>,
    /// Says that it tidies up, and what ends that.
    say: Box<dyn FnOnce(String) + Send>,
}

/// Whether somebody who waits for something that tidies up goes on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Left,
    Over,
}

/// What became of something that a signal was handed on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tidied {
    /// It has ended, or what is left of it does not hear the signal.
    Done,
    /// It still tidied up when its time was over.
    NotInTime,
}

impl Interruption {
    /// Returns the hand-over of `signal`; `grace` is how long what gets it may tidy up where nobody
    /// can send another, and `say` is called with words for people if that takes its time.
    pub fn new(signal: i32, grace: Duration, say: impl FnOnce(String) + Send + 'static) -> Self {
        // Who is away or hung up sends no other.
        let is_typed = matches!(signal, SIGINT | SIGQUIT) && hears_ctrl_c();
        Self { signal, limit: (!is_typed).then_some(grace), say: Box::new(say) }
    }

    /// Returns the hand-over of `signal` to what may tidy up for so long and no longer.
    pub fn within(signal: i32, limit: Duration) -> Self {
        Self { signal, limit: Some(limit), say: Box::new(drop) }
    }

    /// Hands the signal on and waits until it has been handled, for as long as that may take;
    /// `wait` waits for a moment and tells whether to go on.
    pub fn hand_on(
        self,
        care: &Supervisor,
        running: &Running,
        mut wait: impl FnMut(Duration) -> Patience,
    ) -> Tidied {
        let since = Instant::now();
        care.signal_group(running, self.signal);
        let mut say = Some(self.say);
        while care.handles(running, self.signal) {
            if self.limit.is_some_and(|limit| since.elapsed() >= limit) {
                return Tidied::NotInTime;
            }
            if since.elapsed() >= UNSAID
                && let Some(say) = say.take()
            {
                say(match self.limit {
                    None => "it still tidies up; another Ctrl-C ends it at once".to_owned(),
                    Some(limit) => {
                        format!("it still tidies up, and is ended after {} s", limit.as_secs_f64())
                    }
                });
            }
            if wait(LOOK) == Patience::Over {
                return Tidied::NotInTime;
            }
        }
        Tidied::Done
    }
}

impl std::fmt::Debug for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Interruption");
        shown.field("signal", &self.signal).field("limit", &self.limit).finish_non_exhaustive()
    }
}
