use super::{IssueError, IssuedKey, KeyRequest, create, format_date, is_valid_name, list, revoke};
use crate::identity::master::MasterSecret;
use crate::identity::pseudonym::Pseudonyms;
use crate::identity::signature::hash_access_key;
use crate::identity::{hash_api_key, identify_key};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_store::{CredentialHash, Directory as _, MemoryDirectory};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Polls once: a directory in memory completes immediately.
fn run<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("it waits"),
    }
}

fn names() -> Pseudonyms {
    Pseudonyms::new(b"salt")
}

fn noon() -> UtcTime {
    UtcTime::from_civil(2026, 11, 16) + Duration::from_secs(43_200)
}

fn ask(name: &str, tier: &str, aws: bool) -> KeyRequest {
    KeyRequest { name: name.to_owned(), tier: tier.to_owned(), aws }
}

fn made(directory: &MemoryDirectory, ask: &KeyRequest) -> Result<IssuedKey, IssueError> {
    let master = MasterSecret::new(vec![7; 32]).unwrap();
    run(create(directory, &master, ask, noon()))
}

#[test]
fn a_key_is_returned_once_and_stored_as_a_hash() {
    let directory = MemoryDirectory::new();
    let issued = made(&directory, &ask("shop", "prime", false)).unwrap();
    let key = issued.key.clone().unwrap();
    assert!(identify_key(&key).is_ok() && issued.aws.is_none());
    assert!(!format!("{issued:?}").contains(&key));
    let record = run(directory.find(&CredentialHash(hash_api_key(&key)))).unwrap().unwrap();
    assert_eq!((&*record.name, record.tier, record.created), ("shop", Tier::Prime, noon()));
    assert_eq!(format!("{:016x}", record.caller), issued.id, "the beginning of the hash is its number, too");
    let listed = run(list(&directory, &names())).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].id, listed[0].created.as_str()), (&issued.id, "2026-11-16T12:00:00Z"));
    assert!(!serde_json::to_string(&listed).unwrap().contains(&key));
}

#[test]
fn a_pair_for_aws_clients_is_derived() {
    let directory = MemoryDirectory::new();
    let pair = made(&directory, &ask("sdk", "standard", true)).unwrap();
    let aws = pair.aws.clone().unwrap();
    assert!(pair.key.is_none() && aws.access_key_id.starts_with("SWAK"));
    assert!(!format!("{pair:?}").contains(&aws.secret_access_key));
    let hash = CredentialHash(hash_access_key(&aws.access_key_id));
    assert_eq!(run(directory.find(&hash)).unwrap().unwrap().tier, Tier::Standard);
    let json = serde_json::to_value(&pair).unwrap();
    assert!(json.get("key").is_none() && json["aws"]["access_key_id"] == aws.access_key_id.as_str());
}

#[test]
fn a_name_is_free_again_when_its_key_is_revoked() {
    let directory = MemoryDirectory::new();
    let first = made(&directory, &ask("shop", "prime", false)).unwrap();
    assert!(matches!(made(&directory, &ask("shop", "guest", true)), Err(IssueError::NameInUse(_))));
    let (entry, hash) = run(revoke(&directory, &names(), "shop", noon())).unwrap();
    assert_eq!(hash, hash_api_key(&first.key.unwrap()));
    assert_eq!((entry.id, entry.revoked.as_deref()), (first.id, Some("2026-11-16T12:00:00Z")));
    assert!(matches!(run(revoke(&directory, &names(), "shop", noon())), Err(IssueError::UnknownKey(_))));
    let second = made(&directory, &ask("shop", "guest", false)).unwrap();
    let (entry, _) = run(revoke(&directory, &names(), &second.id, noon())).unwrap();
    assert_eq!((entry.id, entry.tier.as_str()), (second.id, "guest"));
    let listed = run(list(&directory, &names())).unwrap();
    assert_eq!(listed.iter().filter(|entry| entry.revoked.is_some()).count(), 2);
}

#[test]
fn less_than_an_id_revokes_nothing() {
    let directory = MemoryDirectory::new();
    let issued = made(&directory, &ask("shop", "prime", false)).unwrap();
    for part in ["", &issued.id[..15], "sho", "SHOP"] {
        assert!(
            matches!(run(revoke(&directory, &names(), part, noon())), Err(IssueError::UnknownKey(_))),
            "{part}"
        );
    }
}

#[test]
fn more_keys_than_a_page_are_all_seen() {
    let directory = MemoryDirectory::new();
    for number in 0..501 {
        made(&directory, &ask(&format!("key {number}"), "guest", false)).unwrap();
    }
    assert_eq!(run(list(&directory, &names())).unwrap().len(), 501);
    assert!(matches!(made(&directory, &ask("key 500", "guest", false)), Err(IssueError::NameInUse(_))));
    for number in 0..501 {
        assert!(run(revoke(&directory, &names(), &format!("key {number}"), noon())).is_ok());
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let directory = MemoryDirectory::new();
    let longest = "漫".repeat(64);
    for name in ["a", "two words", &longest] {
        assert!(is_valid_name(name), "{name}");
    }
    for name in ["", " a", "a ", "a\nb", "a\tb", "a\u{7f}", "a\u{3000}b", &"x".repeat(65)] {
        assert!(!is_valid_name(name), "{name}");
        assert!(matches!(made(&directory, &ask(name, "prime", false)), Err(IssueError::InvalidName)));
    }
    let error = made(&directory, &ask("a", "gold", false)).unwrap_err();
    assert_eq!(error.to_string(), "unknown tier \"gold\": must be prime, standard or guest");
    assert!(error.is_bad_input() && !IssueError::Failed(String::new()).is_bad_input());
    assert_eq!(run(list(&directory, &names())).unwrap(), []);
}

#[test]
fn a_moment_is_written_as_a_date() {
    assert_eq!(format_date(UtcTime::from_nanos(0)), "1970-01-01T00:00:00Z");
    let last = UtcTime::from_civil(2024, 2, 29) + Duration::from_millis(86_399_999);
    assert_eq!(format_date(last), "2024-02-29T23:59:59Z");
}
