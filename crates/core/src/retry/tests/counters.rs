use super::super::{RetryCounters, RetryOptions, RetrySituation, StopReason};
use super::{free, millis, retries, throttled};
use crate::failure::{Failure, FailureKind};
use crate::random::Draw;
use std::time::Duration;

#[test]
fn every_decision_is_counted_once() {
    let counters = RetryCounters::new();
    let empty = counters.snapshot();
    assert_eq!((empty.attempts, empty.success_rate, empty.last_failure), (0, None, None));
    assert_eq!((empty.mean_retried_for, empty.p99_retried_for), (None, None));

    // One request: throttled, retried, answered.
    let mut first = retries(RetryOptions::interactive());
    counters.attempt_failed(&first.decide(&throttled(), &free(), None, Draw::MIDDLE).1);
    counters.request_succeeded(Some(millis(400)));
    // Another: the breaker is open, and the failover target fails.
    let mut second = retries(RetryOptions::interactive());
    let shut = RetrySituation { breaker_passes: false, has_other_target: true, ..free() };
    counters.attempt_failed(&second.decide(&throttled(), &shut, None, Draw::MIDDLE).1);
    let bad = Failure::of(FailureKind::BadRequest);
    counters.attempt_failed(&second.decide(&bad, &free(), None, Draw::MIDDLE).1);
    counters.request_gave_up(millis(200));
    // Two more: answered at once.
    counters.request_succeeded(None);
    counters.request_succeeded(None);

    let snapshot = counters.snapshot();
    assert_eq!((snapshot.attempts, snapshot.retries, snapshot.failovers), (6, 1, 1));
    assert_eq!((snapshot.successes, snapshot.failures, snapshot.breaker_stops), (3, 1, 1));
    assert_eq!(snapshot.success_rate, Some(0.75));
    assert_eq!(snapshot.mean_retried_for, Some(millis(300)));
    let p99 = snapshot.p99_retried_for.unwrap();
    assert!(millis(400) <= p99 && p99 <= Duration::from_millis(450));
    assert_eq!(snapshot.last_failure, Some(FailureKind::BadRequest));
    assert_eq!(counters.stops(StopReason::BreakerOpen), 1);
    assert_eq!(counters.stops(StopReason::NotRetryable), 1);
    assert_eq!(counters.stops(StopReason::Budget), 0);
    assert_eq!(RetryCounters::default().snapshot(), empty);
}
