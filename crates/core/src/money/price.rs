//! Token usage and prices per token.

use super::{Money, UsageExtras};

/// Tokens that one call used. Each token is counted in exactly one of the four fields, because each field has its own
/// price.
///
/// ```
/// use seawall_core::money::Usage;
///
/// let usage = Usage { input: 10, cache_read: 200, cache_write: 30, output: 7, ..Usage::default() };
/// assert_eq!(usage.total_input(), 240);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens neither read from nor written to the vendor's prompt cache.
    pub input: u64,
    /// Input tokens read from the vendor's prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the vendor's prompt cache.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
    /// Other price factors that the vendor reports. They are not stored in the ledger, which holds the posted cost.
    pub extras: UsageExtras,
}

impl Usage {
    /// No tokens.
    pub const NONE: Self =
        Self { input: 0, cache_read: 0, cache_write: 0, output: 0, extras: UsageExtras::NONE };

    /// Converts from vendors that count cached input within the prompt, as OpenAI does; Anthropic counts it
    /// separately, as this type does. If the cached tokens exceed the prompt, they are taken as reported: every token
    /// that a vendor reports may be on its bill.
    ///
    /// ```
    /// use seawall_core::money::Usage;
    ///
    /// let usage = Usage::from_whole_prompt(1_000, 800, 50, 7);
    /// assert_eq!(usage, Usage { input: 150, cache_read: 800, cache_write: 50, output: 7, ..Usage::default() });
    /// ```
    #[must_use]
    pub const fn from_whole_prompt(prompt: u64, cache_read: u64, cache_write: u64, output: u64) -> Self {
        let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
        Self { input, cache_read, cache_write, output, extras: UsageExtras::NONE }
    }

    /// All input tokens, cached or not.
    #[must_use]
    pub const fn total_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// A model's prices per million tokens.
///
/// ```
/// use seawall_core::money::{Money, Price, Usage};
///
/// let sonnet = Price::per_million(Money::from_dollars(3), Money::from_dollars(15));
/// let worst = Usage { input: 4_000, output: 1_024, ..Usage::default() };
/// assert_eq!(sonnet.cost(&worst).to_string(), "$0.02736");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    input: Money,
    cache_read: Money,
    cache_write: Money,
    output: Money,
}

impl Price {
    /// Prices per million tokens; cached input costs the same as other input.
    #[must_use]
    pub const fn per_million(input: Money, output: Money) -> Self {
        Self { input, cache_read: input, cache_write: input, output }
    }

    /// A copy with separate prices for prompt cache reads and writes.
    #[must_use]
    pub const fn with_cache(self, read: Money, write: Money) -> Self {
        Self { cache_read: read, cache_write: write, ..self }
    }

    /// A model without cost, such as a self-hosted one. This must be explicit: a missing price is an error, not zero.
    pub const FREE: Self = Self::per_million(Money::ZERO, Money::ZERO);

    /// Maximum cost of a call: every input token at the highest of its three prices.
    ///
    /// ```
    /// use seawall_core::money::{Money, Price};
    ///
    /// let cents = |cents: u64| Money::from_nanos(cents * 10_000_000);
    /// let price = Price::per_million(cents(300), cents(1_500)).with_cache(cents(30), cents(375));
    /// assert_eq!(price.max_cost(1_000_000, 0), cents(375));
    /// ```
    #[must_use]
    pub fn max_cost(&self, input: u64, output: u64) -> Money {
        Self { input: self.max_input(), ..*self }.cost(&Usage { input, output, ..Usage::default() })
    }

    /// Cost of all input and of all output, in millionths of a nano-dollar.
    pub(super) fn parts(&self, counts: &Usage) -> (u128, u128) {
        let part = |price: Money, tokens: u64| u128::from(price.as_nanos()) * u128::from(tokens);
        let input = part(self.input, counts.input)
            .saturating_add(part(self.cache_read, counts.cache_read))
            .saturating_add(part(self.cache_write, counts.cache_write));
        (input, part(self.output, counts.output))
    }

    /// The highest of the three input prices.
    pub(super) fn max_input(&self) -> Money {
        self.input.max(self.cache_read).max(self.cache_write)
    }

    pub(super) const fn input(&self) -> Money {
        self.input
    }

    pub(super) const fn output(&self) -> Money {
        self.output
    }

    /// Cost of this usage, rounded up once at the end, so that the ledger never holds less than the vendor bills.
    #[must_use]
    pub fn cost(&self, counts: &Usage) -> Money {
        let (input, output) = self.parts(counts);
        let millionths = input.saturating_add(output);
        Money::from_nanos(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{Money, Price, Usage};
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn cached_input_is_taken_out_of_a_whole_prompt_once() {
        let usage = |prompt, read, write| Usage::from_whole_prompt(prompt, read, write, 0);
        assert_eq!(usage(10, 0, 0).input, 10);
        assert_eq!(
            usage(10, 4, 6),
            Usage { input: 0, cache_read: 4, cache_write: 6, output: 0, ..Usage::default() }
        );
        assert_eq!(
            usage(10, 8, 8),
            Usage { input: 0, cache_read: 8, cache_write: 8, output: 0, ..Usage::default() }
        );
        assert_eq!(usage(u64::MAX, u64::MAX, 1).total_input(), u64::MAX);
    }

    #[test]
    fn the_maximum_takes_the_dearest_input_whichever_it_is() {
        let nanos = Money::from_nanos;
        let plain = Price::per_million(nanos(3_000_000), nanos(5_000_000));
        for (price, most) in [
            (plain, 3 + 5),
            (plain.with_cache(nanos(1_000_000), nanos(4_000_000)), 4 + 5),
            (plain.with_cache(nanos(9_000_000), nanos(4_000_000)), 9 + 5),
            (plain.with_cache(nanos(1_000_000), nanos(2_000_000)), 3 + 5),
            (Price::FREE, 0),
        ] {
            assert_eq!(price.max_cost(1, 1), nanos(most));
        }
    }

    #[test]
    fn tokens_cost_what_their_sort_costs_and_a_fraction_is_rounded_up() {
        let dollars = Money::from_dollars;
        let price = Price::per_million(dollars(3), dollars(15));
        let counts = Usage { input: 1_200, output: 250, ..Usage::default() };
        assert_eq!(price.cost(&counts).to_string(), "$0.00735");
        let haiku = Price::per_million(Money::from_nanos(250_000_000), Money::from_nanos(1_250_000_000));
        assert_eq!(haiku.cost(&counts).to_string(), "$0.0006125");
        let cached = price.with_cache(Money::from_nanos(300_000_000), Money::from_nanos(3_750_000_000));
        let counts = Usage { input: 1, cache_read: 10, cache_write: 100, output: 1_000, ..Usage::default() };
        assert_eq!(cached.cost(&counts).as_nanos(), 3_000 + 3_000 + 375_000 + 15_000_000);
        assert_eq!(price.cost(&counts).as_nanos(), 3_000 * 111 + 15_000_000);
        let odd = Price::per_million(Money::from_nanos(1), Money::ZERO);
        assert_eq!(odd.cost(&Usage { input: 1, ..Usage::default() }), Money::from_nanos(1));
        assert_eq!(odd.cost(&Usage::default()), Money::ZERO);
        let endless = Usage {
            input: u64::MAX,
            cache_read: u64::MAX,
            cache_write: u64::MAX,
            output: u64::MAX,
            ..Usage::NONE
        };
        assert_eq!(Price::per_million(Money::MAX, Money::MAX).cost(&endless), Money::MAX);
    }

    proptest! {
        #[test]
        fn no_usage_within_the_bounds_costs_more_than_the_maximum(
            input in 0..10_000_u64, read in 0..10_000_u64, write in 0..10_000_u64, output in 0..10_000_u64,
            prices in any::<[u32; 4]>(),
        ) {
            let [a, b, c, d] = prices.map(|nanos| Money::from_nanos(nanos.into()));
            let price = Price::per_million(a, b).with_cache(c, d);
            let usage = Usage { input, cache_read: read, cache_write: write, output, ..Usage::default() };
            prop_assert!(price.cost(&usage) <= price.max_cost(usage.total_input(), output));
        }

        #[test]
        fn more_tokens_never_cost_less(input in any::<u32>(), output in any::<u32>(), more in any::<u32>()) {
            let price = Price::per_million(Money::from_nanos(37_500_000), Money::from_nanos(1_234_567_891));
            let counts = Usage { input: input.into(), output: output.into(), ..Usage::default() };
            let larger = Usage { output: u64::from(output) + u64::from(more), ..counts };
            prop_assert!(price.cost(&counts) <= price.cost(&larger));
        }
    }
}
