//! The two timers of what works for Salve, and the warning before either ends it.

use std::time::Duration;

use salve_core::event::StepTimer;

/// How long something may take in all, and how long it may show no sign of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkTimers {
    wall: Duration,
    idle: Duration,
    /// Whether it was warned that the wall timer will run out.
    is_wall_near: bool,
    /// The same of the idle timer, since it last showed a sign of work.
    is_idle_near: bool,
}

/// A timer of which something has to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerNews {
    /// It has run out.
    Over(StepTimer),
    /// It will run out after so long, which was not said yet.
    Near(StepTimer, Duration),
}

impl WorkTimers {
    pub(crate) fn new(wall: Duration, idle: Duration) -> Self {
        Self { wall, idle, is_wall_near: false, is_idle_near: false }
    }

    /// Returns what has to be known once so long has passed in all, and without a sign of work: which
    /// timers are in their last quarter, and that one has run out. A busy machine may look too late to
    /// see the last quarter; the warning comes all the same.
    pub(crate) fn look(&mut self, spent: Duration, idle: Duration) -> Vec<TimerNews> {
        let near = [
            (StepTimer::Wall, spent, self.wall, &mut self.is_wall_near),
            (StepTimer::Idle, idle, self.idle, &mut self.is_idle_near),
        ];
        let mut news = Vec::new();
        for (timer, spent, limit, is_known) in near {
            let is_near = spent >= limit - limit / 4;
            if is_near && !*is_known {
                news.push(TimerNews::Near(timer, limit.saturating_sub(spent)));
            }
            *is_known = is_near;
            if spent >= limit {
                news.push(TimerNews::Over(timer));
                break;
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_warns_once_before_it_runs_out_and_again_after_a_sign_of_work() {
        use StepTimer::{Idle, Wall};
        let seconds = Duration::from_secs;
        let mut timers = WorkTimers::new(seconds(100), seconds(8));
        let mut look = |spent, idle| timers.look(seconds(spent), seconds(idle));
        assert_eq!(look(5, 5), []);
        assert_eq!(look(6, 6), [TimerNews::Near(Idle, seconds(2))]);
        assert_eq!(look(7, 7), [], "said already");
        assert_eq!(look(20, 0), []);
        assert_eq!(look(27, 7), [TimerNews::Near(Idle, seconds(1))], "it had worked meanwhile");
        assert_eq!(look(80, 1), [TimerNews::Near(Wall, seconds(20))]);
        let late = [TimerNews::Near(Idle, Duration::ZERO), TimerNews::Over(Idle)];
        assert_eq!(look(90, 8), late);
        assert_eq!(look(100, 8), [TimerNews::Over(Wall)]);
    }
}
