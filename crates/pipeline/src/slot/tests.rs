use super::{SlotUnavailable, SlotWaiter, TargetSlot, WaitState};
use crate::target::{GuardedTarget, PriceStatus, TargetOptions};
use seawall_core::breaker::BreakerProfile;
use seawall_core::in_flight::{SlotOwner, SlotRefusal, SlotShares};
use seawall_core::manual_clock::ManualClock;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::{AcceptedGrades, QueueOptions, QueueRequest};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_core::untracked::InputModel;
use seawall_core::vocabulary::{Grade, OutputLimitField, Priority};
use seawall_provider::{Call, CallFuture, Target};
use seawall_wire::dialect::DialectId;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

struct Nowhere;

impl Target for Nowhere {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, _: Call) -> CallFuture<'_> {
        Box::pin(std::future::pending())
    }
}

fn options(grade: Grade, concurrency: u32) -> TargetOptions {
    TargetOptions {
        name: "target".to_owned(),
        model: "model".to_owned(),
        grade,
        price: Price::per_million(Money::ZERO, Money::ZERO).into(),
        price_status: PriceStatus::Known,
        input: InputModel::of("any", None),
        max_output: None,
        output_limit_field: OutputLimitField::MaxTokens,
        concurrency: NonZeroU32::new(concurrency).unwrap(),
        shares: SlotShares::default(),
        queue: QueueOptions::default().check().unwrap(),
        breaker: BreakerProfile::Sonnet.options().check().unwrap(),
        pressure: PressureOptions::default().check().unwrap(),
        upstream: Arc::new(Nowhere),
        more_keys: Vec::new(),
    }
}

fn target(grade: Grade, concurrency: u32) -> Arc<GuardedTarget> {
    Arc::new(GuardedTarget::new(options(grade, concurrency)))
}

fn request(grade: Grade, deadline: Duration) -> QueueRequest {
    QueueRequest {
        grades: AcceptedGrades::only(grade),
        ..QueueRequest::new(Priority::Normal, 1, Timestamp::ZERO + deadline)
    }
}

type QueueState<'a> =
    Pin<Box<dyn Future<Output = Result<TargetSlot<ManualClock>, SlotUnavailable>> + Send + 'a>>;

fn waits<'a>(
    target: &'a Arc<GuardedTarget>,
    clock: &'a ManualClock,
    request: &'a QueueRequest,
) -> QueueState<'a> {
    waits_as(target, clock, request, SlotOwner { caller: request.session, guest_network: None })
}

fn waits_as<'a>(
    target: &'a Arc<GuardedTarget>,
    clock: &'a ManualClock,
    request: &'a QueueRequest,
    owner: SlotOwner,
) -> QueueState<'a> {
    let mut waiting: QueueState<'a> = Box::pin(target.wait_for_slot(clock, request, owner));
    assert!(look(&mut waiting).is_none(), "no slot is free");
    waiting
}

fn look(waiting: &mut QueueState<'_>) -> Option<Result<TargetSlot<ManualClock>, SlotUnavailable>> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(slot) => Some(slot),
        Poll::Pending => None,
    }
}

const CALLER: SlotOwner = SlotOwner { caller: 1, guest_network: None };
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_waiter_is_served_by_a_target_whose_grade_has_changed() {
    let clock = ManualClock::default();
    let strong = target(Grade::Strong, 1);
    let held = strong.try_take_slot(&clock, CALLER).unwrap();
    let fast = Arc::new(strong.with_settings(options(Grade::Fast, 1)));
    let (old, new) = (request(Grade::Strong, MINUTE), request(Grade::Fast, MINUTE));
    let mut first = waits(&strong, &clock, &old);
    let mut second = waits(&fast, &clock, &new);
    drop(held);
    let slot = look(&mut first).unwrap().unwrap();
    assert!(look(&mut second).is_none());
    drop(slot);
    assert!(look(&mut second).unwrap().is_ok());
}

#[test]
fn a_slot_granted_to_a_waiter_that_has_just_left_is_returned() {
    let target = target(Grade::Strong, 1);
    let waiter = SlotWaiter::default();
    let permit = target.in_flight.try_acquire(CALLER).unwrap();
    assert!(waiter.close().is_none(), "it leaves, and looks once more whether it was given one");
    assert!(matches!(waiter.resolve(WaitState::Granted(permit)), Some(WaitState::Granted(_))));
    assert!(target.in_flight.try_acquire(CALLER).is_ok(), "it is free, and who gave it knows");
}

#[test]
fn a_waiter_that_leaves_during_a_grant_never_keeps_the_slot() {
    for round in 0..3_000_u32 {
        let clock = ManualClock::default();
        let target = target(Grade::Strong, 1);
        let held = target.try_take_slot(&clock, CALLER).unwrap();
        let request = request(Grade::Strong, MINUTE);
        let leaver = waits(&target, &clock, &request);
        let mut stays = waits(&target, &clock, &request);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..round % 64 {
                    std::hint::spin_loop();
                }
                drop(leaver);
            });
            scope.spawn(move || drop(held));
        });
        assert!(
            look(&mut stays).is_some_and(|slot| slot.is_ok()),
            "round {round}: a slot is free, but the waiter was not woken"
        );
    }
}

#[test]
fn a_raised_limit_grants_slots_to_waiters_at_once() {
    let clock = ManualClock::default();
    let one = target(Grade::Strong, 1);
    let held = one.try_take_slot(&clock, CALLER).unwrap();
    let request = request(Grade::Strong, MINUTE);
    let (mut first, mut second) = (waits(&one, &clock, &request), waits(&one, &clock, &request));
    let two = one.with_settings(options(Grade::Strong, 2));
    two.apply_settings(clock.monotonic());
    let slot = look(&mut first).unwrap().unwrap();
    assert!(look(&mut second).is_none());
    drop((held, slot));
    assert!(look(&mut second).unwrap().is_ok());
}

#[test]
fn evicted_waiters_leave_no_state_behind() {
    let clock = ManualClock::default();
    let target = target(Grade::Strong, 1);
    let _held = target.try_take_slot(&clock, CALLER).unwrap();
    for _ in 0..10 {
        let request = QueueRequest {
            deadline: clock.monotonic() + Duration::from_secs(1),
            ..request(Grade::Strong, MINUTE)
        };
        let waiting = waits(&target, &clock, &request);
        clock.advance(Duration::from_secs(2));
        drop(waiting);
        let state = super::lock(&target.slot_queue.waiting);
        assert_eq!((state.waiters.len(), state.queue.stats(clock.monotonic()).size), (0, 0));
        assert!(state.queue.next_deadline().is_none(), "no waiter is left");
    }
}

fn of(caller: u64) -> QueueRequest {
    QueueRequest { session: caller, ..request(Grade::Strong, MINUTE) }
}

fn owner(caller: u64) -> SlotOwner {
    SlotOwner { caller, guest_network: None }
}

#[test]
fn one_caller_waits_for_its_own_calls_and_others_do_not() {
    let clock = ManualClock::default();
    let target = target(Grade::Strong, 10);
    let mut held: Vec<_> = std::iter::from_fn(|| target.try_take_slot(&clock, CALLER)).collect();
    assert_eq!(held.len(), 9, "the last one is for others");
    let (mine, others) = (of(1), of(2));
    let mut waits_on = waits(&target, &clock, &mine);
    let mut other: QueueState<'_> = Box::pin(target.wait_for_slot(&clock, &others, owner(2)));
    let slot = look(&mut other).unwrap().unwrap();
    assert!(look(&mut waits_on).is_none(), "who waits before it may not have that one");
    drop(slot);
    assert!(look(&mut waits_on).is_none());
    held.pop();
    assert!(look(&mut waits_on).unwrap().is_ok(), "its own call has ended");
}

#[test]
fn a_queue_full_of_one_callers_requests_does_not_keep_others_from_free_slots() {
    let clock = ManualClock::default();
    let queue = QueueOptions { capacity: 3, ..QueueOptions::default() }.check().unwrap();
    let target = Arc::new(GuardedTarget::new(TargetOptions { queue, ..options(Grade::Strong, 10) }));
    let _held: Vec<_> = std::iter::from_fn(|| target.try_take_slot(&clock, CALLER)).collect();
    let (mine, others) = (of(1), of(2));
    let _line: Vec<_> = (0..3).map(|_| waits(&target, &clock, &mine)).collect();
    let mut one_more: QueueState<'_> = Box::pin(target.wait_for_slot(&clock, &mine, owner(1)));
    let refused = look(&mut one_more).unwrap().err().unwrap();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (SlotRefusal::Reserved, true));
    let mut other: QueueState<'_> = Box::pin(target.wait_for_slot(&clock, &others, owner(2)));
    let _place = look(&mut other).unwrap().unwrap();
    let third = waits_as(&target, &clock, &others, owner(3));
    drop(third);
}

#[test]
fn the_caller_with_most_waiters_of_a_full_queue_loses_one_and_gets_a_retry_after() {
    let clock = ManualClock::default();
    let queue = QueueOptions { capacity: 4, ..QueueOptions::default() }.check().unwrap();
    let target = Arc::new(GuardedTarget::new(TargetOptions { queue, ..options(Grade::Strong, 1) }));
    let held = target.try_take_slot(&clock, CALLER).unwrap();
    let (mine, others) = (of(1), of(2));
    let mut flood: Vec<_> = (0..4).map(|_| waits(&target, &clock, &mine)).collect();
    let mut other = waits(&target, &clock, &others);
    let refused = look(&mut flood[3]).unwrap().err().unwrap();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (SlotRefusal::Full, true));
    assert!(flood[..3].iter_mut().all(|waiting| look(waiting).is_none()));
    // All guests count as one owner, no matter how many cookies they use.
    let guest = |caller: u64| SlotOwner { caller, guest_network: Some(caller) };
    let _guest = waits_as(&target, &clock, &others, guest(100));
    let mut second: QueueState<'_> = Box::pin(target.wait_for_slot(&clock, &others, guest(101)));
    assert_eq!(look(&mut second).unwrap().err().unwrap().reason, SlotRefusal::Full);
    assert!(look(&mut flood[2]).unwrap().is_err());
    drop(held);
    let slot = look(&mut flood[0]).unwrap().unwrap();
    drop(slot);
    assert!(look(&mut other).unwrap().is_ok(), "callers take turns");
}
