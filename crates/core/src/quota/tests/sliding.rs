use super::super::QuotaUnits;
use super::{MINUTE, admitted, at, limiter, scope, sliding, take};
use crate::invariant::window_within_limit;
use crate::quota::packed::WORDS;
use crate::quota::ring::SliceRing;
use crate::quota::rule::LimitCheck;
use crate::quota::slab::Slab;
use crate::quota::sliding::SlidingRule;

use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

fn moment(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn try_take(ring: &mut SliceRing, rule: &SlidingRule, now: Timestamp, units: u32) -> bool {
    let fits = ring.has_room(rule, now, units);
    if fits {
        ring.take(rule, now, units);
    }
    fits
}

#[test]
fn a_batch_before_and_one_after_the_full_minute_share_one_limit() {
    let limiter = limiter(vec![sliding("minute", 30, MINUTE, 5)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 35, at(59_900)), 35);
    assert_eq!(admitted(&limiter, &scopes, 35, at(60_100)), 0);
    assert_eq!(admitted(&limiter, &scopes, 35, at(119_999)), 0);
    assert_eq!(admitted(&limiter, &scopes, 70, at(120_000)), 35);
}

#[test]
fn the_wait_names_the_slice_that_frees_enough() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    for (millis, times) in [(500, 3), (7_300, 4), (20_000, 3)] {
        assert_eq!(admitted(&limiter, &scopes, times, at(millis)), times);
    }
    let wait = |requests, millis| {
        let refusal = take(&limiter, &scopes, QuotaUnits { requests, tokens: 0 }, at(millis)).unwrap_err();
        assert_eq!(refusal.binding.remaining, 0);
        refusal.wait.as_millis()
    };
    // The first slice counts until 61 s, the second until 68 s, the third until 81 s.
    assert_eq!(wait(1, 30_250), 30_750);
    assert_eq!(wait(3, 30_250), 30_750);
    assert_eq!(wait(4, 30_250), 37_750);
    assert_eq!(wait(7, 30_250), 37_750);
    assert_eq!(wait(8, 30_250), 50_750);
    assert_eq!(wait(10, 30_000), 51_000);
}

#[test]
fn a_moment_read_by_a_slower_thread_counts_in_the_newest_slice() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 6, at(30_000)), 6);
    assert_eq!(admitted(&limiter, &scopes, 6, at(28_500)), 4);
    let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, at(28_500)).unwrap_err();
    assert_eq!(refusal.wait, Duration::from_secs(61));
    assert_eq!(admitted(&limiter, &scopes, 10, at(90_999)), 0);
    assert_eq!(admitted(&limiter, &scopes, 11, at(91_000)), 10);
}

#[test]
fn a_moment_long_past_renews_nothing() {
    let second = Duration::from_secs(1);
    let limiter = limiter(vec![sliding("second", 5, second, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 5, at(100_000)), 5);
    for stale in [98_900, 50_000, 0] {
        assert_eq!(admitted(&limiter, &scopes, 1, at(stale)), 0, "{stale}");
        for shard in 0..64 {
            assert_eq!(limiter.sweep(shard, at(stale)), 0);
        }
    }
    assert_eq!(admitted(&limiter, &scopes, 1, at(100_001)), 0);
}

#[test]
fn the_period_and_the_burst_make_the_rule() {
    let rule = SlidingRule::new(60, MINUTE, 10).unwrap();
    assert_eq!(rule.limit(), 70);
    let mut ring = SliceRing::default();
    assert!(try_take(&mut ring, &rule, moment(0), 70));
    assert!(!try_take(&mut ring, &rule, moment(60_999), 1));
    assert!(try_take(&mut ring, &rule, moment(61_000), 1));
    assert!(!try_take(&mut ring, &rule, moment(61_000), 71));
    let short = SlidingRule::new(1, Duration::from_secs(1), 0).unwrap();
    let mut ring = SliceRing::default();
    assert!(try_take(&mut ring, &short, moment(1_000), 1));
    assert!(!try_take(&mut ring, &short, moment(2_000), 1));
    assert!(try_take(&mut ring, &short, moment(2_017), 1));
}

#[test]
fn numbers_may_wrap_around() {
    let rule = SlidingRule::new(5, MINUTE, 0).unwrap();
    let around = u64::from(u32::MAX) * 1_000;
    let mut ring = SliceRing::default();
    assert!(try_take(&mut ring, &rule, moment(around - 100_000), 1));
    let (mut words, mut rings) = ([0; WORDS], Slab::default());
    for millis in [around, around + 1_000, around + 2_000] {
        assert!(try_take(&mut ring, &rule, moment(millis), 1));
        rule.take(&mut words, &mut rings, moment(millis), 1);
    }
    let fits = LimitCheck::Fits { remaining: 2 };
    assert_eq!(rule.check_words(&words, &rings, moment(around + 3_000), 0), fits);
    assert!(!try_take(&mut ring, &rule, moment(around + 3_000), 3));
    assert!(try_take(&mut ring, &rule, moment(around + 61_000), 3));
}

/// All admissions, never expired.
#[derive(Default)]
struct Naive(Vec<(u64, u32)>);

impl Naive {
    fn used(&self, now: u64) -> u32 {
        self.0.iter().filter(|(when, _)| when / 1_000 + 61 > now / 1_000).map(|(_, units)| units).sum()
    }

    fn check(&self, limit: u32, now: u64, units: u32) -> LimitCheck {
        let left = limit.saturating_sub(self.used(now));
        if units > limit {
            LimitCheck::Never { capacity: limit }
        } else if units <= left {
            LimitCheck::Fits { remaining: left - units }
        } else {
            let until = (0..62)
                .map(|second| (now / 1_000 + second) * 1_000)
                .find(|later| *later > now && units <= limit.saturating_sub(self.used(*later)));
            LimitCheck::Wait { wait: Duration::from_millis(until.unwrap() - now), remaining: left }
        }
    }
}

proptest! {
    #[test]
    fn few_many_and_ring_all_equal_the_list(
        limit in 1_u32..40,
        steps in vec((0_u64..9_000, 0_u32..6, 0_usize..8), 1..150),
    ) {
        let rule = SlidingRule::new(limit, MINUTE, 0).unwrap();
        let (mut words, mut rings) = ([0; WORDS], Slab::default());
        let mut naive = Naive::default();
        let mut now = 0;
        for (wait, units, chance) in steps {
            now += wait;
            let expected = naive.check(limit, now, units);
            prop_assert_eq!(rule.check_words(&words, &rings, moment(now), units), expected);
            prop_assert_eq!(rule.is_idle(&words, &rings, moment(now)), naive.used(now) == 0);
            if matches!(expected, LimitCheck::Fits { .. }) {
                let mark = rule.take(&mut words, &mut rings, moment(now), units);
                prop_assert_eq!(mark, now / 1_000);
                naive.0.push((now, units));
            }
            match chance {
                0 => rule.compact(&mut words, &mut rings, moment(now)),
                1 => if let Some((when, units)) = naive.0.pop() {
                    // Refund the newest, whether or not its slice still counts.
                    SlidingRule::refund(&mut words, &mut rings, when / 1_000, units);
                },
                2 => {
                    rule.take(&mut words, &mut rings, moment(now), 3);
                    naive.0.push((now, 3));
                }
                _ => {}
            }
        }
    }

    /// The invariant itself: no window of a minute, wherever it begins, holds more than the limit; and a unit is
    /// released at most one slice late.
    #[test]
    fn no_minute_ever_holds_more_than_the_limit(
        limit in 1_u32..30,
        waits in vec(0_u64..4_000, 1..300),
    ) {
        let rule = SlidingRule::new(limit, MINUTE, 0).unwrap();
        let mut ring = SliceRing::default();
        let mut admitted: Vec<u64> = Vec::new();
        let mut now = 0;
        for wait in waits {
            now += wait;
            let in_the_last = |span: u64| admitted.iter().filter(|when| now - **when < span).count();
            let minute_and_slice = in_the_last(61_000);
            if try_take(&mut ring, &rule, moment(now), 1) {
                admitted.push(now);
            } else {
                prop_assert!(minute_and_slice >= limit as usize);
            }
        }
        let admitted: Vec<_> = admitted.into_iter().map(|when| (moment(when), 1)).collect();
        prop_assert_eq!(window_within_limit(&admitted, limit.into(), MINUTE), Ok(()));
    }
}
