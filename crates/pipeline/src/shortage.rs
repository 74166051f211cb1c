//! Explains to a caller why the daily budget does not cover a request.
//!
//! The three cases call for different reactions: nothing more fits today (stop), money is only held by calls in
//! progress (retry when they have settled), or money remains but less than the request may cost (ask for less output).

use seawall_core::budget::DayShortage;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// Why the daily budget does not cover a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetShortage {
    /// What remains does not pay for one output token.
    Spent { left: Money, resets: UtcTime },
    /// The request would fit if nothing were held; the calls in progress settle in about this time.
    Held { settles_in: Duration },
    /// The request does not fit, but would with this many output tokens.
    TooLarge { left: Money, max_tokens: u64 },
}

impl BudgetShortage {
    /// Classifies a shortage. `worst` maps output tokens to the maximum cost and must be monotonic.
    pub(crate) fn of(
        day: &DayShortage,
        output: u64,
        settles_in: Duration,
        worst: impl Fn(u64) -> Money,
    ) -> Self {
        let DayShortage { free, unspent, resets } = *day;
        let Some(fits_later) = largest(output, |tokens| worst(tokens) <= unspent) else {
            return Self::Spent { left: unspent, resets };
        };
        if fits_later >= output {
            return Self::Held { settles_in };
        }
        // Prefer a number that fits at once. If none does, the next rejection says how long to wait.
        match largest(output, |tokens| worst(tokens) <= free) {
            Some(max_tokens) => Self::TooLarge { left: free, max_tokens },
            None => Self::TooLarge { left: unspent, max_tokens: fits_later },
        }
    }

    /// Of two targets' shortages, the one that helps the caller more: waiting first, then asking for less.
    pub(crate) fn more_hopeful(self, other: Self) -> Self {
        match (self, other) {
            (Self::Held { settles_in: one }, Self::Held { settles_in: two }) => {
                Self::Held { settles_in: one.min(two) }
            }
            (held @ Self::Held { .. }, _) | (_, held @ Self::Held { .. }) => held,
            (Self::TooLarge { max_tokens: one, .. }, Self::TooLarge { max_tokens: two, .. }) => {
                if one >= two { self } else { other }
            }
            (large @ Self::TooLarge { .. }, _) | (_, large @ Self::TooLarge { .. }) => large,
            (Self::Spent { .. }, Self::Spent { .. }) => self,
        }
    }

    /// The label in logs and metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Spent { .. } => "budget_spent",
            Self::Held { .. } => "budget_held",
            Self::TooLarge { .. } => "exceeds_remaining_budget",
        }
    }
}

/// The largest number from 1 to `most` for which `holds` is true, if it is true for 1. Binary search: `holds` must be
/// monotonic.
pub(crate) fn largest(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if most > 0 && holds(most) {
        return Some(most);
    }
    if !holds(1) {
        return None;
    }
    // Invariant: `holds` is true for `low` and false for `high`.
    let (mut low, mut high) = (1, most.max(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::{BudgetShortage, largest};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::budget::DayShortage;
    use seawall_core::money::Money;
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(3);

    fn nanos(nanos: u64) -> Money {
        Money::from_nanos(nanos)
    }

    fn of(free: u64, unspent: u64, output: u64) -> BudgetShortage {
        let resets = UtcTime::start_of_day(1);
        let day = DayShortage { free: nanos(free), unspent: nanos(unspent), resets };
        // 100 for the input, 10 per output token.
        BudgetShortage::of(&day, output, SOON, |tokens| nanos(100 + 10 * tokens))
    }

    #[test]
    fn spent_held_and_too_large_are_three_answers() {
        let spent = |left| BudgetShortage::Spent { left: nanos(left), resets: UtcTime::start_of_day(1) };
        assert_eq!(of(0, 0, 5), spent(0));
        assert_eq!(of(0, 109, 5), spent(109));
        assert_eq!(of(0, 150, 5), BudgetShortage::Held { settles_in: SOON });
        assert_eq!(of(149, 150, 5), BudgetShortage::Held { settles_in: SOON });
        assert_eq!(of(130, 149, 5), BudgetShortage::TooLarge { left: nanos(130), max_tokens: 3 });
        assert_eq!(of(109, 149, 5), BudgetShortage::TooLarge { left: nanos(149), max_tokens: 4 });
    }

    #[test]
    fn the_most_hopeful_of_several_targets_is_told() {
        let (spent, held, few, many) = (of(0, 0, 5), of(0, 150, 5), of(110, 110, 5), of(140, 140, 5));
        for (one, other, told) in [
            (spent, held, held),
            (spent, few, few),
            (few, many, many),
            (many, held, held),
            (spent, spent, spent),
        ] {
            assert_eq!([one.more_hopeful(other), other.more_hopeful(one)], [told; 2]);
        }
    }

    proptest! {
        #[test]
        fn what_is_said_to_fit_fits_and_one_more_does_not(
            free in 0_u64..3_000, more in 0_u64..3_000, output in 1_u64..400,
        ) {
            let unspent = free + more;
            let worst = |tokens: u64| 100 + 10 * tokens;
            match of(free, unspent, output) {
                BudgetShortage::Spent { .. } => prop_assert!(worst(1) > unspent),
                BudgetShortage::Held { .. } => prop_assert!(worst(output) <= unspent),
                BudgetShortage::TooLarge { left, max_tokens } => {
                    let left = left.as_nanos();
                    prop_assert!(left == free || (left == unspent && worst(1) > free));
                    prop_assert!(worst(max_tokens) <= left && worst(max_tokens + 1) > left && max_tokens <= output);
                }
            }
        }

        #[test]
        fn the_largest_is_found_as_by_trying_all(most in 0_u64..60, bound in 0_u64..70) {
            let naive = (1..=most.max(1)).rev().find(|number| *number <= bound);
            prop_assert_eq!(largest(most, |number| number <= bound), naive);
        }
    }
}
