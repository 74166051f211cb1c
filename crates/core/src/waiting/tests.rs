//! Each decision by table; the guarantees by property, against a reference model that only ticks.

mod model;
mod promises;

use super::{
    BucketConflict, Ticket, WaitingAcquireDecision, WaitingBucket, WaitingBuckets, WaitingPollDecision,
    WaitingSettings,
};
use crate::time::Timestamp;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

/// Ten per second, twenty at once, and empty at the origin.
fn empty() -> WaitingBucket {
    let mut bucket = WaitingBucket::new(WaitingSettings::recovery_api(), at(0));
    let _spent = granted(bucket.acquire(at(0), 20, at(0)), 20);
    bucket
}

#[track_caller]
fn granted(decision: WaitingAcquireDecision, units: u64) -> super::Grant {
    match decision {
        WaitingAcquireDecision::Granted(grant) if grant.units() == units => grant,
        other => panic!("not granted {units}: {other:?}"),
    }
}

#[track_caller]
fn waits(decision: WaitingAcquireDecision, moment: Timestamp) -> Ticket {
    match decision {
        WaitingAcquireDecision::Wait { ticket, until } if until == moment => ticket,
        other => panic!("does not wait until {moment}: {other:?}"),
    }
}

#[track_caller]
fn ready(decision: WaitingPollDecision, units: u64) -> super::Grant {
    match decision {
        WaitingPollDecision::Ready(grant) if grant.units() == units => grant,
        other => panic!("not ready with {units}: {other:?}"),
    }
}

#[test]
fn a_full_bucket_grants_its_capacity_at_once_and_no_more() {
    let mut bucket = WaitingBucket::new(WaitingSettings::recovery_api(), at(0));
    assert_eq!((bucket.available(at(0)), bucket.available(at(60_000))), (20, 20));
    for left in (0..20).rev() {
        let _spent = granted(bucket.try_acquire(at(0), 1), 1);
        assert_eq!(bucket.available(at(0)), left);
    }
    assert_eq!(bucket.try_acquire(at(0), 1), WaitingAcquireDecision::Refused { would_wait_until: at(100) });
    assert_eq!(bucket.consumed(), 20);
}

#[test]
fn a_unit_is_there_at_its_nanosecond_and_not_before() {
    let mut bucket = empty();
    let just_before = Timestamp::from_nanos(99_999_999);
    assert_eq!((bucket.available(just_before), bucket.available(at(100))), (0, 1));
    assert_eq!(
        bucket.try_acquire(just_before, 1),
        WaitingAcquireDecision::Refused { would_wait_until: at(100) }
    );
    let _spent = granted(bucket.try_acquire(at(100), 1), 1);
    assert_eq!(bucket.available(at(100)), 0);
    assert_eq!(
        (bucket.available(at(2_099)), bucket.available(at(2_100)), bucket.available(at(9_000))),
        (19, 20, 20)
    );
}

#[test]
fn more_than_the_capacity_is_too_large_for_ever_and_nothing_is_free() {
    let mut bucket = empty();
    assert_eq!(bucket.acquire(at(0), 21, Timestamp::NEVER), WaitingAcquireDecision::TooLarge);
    assert_eq!(bucket.try_acquire(at(0), u64::MAX), WaitingAcquireDecision::TooLarge);
    let _first = waits(bucket.acquire(at(0), 20, at(2_000)), at(2_000));
    let _nothing = granted(bucket.try_acquire(at(0), 0), 0);
    assert_eq!(bucket.consumed(), 20);
}

#[test]
fn with_a_deadline_of_thirty_seconds_three_hundred_may_wait() {
    let mut bucket = empty();
    let give_up_at = at(30_000);
    let tickets: Vec<_> =
        (1..=300).map(|place| waits(bucket.acquire(at(0), 1, give_up_at), at(place * 100))).collect();
    let refused = WaitingAcquireDecision::Refused { would_wait_until: at(30_100) };
    assert_eq!(bucket.acquire(at(0), 1, give_up_at), refused);
    assert_eq!(bucket.acquire(at(0), 1, at(30_099)), refused);
    assert_eq!(bucket.available(at(30_000)), 0);
    assert_eq!(bucket.available(at(30_100)), 1);
    for (ticket, place) in tickets.into_iter().zip(1..) {
        let just_before = at(place * 100) - Duration::from_nanos(1);
        assert_eq!(bucket.poll(ticket, just_before), WaitingPollDecision::Wait { until: at(place * 100) });
        let _spent = ready(bucket.poll(ticket, at(place * 100)), 1);
        assert_eq!(bucket.poll(ticket, at(place * 100)), WaitingPollDecision::Unknown);
    }
    assert_eq!(bucket.consumed(), 320);
}

#[test]
fn a_newcomer_never_overtakes_the_queue() {
    let mut bucket = empty();
    let large = waits(bucket.acquire(at(0), 5, at(9_000)), at(500));
    // Four units are available, but they accumulate for the first waiter.
    assert_eq!(bucket.available(at(400)), 0);
    assert_eq!(bucket.try_acquire(at(400), 1), WaitingAcquireDecision::Refused { would_wait_until: at(600) });
    let small = waits(bucket.acquire(at(400), 1, at(600)), at(600));
    assert_eq!(bucket.poll(small, at(550)), WaitingPollDecision::Wait { until: at(600) });
    let _spent = ready(bucket.poll(large, at(550)), 5);
    let _spent = ready(bucket.poll(small, at(600)), 1);
}

#[test]
fn a_long_silence_loses_nothing_to_the_capacity_while_somebody_waits() {
    let mut bucket = empty();
    let tickets: Vec<_> =
        (1..=3).map(|n| waits(bucket.acquire(at(0), 20, at(9_000)), at(n * 2_000))).collect();
    // Sixty units were due by six seconds, and the half second after that went into the bucket.
    assert_eq!(bucket.available(at(6_500)), 5);
    let _spent = granted(bucket.try_acquire(at(6_500), 5), 5);
    for ticket in tickets {
        let _spent = ready(bucket.poll(ticket, at(6_500)), 20);
    }
    assert_eq!((bucket.available(at(6_500)), bucket.consumed()), (0, 85));
}

#[test]
fn a_cancelled_waiter_consumes_nothing_and_later_ones_move_up() {
    let mut bucket = empty();
    let first = waits(bucket.acquire(at(0), 5, at(9_000)), at(500));
    let second = waits(bucket.acquire(at(0), 2, at(9_000)), at(700));
    let third = waits(bucket.acquire(at(0), 2, at(9_000)), at(900));
    assert!(bucket.cancel(first, at(300)));
    assert!(!bucket.cancel(first, at(300)), "a ticket is cancelled once");
    assert_eq!(bucket.poll(first, at(300)), WaitingPollDecision::Unknown);
    let _spent = ready(bucket.poll(second, at(300)), 2);
    assert_eq!(bucket.poll(third, at(300)), WaitingPollDecision::Wait { until: at(400) });
    assert!(bucket.cancel(third, at(350)));
    assert_eq!((bucket.available(at(350)), bucket.available(at(400)), bucket.consumed()), (1, 2, 22));
}

#[test]
fn cancelling_a_turn_that_came_gives_its_units_to_the_next() {
    let mut bucket = empty();
    let first = waits(bucket.acquire(at(0), 3, at(9_000)), at(300));
    let second = waits(bucket.acquire(at(0), 4, at(9_000)), at(700));
    assert!(bucket.cancel(first, at(400)));
    let _spent = ready(bucket.poll(second, at(400)), 4);
    assert_eq!((bucket.available(at(400)), bucket.consumed()), (0, 24));
    assert!(!bucket.cancel(second, at(400)), "a used ticket is not good any more");
}

#[test]
fn refunded_units_go_to_the_queue_and_never_exceed_the_capacity() {
    let mut bucket = WaitingBucket::new(WaitingSettings::recovery_api(), at(0));
    let grant = granted(bucket.try_acquire(at(0), 12), 12);
    let other = granted(bucket.try_acquire(at(0), 8), 8);
    let ticket = waits(bucket.acquire(at(0), 15, at(9_000)), at(1_500));
    bucket.refund(grant, at(100));
    assert_eq!(bucket.poll(ticket, at(100)), WaitingPollDecision::Wait { until: at(300) });
    bucket.refund(other, at(100));
    let grant = ready(bucket.poll(ticket, at(100)), 15);
    assert_eq!((bucket.available(at(100)), bucket.consumed()), (6, 15));
    bucket.refund(grant, at(1_000));
    assert_eq!((bucket.available(at(1_000)), bucket.consumed()), (20, 0));
}

#[test]
fn a_grant_of_a_larger_bucket_counts_as_one_full_bucket_at_most() {
    let settings = WaitingSettings::new(10, Duration::from_secs(1), 50).unwrap();
    let foreign = granted(WaitingBucket::new(settings, at(0)).try_acquire(at(0), 50), 50);
    let mut bucket = empty();
    let first = waits(bucket.acquire(at(0), 20, at(9_000)), at(2_000));
    let second = waits(bucket.acquire(at(0), 20, at(9_000)), at(4_000));
    bucket.refund(foreign, at(0));
    let _spent = ready(bucket.poll(first, at(0)), 20);
    assert_eq!(bucket.poll(second, at(0)), WaitingPollDecision::Wait { until: at(2_000) });
}

#[test]
fn a_moment_from_the_past_neither_adds_nor_costs_units() {
    let mut bucket = empty();
    let _spent = granted(bucket.try_acquire(at(1_000), 10), 10);
    assert_eq!(
        bucket.try_acquire(at(200), 1),
        WaitingAcquireDecision::Refused { would_wait_until: at(1_100) }
    );
    let ticket = waits(bucket.acquire(at(200), 1, at(1_100)), at(1_100));
    assert_eq!(bucket.poll(ticket, at(0)), WaitingPollDecision::Wait { until: at(1_100) });
    assert_eq!(bucket.poll(ticket, at(1_099)), WaitingPollDecision::Wait { until: at(1_100) });
    let _spent = ready(bucket.poll(ticket, at(1_100)), 1);
    assert_eq!((bucket.available(at(1_100)), bucket.available(at(0))), (0, 0));
}

#[test]
fn the_end_of_the_clock_is_no_turn() {
    let never = WaitingAcquireDecision::Refused { would_wait_until: Timestamp::NEVER };
    let late = Timestamp::NEVER - Duration::from_nanos(5);
    let settings = WaitingSettings::new(1, Duration::from_nanos(1), 20).unwrap();
    let mut bucket = WaitingBucket::new(settings, late);
    let _spent = granted(bucket.try_acquire(late, 20), 20);
    for beyond in [5, 6, 20] {
        assert_eq!(bucket.acquire(late, beyond, Timestamp::NEVER), never);
    }
    let last = Timestamp::NEVER - Duration::from_nanos(1);
    let ticket = waits(bucket.acquire(late, 4, Timestamp::NEVER), last);
    let _spent = ready(bucket.poll(ticket, Timestamp::NEVER), 4);

    let half = Timestamp::from_nanos(1 << 63);
    let settings = WaitingSettings::new(1, half - at(0), 1).unwrap();
    let mut bucket = WaitingBucket::new(settings, at(0));
    let _spent = granted(bucket.try_acquire(at(0), 1), 1);
    let _first = waits(bucket.acquire(at(0), 1, Timestamp::NEVER), half);
    assert_eq!(bucket.acquire(at(0), 1, Timestamp::NEVER), never, "the weight of the line would not fit");
}

#[test]
fn each_key_has_its_own_bucket_and_one_set_of_settings() {
    let settings = WaitingSettings::recovery_api();
    let mut buckets = WaitingBuckets::default();
    assert!(buckets.get_mut(&("main", "tokyo")).is_none());
    let tokyo = buckets.get_or_create(("main", "tokyo"), settings, at(0)).unwrap();
    let _spent = granted(tokyo.try_acquire(at(0), 20), 20);
    for other in [("main", "osaka"), ("spare", "tokyo")] {
        assert_eq!(buckets.get_or_create(other, settings, at(0)).unwrap().available(at(0)), 20);
    }
    let requested = WaitingSettings::new(10, Duration::from_secs(1), 21).unwrap();
    let conflict = buckets.get_or_create(("main", "tokyo"), requested, at(0)).unwrap_err();
    assert_eq!(conflict, BucketConflict { in_use: settings, requested });
    let tokyo = buckets.get_or_create(("main", "tokyo"), settings, at(50)).unwrap();
    assert_eq!((tokyo.available(at(50)), tokyo.settings()), (0, settings));
    assert_eq!(buckets.get_mut(&("main", "tokyo")).unwrap().available(at(100)), 1);
}

#[test]
fn eight_threads_take_no_more_than_what_drips_in() {
    let bucket = Mutex::new(WaitingBucket::new(WaitingSettings::recovery_api(), at(0)));
    let clock = AtomicU64::new(0);
    let successes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    // Read before the lock is taken, so the bucket also gets timestamps out of order.
                    let now = clock.fetch_add(1, Ordering::Relaxed);
                    if now > 10_000 {
                        return;
                    }
                    if let WaitingAcquireDecision::Granted(_) = bucket.lock().unwrap().try_acquire(at(now), 1)
                    {
                        successes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (bucket, successes) = (bucket.into_inner().unwrap(), successes.into_inner());
    assert_eq!(bucket.consumed(), successes);
    // The first call may come some milliseconds after the origin, and the refill until then overflowed.
    assert!((119..=120).contains(&successes), "{successes}");
    assert_eq!(bucket.available(at(10_000)), 0);
}
