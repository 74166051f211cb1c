use super::deposits::Deposits;
use super::{BucketOptions, Credit, CreditCosts, CreditRefusal, CreditUse, FailureThrottle};
use super::{RatioOptions, RetryBudget, RetryBudgetOptions};
use crate::failure::FailureKind;
use crate::invariant::retries_within_share;
use crate::setting::Ratio;
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const RETRY: CreditUse = CreditUse::Retry(FailureKind::ServerFault);
const NOTHING: RetryBudgetOptions =
    RetryBudgetOptions { ratio: None, rate_cap: None, bucket: None, costs: CreditCosts::CLASSIC };

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn ratio(percent: f64, window: Duration, min_concurrency: u32, min_per_second: u32) -> RetryBudget {
    let ratio = RatioOptions { percent, window, min_concurrency, min_per_second };
    RetryBudget::new(RetryBudgetOptions { ratio: Some(ratio), ..NOTHING }).unwrap()
}

fn bucket(capacity: u32) -> RetryBudget {
    RetryBudget::new(RetryBudgetOptions { bucket: Some(BucketOptions { capacity }), ..NOTHING }).unwrap()
}

/// Withdraws until refused, spending each credit at once.
fn spend_all(budget: &RetryBudget, now: Timestamp) -> usize {
    std::iter::from_fn(|| budget.withdraw(RETRY, now).ok().map(drop)).count()
}

#[test]
fn a_tenth_of_ten_thousand_is_a_thousand() {
    let budget = ratio(10.0, SECOND * 10, 0, 0);
    for _ in 0..10_000 {
        budget.deposit(at(0));
    }
    assert_eq!(spend_all(&budget, at(0)), 1_000);
    let with_reserve = ratio(10.0, SECOND, 0, 10);
    for _ in 0..10_000 {
        with_reserve.deposit(at(0));
    }
    assert_eq!(spend_all(&with_reserve, at(0)), 1_010);
}

#[test]
fn three_may_always_be_in_flight_and_a_fifth_of_the_first_attempts() {
    let budget = ratio(20.0, SECOND * 10, 3, 0);
    let mut held: Vec<Credit> = (0..2).map(|_| budget.withdraw(RETRY, at(0)).unwrap()).collect();
    held.push(budget.withdraw(RETRY, at(0)).unwrap());
    assert_eq!(budget.withdraw(RETRY, at(0)).unwrap_err(), CreditRefusal::Ratio);
    for _ in 0..20 {
        budget.deposit(at(0));
    }
    held.push(budget.withdraw(RETRY, at(0)).unwrap());
    assert_eq!(budget.in_flight(), 4);
    assert_eq!(budget.withdraw(RETRY, at(0)).unwrap_err(), CreditRefusal::Ratio);
    drop(held);
    assert_eq!(budget.in_flight(), 0);
    assert!(budget.withdraw(RETRY, at(0)).is_ok());
}

#[test]
fn deposits_and_spending_leave_the_window() {
    let budget = ratio(100.0, SECOND * 10, 0, 0);
    budget.deposit(at(0));
    assert_eq!(spend_all(&budget, at(9_999)), 1);
    budget.deposit(at(9_999));
    assert_eq!(spend_all(&budget, at(10_000)), 0, "the first deposit has left, its spending has not");
    budget.deposit(at(10_000));
    assert_eq!(spend_all(&budget, at(10_000)), 1);
    assert_eq!(spend_all(&budget, at(30_000)), 0);
}

#[test]
fn a_hundred_a_minute_whatever_the_traffic() {
    let budget = RetryBudget::new(RetryBudgetOptions::default()).unwrap();
    for _ in 0..100_000 {
        budget.deposit(at(0));
    }
    assert_eq!(spend_all(&budget, at(0)), 100);
    assert_eq!(budget.withdraw(RETRY, at(60_999)).unwrap_err(), CreditRefusal::RateCap);
    assert!(budget.withdraw(RETRY, at(61_000)).is_ok());
}

#[test]
fn a_refusal_takes_from_no_gate() {
    let options = RetryBudgetOptions {
        rate_cap: Some((2, SECOND * 60)),
        bucket: Some(BucketOptions { capacity: 10 }),
        ..NOTHING
    };
    let budget = RetryBudget::new(options).unwrap();
    let timed_out = CreditUse::Retry(FailureKind::TimedOut);
    let _first = budget.withdraw(RETRY, at(0)).unwrap();
    assert_eq!(budget.withdraw(timed_out, at(0)).unwrap_err(), CreditRefusal::Bucket);
    assert_eq!(budget.bucket_level(), Some(5));
    let _second = budget.withdraw(RETRY, at(0)).unwrap();
    budget.record_first_attempt_success();
    for _ in 0..20 {
        budget.record_first_attempt_success();
    }
    assert_eq!(budget.bucket_level(), Some(10));
    assert_eq!(budget.withdraw(timed_out, at(0)).unwrap_err(), CreditRefusal::RateCap);
    assert_eq!((budget.bucket_level(), budget.in_flight()), (Some(10), 2));
}

#[test]
fn the_bucket_pays_by_kind_and_success_brings_its_own_back() {
    let budget = bucket(500);
    let level = || budget.bucket_level().unwrap();
    let first = budget.withdraw(RETRY, at(0)).unwrap();
    assert_eq!(level(), 495);
    drop(first);
    let second = budget.withdraw(RETRY, at(0)).unwrap();
    assert_eq!(level(), 490);
    second.record_success();
    assert_eq!(level(), 495);
    budget.record_first_attempt_success();
    assert_eq!(level(), 496);
    assert_eq!(bucket(500).bucket_level(), Some(500));
    assert_eq!(ratio(1.0, SECOND, 0, 0).bucket_level(), None);

    let budget = bucket(100);
    let timed_out = CreditUse::Retry(FailureKind::TimedOut);
    let _lost = budget.withdraw(timed_out, at(0)).unwrap();
    assert_eq!(budget.bucket_level(), Some(90));
    let kept = budget.withdraw(timed_out, at(0)).unwrap();
    assert_eq!(budget.bucket_level(), Some(80));
    kept.record_success();
    assert_eq!(budget.bucket_level(), Some(90));
}

#[test]
fn an_empty_bucket_refuses_although_attempts_are_left() {
    let options = RetryBudgetOptions {
        bucket: Some(BucketOptions { capacity: 5 }),
        costs: CreditCosts { standard: 5, throttled: 5, timed_out: 5 },
        ..NOTHING
    };
    let budget = RetryBudget::new(options).unwrap();
    let _first = budget.withdraw(RETRY, at(0)).unwrap();
    assert_eq!(budget.bucket_level(), Some(0));
    assert_eq!(budget.withdraw(RETRY, at(0)).unwrap_err(), CreditRefusal::Bucket);
}

#[test]
fn costs_by_kind() {
    let costs = |costs: CreditCosts| {
        [
            RETRY,
            CreditUse::Retry(FailureKind::Throttled),
            CreditUse::Retry(FailureKind::TimedOut),
            CreditUse::Hedge,
        ]
        .map(|purpose| costs.of(purpose))
    };
    assert_eq!(costs(CreditCosts::CLASSIC), [5, 5, 10, 5]);
    assert_eq!(costs(CreditCosts::CURRENT), [14, 5, 14, 14]);
}

#[test]
fn the_share_counts_retries_whatever_they_cost() {
    let ratio = RatioOptions { percent: 20.0, window: SECOND * 10, min_concurrency: 0, min_per_second: 0 };
    let options = RetryBudgetOptions { ratio: Some(ratio), costs: CreditCosts::CURRENT, ..NOTHING };
    for kind in [FailureKind::Throttled, FailureKind::TimedOut, FailureKind::ServerFault] {
        let budget = RetryBudget::new(options.clone()).unwrap();
        for _ in 0..100 {
            budget.deposit(at(0));
        }
        let granted = std::iter::from_fn(|| budget.withdraw(CreditUse::Retry(kind), at(0)).ok().map(drop));
        assert_eq!(granted.count(), 20, "{}", kind.label());
    }
}

#[test]
fn old_deposits_pay_for_nothing_whatever_the_clocks_origin() {
    for origin in [0, 1_790_000_000_000_000_000, u64::MAX / 2, u64::MAX - 3_600_000_000_000 * 2] {
        let budget = ratio(20.0, SECOND * 5, 0, 0);
        let start = Timestamp::from_nanos(origin);
        for _ in 0..1_000 {
            budget.deposit(start);
        }
        assert_eq!(spend_all(&budget, start + SECOND * 3_600), 0, "{origin}");
        for _ in 0..1_000 {
            budget.deposit(start + SECOND * 3_600);
        }
        assert_eq!(spend_all(&budget, start + SECOND * 3_600), 200, "{origin}");
    }
}

#[test]
fn budgets_that_make_no_sense_cannot_be_built() {
    let refused = |options| RetryBudget::new(options).unwrap_err().to_string();
    let with_ratio = |percent, window| {
        let ratio = RatioOptions { percent, window, min_concurrency: 0, min_per_second: 0 };
        refused(RetryBudgetOptions { ratio: Some(ratio), ..NOTHING })
    };
    assert_eq!(with_ratio(20.0, SECOND / 2), "window: 500ms is not between 1s and 60s");
    assert_eq!(with_ratio(20.0, SECOND * 61), "window: 61s is not between 1s and 60s");
    assert_eq!(with_ratio(0.0, SECOND), "percent: 0% must be more than 0%");
    assert_eq!(with_ratio(120.0, SECOND * 60), "percent: 120% is more than 100%");
    let rate_cap = Some((0, SECOND * 60));
    assert_eq!(refused(RetryBudgetOptions { rate_cap, ..NOTHING }), "limit: must be at least 1");
    let bucket = Some(BucketOptions { capacity: 9 });
    let problem = "capacity: 9 is less than the cost of the most expensive retry (10)";
    assert_eq!(refused(RetryBudgetOptions { bucket, ..NOTHING }), problem);
    for (costs, name) in [
        (CreditCosts { standard: 0, ..CreditCosts::CLASSIC }, "standard"),
        (CreditCosts { throttled: 0, ..CreditCosts::CLASSIC }, "throttled"),
        (CreditCosts { timed_out: 0, ..CreditCosts::CLASSIC }, "timed_out"),
    ] {
        assert_eq!(
            refused(RetryBudgetOptions { costs, ..NOTHING }),
            format!("costs.{name}: must be at least 1")
        );
    }
    assert_eq!(BucketOptions::default().capacity, 500);
}

#[test]
fn threads_spend_no_credit_twice_and_lose_no_deposit() {
    let budget = ratio(20.0, SECOND * 10, 0, 0);
    let spent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    budget.deposit(at(5_000));
                    spent
                        .fetch_add(usize::from(budget.withdraw(RETRY, at(5_000)).is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(spent.into_inner() + spend_all(&budget, at(5_000)), 4_000);
    assert_eq!(budget.in_flight(), 0);
}

#[test]
fn a_target_that_fails_more_than_it_succeeds_is_left_alone() {
    let mut throttle = FailureThrottle::new(4, 1.6).unwrap();
    for (step, expected) in [
        ("F", Some(true)),
        ("S", None),
        ("F", Some(true)),
        ("F", Some(false)),
        ("F", Some(false)),
        ("F", Some(false)),
    ]
    .into_iter()
    .chain([("F", Some(false)), ("S", None), ("S", None), ("F", Some(true)), ("F", Some(false)), ("S", None)])
    .chain([("F", Some(false)), ("S", None), ("F", Some(true))])
    {
        let answer = if step == "F" {
            Some(throttle.record_failure())
        } else {
            throttle.record_success();
            None
        };
        assert_eq!(answer, expected, "{throttle:?}");
    }
    assert!((throttle.level() - 2.4).abs() < 1e-9);
}

#[test]
fn a_resized_throttle_is_as_full_as_before() {
    let mut throttle = FailureThrottle::new(4, 1.6).unwrap();
    throttle.record_failure();
    let resized = throttle.resized(&FailureThrottle::new(10, 0.5).unwrap());
    assert!((resized.level() - 7.5).abs() < 1e-9);
    assert_eq!(FailureThrottle::new(0, 1.0).unwrap_err().to_string(), "max_credits: must be at least 1");
    assert_eq!(
        FailureThrottle::new(1_001, 1.0).unwrap_err().to_string(),
        "max_credits: 1001 is more than 1000"
    );
    for wrong in [0.0, f64::NAN, 1_000.1] {
        let error = FailureThrottle::new(1_000, wrong).unwrap_err();
        assert_eq!(error.to_string(), format!("per_success: {wrong} is not between 0.001 and 1000"));
    }
}

proptest! {
    #[test]
    fn deposits_equal_a_list(steps in vec((0_u64..2_500, 0_u32..5), 1..150)) {
        let deposits = Deposits::new(SECOND * 10);
        let (mut all, mut now) = (Vec::new(), 0);
        for (wait, count) in steps {
            now += wait;
            deposits.add(count, at(now));
            all.push((now, u64::from(count)));
            let live = all.iter().filter(|(when, _)| when / 1_000 + 10 > now / 1_000);
            prop_assert_eq!(deposits.sum(at(now)), live.map(|(_, count)| count).sum::<u64>());
            // A thread that read its clock a little earlier sees at least as much.
            prop_assert!(deposits.sum(at(now.saturating_sub(900))) >= deposits.sum(at(now)));
        }
    }

    /// Retries never exceed a fifth of the first attempts, plus those that the floor let through.
    #[test]
    fn retries_stay_within_the_share(steps in vec((0_u64..500, 0_u32..8, 0_u32..8), 1..80)) {
        let budget = ratio(20.0, SECOND * 10, 0, 0);
        let (mut firsts, mut retries, mut now) = (Vec::new(), Vec::new(), 0);
        for (wait, first, asks) in steps {
            now += wait;
            for _ in 0..first {
                budget.deposit(at(now));
                firsts.push(now);
            }
            for _ in 0..asks {
                let live = |when: &&u64| **when / 1_000 + 10 > now / 1_000;
                let allowed = firsts.iter().filter(live).count();
                let used = retries.iter().filter(live).count();
                let granted = budget.withdraw(RETRY, at(now)).is_ok();
                prop_assert_eq!(granted, (used + 1) * 5 <= allowed);
                if granted {
                    retries.push(now);
                    let share = Ratio::percent("share", 20.0).unwrap();
                    prop_assert_eq!(retries_within_share(allowed as u64, used as u64, 0, (share, 0)), Ok(()));
                }
            }
        }
    }
}
