//! Explains to a caller why the daily budget does not cover a request.
//!
//! The three cases call for different reactions: nothing more fits today (stop), money is only held by calls in
//! progress (retry when they have settled), or money remains but less than the request may cost (ask for less output).

use crate::record::SkipKind;
use seawall_core::budget::{BudgetName, DayShortage};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// Why the daily budget does not cover a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetShortage {
    /// What remains does not pay for one output token.
    Exhausted { budget: ShortBudget, remaining: Money, resets: UtcTime },
    /// The request would fit if nothing were held; the calls in progress settle in about this time.
    Held { budget: ShortBudget, settles_in: Duration },
    /// The request does not fit, but would with this many output tokens.
    ExceedsRemainingBudget { budget: ShortBudget, remaining: Money, max_tokens: u64 },
}

/// The budget by calendar window that is short, with its cap; `None` if it is a daily one.
pub(crate) type ShortBudget = Option<(BudgetName, Money)>;

impl BudgetShortage {
    /// Classifies a shortage. `max_cost` maps output tokens to the maximum cost and must be monotonic.
    pub(crate) fn of(
        day: &DayShortage,
        output: u64,
        settles_in: Duration,
        max_cost: impl Fn(u64) -> Money,
    ) -> Self {
        let DayShortage { available, unspent, resets, window: budget } = *day;
        let Some(fits_later) = largest_where(output, |tokens| max_cost(tokens) <= unspent) else {
            return Self::Exhausted { budget, remaining: unspent, resets };
        };
        if fits_later >= output {
            return Self::Held { budget, settles_in };
        }
        // Prefer a number that fits at once. If none does, the next rejection says how long to wait.
        match largest_where(output, |tokens| max_cost(tokens) <= available) {
            Some(max_tokens) => Self::ExceedsRemainingBudget { budget, remaining: available, max_tokens },
            None => Self::ExceedsRemainingBudget { budget, remaining: unspent, max_tokens: fits_later },
        }
    }

    /// Of two targets' shortages, the one that helps the caller more: waiting first, then asking for less.
    pub(crate) fn more_actionable(self, other: Self) -> Self {
        match (self, other) {
            (Self::Held { settles_in: one, .. }, Self::Held { settles_in: two, .. }) => {
                if one <= two {
                    self
                } else {
                    other
                }
            }
            (held @ Self::Held { .. }, _) | (_, held @ Self::Held { .. }) => held,
            (
                Self::ExceedsRemainingBudget { max_tokens: one, .. },
                Self::ExceedsRemainingBudget { max_tokens: two, .. },
            ) => {
                if one >= two {
                    self
                } else {
                    other
                }
            }
            (large @ Self::ExceedsRemainingBudget { .. }, _)
            | (_, large @ Self::ExceedsRemainingBudget { .. }) => large,
            (Self::Exhausted { .. }, Self::Exhausted { .. }) => self,
        }
    }

    /// The shortage without its details, for logs and events.
    pub(crate) const fn kind(&self) -> SkipKind {
        match self {
            Self::Exhausted { .. } => SkipKind::BudgetExhausted,
            Self::Held { .. } => SkipKind::BudgetHeld,
            Self::ExceedsRemainingBudget { .. } => SkipKind::ExceedsRemainingBudget,
        }
    }
}

/// The largest number from 1 to `max` for which `holds` is true, if it is true for 1. Binary search: `holds` must be
/// monotonic.
pub(crate) fn largest_where(max: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if max > 0 && holds(max) {
        return Some(max);
    }
    if !holds(1) {
        return None;
    }
    // Invariant: `holds` is true for `low` and false for `high`.
    let (mut low, mut high) = (1, max.max(1));
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
    use super::{BudgetShortage, largest_where};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::budget::DayShortage;
    use seawall_core::money::Money;
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(3);

    fn nanos(nanos: u64) -> Money {
        Money::from_nanos(nanos)
    }

    fn of(available: u64, unspent: u64, output: u64) -> BudgetShortage {
        let resets = UtcTime::start_of_day(1);
        let day = DayShortage { available: nanos(available), unspent: nanos(unspent), resets, window: None };
        // 100 for the input, 10 per output token.
        BudgetShortage::of(&day, output, SOON, |tokens| nanos(100 + 10 * tokens))
    }

    #[test]
    fn spent_held_and_too_large_are_three_answers() {
        let spent = |remaining| BudgetShortage::Exhausted {
            budget: None,
            remaining: nanos(remaining),
            resets: UtcTime::start_of_day(1),
        };
        assert_eq!(of(0, 0, 5), spent(0));
        assert_eq!(of(0, 109, 5), spent(109));
        assert_eq!(of(0, 150, 5), BudgetShortage::Held { budget: None, settles_in: SOON });
        assert_eq!(of(149, 150, 5), BudgetShortage::Held { budget: None, settles_in: SOON });
        assert_eq!(
            of(130, 149, 5),
            BudgetShortage::ExceedsRemainingBudget { budget: None, remaining: nanos(130), max_tokens: 3 }
        );
        assert_eq!(
            of(109, 149, 5),
            BudgetShortage::ExceedsRemainingBudget { budget: None, remaining: nanos(149), max_tokens: 4 }
        );
    }

    #[test]
    fn the_most_actionable_shortage_of_several_targets_is_reported() {
        let (spent, held, few, many) = (of(0, 0, 5), of(0, 150, 5), of(110, 110, 5), of(140, 140, 5));
        for (one, other, expected) in [
            (spent, held, held),
            (spent, few, few),
            (few, many, many),
            (many, held, held),
            (spent, spent, spent),
        ] {
            assert_eq!([one.more_actionable(other), other.more_actionable(one)], [expected; 2]);
        }
    }

    proptest! {
        #[test]
        fn what_is_said_to_fit_fits_and_one_more_does_not(
            available in 0_u64..3_000, more in 0_u64..3_000, output in 1_u64..400,
        ) {
            let unspent = available + more;
            let max_cost = |tokens: u64| 100 + 10 * tokens;
            match of(available, unspent, output) {
                BudgetShortage::Exhausted { .. } => prop_assert!(max_cost(1) > unspent),
                BudgetShortage::Held { .. } => prop_assert!(max_cost(output) <= unspent),
                BudgetShortage::ExceedsRemainingBudget { remaining, max_tokens, .. } => {
                    let remaining = remaining.as_nanos();
                    prop_assert!(remaining == available || (remaining == unspent && max_cost(1) > available));
                    prop_assert!(max_cost(max_tokens) <= remaining && max_cost(max_tokens + 1) > remaining && max_tokens <= output);
                }
            }
        }

        #[test]
        fn the_largest_is_found_as_by_trying_all(max in 0_u64..60, bound in 0_u64..70) {
            let naive = (1..=max.max(1)).rev().find(|number| *number <= bound);
            prop_assert_eq!(largest_where(max, |number| number <= bound), naive);
        }
    }
}
