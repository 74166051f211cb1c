//! One breaker shared by many threads.

use super::super::{Breaker, BreakerPhase, BreakerProfile, RejectReason, SharedBreaker};
use super::{at, bad, good, opened};
use crate::deadline::Deadline;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_dropped_permit_frees_its_slot_even_in_a_panic() {
    let breaker = SharedBreaker::new(opened(at(0)));
    let now = at(60_000);
    let permit = breaker.acquire(now, Deadline::NEVER).unwrap();
    assert_eq!(permit.would_reject(), None);
    assert_eq!(breaker.acquire(now, Deadline::NEVER).unwrap_err(), (RejectReason::ProbesInFlight, None));
    drop(permit);
    let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _permit = breaker.acquire(now, Deadline::NEVER).unwrap();
        panic!("the call broke");
    }));
    assert!(thrown.is_err());
    breaker.acquire(now, Deadline::NEVER).unwrap().report(&good(), now);
    assert_eq!(breaker.with(|breaker| breaker.peek(now).phase), BreakerPhase::HalfOpen { stage: 1 });
}

#[test]
fn of_two_hundred_callers_exactly_one_probes() {
    for _ in 0..50 {
        let breaker = SharedBreaker::new(opened(at(0)));
        let probes = AtomicU32::new(0);
        // No thread returns its permit before all have acquired.
        let all_asked = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let permits = (0..50).filter_map(|_| breaker.acquire(at(60_000), Deadline::NEVER).ok());
                    let held: Vec<_> = permits.collect();
                    probes.fetch_add(u32::try_from(held.len()).unwrap(), Ordering::SeqCst);
                    all_asked.wait();
                });
            }
        });
        assert_eq!(probes.into_inner(), 1);
    }
}

#[test]
fn threads_that_fail_together_open_it_once() {
    let breaker = SharedBreaker::new(Breaker::new(BreakerProfile::Sonnet.options().check().unwrap()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    if let Ok(permit) = breaker.acquire(at(0), Deadline::NEVER) {
                        permit.report(&bad(), at(0));
                    }
                }
            });
        }
    });
    assert_eq!(breaker.with(Breaker::take_transitions).len(), 1);
    assert_eq!(
        breaker.acquire(at(0), Deadline::NEVER).unwrap_err().1,
        Some(std::time::Duration::from_secs(60))
    );
}
