//! Agents whose service was too busy: they are called again, and no attempt is used up.

use std::time::{Duration, Instant};

use salve_core::event::Amounts;

/// How long is waited before each further run.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// How long such runs may take together, without the pauses: some agents try for minutes by themselves.
const MOST_MS: u64 = 300_000;

/// The runs of an agent that came to nothing because its service was too busy, for one effect.
#[derive(Debug, Default)]
pub(super) struct BusyRuns {
    effect: u32,
    count: usize,
    /// What they cost together.
    spent: Amounts,
    /// When the agent is called again, if it is to be.
    again: Option<Instant>,
}

impl BusyRuns {
    /// Returns when the agent is called again for an effect, if it is to be.
    pub(super) fn called_again_at(&self, effect: u32) -> Option<Instant> {
        self.again.filter(|_| self.effect == effect)
    }

    /// Takes in that the agent is called again now.
    pub(super) fn calls_again(&mut self) {
        self.again = None;
    }

    /// Takes in such a run; returns how long is waited before the next, unless it was tried often enough.
    pub(super) fn put_off(
        &mut self,
        effect: u32,
        spent: Amounts,
        now: Instant,
    ) -> Option<Duration> {
        if self.effect != effect {
            *self = Self { effect, ..Self::default() };
        }
        self.spent = self.spent.zip(spent, u64::saturating_add);
        let pause = *PAUSES.get(self.count).filter(|_| self.spent.wall_ms <= MOST_MS)?;
        self.count += 1;
        self.again = Some(now + pause);
        Some(pause)
    }

    /// Returns what all runs of an effect cost, with what the present one cost.
    pub(super) fn with_present(&self, effect: u32, spent: Amounts) -> Amounts {
        if self.effect == effect { self.spent.zip(spent, u64::saturating_add) } else { spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_four_times_with_growing_pauses_and_all_of_it_is_paid() {
        let (mut runs, now) = (BusyRuns::default(), Instant::now());
        let spent = Amounts { tokens: 5, ..Amounts::default() };
        for (at, pause) in PAUSES.into_iter().enumerate() {
            assert_eq!(runs.put_off(3, spent, now), Some(pause));
            assert_eq!(runs.called_again_at(3), Some(now + pause));
            assert_eq!(runs.called_again_at(4), None, "another effect");
            runs.calls_again();
            assert_eq!(runs.called_again_at(3), None);
            let all = u64::try_from(at).unwrap() * 5 + 10;
            assert_eq!(runs.with_present(3, spent).tokens, all);
            assert_eq!(runs.with_present(4, spent).tokens, 5);
        }
        assert_eq!(runs.put_off(3, spent, now), None);
        let long = Amounts { wall_ms: MOST_MS / 2 + 1, ..Amounts::default() };
        assert_eq!(runs.put_off(5, long, now), Some(PAUSES[0]));
        assert_eq!(runs.put_off(5, long, now), None, "it tried long enough by itself");
        assert_eq!(runs.put_off(4, spent, now), Some(PAUSES[0]));
    }
}
