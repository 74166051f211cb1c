use super::{NoPlace, Place, Slot, Told};
use crate::hand::Hand;
use crate::target::{GuardedTarget, TargetOptions};
use seawall_core::breaker::BreakerProfile;
use seawall_core::handle::Timer as _;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::{QueueOptions, QueueRequest, Wants};
use seawall_core::time::Timestamp;
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
        price: Price::per_million(Money::ZERO, Money::ZERO),
        output_limit_field: OutputLimitField::MaxTokens,
        concurrency,
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
    let mut waiting: Waiting<'a> = Box::pin(target.wait_for_place(hand, request));
    assert!(look(&mut waiting).is_none(), "no place is free");
    waiting
}

fn look(waiting: &mut Waiting<'_>) -> Option<Result<Place<Hand>, NoPlace>> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn who_waits_is_served_by_a_target_whose_grade_has_changed() {
    let hand = Hand::default();
    let strong = target(Grade::Strong, 1);
    let held = strong.place(&hand).unwrap();
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
    let permit = target.in_flight.try_acquire().unwrap();
    assert!(slot.take().is_none(), "it leaves, and looks once more whether it was given one");
    assert!(matches!(slot.tell(Told::Place(permit)), Some(Told::Place(_))));
    assert!(target.in_flight.try_acquire().is_some(), "it is free, and who gave it knows");
}

#[test]
fn who_leaves_while_places_are_given_never_keeps_one_from_the_next() {
    for round in 0..3_000_u32 {
        let hand = Hand::default();
        let target = target(Grade::Strong, 1);
        let held = target.place(&hand).unwrap();
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
    let held = one.place(&hand).unwrap();
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
    let _held = target.place(&hand).unwrap();
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
