use super::super::{BreakerOptions, BreakerProfile, TripReason};
use std::collections::BTreeSet;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn profiles_carry_the_numbers_of_each_dependency() {
    let rows = BreakerProfile::ALL.map(|profile| {
        let options = profile.options();
        let settings = options.clone().check().unwrap();
        let seconds = (options.window.as_secs(), options.open_for.as_secs());
        (
            profile.name(),
            options.failure_threshold,
            settings.failure_rate.to_string(),
            seconds,
            settings.min_calls,
        )
    });
    assert_eq!(
        rows,
        [
            ("sonnet", 5, "50%".to_owned(), (60, 60), 10),
            ("haiku", 8, "50%".to_owned(), (60, 30), 16),
            ("opensearch", 5, "30%".to_owned(), (30, 45), 10),
            ("dynamodb", 10, "20%".to_owned(), (30, 30), 20),
            ("redis", 15, "40%".to_owned(), (30, 15), 30),
        ]
    );
    for profile in BreakerProfile::ALL {
        assert_eq!(profile.options().check().unwrap().half_open_stages(), [1, 3, 10]);
    }
}

#[test]
fn settings_that_make_no_sense_cannot_be_built() {
    let refused = |change: fn(&mut BreakerOptions)| {
        let mut options = BreakerProfile::Sonnet.options();
        change(&mut options);
        options.check().unwrap_err().to_string()
    };
    for (error, expected) in [
        (refused(|o| o.failure_threshold = 0), "failure_threshold: must be at least 1"),
        (refused(|o| o.failure_percent = 0.0), "failure_percent: 0% must be more than 0%"),
        (refused(|o| o.failure_percent = 101.0), "failure_percent: 101% is more than 100%"),
        (refused(|o| o.slow_percent = f64::NAN), "slow_percent: NaN% is not a percentage"),
        (refused(|o| o.slow_threshold = Duration::ZERO), "slow_threshold: must be longer than 0s"),
        (refused(|o| o.min_calls = Some(0)), "min_calls: must be at least 1"),
        (refused(|o| o.window = Duration::from_micros(9_999)), "window: 9.999ms is shorter than 10ms"),
        (refused(|o| o.open_for = Duration::ZERO), "open_for: must be longer than 0s"),
        (refused(|o| o.open_for = SECOND * 301), "open_for: 301s is longer than max_open_for (300s)"),
        (
            refused(|o| o.open_multiplier = 0.5),
            "open_multiplier: 0.5 is less than 1 and would shorten each opening",
        ),
        (refused(|o| o.open_multiplier = -1.0), "open_multiplier: -1 is not between 0.001 and 1000"),
        (refused(|o| o.half_open_stages = vec![]), "half_open_stages: must have at least one stage"),
        (refused(|o| o.half_open_stages = vec![1, 0]), "half_open_stages: 0 probes is not between 1 and 64"),
        (refused(|o| o.half_open_stages = vec![65]), "half_open_stages: 65 probes is not between 1 and 64"),
        (
            refused(|o| o.half_open_stages = vec![1; 9]),
            "half_open_stages: 9 stages are more than the maximum of 8",
        ),
    ] {
        assert_eq!(error, expected);
    }
    let edge = BreakerOptions {
        window: Duration::from_millis(10),
        half_open_stages: vec![64; 8],
        min_calls: Some(1),
        ..BreakerProfile::Sonnet.options()
    };
    assert!(edge.check().is_ok());
}

#[test]
fn openings_in_a_row_grow_up_to_the_cap() {
    let options = BreakerOptions {
        open_for: SECOND * 5,
        open_multiplier: 1.5,
        max_open_for: SECOND * 10,
        ..BreakerProfile::Sonnet.options()
    };
    let settings = options.check().unwrap();
    let lengths = [0, 1, 2, 3, 4, u32::MAX].map(|opening| settings.open_for(opening).as_millis());
    assert_eq!(lengths, [5_000, 5_000, 7_500, 10_000, 10_000, 10_000]);
    let steady = BreakerProfile::Sonnet.options().check().unwrap();
    assert_eq!(steady.open_for(u32::MAX), SECOND * 60);
}

#[test]
fn trip_reasons_have_distinct_labels() {
    let reasons = [
        TripReason::ConsecutiveFailures,
        TripReason::FailureRate,
        TripReason::SlowRate,
        TripReason::SustainedPressure,
        TripReason::ProbeFailed,
        TripReason::ProbeExpired,
        TripReason::ProbesSlow,
        TripReason::Fleet,
    ];
    let labels: BTreeSet<&str> = reasons.iter().map(|reason| reason.label()).collect();
    assert_eq!(labels.len(), reasons.len());
    assert!(labels.iter().all(|label| label.len() >= 5));
}
