//! What is written in passing: one after the other, and awaited at the end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
