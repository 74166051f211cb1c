use super::{GaugeLevel, MAX_OUTCOMES, Pressure, PressureGauge, PressureOptions};
use crate::breaker::BreakerPhase;
use crate::failure::{AttemptOutcome, Failure, FailureKind};
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn gauge() -> PressureGauge {
    PressureGauge::new(PressureOptions::default().check().unwrap())
}

fn outcome(failed: bool) -> AttemptOutcome {
    if failed {
        AttemptOutcome::Failed(Failure::of(FailureKind::Throttled))
    } else {
        AttemptOutcome::Succeeded { time_to_first_content: Duration::from_secs(9) }
    }
}

fn feed(gauge: &mut PressureGauge, failed: bool, times: usize, now: Timestamp) {
    for _ in 0..times {
        gauge.record(&outcome(failed), now);
    }
}

fn read(gauge: &PressureGauge, now: Timestamp) -> Pressure {
    gauge.read(BreakerPhase::Closed, now)
}

#[test]
fn each_level_allows_its_retries_and_stretches_waits() {
    let second = Duration::from_secs(1);
    let levels = [Pressure::Normal, Pressure::Slight, Pressure::High, Pressure::Recovery, Pressure::Open];
    let rows =
        levels.map(|level| (level.label(), level.retries(), level.multiplier().times(second).as_millis()));
    assert_eq!(
        rows,
        [
            ("normal", 3, 1_000),
            ("slight", 2, 1_200),
            ("high", 1, 2_000),
            ("recovery", 1, 1_500),
            ("open", 0, 2_000),
        ]
    );
}

#[test]
fn one_failure_among_few_is_slight_and_among_many_is_nothing() {
    let mut few = gauge();
    feed(&mut few, false, 18, at(0));
    feed(&mut few, true, 1, at(0));
    assert_eq!(read(&few, at(0)), Pressure::Slight);
    let mut many = gauge();
    feed(&mut many, false, 19, at(0));
    feed(&mut many, true, 1, at(0));
    assert_eq!(read(&many, at(0)), Pressure::Normal);
}

#[test]
fn high_needs_ten_calls_and_more_than_a_fifth_failed() {
    let mut gauge = gauge();
    feed(&mut gauge, true, 9, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Slight);
    feed(&mut gauge, true, 1, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::High);

    let mut edge = self::gauge();
    feed(&mut edge, false, 8, at(0));
    feed(&mut edge, true, 2, at(0));
    assert_eq!(read(&edge, at(0)), Pressure::Slight);
    feed(&mut edge, true, 1, at(0));
    assert_eq!(read(&edge, at(0)), Pressure::High);
}

#[test]
fn high_ends_below_fifteen_percent_and_not_at_once() {
    let mut gauge = gauge();
    feed(&mut gauge, false, 7, at(0));
    feed(&mut gauge, true, 3, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::High);
    feed(&mut gauge, false, 10, at(4_999));
    // Exactly 15 % is not below the exit threshold.
    assert_eq!(read(&gauge, at(5_000)), Pressure::High);
    feed(&mut gauge, false, 1, at(4_999));
    assert_eq!(read(&gauge, at(4_999)), Pressure::High);
    feed(&mut gauge, false, 1, at(5_000));
    assert_eq!(read(&gauge, at(5_000)), Pressure::Slight);
}

#[test]
fn slight_ends_after_three_successes_in_a_row_at_five_percent() {
    let mut gauge = gauge();
    feed(&mut gauge, true, 1, at(0));
    feed(&mut gauge, false, 18, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Slight);
    feed(&mut gauge, false, 1, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Normal);

    // At 5 % or less but with fewer than three consecutive successes, not yet.
    let mut gauge = self::gauge();
    feed(&mut gauge, true, 1, at(0));
    feed(&mut gauge, false, 37, at(58_000));
    assert_eq!(read(&gauge, at(58_000)), Pressure::Normal);
    feed(&mut gauge, true, 2, at(58_000));
    assert_eq!(read(&gauge, at(58_000)), Pressure::Slight);
    // The first failure leaves the window: two of forty remain.
    feed(&mut gauge, false, 2, at(60_000));
    assert_eq!(read(&gauge, at(60_000)), Pressure::Slight);
    feed(&mut gauge, false, 1, at(60_000));
    assert_eq!(read(&gauge, at(60_000)), Pressure::Normal);
}

#[test]
fn a_window_of_silence_is_normal() {
    let mut gauge = gauge();
    feed(&mut gauge, true, 20, at(0));
    assert_eq!(read(&gauge, at(59_999)), Pressure::High);
    assert_eq!(read(&gauge, at(60_000)), Pressure::Normal);
    feed(&mut gauge, false, 1, at(60_000));
    assert_eq!(read(&gauge, at(60_000)), Pressure::Normal);
}

#[test]
fn every_change_is_a_transition_once() {
    let mut gauge = gauge();
    let mut labels = Vec::new();
    let mut take = |gauge: &mut PressureGauge, now| {
        let transition = gauge.take_transition(now);
        labels.extend(transition.map(|change| (change.from.label(), change.to.label())));
        assert_eq!(gauge.take_transition(now), None, "each is taken once");
    };
    take(&mut gauge, at(0));
    feed(&mut gauge, true, 1, at(0));
    take(&mut gauge, at(0));
    feed(&mut gauge, true, 9, at(0));
    take(&mut gauge, at(0));
    gauge.breaker_changed(BreakerPhase::Open);
    take(&mut gauge, at(1));
    gauge.breaker_changed(BreakerPhase::HalfOpen { stage: 0 });
    take(&mut gauge, at(2));
    feed(&mut gauge, false, 2, at(3));
    gauge.breaker_changed(BreakerPhase::Closed);
    take(&mut gauge, at(3));
    // A silent window is noticed when somebody asks.
    feed(&mut gauge, true, 1, at(4));
    take(&mut gauge, at(4));
    take(&mut gauge, at(60_004));
    let expected = [
        ("normal", "slight"),
        ("slight", "high"),
        ("high", "open"),
        ("open", "recovery"),
        ("recovery", "normal"),
        ("normal", "slight"),
        ("slight", "normal"),
    ];
    assert_eq!(labels, expected);
    assert_eq!(Pressure::ALL.map(Pressure::index), [0, 1, 2, 3, 4]);
}

#[test]
fn only_the_newest_two_hundred_count() {
    let mut gauge = gauge();
    feed(&mut gauge, true, 50, at(0));
    feed(&mut gauge, false, 150, at(0));
    assert_eq!((gauge.outcomes.len(), gauge.failures), (200, 50));
    feed(&mut gauge, false, 45, at(0));
    assert_eq!((gauge.outcomes.len(), gauge.failures), (200, 5));
}

#[test]
fn callers_mistakes_and_cut_attempts_leave_it_normal() {
    let mut gauge = gauge();
    for kind in [FailureKind::BadRequest, FailureKind::StartTimeout, FailureKind::Filtered] {
        for _ in 0..1_000 {
            assert_eq!(gauge.record(&AttemptOutcome::Failed(Failure::of(kind)), at(0)), None);
        }
    }
    gauge.record(&AttemptOutcome::Abandoned, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Normal);
}

#[test]
fn more_than_half_failing_for_a_minute_asks_for_the_breaker_once() {
    let mut gauge = gauge();
    let mut signals = Vec::new();
    // Three of five fail, one call per second. The tenth call, at 9 s, is the first that counts.
    for second in 0..80_u64 {
        if gauge.record(&outcome(second % 5 < 3), at(second * 1_000)).is_some() {
            signals.push(second);
        }
    }
    assert_eq!(signals, [69]);
    assert_eq!(gauge.record(&outcome(true), at(80_000)), None);
}

#[test]
fn exactly_half_failing_never_asks_for_the_breaker() {
    let mut gauge = gauge();
    for second in 0..600_u64 {
        // A success first, so that failures are never the majority.
        assert_eq!(gauge.record(&outcome(second % 2 == 1), at(second * 1_000)), None, "{second}");
    }
}

#[test]
fn a_burst_of_failures_on_an_idle_node_asks_for_nothing() {
    let mut gauge = gauge();
    for second in [0, 30, 61, 90, 125] {
        assert_eq!(gauge.record(&outcome(true), at(second * 1_000)), None);
    }
}

#[test]
fn open_and_recovery_are_the_breakers_and_forget_what_led_to_them() {
    let mut gauge = gauge();
    feed(&mut gauge, true, 20, at(0));
    gauge.breaker_changed(BreakerPhase::Open);
    assert_eq!(gauge.read(BreakerPhase::Open, at(1)), Pressure::Open);
    gauge.breaker_changed(BreakerPhase::HalfOpen { stage: 0 });
    assert_eq!(gauge.read(BreakerPhase::HalfOpen { stage: 0 }, at(30_000)), Pressure::Recovery);
    feed(&mut gauge, false, 1, at(30_000));
    // Closed early by an operator: still recovering until two have succeeded.
    gauge.breaker_changed(BreakerPhase::Closed);
    assert_eq!(read(&gauge, at(30_000)), Pressure::Recovery);
    gauge.breaker_changed(BreakerPhase::HalfOpen { stage: 1 });
    feed(&mut gauge, false, 1, at(30_001));
    assert_eq!(read(&gauge, at(30_001)), Pressure::Normal);
    // One more failure counts as one, not as twenty-one.
    gauge.breaker_changed(BreakerPhase::Closed);
    feed(&mut gauge, true, 1, at(30_002));
    assert_eq!(read(&gauge, at(30_002)), Pressure::Slight);
}

#[test]
fn closed_before_it_recovered_it_still_asks_for_the_breaker() {
    let mut gauge = gauge();
    gauge.breaker_changed(BreakerPhase::Open);
    gauge.breaker_changed(BreakerPhase::Closed);
    let signals =
        (0..200_u64).filter(|second| gauge.record(&outcome(second % 3 > 0), at(second * 1_000)).is_some());
    assert_eq!(signals.collect::<Vec<_>>(), [69, 130, 191]);
    assert_eq!(read(&gauge, at(199_000)), Pressure::Recovery);
}

#[test]
fn a_failure_in_recovery_starts_its_count_again() {
    let mut gauge = gauge();
    gauge.breaker_changed(BreakerPhase::HalfOpen { stage: 0 });
    feed(&mut gauge, false, 1, at(0));
    feed(&mut gauge, true, 1, at(0));
    feed(&mut gauge, false, 1, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Recovery);
    feed(&mut gauge, false, 1, at(0));
    assert_eq!(read(&gauge, at(0)), Pressure::Normal);
}

fn changed(gauge: &mut PressureGauge, change: impl FnOnce(&mut PressureOptions)) {
    let mut options = PressureOptions::default();
    change(&mut options);
    gauge.apply_settings(options.check().unwrap());
}

#[test]
fn other_settings_judge_the_same_outcomes_from_the_next_one_on() {
    let mut gauge = gauge();
    feed(&mut gauge, false, 18, at(0));
    feed(&mut gauge, true, 3, at(1_000));
    assert_eq!(read(&gauge, at(1_000)), Pressure::Slight);
    changed(&mut gauge, |it| it.high_percent = 15.1);
    assert_eq!(read(&gauge, at(1_000)), Pressure::Slight);
    feed(&mut gauge, true, 1, at(1_000));
    assert_eq!(read(&gauge, at(1_000)), Pressure::High);
    // A shorter window takes effect at once; a longer one reaches no further than the outcomes that are kept.
    changed(&mut gauge, |it| it.window = Duration::from_secs(10));
    assert_eq!((read(&gauge, at(10_999)), read(&gauge, at(11_000))), (Pressure::High, Pressure::Normal));
    feed(&mut gauge, false, 1, at(10_500));
    assert_eq!((gauge.outcomes.len(), gauge.failures), (5, 4));
}

#[test]
fn a_recovery_ends_where_fewer_successes_are_needed_than_there_were() {
    for (needed, pressure) in [(3, Pressure::Recovery), (2, Pressure::Recovery), (1, Pressure::Normal)] {
        let mut gauge = gauge();
        gauge.breaker_changed(BreakerPhase::HalfOpen { stage: 0 });
        feed(&mut gauge, false, 1, at(0));
        changed(&mut gauge, |it| it.recovery_successes = needed);
        assert_eq!(read(&gauge, at(0)), pressure, "{needed}");
    }
}

#[test]
fn failing_for_long_is_counted_anew_where_it_means_something_else() {
    let asks = |change: fn(&mut PressureOptions)| {
        let mut gauge = gauge();
        feed(&mut gauge, true, 20, at(0));
        changed(&mut gauge, change);
        feed(&mut gauge, true, 20, at(59_000));
        gauge.record(&outcome(true), at(60_000)).is_some()
    };
    assert!(asks(|_| {}) && asks(|it| it.high_percent = 30.0));
    assert!(!asks(|it| it.sustained_percent = 60.0) && !asks(|it| it.min_calls = 11));
}

#[test]
fn settings_that_make_no_sense_cannot_be_built() {
    let refused = |change: fn(&mut PressureOptions)| {
        let mut options = PressureOptions::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    };
    assert_eq!(refused(|o| o.window = Duration::ZERO), "window: must be longer than 0s");
    assert_eq!(refused(|o| o.sustained_for = Duration::ZERO), "sustained_for: must be longer than 0s");
    assert_eq!(
        refused(|o| o.slight_percent = 16.0),
        "slight_percent: 16% is more than high_exit_percent (15%)"
    );
    assert_eq!(
        refused(|o| o.high_exit_percent = 21.0),
        "high_exit_percent: 21% is more than high_percent (20%)"
    );
    assert_eq!(refused(|o| o.high_percent = 51.0), "high_percent: 51% is more than sustained_percent (50%)");
    assert_eq!(refused(|o| o.sustained_percent = 101.0), "sustained_percent: 101% is more than 100%");
    assert_eq!(refused(|o| o.slight_percent = 0.0), "slight_percent: 0% must be more than 0%");
    assert_eq!(refused(|o| o.min_calls = 0), "min_calls: must be at least 1");
    assert_eq!(
        refused(|o| o.min_calls = 201),
        "min_calls: 201 is more than the 200 outcomes that are stored"
    );
    assert_eq!(refused(|o| o.slight_successes = 0), "slight_successes: must be at least 1");
    assert_eq!(refused(|o| o.recovery_successes = 0), "recovery_successes: must be at least 1");
    let equal = PressureOptions {
        slight_percent: 20.0,
        high_exit_percent: 20.0,
        min_calls: 200,
        ..Default::default()
    };
    assert!(equal.check().is_ok());
}

proptest! {
    #[test]
    fn the_window_equals_a_list_of_all_outcomes(steps in vec((0_u64..2_000, proptest::bool::weighted(0.2)), 1..400)) {
        let mut gauge = gauge();
        let mut all: Vec<(u64, bool)> = Vec::new();
        let mut now = 0;
        for (wait, failed) in steps {
            now += wait;
            gauge.record(&outcome(failed), at(now));
            all.push((now, failed));
            let live: Vec<_> = all.iter().rev().take(MAX_OUTCOMES).filter(|(when, _)| now - when < 60_000).collect();
            prop_assert_eq!(gauge.outcomes.len(), live.len());
            prop_assert_eq!(gauge.failures, live.iter().filter(|(_, failed)| *failed).count() as u64);
            let is_high = matches!(gauge.level, GaugeLevel::High { .. });
            prop_assert!(!is_high || gauge.failures * 20 >= gauge.outcomes.len() as u64);
        }
    }
}
