//! The timer fires on time and is rarely armed.

use super::support::{HandTimer, SECOND};
use crate::http1::reusable_timer::ReusableTimer;
use seawall_core::time::Timestamp;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[test]
fn it_rings_at_its_deadline_and_not_before() {
    let (timer, mut reusable) = (HandTimer::default(), ReusableTimer::default());
    let mut context = Context::from_waker(Waker::noop());
    let deadline = Timestamp::ZERO + SECOND;
    assert_eq!(reusable.poll(&mut context, &timer, deadline), Poll::Pending);
    timer.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(reusable.poll(&mut context, &timer, deadline), Poll::Pending);
    timer.advance(Duration::from_nanos(1));
    assert_eq!(reusable.poll(&mut context, &timer, deadline), Poll::Ready(()));
    assert_eq!(reusable.poll(&mut context, &timer, deadline + SECOND), Poll::Pending);
}

#[test]
fn an_earlier_deadline_is_kept_after_a_later_one() {
    let (timer, mut reusable) = (HandTimer::default(), ReusableTimer::default());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(reusable.poll(&mut context, &timer, Timestamp::ZERO + SECOND * 60), Poll::Pending);
    assert_eq!(reusable.poll(&mut context, &timer, Timestamp::ZERO + SECOND), Poll::Pending);
    timer.advance(SECOND);
    assert_eq!(reusable.poll(&mut context, &timer, Timestamp::ZERO + SECOND), Poll::Ready(()));
}

#[test]
fn a_thousand_waits_a_second_arm_one_timer_per_limit() {
    let (timer, mut reusable) = (HandTimer::default(), ReusableTimer::default());
    let mut context = Context::from_waker(Waker::noop());
    let mut now = Timestamp::ZERO;
    for _ in 0..100_000 {
        assert_eq!(reusable.poll(&mut context, &timer, now + SECOND * 10), Poll::Pending);
        timer.advance(Duration::from_millis(1));
        now = now + Duration::from_millis(1);
        reusable.release_waker();
    }
    assert!(timer.started() <= 11, "{} timers in 100 s with a limit of 10 s", timer.started());
}

#[test]
fn what_has_no_limit_arms_nothing() {
    let (timer, mut reusable) = (HandTimer::default(), ReusableTimer::default());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(reusable.poll(&mut context, &timer, Timestamp::ZERO + Duration::MAX), Poll::Pending);
    assert_eq!(timer.started(), 0);
}
