//! Tests of each guarantee of the ladder, with its numbers.

mod model;
mod window;

use super::LadderSignal::{Cpu, Errors, FirstText, Throttles};
use super::{
    HoldReason, Ladder, LadderDecision, LadderOptions, LadderReport, LadderSignal, ReadingError, SignalState,
};
use crate::time::Timestamp;
use crate::vocabulary::{Ceiling, Level, Tier};
use std::time::Duration;

/// First text in milliseconds, errors, throttles and CPU in percent.
type Values = [f64; 4];

const HEALTHY: Values = [900.0, 0.5, 0.0, 30.0];

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn ladder() -> Ladder {
    Ladder::new(LadderOptions::default().check().unwrap())
}

fn look(ladder: &mut Ladder, values: Values, millis: u64) -> LadderReport {
    for (signal, value) in LadderSignal::ALL.into_iter().zip(values) {
        ladder.record(signal, value, at(millis)).unwrap();
    }
    ladder.evaluate(at(millis))
}

/// Evaluates every five seconds in `from..=to` and returns the last report.
fn watch(ladder: &mut Ladder, values: Values, from: u64, to: u64) -> LadderReport {
    let looks = (from..=to).step_by(5).map(|second| look(ladder, values, second * 1_000));
    looks.last().unwrap()
}

fn raised_to(level: Level) -> Ladder {
    let values = match level {
        Level::Normal => HEALTHY,
        Level::Elevated => [2_500.0, 0.0, 0.0, 60.0],
        Level::HighLoad => [3_500.0, 0.0, 0.0, 75.0],
        Level::Overload => [5_500.0, 0.0, 0.0, 90.0],
        Level::Emergency => [900.0, 12.0, 25.0, 30.0],
    };
    let mut ladder = ladder();
    assert_eq!(watch(&mut ladder, values, 0, 5).level, level);
    ladder
}

#[test]
fn the_level_is_the_second_highest_vote() {
    let [text, errors, throttles, cpu] = HEALTHY;
    for (values, level) in [
        (HEALTHY, Level::Normal),
        ([text, errors, 25.0, cpu], Level::Normal),
        ([text, 12.0, 25.0, cpu], Level::Emergency),
        ([3_100.0, errors, throttles, 72.0], Level::HighLoad),
        ([text, errors, throttles, 90.0], Level::Normal),
        ([text, errors, 25.0, 60.0], Level::Elevated),
        ([5_500.0, errors, throttles, 90.0], Level::Overload),
        ([2_100.0, errors, throttles, 90.0], Level::Elevated),
        ([5_500.0, 11.0, 21.0, 90.0], Level::Emergency),
        ([5_500.0, errors, 21.0, 75.0], Level::Overload),
    ] {
        let report = watch(&mut ladder(), values, 0, 5);
        assert_eq!((report.level, report.voted), (level, Some(level)), "{values:?}");
        assert!(!report.alarms.too_few_signals);
    }
}

#[test]
fn a_signal_votes_above_its_threshold_and_not_at_it() {
    for (signal, thresholds) in [
        (
            FirstText,
            [(2_000.0, Level::Elevated), (3_000.0, Level::HighLoad), (5_000.0, Level::Overload)].as_slice(),
        ),
        (Cpu, &[(55.0, Level::Elevated), (70.0, Level::HighLoad), (85.0, Level::Overload)]),
        (Errors, &[(10.0, Level::Emergency)]),
        (Throttles, &[(20.0, Level::Emergency)]),
    ] {
        let mut below = Level::Normal;
        for (threshold, above) in thresholds.iter().copied() {
            for (value, vote) in [(threshold, below), (threshold + 0.001, above)] {
                let mut values = HEALTHY;
                values[signal.index()] = value;
                let report = look(&mut ladder(), values, 0);
                assert_eq!(
                    report.signals[signal.index()].state,
                    SignalState::Live { vote },
                    "{signal} {value}"
                );
                assert_eq!(report.signals[signal.index()].value, Some(value));
            }
            below = above;
        }
    }
}

#[test]
fn a_level_is_left_only_under_four_fifths_of_its_threshold() {
    let quiet = [0.0; 4];
    for (level, signal, edge) in [
        (Level::Elevated, FirstText, 1_600.0),
        (Level::HighLoad, FirstText, 2_400.0),
        (Level::Overload, FirstText, 4_000.0),
        (Level::Elevated, Cpu, 44.0),
        (Level::HighLoad, Cpu, 56.0),
        (Level::Overload, Cpu, 68.0),
        (Level::Elevated, Errors, 8.0),
        (Level::Emergency, Errors, 8.0),
        (Level::HighLoad, Throttles, 16.0),
        (Level::Emergency, Throttles, 16.0),
    ] {
        for (value, expected) in [(edge, level.index()), (edge - 0.001, level.index() - 1)] {
            let mut ladder = raised_to(level);
            let mut values = quiet;
            values[signal.index()] = value;
            let report = watch(&mut ladder, values, 10, 70);
            assert_eq!(report.level.index(), expected, "{level} {signal} {value}");
        }
    }
    // CPU cannot vote for an emergency and does not keep one up.
    let mut ladder = raised_to(Level::Emergency);
    assert_eq!(watch(&mut ladder, [900.0, 0.0, 0.0, 99.0], 10, 70).level, Level::Overload);
    assert_eq!(watch(&mut ladder, [900.0, 0.0, 0.0, 99.0], 75, 600).level, Level::Overload);
}

#[test]
fn it_falls_one_step_a_minute_and_never_two() {
    let mut ladder = raised_to(Level::Emergency);
    let mut levels = vec![];
    for second in (10..=400).step_by(5) {
        let report = look(&mut ladder, HEALTHY, second * 1_000);
        if let LadderDecision::Lowered { from, to } = report.decision {
            assert_eq!((from.index(), report.level, report.since), (to.index() + 1, to, at(second * 1_000)));
            levels.push((second, to));
        }
    }
    let expected =
        [(70, Level::Overload), (130, Level::HighLoad), (190, Level::Elevated), (250, Level::Normal)];
    assert_eq!(levels, expected);
}

#[test]
fn one_loud_reading_starts_the_minute_anew() {
    let mut ladder = raised_to(Level::HighLoad);
    assert_eq!(watch(&mut ladder, HEALTHY, 10, 65).decision, LadderDecision::Held(HoldReason::Recovering));
    let loud = [900.0, 0.5, 0.0, 57.0];
    assert_eq!(watch(&mut ladder, loud, 69, 69).decision, LadderDecision::Held(HoldReason::Steady));
    assert_eq!(watch(&mut ladder, HEALTHY, 74, 129).level, Level::HighLoad);
    assert_eq!(watch(&mut ladder, HEALTHY, 134, 134).level, Level::Elevated);
}

#[test]
fn a_swing_around_a_threshold_moves_at_most_twice_in_ten_minutes() {
    for period in [1, 2, 3, 6, 12, 24, 40] {
        for swing in [0.5, 2.0, 5.0, 10.0] {
            let mut ladder = ladder();
            let mut moves = 0;
            for tick in 0..=120_u64 {
                let cpu = if (tick / period).is_multiple_of(2) { 70.0 + swing } else { 70.0 - swing };
                let report = look(&mut ladder, [3_200.0 * cpu / 70.0, 0.0, 0.0, cpu], tick * 5_000);
                moves += u32::from(!matches!(report.decision, LadderDecision::Held(_)));
            }
            assert!(moves <= 2, "{moves} moves with a period of {period} and a swing of {swing}");
        }
    }
}

#[test]
fn it_rises_after_two_evaluations_to_the_lower_of_the_two() {
    let (elevated, overload) = ([2_500.0, 0.0, 0.0, 60.0], [5_500.0, 0.0, 0.0, 90.0]);
    let mut rising = ladder();
    assert_eq!(look(&mut rising, overload, 0).decision, LadderDecision::Held(HoldReason::Rising));
    let raised = |from, to| LadderDecision::Raised { from, to };
    assert_eq!(look(&mut rising, elevated, 5_000).decision, raised(Level::Normal, Level::Elevated));
    assert_eq!(look(&mut rising, overload, 10_000).decision, LadderDecision::Held(HoldReason::Rising));
    assert_eq!(look(&mut rising, overload, 15_000).decision, raised(Level::Elevated, Level::Overload));
    // After a low and a high vote, the high one carries over to the next evaluation.
    let mut rising = ladder();
    look(&mut rising, elevated, 0);
    assert_eq!(look(&mut rising, overload, 5_000).level, Level::Elevated);
    assert_eq!(look(&mut rising, overload, 10_000).level, Level::Overload);
    // A calm evaluation in between restarts the count.
    let mut rising = ladder();
    for (step, values) in [overload, HEALTHY, overload, HEALTHY].into_iter().enumerate() {
        assert_eq!(look(&mut rising, values, step as u64 * 5_000).level, Level::Normal);
    }
}

#[test]
fn evaluating_more_often_speeds_nothing_up() {
    let overload = [5_500.0, 0.0, 0.0, 90.0];
    let mut ladder = ladder();
    for millis in [0, 0, 0, 1, 1_000, 2_499] {
        assert_eq!(look(&mut ladder, overload, millis).level, Level::Normal);
    }
    assert_eq!(ladder.evaluate(at(2_499)).decision, LadderDecision::Held(HoldReason::TooSoon));
    assert_eq!(look(&mut ladder, overload, 2_500).level, Level::Overload);
    // A clock that goes back is treated as standing still.
    assert_eq!(ladder.evaluate(at(0)).decision, LadderDecision::Held(HoldReason::TooSoon));
}

#[test]
fn observations_before_a_long_gap_are_discarded() {
    let overload = [5_500.0, 0.0, 0.0, 90.0];
    for (silence, level) in [(30_000, Level::Overload), (30_001, Level::Normal)] {
        let mut ladder = ladder();
        look(&mut ladder, overload, 0);
        assert_eq!(look(&mut ladder, overload, silence).level, level);
    }
    for (silence, level) in [(30_000, Level::Elevated), (30_001, Level::HighLoad)] {
        let mut ladder = raised_to(Level::HighLoad);
        for millis in [10_000, 40_000, 40_000 + silence] {
            look(&mut ladder, HEALTHY, millis);
        }
        assert_eq!(ladder.level(), level);
    }
}

#[test]
fn a_reading_older_than_half_a_minute_has_no_vote_and_the_level_is_held() {
    let mut ladder = raised_to(Level::HighLoad);
    let report = ladder.evaluate(at(35_000));
    assert_eq!((report.level, report.voted), (Level::HighLoad, Some(Level::HighLoad)));
    assert!(!report.alarms.too_few_signals);
    let report = ladder.evaluate(at(36_000 + 5_000));
    assert_eq!((report.level, report.voted), (Level::HighLoad, None));
    assert_eq!(report.decision, LadderDecision::Held(HoldReason::TooFewSignals));
    assert!(report.alarms.too_few_signals);
    assert!(report.signals.iter().all(|signal| signal.state == SignalState::Stale));
    for millis in [60_000, 120_000, 600_000] {
        assert_eq!(ladder.evaluate(at(millis)).level, Level::HighLoad);
    }
    // Exactly half a minute old is still fresh; a nanosecond more is stale.
    for (late, state) in [(0, SignalState::Live { vote: Level::Normal }), (1, SignalState::Stale)] {
        let mut ladder = self::ladder();
        ladder.record(Cpu, 10.0, at(0)).unwrap();
        let report = ladder.evaluate(at(30_000) + Duration::from_nanos(late));
        assert_eq!(report.signals[Cpu.index()].state, state);
        assert_eq!(report.signals[Errors.index()].state, SignalState::Missing);
        assert!(report.alarms.too_few_signals);
    }
}

#[test]
fn two_live_signals_are_enough_to_move_and_one_is_not_even_to_fall() {
    let mut ladder = raised_to(Level::HighLoad);
    for second in (40..=160).step_by(5) {
        ladder.record(Cpu, 10.0, at(second * 1_000)).unwrap();
        assert_eq!(ladder.evaluate(at(second * 1_000)).level, Level::HighLoad);
    }
    for second in (165..=225).step_by(5) {
        ladder.record(Cpu, 10.0, at(second * 1_000)).unwrap();
        ladder.record(Errors, 0.0, at(second * 1_000)).unwrap();
        let report = ladder.evaluate(at(second * 1_000));
        assert_eq!(report.level, if second < 225 { Level::HighLoad } else { Level::Elevated });
    }
}

#[test]
fn a_reading_that_cannot_be_true_is_refused_and_changes_nothing() {
    for (signal, max) in [(FirstText, 600_000.0), (Errors, 100.0), (Throttles, 100.0), (Cpu, 100.0)] {
        let mut ladder = ladder();
        ladder.record(signal, 1.0, at(0)).unwrap();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, max + 0.001] {
            assert!(matches!(ladder.record(signal, value, at(1)), Err(ReadingError::OutOfRange { .. })));
        }
        assert_eq!(ladder.evaluate(at(1)).signals[signal.index()].value, Some(1.0));
        ladder.record(signal, 0.0, at(1)).unwrap();
        ladder.record(signal, max, at(1)).unwrap();
        assert_eq!(ladder.record(signal, 0.0, at(0)), Err(ReadingError::Outdated { signal }));
        assert_eq!(ladder.evaluate(at(2)).signals[signal.index()].value, Some(max));
    }
    let error = ladder().record(Cpu, -1.0, at(0)).unwrap_err();
    assert_eq!(error.to_string(), "cpu: -1 is not between 0 and 100");
    assert_eq!(
        ReadingError::Outdated { signal: FirstText }.to_string(),
        "first_text: a newer reading exists"
    );
    assert_eq!((Errors.to_string().as_str(), Throttles.name()), ("errors", "throttles"));
}

#[test]
fn a_reading_from_a_clock_that_runs_ahead_grows_old_from_when_it_was_seen() {
    let mut ladder = ladder();
    ladder.record(Cpu, 10.0, at(3_600_000)).unwrap();
    ladder.evaluate(at(0));
    assert_eq!(ladder.evaluate(at(30_001)).signals[Cpu.index()].state, SignalState::Stale);
    ladder.record(Cpu, 20.0, at(30_002)).unwrap();
}

#[test]
fn an_operators_level_holds_until_it_is_cleared() {
    let mut ladder = raised_to(Level::HighLoad);
    ladder.force(Level::Normal, at(6_000));
    let report = watch(&mut ladder, [3_500.0, 0.0, 0.0, 75.0], 10, 60);
    assert_eq!(
        (report.level, report.measured, report.forced),
        (Level::Normal, Level::HighLoad, Some(Level::Normal))
    );
    assert_eq!(report.since, at(6_000));
    ladder.force(Level::Emergency, at(61_000));
    assert_eq!((ladder.level(), ladder.permits().chunks), (Level::Emergency, 0));
    ladder.clear(at(62_000));
    assert_eq!(ladder.level(), Level::HighLoad);
    assert_eq!(ladder.evaluate(at(62_000)).since, at(62_000));
    // Forcing the present level is not a change.
    ladder.force(Level::HighLoad, at(63_000));
    assert_eq!(ladder.evaluate(at(63_000)).since, at(62_000));
}

#[test]
fn high_load_for_more_than_ten_minutes_raises_an_alarm() {
    let mut ladder = raised_to(Level::HighLoad);
    let busy = [3_500.0, 0.0, 0.0, 75.0];
    assert!(!watch(&mut ladder, busy, 10, 605).alarms.degraded_for_long);
    let report = watch(&mut ladder, busy, 610, 610);
    assert!(report.alarms.degraded_for_long && report.since == at(5_000));
    // A step within high load and above does not reset the timer; elevated does.
    assert!(watch(&mut ladder, [5_500.0, 0.0, 0.0, 90.0], 615, 620).alarms.degraded_for_long);
    ladder.force(Level::Elevated, at(621_000));
    assert!(!ladder.evaluate(at(621_000)).alarms.degraded_for_long);
    ladder.clear(at(622_000));
    assert!(!ladder.evaluate(at(622_000) + Duration::from_secs(600)).alarms.degraded_for_long);
    assert!(ladder.evaluate(at(622_001) + Duration::from_secs(600)).alarms.degraded_for_long);
}

#[test]
fn levels_mean_what_they_should_for_a_guest_and_a_known_caller() {
    let permits = raised_to(Level::Overload).permits();
    assert_eq!(permits.ceiling(Tier::Guest), Ceiling::None);
    assert_eq!((permits.ceiling(Tier::Standard), permits.chunks), (Ceiling::Fast, 1));
    assert!(raised_to(Level::HighLoad).permits().suspend_scale_in);
    assert!(!raised_to(Level::Elevated).permits().suspend_scale_in);
    let permits = raised_to(Level::Emergency).permits();
    assert_eq!((permits.ceilings, permits.chunks), ([Ceiling::None; 3], 0));
}

#[test]
fn numbers_that_make_no_sense_are_refused_by_name() {
    let usual = LadderOptions::default;
    let second = Duration::from_secs(1);
    for (options, problem) in [
        (
            LadderOptions { cpu_percent: [70.0, 60.0, 85.0], ..usual() },
            "cpu_percent: thresholds must ascend, but 70% comes before 60%",
        ),
        (
            LadderOptions { cpu_percent: [55.0, f64::NAN, 85.0], ..usual() },
            "cpu_percent: NaN% is not a percentage",
        ),
        (
            LadderOptions { cpu_percent: [55.0, 70.0, 101.0], ..usual() },
            "cpu_percent: 101% is more than 100%",
        ),
        (
            LadderOptions { first_text: [second * 2, second, second * 3], ..usual() },
            "first_text: thresholds must ascend, but 2s comes before 1s",
        ),
        (
            LadderOptions { first_text: [second, second, second * 10], ..usual() },
            "first_text: 10s is not below 10s, the maximum that is measured",
        ),
        (
            LadderOptions { first_text: [Duration::ZERO, second, second], ..usual() },
            "first_text: must be longer than 0s",
        ),
        (LadderOptions { error_percent: 0.0, ..usual() }, "error_percent: 0% must be more than 0%"),
        (LadderOptions { throttle_percent: 200.0, ..usual() }, "throttle_percent: 200% is more than 100%"),
        (
            LadderOptions { recovery_threshold_percent: -1.0, ..usual() },
            "recovery_threshold_percent: -1% must be more than 0%",
        ),
        (LadderOptions { interval: Duration::ZERO, ..usual() }, "interval: must be longer than 0s"),
        (
            LadderOptions { interval: second * 31, ..usual() },
            "interval: 31s is longer than stale_after (30s)",
        ),
        (LadderOptions { recovery_for: Duration::ZERO, ..usual() }, "recovery_for: must be longer than 0s"),
    ] {
        assert_eq!(options.check().unwrap_err().to_string(), problem);
    }
    let flat = LadderOptions { cpu_percent: [60.0; 3], first_text: [second; 3], ..usual() };
    assert!(flat.check().is_ok());
}
