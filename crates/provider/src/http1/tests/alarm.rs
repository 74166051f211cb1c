//! The alarm fires on time and is rarely armed.

use super::support::{HandTimer, SECOND};
use crate::http1::alarm::Alarm;
use seawall_core::time::Timestamp;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[test]
fn it_rings_at_its_deadline_and_not_before() {
    let (timer, mut alarm) = (HandTimer::default(), Alarm::default());
    let mut nobody = Context::from_waker(Waker::noop());
    let deadline = Timestamp::ZERO + SECOND;
    assert_eq!(alarm.poll(&mut nobody, &timer, deadline), Poll::Pending);
    timer.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(alarm.poll(&mut nobody, &timer, deadline), Poll::Pending);
    timer.advance(Duration::from_nanos(1));
    assert_eq!(alarm.poll(&mut nobody, &timer, deadline), Poll::Ready(()));
    assert_eq!(alarm.poll(&mut nobody, &timer, deadline + SECOND), Poll::Pending);
}

#[test]
fn an_earlier_deadline_is_kept_after_a_later_one() {
    let (timer, mut alarm) = (HandTimer::default(), Alarm::default());
    let mut nobody = Context::from_waker(Waker::noop());
    assert_eq!(alarm.poll(&mut nobody, &timer, Timestamp::ZERO + SECOND * 60), Poll::Pending);
    assert_eq!(alarm.poll(&mut nobody, &timer, Timestamp::ZERO + SECOND), Poll::Pending);
    timer.advance(SECOND);
    assert_eq!(alarm.poll(&mut nobody, &timer, Timestamp::ZERO + SECOND), Poll::Ready(()));
}

#[test]
fn a_thousand_waits_a_second_arm_one_timer_per_limit() {
    let (timer, mut alarm) = (HandTimer::default(), Alarm::default());
    let mut nobody = Context::from_waker(Waker::noop());
    let mut now = Timestamp::ZERO;
    for _ in 0..100_000 {
        assert_eq!(alarm.poll(&mut nobody, &timer, now + SECOND * 10), Poll::Pending);
        timer.advance(Duration::from_millis(1));
        now = now + Duration::from_millis(1);
        alarm.release_waker();
    }
    assert!(timer.started() <= 11, "{} timers in 100 s with a limit of 10 s", timer.started());
}

#[test]
fn what_has_no_limit_arms_nothing() {
    let (timer, mut alarm) = (HandTimer::default(), Alarm::default());
    let mut nobody = Context::from_waker(Waker::noop());
    assert_eq!(alarm.poll(&mut nobody, &timer, Timestamp::ZERO + Duration::MAX), Poll::Pending);
    assert_eq!(timer.started(), 0);
}
