//! The incident's one ledger of attempts, tokens, money, time and resets.
//!
//! **Invariant:** what is left only falls; nothing but [`Ledger::refill`] raises it, and that is
//! reached only by a named person's event. A charge is recorded even when nothing is left.

use crate::event::{Amounts, RemedyKind, Resource, ResourceLimits};

/// What may be spent and what has been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    limits: ResourceLimits,
    granted: Amounts,
    counted: Amounts,
    /// The cost of each effect so far, by its number.
    effects: Vec<(u32, Amounts)>,
}

impl Ledger {
    /// Makes a ledger in which nothing has been spent.
    pub fn new(limits: ResourceLimits) -> Self {
        let nothing = Amounts::default();
        Self { limits, granted: nothing, counted: nothing, effects: Vec::new() }
    }

    /// Counts attempts and resets as they are begun.
    pub(super) fn count(&mut self, amounts: Amounts) {
        self.counted = self.counted.plus(amounts);
    }

    /// Takes in what an effect has cost so far, and tells whether that is news.
    ///
    /// Costs are stated as totals and the larger counts, so a statement that comes late, twice or
    /// out of order changes nothing. Attempts and resets are the machine's own count and are left
    /// out here.
    pub(super) fn charge(&mut self, effect: u32, total: Amounts) -> bool {
        let total = Amounts { attempts: 0, resets: 0, ..total };
        match self.effects.iter_mut().find(|(number, _)| *number == effect) {
            Some((_, known)) => {
                let before = *known;
                *known = known.max(total);
                *known != before
            }
            None if total == Amounts::default() => false,
            None => {
                self.effects.push((effect, total));
                true
            }
        }
    }

    /// Adds what a named person granted.
    pub(super) fn refill(&mut self, granted: Amounts) {
        self.granted = self.granted.plus(granted);
    }

    /// Returns all that has been spent.
    pub fn spent(&self) -> Amounts {
        self.effects.iter().fold(self.counted, |sum, (_, cost)| sum.plus(*cost))
    }

    /// Returns what is left of a resource; `None` if it has no limit.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        let limit = self.limits.get(resource)?.saturating_add(self.granted.get(resource));
        Some(limit.saturating_sub(self.spent().get(resource)))
    }

    /// Tells whether a reset is left, if the remedy is one.
    pub(super) fn has_resets_for(&self, kind: RemedyKind) -> bool {
        match kind {
            RemedyKind::HardReset => self.left(Resource::Resets) != Some(0),
            RemedyKind::Retry
            | RemedyKind::Command
            | RemedyKind::Patch
            | RemedyKind::Agent
            | RemedyKind::SoftReset => true,
        }
    }

    /// Returns what has run out, if that ends all trying.
    ///
    /// Resets are not among it: without them there are still other remedies.
    pub fn exhausted(&self) -> Option<Resource> {
        use Resource as R;
        let ends = [R::Attempts, R::Tokens, R::MoneyMicros, R::WallMs];
        ends.into_iter().find(|resource| self.left(*resource) == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(n: u64) -> Amounts {
        Amounts { attempts: n, tokens: n, money_micros: n, wall_ms: n, resets: n }
    }

    fn limits(n: u64) -> ResourceLimits {
        let n = Some(n);
        ResourceLimits { attempts: n, tokens: n, money_micros: n, wall_ms: n, resets: n }
    }

    #[test]
    fn a_cost_is_a_total_and_counts_once() {
        let mut ledger = Ledger::new(limits(100));
        assert!(ledger.charge(1, amounts(30)));
        assert!(!ledger.charge(1, amounts(30)), "the same again");
        assert!(!ledger.charge(1, amounts(10)), "late");
        assert!(ledger.charge(1, amounts(40)));
        assert!(ledger.charge(2, amounts(5)));
        assert_eq!(ledger.spent().tokens, 45);
        assert_eq!(ledger.left(Resource::Tokens), Some(55));
        assert_eq!(ledger.spent().attempts, 0, "attempts are counted, not claimed");
    }

    #[test]
    fn costs_after_the_end_are_still_recorded() {
        let mut ledger = Ledger::new(limits(10));
        ledger.charge(1, amounts(u64::MAX));
        assert_eq!(ledger.exhausted(), Some(Resource::Tokens));
        ledger.charge(2, amounts(7));
        assert_eq!(ledger.spent().tokens, u64::MAX, "saturates");
        assert_eq!(ledger.left(Resource::Tokens), Some(0));
    }

    #[test]
    fn no_limit_is_never_used_up_and_resets_alone_end_nothing() {
        let mut ledger =
            Ledger::new(ResourceLimits { resets: Some(0), ..ResourceLimits::default() });
        ledger.charge(1, amounts(u64::MAX));
        ledger.count(amounts(u64::MAX));
        assert_eq!(ledger.exhausted(), None);
        assert_eq!(ledger.left(Resource::Resets), Some(0));
        assert_eq!(ledger.left(Resource::MoneyMicros), None);
    }

    #[derive(Clone, Debug)]
    enum LedgerEntry {
        Count(u64),
        Charge(u32, u64),
        Refill(u64),
    }

    fn entries() -> impl Strategy<Value = Vec<LedgerEntry>> {
        let number = || prop_oneof![0_u64..50, Just(u64::MAX), Just(u64::MAX - 1)];
        prop::collection::vec(
            prop_oneof![
                number().prop_map(LedgerEntry::Count),
                (0_u32..4, number()).prop_map(|(effect, n)| LedgerEntry::Charge(effect, n)),
                number().prop_map(LedgerEntry::Refill),
            ],
            0..40,
        )
    }

    proptest! {
        /// **Invariant:** Budgets rise only by a named person's refill.
        #[test]
        fn only_a_refill_raises_what_is_left(limit in 0_u64..100, entries in entries()) {
            let mut ledger = Ledger::new(limits(limit));
            for entry in entries {
                let before = ledger.clone();
                match entry {
                    LedgerEntry::Count(n) => ledger.count(amounts(n)),
                    LedgerEntry::Charge(effect, n) => { ledger.charge(effect, amounts(n)); }
                    LedgerEntry::Refill(n) => {
                        ledger.refill(amounts(n));
                        continue;
                    }
                }
                for resource in Resource::ALL {
                    prop_assert!(ledger.left(resource) <= before.left(resource));
                    prop_assert!(ledger.spent().get(resource) >= before.spent().get(resource));
                }
            }
        }
    }
}
