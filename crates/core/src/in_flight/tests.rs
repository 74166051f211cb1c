//! Slots acquired and freed, one at a time and by many threads.

use super::{InFlightLimit, InFlightPermit};
use crate::invariant::in_flight_within_limit;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

fn at_most(calls: u32) -> NonZeroU32 {
    NonZeroU32::new(calls).unwrap()
}

fn reading(limit: &InFlightLimit) -> (u32, u32, u32) {
    (limit.in_flight(), limit.limit(), limit.peak())
}

#[test]
fn slots_are_granted_up_to_the_limit_and_freed_by_dropping() {
    let limit = InFlightLimit::new(at_most(2));
    assert_eq!(reading(&limit), (0, 2, 0));
    let first = limit.try_acquire().unwrap();
    assert_eq!(reading(&limit), (1, 2, 1));
    let other = limit.clone();
    let second = other.try_acquire().unwrap();
    assert_eq!(reading(&limit), (2, 2, 2));
    assert!(limit.try_acquire().is_none());
    drop(first);
    assert_eq!(reading(&limit), (1, 2, 2));
    let third = limit.try_acquire().unwrap();
    drop((second, third));
    assert_eq!(reading(&limit), (0, 2, 2));
}

#[test]
fn a_limit_below_what_is_in_flight_admits_nobody_until_enough_have_ended() {
    let limit = InFlightLimit::new(at_most(3));
    let mut permits: Vec<_> = (0..3).map(|_| limit.try_acquire().unwrap()).collect();
    limit.set_limit(at_most(1));
    for in_flight in [3, 2, 1] {
        assert_eq!(reading(&limit), (in_flight, 1, 3));
        assert!(limit.try_acquire().is_none());
        permits.pop();
    }
    let _only = limit.try_acquire().unwrap();
    assert!(limit.try_acquire().is_none());
    limit.set_limit(at_most(2));
    assert!(limit.try_acquire().is_some());
}

#[test]
fn the_largest_and_the_smallest_limit_do_not_touch_the_count() {
    let limit = InFlightLimit::new(at_most(u32::MAX));
    let _permit = limit.try_acquire().unwrap();
    assert_eq!(reading(&limit), (1, u32::MAX, 1));
    limit.set_limit(at_most(1));
    assert_eq!(reading(&limit), (1, 1, 1));
}

#[test]
fn a_permit_outlives_its_handle_and_moves_between_threads() {
    fn rides_in_a_body<T: Send + Sync + 'static>() {}
    rides_in_a_body::<InFlightPermit>();
    let limit = InFlightLimit::new(at_most(1));
    let permit = limit.try_acquire().unwrap();
    let other = limit.clone();
    drop(limit);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(permit));
    });
    assert_eq!(reading(&other), (0, 1, 1));
}

#[test]
fn eight_threads_never_pass_the_limit() {
    let limit = InFlightLimit::new(at_most(3));
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Some(_permit) = limit.try_acquire() {
                        let now_inside = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now_inside, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(most.into_inner() <= 3 && limit.peak() <= 3);
    assert_eq!(limit.in_flight(), 0);
}

proptest! {
    #[test]
    fn the_count_is_the_permits_held(steps in vec((0_u8..4, 1_u32..6), 1..80)) {
        let limit = InFlightLimit::new(at_most(3));
        let (mut held, mut set, mut peak) = (vec![], 3, 0);
        for (step, number) in steps {
            match step {
                0 | 1 => {
                    let permit = limit.try_acquire();
                    prop_assert_eq!(permit.is_some(), held.len() < set as usize);
                    if permit.is_some() {
                        prop_assert_eq!(in_flight_within_limit(limit.in_flight(), set), Ok(()));
                    }
                    held.extend(permit);
                }
                2 => drop(held.pop()),
                _ => {
                    set = number;
                    limit.set_limit(at_most(number));
                }
            }
            peak = peak.max(held.len());
            let (in_flight, now_set, now_peak) = reading(&limit);
            prop_assert_eq!((in_flight as usize, now_set, now_peak as usize), (held.len(), set, peak));
        }
    }
}
