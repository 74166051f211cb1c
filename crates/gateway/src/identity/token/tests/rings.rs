use super::signer::{
    KEYS, claims, entries, issuers, key_set, later, now, options, raw_token, rsa_entry, token, with_keys,
    with_secret,
};
use crate::identity::token::{
    IssuerOptions, JsonWebKeySet, KeyRing, KeySetError, RefreshDecision, RefreshPermit, TokenAlgorithm,
    TokenIssuers, TokenRefusal,
};
use proptest::collection;
use proptest::prelude::{prop_assert_eq, proptest};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const RS: TokenAlgorithm = TokenAlgorithm::Rs256;

fn ring(issuers: &TokenIssuers) -> &Arc<KeyRing> {
    issuers.all()[0].ring().unwrap()
}

fn set(entries: &[Value]) -> JsonWebKeySet {
    JsonWebKeySet::parse(&key_set(entries)).unwrap()
}

fn permit(decision: RefreshDecision) -> RefreshPermit {
    match decision {
        RefreshDecision::Fetch(permit) => permit,
        other => panic!("{other:?}"),
    }
}

/// The moment just before this many seconds from now.
fn just_before(seconds: u64) -> seawall_core::time::Now {
    let mut moment = later(seconds);
    moment.monotonic = seawall_core::time::Timestamp::from_nanos(moment.monotonic.as_nanos() - 1);
    moment
}

/// The most important property: a cached token must not outlive the key that verified it.
#[test]
fn a_removed_key_and_its_cached_tokens_expire_after_the_grace_period() {
    let grace = Duration::from_secs(20);
    let issuers = with_keys(IssuerOptions { grace, ..options() }, &entries());
    let known = token(RS, &claims());
    assert!(issuers.verify(&known, now()).is_ok());
    ring(&issuers).replace(set(&entries()[1..]), later(1).monotonic);
    let mut fresh = claims();
    fresh["jti"] = json!("never seen before");
    let fresh = token(RS, &fresh);
    for token in [&known, &fresh] {
        assert!(issuers.verify(token, just_before(21)).is_ok());
    }
    for token in [&known, &fresh] {
        assert_eq!(issuers.verify(token, later(21)), Err(TokenRefusal::KeyUnknown));
    }
    // The other keys are unaffected.
    assert!(issuers.verify(&token(TokenAlgorithm::Es256, &claims()), later(21)).is_ok());
}

#[test]
fn without_grace_a_removed_key_expires_at_once() {
    let issuers = with_keys(IssuerOptions { grace: Duration::ZERO, ..options() }, &entries());
    let known = token(RS, &claims());
    assert!(issuers.verify(&known, now()).is_ok());
    ring(&issuers).replace(set(&entries()[1..]), now().monotonic);
    assert_eq!(issuers.verify(&known, now()), Err(TokenRefusal::KeyUnknown));
}

#[test]
fn a_second_list_does_not_lengthen_the_grace() {
    let issuers = with_keys(IssuerOptions { grace: Duration::from_secs(20), ..options() }, &entries());
    let known = token(RS, &claims());
    ring(&issuers).replace(set(&entries()[1..]), now().monotonic);
    ring(&issuers).replace(set(&entries()[1..3]), later(10).monotonic);
    assert!(issuers.verify(&known, just_before(20)).is_ok());
    assert_eq!(issuers.verify(&known, later(20)), Err(TokenRefusal::KeyUnknown));
    let dropped_later = token(TokenAlgorithm::EdDsa, &claims());
    assert!(issuers.verify(&dropped_later, just_before(30)).is_ok());
    assert_eq!(issuers.verify(&dropped_later, later(30)), Err(TokenRefusal::KeyUnknown));
}

#[test]
fn a_key_that_comes_back_works_again() {
    let issuers = with_keys(IssuerOptions { grace: Duration::from_secs(20), ..options() }, &entries());
    let known = token(RS, &claims());
    ring(&issuers).replace(set(&entries()[1..]), now().monotonic);
    ring(&issuers).replace(set(&entries()), later(5).monotonic);
    assert!(issuers.verify(&known, later(25)).is_ok());
    ring(&issuers).replace(set(&entries()[1..]), later(26).monotonic);
    ring(&issuers).replace(set(&entries()), later(50).monotonic);
    assert!(issuers.verify(&known, later(51)).is_ok());
}

#[test]
fn a_new_key_under_an_old_name_leaves_the_old_one_its_grace() {
    let issuers = with_keys(
        IssuerOptions { grace: Duration::from_secs(20), ..options() },
        &[rsa_entry("rsa", &KEYS.rsa)],
    );
    ring(&issuers).replace(set(&[rsa_entry("rsa", &KEYS.other_rsa)]), now().monotonic);
    let old = token(RS, &claims());
    assert!(issuers.verify(&old, just_before(20)).is_ok());
    assert_eq!(issuers.verify(&old, later(20)), Err(TokenRefusal::SignatureInvalid));
}

#[test]
fn a_token_without_a_name_means_the_only_key() {
    let nameless = raw_token(RS, r#"{"alg":"RS256"}"#, &claims().to_string());
    assert!(issuers().verify(&nameless, now()).is_ok());
    let two = [rsa_entry("a", &KEYS.rsa), rsa_entry("b", &KEYS.other_rsa)];
    assert_eq!(with_keys(options(), &two).verify(&nameless, now()), Err(TokenRefusal::KeyIdMissing));
    let mut unnamed = rsa_entry("a", &KEYS.rsa);
    unnamed.as_object_mut().unwrap().remove("kid");
    let issuers = with_keys(options(), &[unnamed]);
    assert!(issuers.verify(&nameless, now()).is_ok());
    // A key without a name is not found under any name.
    assert_eq!(issuers.verify(&token(RS, &claims()), now()), Err(TokenRefusal::KeyUnknown));
}

#[test]
fn unknown_key_ids_cause_at_most_one_fetch_in_ten_seconds() {
    let issuers = issuers();
    let ring = ring(&issuers);
    assert!(matches!(ring.request_refresh(Some("rsa"), now().monotonic), RefreshDecision::NotNeeded));
    let first = permit(ring.request_refresh(Some("made up"), now().monotonic));
    for seconds in [0, 5, 100] {
        let again = ring.request_refresh(Some("another"), later(seconds).monotonic);
        assert!(matches!(again, RefreshDecision::InProgress), "{again:?}");
    }
    drop(first);
    let soon = ring.request_refresh(Some("made up"), just_before(10).monotonic);
    assert!(matches!(soon, RefreshDecision::TooSoon), "{soon:?}");
    drop(permit(ring.request_refresh(Some("made up"), later(10).monotonic)));
}

#[test]
fn a_first_list_that_does_not_come_is_asked_for_sooner() {
    let issuers = TokenIssuers::new(vec![options().check().unwrap()]).unwrap();
    let ring = ring(&issuers);
    let mut second = 0;
    for pause in [1, 2, 4, 8, 10, 10] {
        let first = permit(ring.request_refresh(None, later(second).monotonic));
        let beside = ring.request_refresh(Some("rsa"), later(second + pause).monotonic);
        assert!(matches!(beside, RefreshDecision::InProgress), "{beside:?}");
        drop(first);
        let soon = ring.request_refresh(Some("rsa"), just_before(second + pause).monotonic);
        assert!(matches!(soon, RefreshDecision::TooSoon), "{pause}: {soon:?}");
        second += pause;
    }
    let came = permit(ring.request_refresh(None, later(second).monotonic));
    came.finish(&key_set(&entries()), later(second).monotonic).unwrap();
    // From then on an invented key name is limited as usual.
    let soon = ring.request_refresh(Some("made up"), just_before(second + 10).monotonic);
    assert!(matches!(soon, RefreshDecision::TooSoon), "{soon:?}");
}

#[test]
fn a_list_that_has_grown_old_is_fetched_anew() {
    let issuers = issuers();
    let ring = ring(&issuers);
    for name in [None, Some("rsa")] {
        assert!(matches!(ring.request_refresh(name, just_before(300).monotonic), RefreshDecision::NotNeeded));
    }
    let permit = permit(ring.request_refresh(None, later(300).monotonic));
    permit.finish(&key_set(&entries()), later(301).monotonic).unwrap();
    assert!(matches!(ring.request_refresh(None, just_before(601).monotonic), RefreshDecision::NotNeeded));
    assert!(matches!(ring.request_refresh(None, later(601).monotonic), RefreshDecision::Fetch(_)));
}

#[test]
fn an_unknown_key_is_found_after_a_fetch() {
    let issuers = TokenIssuers::new(vec![options().check().unwrap()]).unwrap();
    let token = token(RS, &claims());
    assert_eq!(issuers.verify(&token, now()), Err(TokenRefusal::KeyUnknown));
    let (issuer, decision) = issuers.refresh_for(&token, now().monotonic).unwrap();
    assert_eq!(issuer.name(), super::signer::ISSUER);
    permit(decision).finish(&key_set(&entries()), now().monotonic).unwrap();
    assert!(issuers.verify(&token, now()).is_ok());
    let (_, decision) = issuers.refresh_for(&token, now().monotonic).unwrap();
    assert!(matches!(decision, RefreshDecision::NotNeeded));
}

#[test]
fn a_list_that_cannot_be_used_changes_nothing() {
    let issuers = issuers();
    let permit = permit(ring(&issuers).request_refresh(Some("new"), now().monotonic));
    assert_eq!(permit.finish(br#"{"keys":[]}"#, now().monotonic), Err(KeySetError::NoUsableKey));
    assert!(issuers.verify(&token(RS, &claims()), later(59)).is_ok());
    let again = ring(&issuers).request_refresh(Some("new"), later(9).monotonic);
    assert!(matches!(again, RefreshDecision::TooSoon), "{again:?}");
}

#[test]
fn tokens_that_no_key_list_could_verify_cause_no_fetch() {
    let issuers = TokenIssuers::new(vec![options().check().unwrap()]).unwrap();
    let mut stranger = claims();
    stranger["iss"] = json!("https://evil.example.com");
    let forged = raw_token(TokenAlgorithm::Hs256, r#"{"alg":"HS256","kid":"x"}"#, &claims().to_string());
    for token in ["", "a.b.c", &token(RS, &stranger), &forged, &"a".repeat(16_385)] {
        assert!(issuers.refresh_for(token, now().monotonic).is_none(), "{token}");
    }
    let secret = token(TokenAlgorithm::Hs256, &claims());
    assert!(with_secret().refresh_for(&secret, now().monotonic).is_none());
}

#[test]
fn only_so_many_keys_are_kept_for_their_grace() {
    let grace = Duration::from_secs(3_600);
    let issuers = with_keys(IssuerOptions { grace, ..options() }, &[rsa_entry("rsa", &KEYS.rsa)]);
    let known = token(RS, &claims());
    assert!(issuers.verify(&known, now()).is_ok());
    // Each list removes four keys, one for each algorithm; the first four are ours.
    let replace =
        |name: u64| ring(&issuers).replace(set(&[rsa_entry(&name.to_string(), &KEYS.rsa)]), now().monotonic);
    (0..64).for_each(replace);
    assert!(issuers.verify(&known, now()).is_ok());
    replace(64);
    assert_eq!(issuers.verify(&known, now()), Err(TokenRefusal::KeyUnknown));
}

#[test]
fn of_many_threads_one_fetches() {
    let issuers = issuers();
    let ring = ring(&issuers);
    let fetches: usize = std::thread::scope(|scope| {
        let ask = || {
            let decisions: Vec<_> =
                (0..100).map(|_| ring.request_refresh(Some("new"), later(10).monotonic)).collect();
            let is_fetch = |decision: &&RefreshDecision| matches!(decision, RefreshDecision::Fetch(_));
            decisions.iter().filter(is_fetch).count()
        };
        let threads = [(); 4].map(|()| scope.spawn(ask));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(fetches, 1);
}

#[test]
fn no_thread_sees_a_key_after_its_end() {
    let issuers = with_keys(IssuerOptions { grace: Duration::ZERO, ..options() }, &entries());
    let known = token(RS, &claims());
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let was_over = ended.load(std::sync::atomic::Ordering::SeqCst);
                    let holds = issuers.verify(&known, later(1)).is_ok();
                    assert!(!(was_over && holds), "a dead key was believed");
                }
            });
        }
        ring(&issuers).replace(set(&entries()[1..]), later(1).monotonic);
        ended.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert_eq!(issuers.verify(&known, later(1)), Err(TokenRefusal::KeyUnknown));
}

proptest! {
    /// A key is valid while it is listed and for the grace period after its last removal, whatever is cached.
    #[test]
    fn keys_live_as_a_naive_list_says(steps in collection::vec((0_u64..15, 0_u32..16), 1..12)) {
        const GRACE: u64 = 20;
        let algorithms = [TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::Es384, TokenAlgorithm::EdDsa];
        let mut long = claims();
        long["exp"] = json!(super::signer::NOW + 1_000);
        let tokens = algorithms.map(|algorithm| token(algorithm, &long));
        let all = entries();
        let issuers = with_keys(IssuerOptions { grace: Duration::from_secs(GRACE), ..options() }, &all);
        // For each key: the second at which it expires, unless it is listed.
        let mut model = [None; 4];
        let mut second = 0;
        for (wait, listed) in steps {
            second += wait;
            // A list without keys is refused: then nothing is replaced.
            if listed != 0 {
                let is_listed = |place: &usize| listed & (1 << place) != 0;
                let list: Vec<Value> = (0..4).filter(is_listed).map(|place| all[place].clone()).collect();
                ring(&issuers).replace(set(&list), later(second).monotonic);
                for (place, ends) in model.iter_mut().enumerate() {
                    *ends = if is_listed(&place) { None } else { Some(ends.unwrap_or(second + GRACE)) };
                }
            }
            let works = tokens.each_ref().map(|token| issuers.verify(token, later(second)).is_ok());
            prop_assert_eq!(works, model.map(|ends| ends.is_none_or(|ends| second < ends)));
        }
    }
}
