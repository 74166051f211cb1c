//! Property test of the limiter against a reference model that keeps every event.

use super::super::{
    CalendarPeriod, Quota, QuotaDecision, QuotaReservation, QuotaUnit, QuotaUnits, RateLimiter,
};
use super::{HOUR, MINUTE, at, group, remaining, scope, sliding};
use crate::invariant::refusal_changes_nothing;
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

/// One window of the model: its slice in milliseconds, and its limit.
struct Window {
    slice: u64,
    limit: u32,
    unit: QuotaUnit,
    /// Time, key and units of everything admitted.
    charges: Vec<(u64, u64, u32)>,
}

impl Window {
    fn used(&self, key: u64, now: u64) -> u32 {
        let live = |when: u64| match self.slice {
            // A calendar day.
            86_400_000 => when / self.slice == now / self.slice,
            _ => when / self.slice + 61 > now / self.slice,
        };
        let own = self.charges.iter().filter(|(when, whose, _)| *whose == key && live(*when));
        own.map(|(_, _, units)| units).sum()
    }

    fn units(&self, cost: QuotaUnits) -> u32 {
        match self.unit {
            QuotaUnit::Request => cost.requests,
            QuotaUnit::Token => cost.tokens,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Reserve { key: u64, requests: u32, tokens: u32 },
    Settle { which: usize, tokens: u32 },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..20_000).prop_map(Step::Wait),
        1 => (0_u64..9_000_000).prop_map(Step::Wait),
        9 => (0_u64..3, 0_u32..3, 0_u32..60)
            .prop_map(|(key, requests, tokens)| Step::Reserve { key, requests, tokens }),
        3 => (0_usize..100, 0_u32..90).prop_map(|(which, tokens)| Step::Settle { which, tokens }),
        1 => proptest::prelude::Just(Step::Sweep),
    ]
}

fn build() -> (RateLimiter, [Window; 4]) {
    let groups = vec![
        group(
            "caller",
            vec![
                sliding("minute", 6, MINUTE, 2),
                Quota::sliding("tokens", QuotaUnit::Token, 200, HOUR, 0).unwrap(),
                Quota::calendar("day", QuotaUnit::Request, 30, CalendarPeriod::Day).unwrap(),
            ],
        ),
        group("global", vec![sliding("minute", 12, MINUTE, 0)]),
    ];
    let window = |slice, limit, unit| Window { slice, limit, unit, charges: Vec::new() };
    let windows = [
        window(1_000, 8, QuotaUnit::Request),
        window(60_000, 200, QuotaUnit::Token),
        window(86_400_000, 30, QuotaUnit::Request),
        window(1_000, 12, QuotaUnit::Request),
    ];
    (RateLimiter::new(groups, 5).unwrap(), windows)
}

proptest! {
    #[test]
    fn the_limiter_matches_the_reference_model(steps in vec(step(), 1..120)) {
        let (limiter, mut windows) = build();
        let scopes = |key| [scope(&limiter, "caller", key), scope(&limiter, "global", 0)];
        let mut held: Vec<(QuotaReservation, u64, u64, QuotaUnits)> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => now += millis,
                Step::Sweep => {
                    for shard in 0..64 {
                        limiter.sweep(shard, at(now));
                    }
                }
                Step::Reserve { key, requests, tokens } => {
                    let cost = QuotaUnits { requests, tokens };
                    let whose = [key, key, key, 0];
                    let fits = windows.iter().zip(whose).all(|(window, key)| {
                        let units = window.units(cost);
                        units == 0 || window.used(key, now) + units <= window.limit
                    });
                    let before = remaining(&limiter, &scopes(key), at(now));
                    let decision = limiter.reserve(&scopes(key), cost, at(now)).unwrap();
                    match decision {
                        QuotaDecision::Granted { reservation, .. } => {
                            prop_assert!(fits);
                            for (window, key) in windows.iter_mut().zip(whose) {
                                window.charges.push((now, key, window.units(cost)));
                            }
                            held.push((reservation, now, key, cost));
                        }
                        QuotaDecision::RetryAfter(refusal) => {
                            prop_assert!(!fits);
                            let after = remaining(&limiter, &scopes(key), at(now));
                            prop_assert_eq!(refusal_changes_nothing(&before, &after), Ok(()));
                            // The wait is exact: one nanosecond sooner it does not fit, then it does.
                            let later = at(now) + refusal.wait;
                            let sooner = at(now) + (refusal.wait - std::time::Duration::from_nanos(1));
                            let granted = |moment| matches!(
                                limiter.reserve(&scopes(key), cost, moment).unwrap(),
                                QuotaDecision::Granted { .. }
                            );
                            prop_assert!(!granted(sooner));
                            if granted(later) {
                                let after = now + u64::try_from(refusal.wait.as_millis()).unwrap();
                                for (window, key) in windows.iter_mut().zip(whose) {
                                    window.charges.push((after, key, window.units(cost)));
                                }
                                now = after;
                            } else {
                                prop_assert!(false, "the wait was too short");
                            }
                        }
                        QuotaDecision::TooLarge { .. } => prop_assert!(false, "nothing here is too large"),
                    }
                }
                Step::Settle { which, tokens } if !held.is_empty() => {
                    let (reservation, when, key, cost) = held.swap_remove(which % held.len());
                    let actual = QuotaUnits { tokens, ..cost };
                    limiter.settle(reservation, actual, at(now));
                    let charges = &mut windows[1].charges;
                    if tokens <= cost.tokens {
                        let entry = charges.iter_mut()
                            .find(|entry| **entry == (when, key, cost.tokens)).unwrap();
                        entry.2 = tokens;
                    } else {
                        charges.push((now, key, tokens - cost.tokens));
                    }
                }
                Step::Settle { .. } => {}
            }
            for key in 0..3 {
                let expected: Vec<u32> = windows.iter().zip([key, key, key, 0])
                    .map(|(window, key)| window.limit.saturating_sub(window.used(key, now))).collect();
                prop_assert_eq!(remaining(&limiter, &scopes(key), at(now)), expected);
            }
        }
    }
}
