use super::{NoPlace, Place, Slot, Told};
use crate::hand::Hand;
use crate::target::{GuardedTarget, TargetOptions};
use seawall_core::breaker::BreakerProfile;
use seawall_core::handle::Timer as _;
use seawall_core::in_flight::{SlotHolder, SlotRefusal, SlotShares};
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::{QueueOptions, QueueRequest, Wants};
use seawall_core::time::Timestamp;
use seawall_core::untracked::InputModel;
use seawall_core::vocabulary::{Grade, OutputLimitField, Priority};
use seawall_provider::{Call, Calling, Target, TargetDialect};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

struct Nowhere;

impl Target for Nowhere {
    fn dialect(&self) -> TargetDialect {
        TargetDialect::AnthropicMessages
    }

    fn call(&self, _: Call) -> Calling<'_> {
        Box::pin(std::future::pending())
    }
}

fn options(grade: Grade, concurrency: u32) -> TargetOptions {
    TargetOptions {
        name: "target".to_owned(),
        model: "model".to_owned(),
        grade,
        price: Price::per_million(Money::ZERO, Money::ZERO).into(),
        input: InputModel::of("any", None),
        max_output: None,
        output_limit_field: OutputLimitField::MaxTokens,
        concurrency,
        shares: SlotShares::default(),
        queue: QueueOptions::default().check().unwrap(),
        breaker: BreakerProfile::Sonnet.options().check().unwrap(),
        pressure: PressureOptions::default().check().unwrap(),
        upstream: Arc::new(Nowhere),
    }
}

fn target(grade: Grade, concurrency: u32) -> Arc<GuardedTarget> {
    Arc::new(GuardedTarget::new(options(grade, concurrency)).unwrap())
}

fn request(grade: Grade, deadline: Duration) -> QueueRequest {
    QueueRequest {
        wants: Wants::only(grade),
        ..QueueRequest::new(Priority::Normal, 1, Timestamp::ZERO + deadline)
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Place<Hand>, NoPlace>> + Send + 'a>>;

fn waits<'a>(target: &'a Arc<GuardedTarget>, hand: &'a Hand, request: &'a QueueRequest) -> Waiting<'a> {
    waits_as(target, hand, request, SlotHolder { caller: request.session, guest_from: None })
}

fn waits_as<'a>(
    target: &'a Arc<GuardedTarget>,
    hand: &'a Hand,
    request: &'a QueueRequest,
    holder: SlotHolder,
) -> Waiting<'a> {
    let mut waiting: Waiting<'a> = Box::pin(target.wait_for_place(hand, request, holder));
    assert!(look(&mut waiting).is_none(), "no place is free");
    waiting
}

fn look(waiting: &mut Waiting<'_>) -> Option<Result<Place<Hand>, NoPlace>> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

const CALLER: SlotHolder = SlotHolder { caller: 1, guest_from: None };
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn who_waits_is_served_by_a_target_whose_grade_has_changed() {
    let hand = Hand::default();
    let strong = target(Grade::Strong, 1);
    let held = strong.place(&hand, CALLER).unwrap();
    let fast = Arc::new(strong.successor(options(Grade::Fast, 1)).unwrap());
    let (old, new) = (request(Grade::Strong, MINUTE), request(Grade::Fast, MINUTE));
    let mut first = waits(&strong, &hand, &old);
    let mut second = waits(&fast, &hand, &new);
    drop(held);
    let place = look(&mut first).unwrap().unwrap();
    assert!(look(&mut second).is_none());
    drop(place);
    assert!(look(&mut second).unwrap().is_ok());
}

#[test]
fn a_place_told_to_who_has_just_left_comes_back() {
    let target = target(Grade::Strong, 1);
    let slot = Slot::default();
    let permit = target.in_flight.try_acquire(CALLER).unwrap();
    assert!(slot.take().is_none(), "it leaves, and looks once more whether it was given one");
    assert!(matches!(slot.tell(Told::Place(permit)), Some(Told::Place(_))));
    assert!(target.in_flight.try_acquire(CALLER).is_ok(), "it is free, and who gave it knows");
}

#[test]
fn who_leaves_while_places_are_given_never_keeps_one_from_the_next() {
    for round in 0..3_000_u32 {
        let hand = Hand::default();
        let target = target(Grade::Strong, 1);
        let held = target.place(&hand, CALLER).unwrap();
        let wanted = request(Grade::Strong, MINUTE);
        let leaver = waits(&target, &hand, &wanted);
        let mut stays = waits(&target, &hand, &wanted);
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
            look(&mut stays).is_some_and(|place| place.is_ok()),
            "round {round}: a free place, and nobody told"
        );
    }
}

#[test]
fn more_places_are_given_to_who_waits_at_once() {
    let hand = Hand::default();
    let one = target(Grade::Strong, 1);
    let held = one.place(&hand, CALLER).unwrap();
    let wanted = request(Grade::Strong, MINUTE);
    let (mut first, mut second) = (waits(&one, &hand, &wanted), waits(&one, &hand, &wanted));
    let two = one.successor(options(Grade::Strong, 2)).unwrap();
    two.take_effect(hand.monotonic()).unwrap();
    let place = look(&mut first).unwrap().unwrap();
    assert!(look(&mut second).is_none());
    drop((held, place));
    assert!(look(&mut second).unwrap().is_ok());
}

#[test]
fn nothing_is_remembered_of_those_who_waited_in_vain() {
    let hand = Hand::default();
    let target = target(Grade::Strong, 1);
    let _held = target.place(&hand, CALLER).unwrap();
    for _ in 0..10 {
        let wanted = QueueRequest {
            deadline: hand.monotonic() + Duration::from_secs(1),
            ..request(Grade::Strong, MINUTE)
        };
        let waiting = waits(&target, &hand, &wanted);
        hand.pass(Duration::from_secs(2));
        drop(waiting);
        let line = super::lock(&target.line.waiting);
        assert_eq!((line.slots.len(), line.queue.stats(hand.monotonic()).size), (0, 0));
        assert!(line.queue.next_deadline().is_none(), "nobody is left to be told that its time has come");
    }
}

fn of(caller: u64) -> QueueRequest {
    QueueRequest { session: caller, ..request(Grade::Strong, MINUTE) }
}

fn holder(caller: u64) -> SlotHolder {
    SlotHolder { caller, guest_from: None }
}

#[test]
fn one_caller_waits_for_its_own_calls_and_others_do_not() {
    let hand = Hand::default();
    let target = target(Grade::Strong, 10);
    let mut held: Vec<_> = std::iter::from_fn(|| target.place(&hand, CALLER)).collect();
    assert_eq!(held.len(), 9, "the last one is for others");
    let (mine, others) = (of(1), of(2));
    let mut waits_on = waits(&target, &hand, &mine);
    let mut other: Waiting<'_> = Box::pin(target.wait_for_place(&hand, &others, holder(2)));
    let place = look(&mut other).unwrap().unwrap();
    assert!(look(&mut waits_on).is_none(), "who waits before it may not have that one");
    drop(place);
    assert!(look(&mut waits_on).is_none());
    held.pop();
    assert!(look(&mut waits_on).unwrap().is_ok(), "its own call has ended");
}

#[test]
fn a_line_full_of_one_callers_requests_does_not_keep_others_from_what_is_free() {
    let hand = Hand::default();
    let queue = QueueOptions { capacity: 3, ..QueueOptions::default() }.check().unwrap();
    let target = Arc::new(GuardedTarget::new(TargetOptions { queue, ..options(Grade::Strong, 10) }).unwrap());
    let _held: Vec<_> = std::iter::from_fn(|| target.place(&hand, CALLER)).collect();
    let (mine, others) = (of(1), of(2));
    let _line: Vec<_> = (0..3).map(|_| waits(&target, &hand, &mine)).collect();
    let mut one_more: Waiting<'_> = Box::pin(target.wait_for_place(&hand, &mine, holder(1)));
    let refused = look(&mut one_more).unwrap().err().unwrap();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (SlotRefusal::Reserved, true));
    let mut other: Waiting<'_> = Box::pin(target.wait_for_place(&hand, &others, holder(2)));
    let _place = look(&mut other).unwrap().unwrap();
    let third = waits_as(&target, &hand, &others, holder(3));
    drop(third);
}

#[test]
fn who_holds_most_of_a_full_line_makes_room_for_others_and_is_told_when_to_come_back() {
    let hand = Hand::default();
    let queue = QueueOptions { capacity: 4, ..QueueOptions::default() }.check().unwrap();
    let target = Arc::new(GuardedTarget::new(TargetOptions { queue, ..options(Grade::Strong, 1) }).unwrap());
    let held = target.place(&hand, CALLER).unwrap();
    let (mine, others) = (of(1), of(2));
    let mut flood: Vec<_> = (0..4).map(|_| waits(&target, &hand, &mine)).collect();
    let mut other = waits(&target, &hand, &others);
    let refused = look(&mut flood[3]).unwrap().err().unwrap();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (SlotRefusal::Full, true));
    assert!(flood[..3].iter_mut().all(|waiting| look(waiting).is_none()));
    // All guests count as one holder, no matter how many cookies they use.
    let guest = |caller: u64| SlotHolder { caller, guest_from: Some(caller) };
    let _guest = waits_as(&target, &hand, &others, guest(100));
    let mut second: Waiting<'_> = Box::pin(target.wait_for_place(&hand, &others, guest(101)));
    assert_eq!(look(&mut second).unwrap().err().unwrap().reason, SlotRefusal::Full);
    assert!(look(&mut flood[2]).unwrap().is_err());
    drop(held);
    let place = look(&mut flood[0]).unwrap().unwrap();
    drop(place);
    assert!(look(&mut other).unwrap().is_ok(), "callers take turns");
}
