//! Directory lookups of callers, on a virtual clock.

use crate::caller_directory::{BELIEVED, Manner, ResolverHarness, WITHIN, hash, key, subject};
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_pipeline::callers::{Caller, CallerContract, IdentifyError, TierOrigin, caller_id_of};
use seawall_store::KeyContract;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_nanos(1);

fn found(of: u8, tier: Tier) -> Caller {
    let id = 1_000 + u64::from(of);
    Caller {
        id,
        tier,
        origin: TierOrigin::Directory,
        routes: None,
        is_suspended: false,
        network: None,
        contract: Some(Arc::new(CallerContract::new("somebody", &KeyContract::default()))),
    }
}

fn fallback(of: u8) -> Caller {
    let id = caller_id_of(&hash(of));
    Caller {
        id,
        tier: Tier::Guest,
        origin: TierOrigin::Fallback,
        routes: None,
        is_suspended: false,
        network: None,
        contract: Default::default(),
    }
}

#[test]
fn a_directory_lookup_is_cached_as_long_as_configured() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    assert_eq!(resolver.find(key(1)), Ok(found(1, Tier::Prime)));
    resolver.directory.revoke(1);
    resolver.wait(BELIEVED - MOMENT);
    assert_eq!(resolver.find(key(1)), Ok(found(1, Tier::Prime)));
    assert_eq!(resolver.directory.lookups(), 1);
    resolver.wait(MOMENT);
    assert_eq!(resolver.find(key(1)), Err(IdentifyError::Revoked));
    assert_eq!(resolver.directory.lookups(), 2);
}

#[test]
fn a_slow_lookup_is_cached_from_its_start() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    resolver.directory.behave(Manner::Late(WITHIN));
    assert_eq!(resolver.find(key(1)), Ok(found(1, Tier::Prime)), "ready at the last moment is in time");
    resolver.wait(BELIEVED - WITHIN - MOMENT);
    assert!(resolver.callers.find_cached(&key(1), resolver.world.now()).is_some());
    resolver.wait(MOMENT);
    assert!(resolver.callers.find_cached(&key(1), resolver.world.now()).is_none());
}

#[test]
fn a_local_revocation_takes_effect_at_once_even_during_a_lookup() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    assert!(resolver.find(key(1)).is_ok());
    resolver.directory.revoke(1);
    resolver.callers.invalidate(&hash(1));
    assert_eq!(resolver.find(key(1)), Err(IdentifyError::Revoked));

    // The lookup has read the record, and the entry is invalidated before the lookup returns.
    resolver.directory.add(2, Tier::Prime, None);
    resolver.directory.behave(Manner::Late(Duration::from_millis(10)));
    let early = resolver.ask(key(2));
    resolver.world.run_until(resolver.world.now() + Duration::from_millis(9));
    resolver.callers.invalidate(&hash(2));
    resolver.world.run();
    assert_eq!(early.lock().unwrap().take(), Some(Ok(found(2, Tier::Prime))));
    assert_eq!(resolver.callers.find_cached(&key(2), resolver.world.now()), None, "it was not remembered");
}

#[test]
fn an_unknown_credential_is_cached_for_at_most_a_second() {
    let resolver = ResolverHarness::new(true);
    assert_eq!(resolver.find(key(1)), Err(IdentifyError::Unknown));
    resolver.directory.add(1, Tier::Standard, None);
    resolver.wait(Duration::from_secs(1) - MOMENT);
    assert_eq!((resolver.find(key(1)), resolver.directory.lookups()), (Err(IdentifyError::Unknown), 1));
    resolver.wait(MOMENT);
    assert_eq!(resolver.find(key(1)), Ok(found(1, Tier::Standard)));
}

#[test]
fn a_caller_of_an_issuer_needs_no_record_but_may_have_one() {
    let resolver = ResolverHarness::new(true);
    let caller = resolver.find(subject(1)).unwrap();
    assert_eq!((caller.id, caller.tier), (caller_id_of(&hash(1)), Tier::Standard));
    assert_eq!(caller.origin, TierOrigin::Issuer);
    resolver.wait(Duration::from_secs(9));
    assert!(resolver.find(subject(1)).is_ok());
    assert_eq!(resolver.directory.lookups(), 1, "cached as long as any caller");
    resolver.directory.add(2, Tier::Prime, Some(Ceiling::None));
    assert_eq!(resolver.find(subject(2)), Ok(Caller { is_suspended: true, ..found(2, Tier::Prime) }));
    resolver.directory.add(3, Tier::Prime, Some(Ceiling::Fast));
    assert_eq!(resolver.find(subject(3)), Ok(found(3, Tier::Prime)));
    resolver.directory.revoke(3);
    resolver.callers.invalidate(&hash(3));
    assert_eq!(resolver.find(subject(3)), Err(IdentifyError::Revoked));
}

#[test]
fn a_caller_that_cannot_be_looked_up_is_a_guest_after_the_timeout() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    assert!(resolver.find(key(1)).is_ok());
    resolver.wait(BELIEVED);
    for manner in [Manner::Away, Manner::Late(WITHIN + MOMENT)] {
        resolver.directory.behave(manner);
        let before = resolver.world.now();
        assert_eq!(resolver.find(key(1)), Ok(fallback(1)), "what was remembered has run out");
        assert!(resolver.world.now() - before <= WITHIN + MOMENT);
        assert_eq!(resolver.find(subject(2)), Ok(fallback(2)));
    }
    assert_eq!(resolver.callers.fallbacks(), 4);
    resolver.directory.behave(Manner::Prompt);
    assert_eq!(resolver.find(key(1)), Ok(found(1, Tier::Prime)), "a fallback is not remembered");
    assert_eq!(resolver.callers.fallbacks(), 4);
}

#[test]
fn a_revocation_holds_while_the_directory_is_unavailable() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    resolver.directory.revoke(1);
    assert_eq!(resolver.find(key(1)), Err(IdentifyError::Revoked));
    resolver.wait(BELIEVED);
    resolver.directory.behave(Manner::Away);
    assert_eq!(resolver.find(key(1)), Err(IdentifyError::Revoked));
    assert_eq!(resolver.callers.fallbacks(), 0);
}

#[test]
fn an_invented_key_grants_no_access_where_guests_are_not_allowed() {
    let resolver = ResolverHarness::new(false);
    resolver.directory.add(1, Tier::Prime, None);
    assert!(resolver.find(key(1)).is_ok());
    assert_eq!(resolver.find(key(2)), Err(IdentifyError::Unknown));
    resolver.wait(BELIEVED);
    resolver.directory.behave(Manner::Away);
    assert_eq!(resolver.find(key(1)), Ok(fallback(1)), "it was known");
    for unseen in [2, 3] {
        assert_eq!(resolver.find(key(unseen)), Err(IdentifyError::DirectoryUnavailable));
    }
    assert_eq!(resolver.find(subject(4)), Ok(fallback(4)), "its issuer has identity it");
    assert_eq!(resolver.callers.fallbacks(), 2);
}

#[test]
fn one_lookup_serves_all_concurrent_requests() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    resolver.directory.behave(Manner::Late(Duration::from_millis(20)));
    let answers: Vec<_> = (0..50).map(|_| resolver.ask(key(1))).collect();
    let other = resolver.ask(key(2));
    resolver.world.run();
    for answer in answers {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(found(1, Tier::Prime))));
    }
    assert_eq!(other.lock().unwrap().take(), Some(Err(IdentifyError::Unknown)));
    assert_eq!(resolver.directory.lookups(), 2);

    resolver.wait(BELIEVED);
    resolver.directory.behave(Manner::Late(Duration::from_secs(1)));
    let answers: Vec<_> = (0..50).map(|_| resolver.ask(key(1))).collect();
    resolver.world.run();
    for answer in answers {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(fallback(1))));
    }
    assert_eq!((resolver.directory.lookups(), resolver.callers.fallbacks()), (3, 50));
}

#[test]
fn a_follower_of_a_cancelled_lookup_leads_the_next() {
    let resolver = ResolverHarness::new(true);
    resolver.directory.add(1, Tier::Prime, None);
    resolver.directory.behave(Manner::Late(Duration::from_millis(20)));
    let identity = key(1);
    let mut context = Context::from_waker(Waker::noop());
    let (follower, other) = {
        let mut leader = pin!(resolver.callers.find(&resolver.world, &identity));
        assert!(leader.as_mut().poll(&mut context).is_pending());
        let followers = (resolver.ask(identity), resolver.ask(identity));
        resolver.world.run_until(resolver.world.now() + Duration::from_millis(5));
        followers
    };
    assert_eq!(resolver.directory.lookups(), 1);
    resolver.world.run();
    for answer in [follower, other] {
        assert_eq!(answer.lock().unwrap().take(), Some(Ok(found(1, Tier::Prime))));
    }
    assert_eq!(resolver.directory.lookups(), 2);
}
