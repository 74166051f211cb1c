use super::{FailureClass, FailureRow, FallbackCause, FallbackKind, Strategy, StrategyOptions};
use crate::failure::{DRS, Failure, FailureKind, Retryability};
use crate::vocabulary::{Ceiling, Rung};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use std::collections::BTreeSet;
use std::time::Duration;

fn strategy() -> Strategy {
    StrategyOptions::default().check().unwrap()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn every_kind_of_failure_has_its_tries_its_alert_and_its_fallback() {
    for (kind, interactive, background, alerts, fallback) in [
        (FailureKind::Throttled, 3, 5, false, FallbackKind::Throttled),
        (FailureKind::Overloaded, 3, 5, false, FallbackKind::Throttled),
        (FailureKind::NotReady, 3, 5, false, FallbackKind::Throttled),
        (FailureKind::TimedOut, 1, 5, true, FallbackKind::ModelTimeout),
        (FailureKind::StartTimeout, 0, 0, true, FallbackKind::ModelTimeout),
        (FailureKind::ServerFault, 2, 5, true, FallbackKind::Generic),
        (FailureKind::Unreachable, 2, 5, true, FallbackKind::Generic),
        (FailureKind::StreamInterrupted, 2, 5, true, FallbackKind::Generic),
        (FailureKind::QuotaExhausted, 0, 5, true, FallbackKind::Generic),
        (FailureKind::Filtered, 0, 0, false, FallbackKind::GuardrailBlock),
        (FailureKind::BadRequest, 0, 0, false, FallbackKind::Generic),
        (FailureKind::TooLong, 0, 0, false, FallbackKind::Generic),
        (FailureKind::ModelFault, 0, 0, true, FallbackKind::Generic),
        (FailureKind::Unrecognised, 0, 0, true, FallbackKind::Generic),
        (FailureKind::Unauthorized, 0, 0, true, FallbackKind::Generic),
        (FailureKind::NotFound, 0, 0, true, FallbackKind::Generic),
    ] {
        let expected =
            FailureRow { interactive_retries: interactive, background_retries: background, alerts, fallback };
        assert_eq!(FailureClass::of(kind).row(), expected, "{kind:?}");
    }
    let reached: BTreeSet<_> = FailureKind::ALL.map(FailureClass::of).into();
    assert_eq!(reached, FailureClass::ALL.into());
}

#[test]
fn every_cause_leads_to_its_fallback() {
    for (trouble, kind) in [
        (FallbackCause::BreakerOpen, FallbackKind::CircuitOpen),
        (FallbackCause::NoTime, FallbackKind::ModelTimeout),
        (FallbackCause::QueueRefused, FallbackKind::Throttled),
        (FallbackCause::Unexpected, FallbackKind::Generic),
    ] {
        assert_eq!(trouble.fallback(), kind);
    }
    for kind in FailureKind::ALL {
        let trouble = FallbackCause::Failed(Failure::of(kind));
        assert_eq!(trouble.fallback(), FailureClass::of(kind).row().fallback);
    }
}

#[test]
fn each_failure_of_the_strong_model_has_its_order_of_rungs() {
    let failed = |kind| FallbackCause::Failed(Failure::of(kind));
    let without_models = &[Rung::StaleCache, Rung::Faq, Rung::Apology][..];
    let with_fast = &[Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology][..];
    for (trouble, rungs) in [
        (FallbackCause::BreakerOpen, with_fast),
        (failed(FailureKind::Throttled), with_fast),
        (failed(FailureKind::TimedOut), with_fast),
        (failed(FailureKind::ServerFault), with_fast),
        (failed(FailureKind::QuotaExhausted), with_fast),
        (failed(FailureKind::Unauthorized), with_fast),
        (FallbackCause::NoTime, with_fast),
        (FallbackCause::Unexpected, with_fast),
        (FallbackCause::QueueRefused, without_models),
        (failed(FailureKind::BadRequest), without_models),
        (failed(FailureKind::TooLong), without_models),
        (failed(FailureKind::Filtered), &[Rung::Apology][..]),
    ] {
        let decision =
            strategy().choose(&trouble, Rung::StrongModel, Ceiling::Strong, Duration::from_secs(1));
        assert_eq!(decision.rungs, rungs, "{trouble:?}");
        assert_eq!(decision.cache_timeout, millis(50));
    }
}

#[test]
fn after_a_timeout_with_little_time_left_the_cache_comes_next() {
    for (left, first) in [(0, Rung::StaleCache), (599, Rung::StaleCache), (600, Rung::FastModel)] {
        for trouble in [FallbackCause::NoTime, FallbackCause::Failed(Failure::of(FailureKind::TimedOut))] {
            let decision = strategy().choose(&trouble, Rung::StrongModel, Ceiling::Strong, millis(left));
            assert_eq!(decision.rungs[0], first, "{left}");
        }
        // After an immediate refusal the next model is tried in whatever time is left.
        let throttled = FallbackCause::Failed(Failure::of(FailureKind::Throttled));
        assert_eq!(
            strategy().choose(&throttled, Rung::StrongModel, Ceiling::Strong, millis(left)).rungs[0],
            Rung::FastModel
        );
    }
}

#[test]
fn the_vendor_table_decides_whether_other_models_are_tried() {
    let here = DRS.classify(402, None);
    assert_ne!(here.retryability, Retryability::Never);
    let nowhere = Failure { retryability: Retryability::Never, ..here };
    let first = |failure| {
        strategy()
            .choose(
                &FallbackCause::Failed(failure),
                Rung::StrongModel,
                Ceiling::Strong,
                Duration::from_secs(1),
            )
            .rungs[0]
    };
    assert_eq!((first(here), first(nowhere)), (Rung::FastModel, Rung::StaleCache));
}

#[test]
fn after_a_cache_that_failed_come_the_models_that_the_ceiling_allows() {
    for after in [Rung::Template, Rung::FreshCache] {
        for (ceiling, first) in [
            (Ceiling::Strong, Rung::StrongModel),
            (Ceiling::Fast, Rung::FastModel),
            (Ceiling::None, Rung::StaleCache),
        ] {
            let decision =
                strategy().choose(&FallbackCause::Unexpected, after, ceiling, Duration::from_secs(3));
            assert_eq!(decision.rungs[0], first, "{after} {ceiling}");
        }
    }
    let after_strong = strategy().choose(
        &FallbackCause::Unexpected,
        Rung::StrongModel,
        Ceiling::Strong,
        Duration::from_secs(3),
    );
    assert!(!after_strong.rungs.contains(&Rung::StrongModel));
}

#[test]
fn settings_are_used_and_checked() {
    let options = StrategyOptions { min_for_fast: millis(10), cache_timeout: millis(7) }.check().unwrap();
    let decision = options.choose(&FallbackCause::NoTime, Rung::StrongModel, Ceiling::Strong, millis(10));
    assert_eq!((decision.rungs[0], decision.cache_timeout), (Rung::FastModel, millis(7)));
    let wrong = StrategyOptions { cache_timeout: Duration::ZERO, ..StrategyOptions::default() };
    assert_eq!(wrong.check().unwrap_err().to_string(), "cache_timeout: must be longer than 0s");
}

#[test]
fn each_fallback_says_what_it_does() {
    let texts: BTreeSet<_> = FallbackKind::ALL.map(FallbackKind::text).into();
    assert_eq!(texts.len(), FallbackKind::ALL.len());
    assert!(texts.iter().all(|text| text.ends_with('.')));
}

proptest! {
    #[test]
    fn every_fallback_follows_the_ladder_and_ends_in_an_apology(
        which in 0..20_usize,
        after in select(Rung::ALL.to_vec()),
        ceiling in select(Ceiling::ALL.to_vec()),
        left in any::<u64>(),
    ) {
        let others = [FallbackCause::BreakerOpen, FallbackCause::NoTime, FallbackCause::QueueRefused, FallbackCause::Unexpected];
        let failures = FailureKind::ALL.map(|kind| FallbackCause::Failed(Failure::of(kind)));
        let trouble = failures.into_iter().chain(others).nth(which).unwrap();
        let left = Duration::from_nanos(left);
        let decision = strategy().choose(&trouble, after, ceiling, left);
        // Naive reference: decide for each rung separately whether it belongs to the result.
        let model_can_help = match trouble {
            FallbackCause::Failed(failure) => failure.retryability != Retryability::Never,
            FallbackCause::QueueRefused => false,
            _ => true,
        };
        let slow = trouble.fallback() == FallbackKind::ModelTimeout && left < millis(600);
        let expected: Vec<_> = Rung::ALL.into_iter().filter(|rung| match rung {
            Rung::Template | Rung::FreshCache => false,
            Rung::Apology => true,
            _ if decision.kind == FallbackKind::GuardrailBlock => false,
            Rung::StrongModel => after < *rung && model_can_help && !slow && ceiling == Ceiling::Strong,
            Rung::FastModel => after < *rung && model_can_help && !slow && ceiling != Ceiling::None,
            Rung::StaleCache | Rung::Faq => after < *rung,
        }).collect();
        prop_assert_eq!(decision.rungs, expected);
        prop_assert_eq!(decision.rungs.last(), Some(&Rung::Apology));
        prop_assert!(decision.rungs.is_sorted());
    }
}
