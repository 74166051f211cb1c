//! Loom: every interleaving of a few threads.

use super::deposits::Deposits;
use super::{BucketOptions, CreditCosts, CreditUse, RetryBudget, RetryBudgetOptions};
use crate::failure::FailureKind;
use crate::sync::Arc;
use crate::time::Timestamp;
use std::time::Duration;

#[test]
fn loom_no_deposit_is_lost_even_when_a_slice_starts_anew() {
    loom::model(|| {
        let deposits = Arc::new(Deposits::new(Duration::from_secs(10)));
        // An expired count in the very cell that both threads are about to use.
        deposits.add(7, Timestamp::ZERO);
        let now = Timestamp::ZERO + Duration::from_secs(10);
        let other = Arc::clone(&deposits);
        let thread = loom::thread::spawn(move || other.add(1, now));
        deposits.add(1, now);
        thread.join().unwrap();
        assert_eq!(deposits.sum(now), 2);
    });
}

#[test]
fn loom_two_threads_cannot_spend_the_last_credit_twice() {
    loom::model(|| {
        let budget = RetryBudget::new(RetryBudgetOptions {
            ratio: None,
            rate_cap: None,
            bucket: Some(BucketOptions { capacity: 10 }),
            costs: CreditCosts::CLASSIC,
        })
        .unwrap();
        let timed_out = CreditUse::Retry(FailureKind::TimedOut);
        let other = budget.clone();
        let thread = loom::thread::spawn(move || other.withdraw(timed_out, Timestamp::ZERO).is_ok());
        let mine = budget.withdraw(timed_out, Timestamp::ZERO).is_ok();
        assert!(mine ^ thread.join().unwrap());
        assert_eq!((budget.bucket_level(), budget.in_flight()), (Some(0), 0));
    });
}
