use crate::tokens::{Calibration, CalibrationFactors, SampleDecision, TextLanguage};
use proptest::collection::vec;
use proptest::prelude::*;

const MODEL: &str = "sonnet";
const JAPANESE: TextLanguage = TextLanguage::Japanese;
const UNCALIBRATED: CalibrationFactors = CalibrationFactors { best: 1_000, p95: 1_250 };

#[test]
fn nothing_is_concluded_from_fewer_than_twenty_bills() {
    let mut calibration = Calibration::default();
    assert_eq!(calibration.accuracy(MODEL, JAPANESE), None);
    for _ in 0..19 {
        assert_eq!(calibration.record(MODEL, JAPANESE, 100, 110), SampleDecision::Kept);
        assert_eq!(calibration.factors(MODEL, JAPANESE), UNCALIBRATED);
        assert!(!calibration.accuracy(MODEL, JAPANESE).unwrap().is_calibrated);
    }
    calibration.record(MODEL, JAPANESE, 100, 110);
    assert_eq!(calibration.factors(MODEL, JAPANESE), CalibrationFactors { best: 1_100, p95: 1_100 });
    assert!(calibration.accuracy(MODEL, JAPANESE).unwrap().is_calibrated);
}

#[test]
fn models_and_languages_are_learned_apart() {
    let mut calibration = Calibration::default();
    for _ in 0..20 {
        calibration.record(MODEL, JAPANESE, 100, 150);
        calibration.record("haiku", TextLanguage::English, 100, 80);
    }
    assert_eq!(calibration.factors(MODEL, JAPANESE).best, 1_500);
    assert_eq!(calibration.factors("haiku", TextLanguage::English).best, 800);
    for (model, language) in
        [(MODEL, TextLanguage::English), (MODEL, TextLanguage::Mixed), ("haiku", JAPANESE), ("x", JAPANESE)]
    {
        assert_eq!(calibration.factors(model, language), UNCALIBRATED);
    }
    let report: Vec<_> =
        calibration.report().map(|(model, language, accuracy)| (model, language, accuracy.samples)).collect();
    assert_eq!(report, [("haiku", TextLanguage::English, 20), (MODEL, JAPANESE, 20)]);
}

#[test]
fn invalid_samples_are_rejected() {
    let mut calibration = Calibration::default();
    for (estimated, billed, decision) in [
        (0, 5, SampleDecision::Empty),
        (5, 0, SampleDecision::Empty),
        (10, 101, SampleDecision::Outlier),
        (101, 10, SampleDecision::Outlier),
        (1, u64::MAX, SampleDecision::Outlier),
        (10, 100, SampleDecision::Kept),
        (100, 10, SampleDecision::Kept),
        (u64::MAX, u64::MAX, SampleDecision::Kept),
    ] {
        assert_eq!(calibration.record(MODEL, JAPANESE, estimated, billed), decision, "{estimated} {billed}");
    }
    assert_eq!(calibration.accuracy(MODEL, JAPANESE).unwrap().samples, 3);
}

#[test]
fn names_from_outside_do_not_grow_it_without_bound() {
    let mut calibration = Calibration::default();
    let long = "x".repeat(129);
    assert_eq!(calibration.record(&long, JAPANESE, 1, 1), SampleDecision::NameTooLong);
    assert_eq!(calibration.record(&long[1..], JAPANESE, 1, 1), SampleDecision::Kept);
    for number in 1..64 {
        assert_eq!(calibration.record(&format!("m{number}"), JAPANESE, 1, 1), SampleDecision::Kept);
    }
    assert_eq!(calibration.record("m1", TextLanguage::Mixed, 1, 1), SampleDecision::Kept);
    assert_eq!(calibration.report().count(), 65);
}

#[test]
fn for_one_more_model_the_one_goes_that_was_not_billed_for_longest() {
    let mut calibration = Calibration::default();
    for number in 0..64 {
        calibration.record(&format!("m{number}"), JAPANESE, 1, 1);
    }
    calibration.record("m0", TextLanguage::Mixed, 1, 1);
    assert_eq!(calibration.record("one more", JAPANESE, 1, 1), SampleDecision::Kept);
    assert_eq!(calibration.accuracy("m1", JAPANESE), None);
    assert!(["m0", "m2", "one more"].iter().all(|model| calibration.accuracy(model, JAPANESE).is_some()));
    // Rejected samples evict no model.
    for (name, billed) in [("empty", 0), ("absurd", 11), (&*"x".repeat(129), 1)] {
        assert_ne!(calibration.record(name, JAPANESE, 1, billed), SampleDecision::Kept);
    }
    assert!(calibration.accuracy("m2", JAPANESE).is_some());
    assert_eq!(calibration.report().count(), 65);
    // Many unknown names do not keep out a model that is in use.
    for number in 100..1_000 {
        calibration.record(&format!("m{number}"), JAPANESE, 1, 1);
        calibration.record(MODEL, JAPANESE, 100, 120);
    }
    assert_eq!(calibration.factors(MODEL, JAPANESE).best, 1_200);
    assert_eq!(calibration.report().count(), 64);
}

#[test]
fn errors_with_signs_cancel_out_and_errors_without_do_not() {
    let mut calibration = Calibration::default();
    for _ in 0..5 {
        calibration.record(MODEL, JAPANESE, 150, 100);
        calibration.record(MODEL, JAPANESE, 50, 100);
    }
    let accuracy = calibration.accuracy(MODEL, JAPANESE).unwrap();
    assert!(accuracy.mean_error.abs() < 1e-9 && (accuracy.mean_absolute_error - 0.5).abs() < 1e-9);
    let mut high = Calibration::default();
    high.record(MODEL, JAPANESE, 120, 100);
    let accuracy = high.accuracy(MODEL, JAPANESE).unwrap();
    assert!((accuracy.mean_error - 0.2).abs() < 1e-9);
}

#[test]
fn calibrated_is_a_mean_error_below_a_fifth() {
    for (estimated, calibrated) in [(119, true), (120, false), (81, true), (80, false)] {
        let mut calibration = Calibration::default();
        for _ in 0..20 {
            calibration.record(MODEL, JAPANESE, estimated, 100);
        }
        assert_eq!(calibration.accuracy(MODEL, JAPANESE).unwrap().is_calibrated, calibrated, "{estimated}");
    }
}

#[test]
fn errors_are_of_what_was_estimated_then() {
    let mut calibration = Calibration::default();
    for _ in 0..40 {
        calibration.record(MODEL, JAPANESE, 100, 200);
    }
    // Half of them before the factor was known, half after.
    let accuracy = calibration.accuracy(MODEL, JAPANESE).unwrap();
    assert!((accuracy.mean_error + 0.25).abs() < 1e-9 && (accuracy.mean_absolute_error - 0.25).abs() < 1e-9);
}

/// Naive reference: keeps everything and recomputes everything.
#[derive(Default)]
struct SlowModel {
    bills: Vec<(u64, u64)>,
    errors: Vec<f64>,
}

impl SlowModel {
    fn factors(&self) -> CalibrationFactors {
        let mut ratios: Vec<u32> = self
            .bills
            .iter()
            .map(|(estimated, billed)| u32::try_from((billed * 2_000 + estimated) / (estimated * 2)).unwrap())
            .collect();
        if ratios.len() < 20 {
            return UNCALIBRATED;
        }
        ratios.sort_unstable();
        let lower = ratios[(ratios.len() - 1) / 2];
        let upper = ratios[ratios.len() / 2];
        let p95 = ratios
            .iter()
            .find(|ratio| ratios.iter().filter(|other| other <= ratio).count() * 100 >= ratios.len() * 95);
        CalibrationFactors { best: (lower + upper) / 2, p95: *p95.unwrap() }
    }

    fn record(&mut self, estimated: u64, billed: u64) {
        let then = (estimated * u64::from(self.factors().best)).div_ceil(1_000);
        self.errors.push((then as f64 - billed as f64) / billed as f64);
        self.bills.push((estimated, billed));
        if self.bills.len() == 1_000 {
            self.bills.drain(..500);
            self.errors.drain(..500);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn factors_and_errors_are_those_of_a_slow_model(bills in vec((100_u64..2_000, 500_u64..1_900), 1..1_300)) {
        let (mut calibration, mut model) = (Calibration::default(), SlowModel::default());
        for (place, (estimated, share)) in bills.iter().enumerate() {
            let billed = (estimated * share / 1_000).max(1);
            prop_assert_eq!(calibration.record(MODEL, JAPANESE, *estimated, billed), SampleDecision::Kept);
            model.record(*estimated, billed);
            if place % 97 == 0 || place + 1 == bills.len() || (990..1_010).contains(&place) {
                prop_assert_eq!(calibration.factors(MODEL, JAPANESE), model.factors());
                let accuracy = calibration.accuracy(MODEL, JAPANESE).unwrap();
                prop_assert_eq!(accuracy.samples, model.bills.len());
                let mean = |sum: f64| sum / model.errors.len() as f64;
                prop_assert!((accuracy.mean_error - mean(model.errors.iter().sum())).abs() < 1e-5);
                prop_assert!((accuracy.mean_absolute_error - mean(model.errors.iter().map(|error| error.abs()).sum())).abs() < 1e-5);
            }
        }
    }
}
