use super::super::{Backoff, BackoffOptions, BackoffState, Jitter, RetryAfterOptions, RetryOptions};
use super::{SECOND, millis};
use crate::failure::FailureKind;
use crate::random::Draw;
use crate::setting::Factor;
use crate::strategy::FailureClass;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, proptest};
use std::time::Duration;

fn waits(options: BackoffOptions, draw: Draw, count: usize) -> Vec<u128> {
    let backoff = options.check().unwrap();
    let mut state = BackoffState::default();
    (0..count).map(|_| backoff.next(&mut state, draw).as_millis()).collect()
}

fn spread(jitter: Jitter) -> BackoffOptions {
    BackoffOptions { base_delay: SECOND, max_delay: SECOND * 10, jitter }
}

#[test]
fn waits_double_up_to_the_cap() {
    assert_eq!(waits(spread(Jitter::None), Draw::MIDDLE, 6), [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    let capped = BackoffOptions { max_delay: SECOND * 3, ..spread(Jitter::None) };
    assert_eq!(waits(capped, Draw::MIDDLE, 4), [1_000, 2_000, 3_000, 3_000]);
}

#[test]
fn a_hundred_doublings_end_at_the_cap_and_nowhere_else() {
    let capped = BackoffOptions { max_delay: SECOND * 20, ..spread(Jitter::None) };
    assert_eq!(waits(capped, Draw::MIDDLE, 100)[33..], vec![20_000; 67]);
    let endless = BackoffOptions { max_delay: Duration::MAX, ..spread(Jitter::Full) };
    assert_eq!(waits(endless, Draw::LOWEST, 100)[99], 0);
}

#[test]
fn each_jitter_spreads_as_it_says() {
    let (low, high) = (Factor::new("low", 0.5).unwrap(), Factor::new("high", 1.5).unwrap());
    for (jitter, least, most) in [
        (Jitter::Full, [0, 0, 0], [1_000, 2_000, 4_000]),
        (Jitter::Equal, [500, 1_000, 2_000], [1_000, 2_000, 4_000]),
        (Jitter::Decorrelated, [1_000, 1_000, 1_000], [3_000, 9_000, 10_000]),
        (Jitter::Multiplicative { low, high }, [500, 1_000, 2_000], [1_500, 3_000, 6_000]),
    ] {
        assert_eq!(waits(spread(jitter), Draw::LOWEST, 3), least, "{jitter:?}");
        assert_eq!(waits(spread(jitter), Draw::HIGHEST, 3), most, "{jitter:?}");
    }
}

#[test]
fn the_two_profiles_carry_their_numbers() {
    assert_eq!(
        waits(BackoffOptions::interactive(), Draw::HIGHEST, 6),
        [300, 900, 2_700, 8_100, 10_000, 10_000]
    );
    assert_eq!(waits(BackoffOptions::interactive(), Draw::LOWEST, 3), [100, 100, 100]);
    assert_eq!(waits(BackoffOptions::background(), Draw::LOWEST, 8)[5..], [16_000, 30_000, 30_000]);
    // The bound of the background profile is the cap times the higher factor.
    assert_eq!(waits(BackoffOptions::background(), Draw::HIGHEST, 8)[5..], [48_000, 90_000, 90_000]);
    let (interactive, background) = (RetryOptions::interactive(), RetryOptions::background());
    assert_eq!((interactive.max_retries, background.max_retries), (5, 5));
    assert_eq!((interactive.limits.throttled, interactive.limits.timed_out), (3, 1));
    assert_eq!((interactive.limits.transient, interactive.limits.quota_exhausted), (2, 0));
    let checked = (interactive.check().unwrap(), background.check().unwrap());
    for kind in FailureKind::ALL {
        let row = FailureClass::of(kind).row();
        assert_eq!(checked.0.retries(kind), row.interactive_retries, "{}", kind.label());
        assert_eq!(checked.1.retries(kind), row.background_retries, "{}", kind.label());
    }
}

#[test]
fn backoffs_that_make_no_sense_cannot_be_built() {
    let refused = |options: BackoffOptions| options.check().unwrap_err().to_string();
    assert_eq!(
        refused(BackoffOptions { base_delay: Duration::ZERO, ..spread(Jitter::None) }),
        "base_delay: must be longer than 0s"
    );
    assert_eq!(
        refused(BackoffOptions { base_delay: SECOND * 11, ..spread(Jitter::None) }),
        "base_delay: 11s is longer than max_delay (10s)"
    );
    let (low, high) = (Factor::new("low", 1.5).unwrap(), Factor::ONE);
    assert_eq!(refused(spread(Jitter::Multiplicative { low, high })), "jitter: 1.5 is more than 1");
    assert!(spread(Jitter::Multiplicative { low: high, high }).check().is_ok());
    let many = RetryOptions { max_retries: 101, ..RetryOptions::interactive() };
    assert_eq!(many.check().unwrap_err().to_string(), "max_retries: 101 is more than 100");
    assert!(RetryOptions { max_retries: 100, ..RetryOptions::interactive() }.check().is_ok());
    let hint = RetryAfterOptions { jitter_percent: Some(-1.0), ..RetryAfterOptions::default() };
    let refused = RetryOptions { retry_after: hint, ..RetryOptions::interactive() }.check().unwrap_err();
    assert_eq!(refused.to_string(), "retry_after_jitter_percent: -1% must be more than 0%");
}

proptest! {
    #[test]
    fn a_decorrelated_wait_lies_between_base_and_three_times_the_last(draws in vec(proptest::num::u64::ANY, 1..30)) {
        let backoff = BackoffOptions::interactive().check().unwrap();
        let mut state = BackoffState::default();
        let mut previous = millis(100);
        for draw in draws {
            let wait = backoff.next(&mut state, Draw::from_bits(draw));
            prop_assert!(millis(100) <= wait && wait <= (previous * 3).min(SECOND * 10));
            previous = wait;
        }
    }

    /// Exponential, capped, times a factor in the range: the formula of a background retry.
    #[test]
    fn a_background_wait_is_the_capped_doubling_times_its_factor(draws in vec(proptest::num::u64::ANY, 1..40)) {
        let backoff = BackoffOptions::background().check().unwrap();
        let mut state = BackoffState::default();
        for (retry, draw) in draws.into_iter().enumerate() {
            let plain = (SECOND * 2_u32.pow(u32::try_from(retry.min(7)).unwrap())).min(SECOND * 60);
            let wait = backoff.next(&mut state, Draw::from_bits(draw));
            prop_assert!(plain / 2 <= wait && wait <= plain * 3 / 2);
        }
    }
}

#[test]
#[should_panic(expected = "BackoffWithinBounds")]
fn a_backoff_outside_its_bounds_is_a_violation() {
    let unchecked = BackoffOptions { max_delay: millis(1), ..spread(Jitter::None) };
    let _ = Backoff(unchecked).next(&mut BackoffState::default(), Draw::MIDDLE);
}
