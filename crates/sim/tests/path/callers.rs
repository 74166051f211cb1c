//! Directory lookups of callers, on a virtual clock.

use crate::caller_directory::{BELIEVED, Desk, Manner, WITHIN, hash, key, subject};
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_pipeline::callers::{Caller, NotKnown, TierOrigin, number_of};
use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_nanos(1);

fn found(of: u8, tier: Tier) -> Caller {
    let id = 1_000 + u64::from(of);
    Caller { id, tier, origin: TierOrigin::Directory, routes: None, is_clamped: false, network: None }
}

fn fallback(of: u8) -> Caller {
    let id = number_of(&hash(of));
    Caller {
        id,
        tier: Tier::Guest,
        origin: TierOrigin::Fallback,
        routes: None,
        is_clamped: false,
        network: None,
    }
}

#[test]
fn the_directory_is_believed_for_as_long_as_settings_say() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    assert_eq!(desk.find(key(1)), Ok(found(1, Tier::Prime)));
    desk.directory.revoke(1);
    desk.wait(BELIEVED - MOMENT);
    assert_eq!(desk.find(key(1)), Ok(found(1, Tier::Prime)));
    assert_eq!(desk.directory.asked(), 1);
    desk.wait(MOMENT);
    assert_eq!(desk.find(key(1)), Err(NotKnown::Revoked));
    assert_eq!(desk.directory.asked(), 2);
}

#[test]
fn a_slow_answer_is_believed_from_the_moment_of_the_question() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    desk.directory.behave(Manner::Late(WITHIN));
    assert_eq!(desk.find(key(1)), Ok(found(1, Tier::Prime)), "ready at the last moment is in time");
    desk.wait(BELIEVED - WITHIN - MOMENT);
    assert!(desk.callers.known(&key(1), desk.world.now()).is_some());
    desk.wait(MOMENT);
    assert!(desk.callers.known(&key(1), desk.world.now()).is_none());
}

#[test]
fn a_revocation_here_counts_at_once_even_against_an_answer_in_the_air() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    assert!(desk.find(key(1)).is_ok());
    desk.directory.revoke(1);
    desk.callers.forget(&hash(1));
    assert_eq!(desk.find(key(1)), Err(NotKnown::Revoked));

    // The lookup has read the record, and the entry is invalidated before the lookup returns.
    desk.directory.add(2, Tier::Prime, None);
    desk.directory.behave(Manner::Late(Duration::from_millis(10)));
    let early = desk.ask(key(2));
    desk.world.run_until(desk.world.now() + Duration::from_millis(9));
    desk.callers.forget(&hash(2));
    desk.world.run();
    assert_eq!(early.lock().unwrap().take(), Some(Ok(found(2, Tier::Prime))));
    assert_eq!(desk.callers.known(&key(2), desk.world.now()), None, "it was not remembered");
}

#[test]
fn nobody_is_unknown_for_longer_than_a_second() {
    let desk = Desk::new(true);
    assert_eq!(desk.find(key(1)), Err(NotKnown::Unknown));
    desk.directory.add(1, Tier::Standard, None);
    desk.wait(Duration::from_secs(1) - MOMENT);
    assert_eq!((desk.find(key(1)), desk.directory.asked()), (Err(NotKnown::Unknown), 1));
    desk.wait(MOMENT);
    assert_eq!(desk.find(key(1)), Ok(found(1, Tier::Standard)));
}

#[test]
fn an_issuers_caller_needs_no_record_and_may_have_one() {
    let desk = Desk::new(true);
    let caller = desk.find(subject(1)).unwrap();
    assert_eq!((caller.id, caller.tier), (number_of(&hash(1)), Tier::Standard));
    assert_eq!(caller.origin, TierOrigin::Issuer);
    desk.wait(Duration::from_secs(9));
    assert!(desk.find(subject(1)).is_ok());
    assert_eq!(desk.directory.asked(), 1, "proven, so remembered as long as everybody");
    desk.directory.add(2, Tier::Prime, Some(Ceiling::None));
    assert_eq!(desk.find(subject(2)), Ok(Caller { is_clamped: true, ..found(2, Tier::Prime) }));
    desk.directory.add(3, Tier::Prime, Some(Ceiling::Fast));
    assert_eq!(desk.find(subject(3)), Ok(found(3, Tier::Prime)));
    desk.directory.revoke(3);
    desk.callers.forget(&hash(3));
    assert_eq!(desk.find(subject(3)), Err(NotKnown::Revoked));
}

#[test]
fn who_cannot_be_looked_up_is_a_guest_and_waits_no_longer_than_allowed() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    assert!(desk.find(key(1)).is_ok());
    desk.wait(BELIEVED);
    for manner in [Manner::Away, Manner::Late(WITHIN + MOMENT)] {
        desk.directory.behave(manner);
        let before = desk.world.now();
        assert_eq!(desk.find(key(1)), Ok(fallback(1)), "what was remembered has run out");
        assert!(desk.world.now() - before <= WITHIN + MOMENT);
        assert_eq!(desk.find(subject(2)), Ok(fallback(2)));
    }
    assert_eq!(desk.callers.fallbacks(), 4);
    desk.directory.behave(Manner::Prompt);
    assert_eq!(desk.find(key(1)), Ok(found(1, Tier::Prime)), "a fallback is not remembered");
    assert_eq!(desk.callers.fallbacks(), 4);
}

#[test]
fn what_was_revoked_stays_so_while_the_directory_is_away() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    desk.directory.revoke(1);
    assert_eq!(desk.find(key(1)), Err(NotKnown::Revoked));
    desk.wait(BELIEVED);
    desk.directory.behave(Manner::Away);
    assert_eq!(desk.find(key(1)), Err(NotKnown::Revoked));
    assert_eq!(desk.callers.fallbacks(), 0);
}

#[test]
fn where_guests_may_not_ask_a_made_up_key_is_no_way_in() {
    let desk = Desk::new(false);
    desk.directory.add(1, Tier::Prime, None);
    assert!(desk.find(key(1)).is_ok());
    assert_eq!(desk.find(key(2)), Err(NotKnown::Unknown));
    desk.wait(BELIEVED);
    desk.directory.behave(Manner::Away);
    assert_eq!(desk.find(key(1)), Ok(fallback(1)), "it was known");
    for unseen in [2, 3] {
        assert_eq!(desk.find(key(unseen)), Err(NotKnown::Unreachable));
    }
    assert_eq!(desk.find(subject(4)), Ok(fallback(4)), "its issuer has proven it");
    assert_eq!(desk.callers.fallbacks(), 2);
}

#[test]
fn one_look_up_serves_all_who_ask_at_once() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    desk.directory.behave(Manner::Late(Duration::from_millis(20)));
    let answers: Vec<_> = (0..50).map(|_| desk.ask(key(1))).collect();
    let other = desk.ask(key(2));
    desk.world.run();
    for answer in answers {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(found(1, Tier::Prime))));
    }
    assert_eq!(other.lock().unwrap().take(), Some(Err(NotKnown::Unknown)));
    assert_eq!(desk.directory.asked(), 2);

    desk.wait(BELIEVED);
    desk.directory.behave(Manner::Late(Duration::from_secs(1)));
    let answers: Vec<_> = (0..50).map(|_| desk.ask(key(1))).collect();
    desk.world.run();
    for answer in answers {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(fallback(1))));
    }
    assert_eq!((desk.directory.asked(), desk.callers.fallbacks()), (3, 50));
}

#[test]
fn who_follows_a_look_up_that_is_given_up_makes_the_next() {
    let desk = Desk::new(true);
    desk.directory.add(1, Tier::Prime, None);
    desk.directory.behave(Manner::Late(Duration::from_millis(20)));
    let proven = key(1);
    let mut context = Context::from_waker(Waker::noop());
    let (follower, other) = {
        let mut leader = pin!(desk.callers.find(&desk.world, &proven));
        assert!(leader.as_mut().poll(&mut context).is_pending());
        let followers = (desk.ask(proven), desk.ask(proven));
        desk.world.run_until(desk.world.now() + Duration::from_millis(5));
        followers
    };
    assert_eq!(desk.directory.asked(), 1);
    desk.world.run();
    for answer in [follower, other] {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(found(1, Tier::Prime))));
    }
    assert_eq!(desk.directory.asked(), 2);
}
