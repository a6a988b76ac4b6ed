//! What tokens cost where the agent itself does not say.

use super::TokenUsage;

/// Tokens times cents per million tokens, divided by this, are millionths of a dollar.
const CENTS_PER_MILLION_TO_MICROS: u128 = 100;

/// Prices of tokens, in cents for a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    /// For tokens read that were in no cache.
    pub input_cents: u64,
    /// For tokens read from a cache.
    pub cached_cents: u64,
    /// For tokens written.
    pub output_cents: u64,
}

impl TokenPrices {
    /// Returns what the tokens cost, in millionths of a dollar, rounded up: a limit on money must not
    /// be slipped under by many small sums.
    pub fn money_micros(&self, usage: &TokenUsage) -> u64 {
        let of = |tokens: u64, cents: u64| u128::from(tokens) * u128::from(cents);
        let sum = of(usage.input, self.input_cents)
            .saturating_add(of(usage.cached, self.cached_cents))
            .saturating_add(of(usage.output, self.output_cents));
        u64::try_from(sum.div_ceil(CENTS_PER_MILLION_TO_MICROS)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: u64, cached: u64, output: u64, want: u64) {
        let prices = TokenPrices { input_cents: 125, cached_cents: 13, output_cents: 1000 };
        let usage = TokenUsage { input, cached, output, money_micros: 0 };
        assert_eq!(prices.money_micros(&usage), want, "{usage:?}");
    }

    #[test]
    fn a_million_tokens_cost_their_price() {
        check(1_000_000, 0, 0, 1_250_000);
        check(0, 1_000_000, 0, 130_000);
        check(0, 0, 1_000_000, 10_000_000);
    }

    #[test]
    fn a_part_of_a_millionth_is_a_whole_one_and_nothing_overflows() {
        check(1, 0, 0, 2);
        check(0, 0, 0, 0);
        check(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    }
}
