//! Tests of the computation of signals from outcomes.

use super::{at, ladder};
use crate::failure::{AttemptOutcome, Failure, FailureKind};
use crate::ladder::{
    Ladder, LadderOptions, LadderSignal, SignalState, SignalValues, SignalWindow, SignalWindowOptions,
};
use crate::vocabulary::Level;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};
use std::time::Duration;

fn window() -> SignalWindow {
    window_for(&SignalWindowOptions::default(), LadderOptions::default())
}

fn window_for(options: &SignalWindowOptions, ladder: LadderOptions) -> SignalWindow {
    SignalWindow::new(options, &ladder.check().unwrap()).unwrap()
}

fn failed(kind: FailureKind) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure::of(kind))
}

fn after(millis: u64) -> AttemptOutcome {
    AttemptOutcome::Succeeded { time_to_first_content: Duration::from_millis(millis) }
}

fn values_of(outcomes: &[AttemptOutcome]) -> SignalValues {
    let mut window = window();
    for outcome in outcomes {
        window.record(outcome, at(0));
    }
    window.values(at(0))
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn each_kind_of_end_counts_for_its_own_signal_only() {
    for kind in FailureKind::ALL {
        let values = values_of(&vec![failed(kind); 40]);
        let (calls, errors, throttles, first_text) = match kind {
            FailureKind::Throttled | FailureKind::QuotaExhausted => (40, 0.0, 100.0, None),
            FailureKind::StartTimeout => (40, 0.0, 0.0, Some(Duration::from_millis(5_050))),
            FailureKind::Filtered => (40, 0.0, 0.0, None),
            FailureKind::BadRequest
            | FailureKind::TooLong
            | FailureKind::Unauthorized
            | FailureKind::NotFound => (0, 0.0, 0.0, None),
            _ => (40, 100.0, 0.0, None),
        };
        assert_eq!((values.calls, values.first_text), (calls, first_text), "{}", kind.label());
        assert!(close(values.error_percent, errors), "{}", kind.label());
        assert!(close(values.throttle_percent, throttles), "{}", kind.label());
    }
    assert_eq!(values_of(&[AttemptOutcome::Abandoned]).calls, 0);
    assert_eq!(values_of(&[after(120)]).first_text, Some(Duration::from_millis(150)));
}

#[test]
fn throttles_alone_never_make_two_signals() {
    let mut ladder = ladder();
    for second in (0..=60).step_by(5) {
        let values = values_of(&vec![failed(FailureKind::Throttled); 500]);
        values.tell(&mut ladder, at(second * 1_000)).unwrap();
        ladder.record(LadderSignal::Cpu, 20.0, at(second * 1_000)).unwrap();
        let report = ladder.evaluate(at(second * 1_000));
        assert_eq!(report.level, Level::Normal);
        let throttles = report.signals[LadderSignal::Throttles.index()];
        assert_eq!(throttles.state, SignalState::Live { vote: Level::Emergency });
        assert_eq!(report.signals[LadderSignal::FirstText.index()].state, SignalState::Missing);
    }
}

#[test]
fn a_first_text_at_a_threshold_is_not_read_as_above_it() {
    for (millis, read) in [
        (0, 0),
        (1, 50),
        (50, 50),
        (51, 100),
        (1_999, 2_000),
        (2_000, 2_000),
        (2_001, 2_050),
        (3_000, 3_000),
        (5_000, 5_000),
        (9_999, 10_000),
        (10_001, 10_000),
        (400_000, 10_000),
    ] {
        assert_eq!(values_of(&[after(millis)]).first_text, Some(Duration::from_millis(read)), "{millis}");
    }
}

#[test]
fn attempts_that_we_cut_vote_for_the_most_that_slow_ones_can() {
    let millis = Duration::from_millis;
    for (timed_out_counts_as, highest, read) in [
        (millis(5_000), millis(5_000), millis(5_050)),
        (millis(5_000), millis(4_000), millis(5_050)),
        (millis(1_000), millis(5_000), millis(5_050)),
        (millis(5_000), millis(8_001), millis(8_100)),
        (millis(5_000), millis(9_999), millis(10_000)),
        (millis(60_000), millis(5_000), millis(10_000)),
    ] {
        let options =
            LadderOptions { first_text: [millis(2_000), millis(3_000), highest], ..LadderOptions::default() };
        let mut window = window_for(
            &SignalWindowOptions { timed_out_counts_as, ..SignalWindowOptions::default() },
            options.clone(),
        );
        window.record(&failed(FailureKind::StartTimeout), at(0));
        let values = window.values(at(0));
        assert_eq!(values.first_text, Some(read), "{highest:?}");
        let mut ladder = Ladder::new(options.check().unwrap());
        values.tell(&mut ladder, at(0)).unwrap();
        let report = ladder.evaluate(at(0));
        let first_text = report.signals[LadderSignal::FirstText.index()];
        assert_eq!(first_text.state, SignalState::Live { vote: Level::Overload }, "{highest:?}");
    }
}

#[test]
fn few_attempts_count_as_twenty_and_none_as_all_well() {
    for (failures, percent) in [(1, 5.0), (2, 10.0), (3, 15.0), (20, 100.0), (40, 100.0)] {
        let values = values_of(&vec![failed(FailureKind::ServerFault); failures]);
        assert!(close(values.error_percent, percent), "{failures}: {}", values.error_percent);
    }
    let nothing = window().values(at(0));
    assert_eq!((nothing.calls, nothing.first_text), (0, None));
    assert!(close(nothing.error_percent, 0.0) && close(nothing.throttle_percent, 0.0));
}

#[test]
fn with_no_call_let_through_an_emergency_still_ends() {
    let (mut ladder, mut window) = (super::raised_to(Level::Emergency), window());
    for second in (10..=70).step_by(5) {
        window.values(at(second * 1_000)).tell(&mut ladder, at(second * 1_000)).unwrap();
        ladder.record(LadderSignal::Cpu, 10.0, at(second * 1_000)).unwrap();
        ladder.evaluate(at(second * 1_000));
    }
    assert_eq!(ladder.level(), Level::Overload);
}

#[test]
fn outcomes_expire_after_half_a_minute() {
    let mut window = window();
    window.record(&failed(FailureKind::ServerFault), at(1_000));
    assert_eq!(window.values(at(29_999)).calls, 1);
    assert_eq!(window.values(at(30_000)).calls, 0);
    for (options, setting) in [
        (SignalWindowOptions { window: Duration::ZERO, ..SignalWindowOptions::default() }, "window"),
        (SignalWindowOptions { min_calls: 0, ..SignalWindowOptions::default() }, "min_calls"),
    ] {
        let ladder = LadderOptions::default().check().unwrap();
        assert_eq!(SignalWindow::new(&options, &ladder).unwrap_err().setting(), setting);
    }
}

proptest! {
    #[test]
    fn the_percentile_is_that_of_the_sorted_list(millis in vec(0_u64..12_000, 1..400)) {
        let outcomes: Vec<AttemptOutcome> = millis.iter().map(|millis| after(*millis)).collect();
        let mut sorted: Vec<u64> = millis.iter().map(|millis| (millis.div_ceil(50) * 50).min(10_000)).collect();
        sorted.sort_unstable();
        let exact = sorted[(sorted.len() * 99).div_ceil(100) - 1];
        prop_assert_eq!(values_of(&outcomes).first_text, Some(Duration::from_millis(exact)));
    }
}
