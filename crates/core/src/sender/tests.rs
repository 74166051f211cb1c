//! The published test series of the adaptive retry mode of cloud SDKs, and the guarantees over any sequence.

use super::{MeasuredRate, SendDecision, SenderRate, climbed_rate, cut_rate};
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

#[track_caller]
fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 5e-7, "{actual} is not {expected}");
}

/// Throttled at the origin: half a send per second, and an empty bucket that holds one.
fn throttled() -> SenderRate {
    let mut sender = SenderRate::new(at(0));
    sender.report(at(0), true);
    sender
}

#[test]
fn the_climb_after_one_throttle() {
    for (seconds, rate) in [
        (0.0, 7.0),
        (1.0, 9.648_936),
        (2.0, 10.000_031),
        (3.0, 10.453_285),
        (4.0, 13.408_697),
        (5.0, 21.266_268),
        (6.0, 36.425_999),
    ] {
        close(climbed_rate(10.0, seconds), rate);
    }
    close(climbed_rate(0.0, 1.2), 0.691_2);
}

#[test]
fn the_climb_with_two_more_throttles_on_the_way() {
    let (mut rate, mut rate_at_throttle, mut last_throttle) = (0.0, 10.0, 5.0);
    for (seconds, throttled, expected) in [
        (5.0, false, 7.0),
        (6.0, false, 9.648_936),
        (7.0, true, 6.754_255),
        (8.0, true, 4.727_979),
        (9.0, false, 4.670_126),
        (10.0, false, 4.770_870),
        (11.0, false, 6.011_820),
        (12.0, false, 10.792_973),
    ] {
        if throttled {
            rate = cut_rate(rate);
            (rate_at_throttle, last_throttle) = (rate, seconds);
        } else {
            rate = climbed_rate(rate_at_throttle, seconds - last_throttle);
        }
        close(rate, expected);
    }
}

#[test]
fn an_answer_every_fifth_of_a_second_with_throttles_at_two_and_at_three_point_two_seconds() {
    let mut sender = SenderRate::new(at(0));
    for (millis, measured, rate) in [
        (200, 0.0, 0.5),
        (400, 0.0, 0.5),
        (600, 4.8, 0.5),
        (800, 4.8, 0.5),
        (1_000, 4.16, 0.5),
        (1_200, 4.16, 0.691_2),
        (1_400, 4.16, 1.097_6),
        (1_600, 5.632, 1.638_4),
        (1_800, 5.632, 2.332_8),
        (2_000, 4.326_4, 3.028_48),
        (2_200, 4.326_4, 3.486_639),
        (2_400, 4.326_4, 3.821_874),
        (2_600, 5.665_28, 4.053_386),
        (2_800, 5.665_28, 4.200_373),
        (3_000, 4.333_056, 4.282_037),
        (3_200, 4.333_056, 2.997_426),
        (3_400, 4.333_056, 3.452_226),
    ] {
        sender.report(at(millis), millis == 2_000 || millis == 3_200);
        close(sender.measured.rate, measured);
        close(sender.rate(), rate);
        close(sender.capacity, rate.max(1.0));
        assert_eq!(sender.is_limiting(), millis >= 2_000);
    }
}

#[test]
fn everything_passes_until_the_first_throttle() {
    let mut sender = SenderRate::new(at(0));
    for millis in 0..1_000 {
        assert_eq!(sender.acquire(at(millis)), SendDecision::Send);
        sender.report(at(millis), false);
    }
    assert!(!sender.is_limiting());
    sender.report(at(1_000), true);
    assert!(sender.is_limiting());
    assert!(sender.balance <= 1.0);
}

#[test]
fn a_send_that_must_wait_takes_nothing_and_all_get_the_same_wait() {
    let mut sender = throttled();
    for _ in 0..10 {
        assert_eq!(sender.acquire(at(100)), SendDecision::Wait(Duration::from_millis(1_900)));
        close(sender.balance, 0.05);
    }
    let SendDecision::Wait(wait) = sender.acquire(at(1_999)) else { panic!("sent too early") };
    assert!((999_999..=1_000_000).contains(&wait.as_nanos()), "{wait:?}");
    assert_eq!(sender.clone().acquire(at(2_000)), SendDecision::Send);
    assert_eq!(sender.acquire(at(2_100)), SendDecision::Send);
    // The bucket holds one, so the refill after two seconds overflowed.
    close(sender.balance, 0.0);
    // One send in four slices, so twice that in the next: four fifths of it count.
    assert_eq!(sender.acquire(at(2_100)), SendDecision::Wait(Duration::from_millis(1_250)));
}

#[test]
fn a_shortfall_below_a_nanosecond_goes_and_owes_nothing() {
    let mut sender = throttled();
    sender.balance = 1.0 - 4e-10;
    assert_eq!(sender.acquire(at(0)), SendDecision::Send);
    assert!(sender.balance.abs() < f64::EPSILON);
    sender.balance = 1.0 - 6e-10;
    assert_eq!(sender.acquire(at(0)), SendDecision::Wait(Duration::from_nanos(1)));
}

#[test]
fn a_bucket_that_holds_several_grants_several() {
    let mut sender = throttled();
    (sender.rate, sender.capacity, sender.measured.rate) = (3.0, 3.0, 1.5);
    let mut sent = 0;
    while sender.acquire(at(60_000)) == SendDecision::Send {
        sent += 1;
    }
    assert_eq!(sent, 3);
    assert_eq!(sender.acquire(at(60_000)), SendDecision::Wait(Duration::from_nanos(333_333_333)));
}

#[test]
fn a_cut_starts_from_what_is_let_through_where_that_is_slower_than_what_is_measured() {
    let mut sender = throttled();
    sender.measured.rate = 10.0;
    sender.rate = 4.0;
    sender.report(at(0), true);
    close(sender.rate_at_throttle, 4.0);
    close(sender.rate(), 2.8);
    sender.measured.rate = 2.0;
    sender.report(at(0), true);
    close(sender.rate(), 1.4);
}

#[test]
fn a_lower_rate_shrinks_what_the_bucket_holds() {
    let mut sender = throttled();
    (sender.rate, sender.capacity, sender.balance) = (8.0, 8.0, 8.0);
    sender.measured.rate = 8.0;
    sender.report(at(0), true);
    close(sender.capacity, 5.6);
    close(sender.balance, 5.6);
}

#[test]
fn a_report_fills_at_the_rate_that_held_until_then() {
    let mut sender = throttled();
    (sender.rate, sender.capacity) = (2.0, 8.0);
    sender.measured.rate = 100.0;
    sender.report(at(2_499), false);
    close(sender.balance, 4.998);
    close(sender.rate(), 0.4 * 2.499_f64.powi(3));
}

#[test]
fn answers_that_take_long_do_not_slow_sends_down() {
    // Twenty per second, answered at once, until a throttle; from then on each response takes twenty seconds.
    let mut sender = SenderRate::new(at(0));
    for tick in 0..100 {
        sender.report(at(tick * 50), false);
    }
    sender.report(at(5_000), true);
    let mut under_way = std::collections::VecDeque::new();
    let mut sent = [0_u32; 40];
    for tick in 0..800_u64 {
        let now = 5_000 + tick * 50;
        while under_way.front().is_some_and(|sent| sent + 20_000 <= now) {
            under_way.pop_front();
            sender.report(at(now), false);
        }
        if sender.acquire(at(now)) == SendDecision::Send {
            under_way.push_back(now);
            sent[usize::try_from(tick / 20).unwrap()] += 1;
        }
    }
    assert!(sent[1..].iter().all(|sent| *sent >= 14), "{sent:?}");
    assert!(sent[4..].iter().all(|sent| *sent >= 19), "{sent:?}");
}

#[test]
fn the_slice_of_the_start_is_where_counting_starts() {
    let mut measured = MeasuredRate::new(at(60_250));
    measured.count(at(60_400));
    assert_eq!(measured.counted, 1);
    measured.count(at(60_500));
    close(measured.rate, 3.2);
    assert_eq!(measured.counted, 0);
    measured.count(at(62_000));
    close(measured.rate, 2.0 / 3.0 * 0.8 + 3.2 * 0.2);
}

#[test]
fn a_moment_from_the_past_counts_as_the_latest() {
    let mut sender = throttled();
    assert_eq!(sender.acquire(at(1_000)), SendDecision::Wait(Duration::from_secs(1)));
    assert_eq!(sender.acquire(at(200)), SendDecision::Wait(Duration::from_secs(1)));
    sender.report(at(0), true);
    assert_eq!(sender.last_throttle, at(1_000));
    assert_eq!(sender.acquire(at(1_500)), SendDecision::Wait(Duration::from_millis(500)));
}

/// Small steps, zero steps, and gaps of years.
fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (0_u64..20_000).prop_map(at),
        1 => any::<u64>().prop_map(Timestamp::from_nanos),
        1 => prop_oneof![Just(Timestamp::ZERO), Just(Timestamp::NEVER)],
    ]
}

fn holds(sender: &SenderRate) -> bool {
    [sender.rate, sender.capacity, sender.balance, sender.measured.rate, sender.rate_at_throttle]
        .iter()
        .all(|number| number.is_finite())
        && sender.rate >= 0.5
        && sender.capacity >= 1.0
        && (0.0..=sender.capacity).contains(&sender.balance)
}

proptest! {
    #[test]
    fn rate_and_balance_stay_within_their_bounds_whatever_the_clock_does(
        start in moment(),
        in_order in any::<bool>(),
        mut steps in vec((moment(), any::<bool>(), any::<bool>()), 1..80),
    ) {
        if in_order {
            steps.sort_by_key(|step| step.0);
        }
        let mut sender = SenderRate::new(start);
        prop_assert!(holds(&sender));
        for (now, answered, throttled) in steps {
            if answered {
                sender.report(now, throttled);
                let ceiling = (2.0 * sender.measured_rate()).max(0.5);
                prop_assert!(sender.rate() <= ceiling, "{} is above {ceiling}", sender.rate());
            } else if let SendDecision::Wait(wait) = sender.acquire(now) {
                prop_assert!(!wait.is_zero() && wait <= Duration::from_secs(2));
                prop_assert_eq!(sender.acquire(now), SendDecision::Wait(wait));
            }
            prop_assert!(holds(&sender), "{sender:?}");
        }
    }

    #[test]
    fn a_send_may_proceed_after_the_wait_it_was_given(
        steps in vec((0_u64..300_000_000, any::<bool>()), 1..80),
    ) {
        let mut sender = throttled();
        let mut now = at(0);
        for (pause, throttled) in steps {
            now = now + Duration::from_nanos(pause);
            if let SendDecision::Wait(wait) = sender.acquire(now) {
                // One more nanosecond, because the wait was rounded down.
                now = now + wait + Duration::from_nanos(1);
                prop_assert_eq!(sender.acquire(now), SendDecision::Send);
            }
            sender.report(now, throttled);
        }
    }
}
