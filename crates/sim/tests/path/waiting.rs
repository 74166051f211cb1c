//! A target that is full: who waits, for how long, and who is served next.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers, inbound};
use crate::target::{Deed, ObedientTarget, pieces, whole};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::{Rejection, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

fn shop(concurrency: u32, strong: Deed, fast: Deed) -> (Shop, Arc<ObedientTarget>, Arc<ObedientTarget>) {
    let world = World::new(11);
    let (strong, fast) = (ObedientTarget::new(&world, &[], strong), ObedientTarget::new(&world, &[], fast));
    let models = [
        ("strong-model", 3_000_000_000, Arc::<ObedientTarget>::clone(&strong) as Arc<_>),
        ("fast-model", 1_000_000_000, Arc::<ObedientTarget>::clone(&fast) as Arc<_>),
    ];
    let numbers = Numbers { concurrency, ..Numbers::default() };
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    (Shop::made(&world, known, models, &numbers), strong, fast)
}

#[test]
fn who_finds_no_place_waits_and_nobody_passes_the_limit() {
    let (shop, strong, fast) = shop(2, Deed::Answer, Deed::Answer);
    let seen: Vec<_> = (0..9).map(|_| shop.ask(PRIME, &body(false), None)).collect();
    shop.world.run();
    assert!(seen.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Whole(whole()))));
    assert_eq!((strong.calls(), fast.calls()), (9, 0), "nobody is sent to another model for want of a place");
    // Each answer takes 300 ms, and two are under way at a time.
    let at = |call: usize| strong.diary.lock().unwrap().calls[call].0 - Timestamp::ZERO;
    assert_eq!([0, 1, 2, 3, 4, 8].map(|call| at(call).as_millis()), [0, 0, 300, 300, 600, 1_200]);
    assert_eq!((shop.books.open(), shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_stream_keeps_its_place_to_its_last_frame() {
    let (shop, strong, _) = shop(1, Deed::Answer, Deed::Answer);
    let first = shop.ask(PRIME, &body(true), None);
    let second = shop.ask(PRIME, &body(true), None);
    shop.world.run();
    for seen in [first, second] {
        assert_eq!(*seen.lock().unwrap(), Some(Seen::Stream(pieces())));
    }
    let calls: Vec<_> = strong.diary.lock().unwrap().calls.iter().map(|call| call.0).collect();
    assert!(calls[1] - calls[0] >= Duration::from_millis(450), "{calls:?}");
}

#[test]
fn higher_classes_go_first() {
    let (shop, strong, _) = shop(1, Deed::Answer, Deed::Answer);
    let mut asked = vec![shop.ask(PRIME, &body(false), None)];
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(1));
    asked.extend((0..3).map(|_| shop.ask(GUEST, &body(false), None)));
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(2));
    asked.push(shop.ask(PRIME, &body(false).replace("おすすめは？", "あとから"), None));
    shop.world.run();
    assert!(asked.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Whole(whole()))));
    let second = strong.diary.lock().unwrap().calls[1].1.clone();
    assert!(
        String::from_utf8_lossy(&second).contains("あとから"),
        "the prime caller came last and went first"
    );
}

#[test]
fn who_waits_in_vain_is_answered_by_the_next_target_or_told_so() {
    // The strong model hangs; whoever waits behind it gives up with its start limit and asks the fast one.
    let (shop, strong, fast) = shop(1, Deed::Hang, Deed::Answer);
    let seen: Vec<_> = (0..2).map(|_| shop.ask(PRIME, &body(true), None)).collect();
    shop.world.run();
    assert!(seen.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Stream(pieces()))));
    assert_eq!(fast.calls(), 2);
    assert!(strong.calls() <= 2);

    // With both full for good, who waits is refused, and everything that was held is given back.
    let (shop, _, _) = self::shop(1, Deed::Hang, Deed::Hang);
    let seen: Vec<_> = (0..6).map(|_| shop.ask(PRIME, &body(false), None)).collect();
    shop.world.run();
    let refused = seen.iter().filter(|seen| {
        matches!(
            seen.lock().unwrap().as_ref(),
            Some(Seen::Rejected(Rejection::Unavailable { .. } | Rejection::Exhausted { .. }))
        )
    });
    assert_eq!(refused.count(), 6);
    assert_eq!((shop.books.open(), shop.day().held), (0, Money::ZERO));
}

#[test]
fn who_goes_away_while_waiting_leaves_the_line_and_costs_nothing() {
    let (shop, strong, _) = shop(1, Deed::Answer, Deed::Answer);
    let first = shop.ask(PRIME, &body(false), None);
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(1));
    shop.ask_for(Duration::from_millis(100), PRIME, &body(false));
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(2));
    let third = shop.ask(PRIME, &body(false), None);
    shop.world.run();
    for seen in [first, third] {
        assert_eq!(*seen.lock().unwrap(), Some(Seen::Whole(whole())));
    }
    assert_eq!((strong.calls(), shop.books.open()), (2, 0));
    // The third began when the first had ended.
    let calls: Vec<_> = strong.diary.lock().unwrap().calls.iter().map(|call| call.0).collect();
    assert_eq!(calls[1] - calls[0], Duration::from_millis(300));
}

#[test]
fn many_who_come_and_go_leave_no_place_taken() {
    let (shop, _, _) = shop(3, Deed::Answer, Deed::Answer);
    for round in 0_u64..200 {
        shop.ask_as(inbound(round, PRIME, &body(round % 2 == 0)));
        shop.ask_for(Duration::from_millis(round * 7 % 400), PRIME, &body(round % 3 == 0));
        shop.world.run_until(shop.world.now() + Duration::from_millis(round * 13 % 150));
    }
    assert_eq!(shop.world.run(), 0, "nobody waits for ever");
    assert_eq!((shop.books.open(), shop.day().held), (0, Money::ZERO));
    let targets = shop.path.targets();
    assert!(targets.iter().all(|target| target.in_flight.0 == 0 && target.queue.size == 0), "{targets:?}");
    assert!(targets.iter().all(|target| target.in_flight.2 <= 3));
}
