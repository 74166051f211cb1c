//! Loom: the limit under every interleaving of the threads' steps.

use super::{InFlightLimit, InFlightPermit};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use loom::model::Builder;
use loom::thread::{self, JoinHandle};
use std::num::NonZeroU32;

/// Every interleaving with up to three preemptions; without a bound it takes hours.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn acquiring(limit: &InFlightLimit) -> JoinHandle<Option<InFlightPermit>> {
    let limit = limit.clone();
    thread::spawn(move || limit.try_acquire())
}

/// Takes a permit if there is one. Returns how many were inside at once, itself included.
fn pass_through(limit: &InFlightLimit, inside: &AtomicU32) -> Option<u32> {
    let _permit = limit.try_acquire()?;
    let now_inside = inside.fetch_add(1, Ordering::SeqCst) + 1;
    inside.fetch_sub(1, Ordering::SeqCst);
    Some(now_inside)
}

#[test]
fn loom_three_threads_get_as_many_permits_as_the_limit_and_give_them_back() {
    for most in [1, 2] {
        explore(move || {
            let limit = InFlightLimit::new(NonZeroU32::new(most).unwrap());
            let others = [acquiring(&limit), acquiring(&limit)];
            let mut permits = vec![limit.try_acquire()];
            permits.extend(others.map(|other| other.join().unwrap()));
            assert_eq!(permits.iter().flatten().count(), most as usize);
            assert_eq!((limit.in_flight(), limit.peak()), (most, most));
            drop(permits);
            assert_eq!(limit.in_flight(), 0);
        });
    }
}

#[test]
fn loom_three_threads_that_come_and_go_are_never_more_than_the_limit() {
    explore(|| {
        let limit = InFlightLimit::new(NonZeroU32::new(1).unwrap());
        let inside = Arc::new(AtomicU32::new(0));
        let others = [(); 2].map(|()| {
            let (limit, inside) = (limit.clone(), Arc::clone(&inside));
            thread::spawn(move || pass_through(&limit, &inside))
        });
        let mut seen = vec![pass_through(&limit, &inside)];
        seen.extend(others.map(|other| other.join().unwrap()));
        assert!(seen.iter().flatten().all(|&now_inside| now_inside == 1));
        assert!(seen.iter().flatten().count() >= 1, "the first to swap gets in");
        assert_eq!((limit.in_flight(), limit.peak()), (0, 1));
    });
}

#[test]
fn loom_a_lowered_limit_holds_from_the_moment_it_is_set() {
    explore(|| {
        let limit = InFlightLimit::new(NonZeroU32::new(2).unwrap());
        let others = [acquiring(&limit), acquiring(&limit)];
        limit.set_limit(NonZeroU32::new(1).unwrap());
        let before = limit.in_flight();
        let mine = limit.try_acquire();
        let permits = others.map(|other| other.join().unwrap());
        let held = permits.iter().flatten().count() + usize::from(mine.is_some());
        assert!(held >= 1 && held <= before.max(1) as usize, "no second caller passes a limit of one");
        assert_eq!(limit.in_flight() as usize, held);
        drop((mine, permits));
        assert_eq!((limit.in_flight(), limit.limit()), (0, 1));
    });
}

#[test]
fn loom_a_limit_set_during_a_release_loses_neither() {
    explore(|| {
        let limit = InFlightLimit::new(NonZeroU32::new(2).unwrap());
        let permit = limit.try_acquire().unwrap();
        let releasing = thread::spawn(move || drop(permit));
        limit.set_limit(NonZeroU32::new(1).unwrap());
        let second = limit.try_acquire();
        releasing.join().unwrap();
        assert_eq!(limit.in_flight(), u32::from(second.is_some()));
        assert_eq!(limit.limit(), 1);
    });
}
