use super::super::{RetryAfter, RetryAfterPolicy};
use crate::random::Draw;
use std::time::Duration;

fn advise(wait: Duration, draw: Draw) -> RetryAfter {
    RetryAfterPolicy::default().advise(wait, draw)
}

#[test]
fn a_thousand_callers_refused_together_are_spread_out() {
    let mut bins = [0_u32; 11];
    for n in 0..1_000_u64 {
        let draw = Draw::from_bits(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let after = advise(Duration::from_millis(10), draw).delay;
        assert!(Duration::from_secs(1) <= after && after <= Duration::from_secs(11));
        bins[usize::try_from(after.as_secs() - 1).unwrap()] += 1;
    }
    assert!(bins.iter().all(|bin| *bin <= 200), "{bins:?}");
    assert!(bins[..10].iter().all(|bin| *bin > 50), "{bins:?}");
}

#[test]
fn a_long_wait_is_reported_in_full_and_not_retried_automatically() {
    let second = Duration::from_secs(1);
    assert_eq!(advise(second * 20, Draw::LOWEST).delay, second * 20);
    assert!(advise(second * 20, Draw::LOWEST).should_retry);
    assert!(!advise(second * 20 + Duration::from_nanos(1), Draw::LOWEST).should_retry);
    assert_eq!(advise(Duration::ZERO, Draw::HIGHEST).delay, second * 11);
    assert_eq!(advise(Duration::MAX, Draw::HIGHEST).delay, Duration::MAX);
}

#[test]
fn another_rule_has_its_own_numbers() {
    let second = Duration::from_secs(1);
    let rule = RetryAfterPolicy { min: second * 3, jitter: Duration::ZERO, no_retry_above: second * 5 };
    assert_eq!(rule.advise(second, Draw::HIGHEST), RetryAfter { delay: second * 3, should_retry: true });
    assert_eq!(rule.advise(second * 6, Draw::HIGHEST), RetryAfter { delay: second * 6, should_retry: false });
}
