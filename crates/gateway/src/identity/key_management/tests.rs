use super::{
    IssueError, IssuedKey, KeyEntry, KeyRequest, KeyTermsRequest, create, format_date, is_valid_name,
    key_entry, list, revoke, rotate, update,
};
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
    KeyRequest { name: name.to_owned(), tier: tier.to_owned(), aws, ..KeyRequest::default() }
}

fn made(directory: &MemoryDirectory, ask: &KeyRequest) -> Result<IssuedKey, IssueError> {
    let master = MasterSecret::new(vec![7; 32]).unwrap();
    run(create(directory, &master, ask, noon()))
}

/// All keys, as they are listed.
fn listed(directory: &MemoryDirectory) -> Vec<KeyEntry> {
    run(list(directory)).unwrap().iter().map(|key| key_entry(key, &names(), noon())).collect()
}

/// Revokes a key. Returns it as it is listed then.
fn revoked(directory: &MemoryDirectory, name: &str) -> Result<KeyEntry, IssueError> {
    run(revoke(directory, name, noon())).map(|keys| key_entry(keys.last().unwrap(), &names(), noon()))
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
    let listed = listed(&directory);
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
    let keys = run(revoke(&directory, "shop", noon())).unwrap();
    assert_eq!(keys[0].credential.0, hash_api_key(&first.key.unwrap()));
    let entry = key_entry(&keys[0], &names(), noon());
    assert_eq!((entry.id, entry.revoked.as_deref()), (first.id, Some("2026-11-16T12:00:00Z")));
    assert!(matches!(revoked(&directory, "shop"), Err(IssueError::UnknownKey(_))));
    let second = made(&directory, &ask("shop", "guest", false)).unwrap();
    let entry = revoked(&directory, &second.id).unwrap();
    assert_eq!((entry.id, entry.tier.as_str()), (second.id, "guest"));
    let listed = listed(&directory);
    assert_eq!(listed.iter().filter(|entry| entry.revoked.is_some()).count(), 2);
}

#[test]
fn less_than_an_id_revokes_nothing() {
    let directory = MemoryDirectory::new();
    let issued = made(&directory, &ask("shop", "prime", false)).unwrap();
    for part in ["", &issued.id[..15], "sho", "SHOP"] {
        assert!(matches!(revoked(&directory, part), Err(IssueError::UnknownKey(_))), "{part}");
    }
}

#[test]
fn more_keys_than_a_page_are_all_seen() {
    let directory = MemoryDirectory::new();
    for number in 0..501 {
        made(&directory, &ask(&format!("key {number}"), "guest", false)).unwrap();
    }
    assert_eq!(listed(&directory).len(), 501);
    assert!(matches!(made(&directory, &ask("key 500", "guest", false)), Err(IssueError::NameInUse(_))));
    for number in 0..501 {
        assert!(revoked(&directory, &format!("key {number}")).is_ok());
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
    assert_eq!(listed(&directory), []);
}

fn terms(team: &str, budgets: &[&str], expires: Option<&str>) -> KeyTermsRequest {
    KeyTermsRequest {
        team: Some(team.to_owned()),
        budgets: Some(budgets.iter().map(|&budget| budget.to_owned()).collect()),
        expires: expires.map(str::to_owned),
        ..KeyTermsRequest::default()
    }
}

#[test]
fn terms_are_stored_and_changed_one_by_one() {
    let directory = MemoryDirectory::new();
    let terms = terms("web", &["$50/month", "$5/day"], Some("90d"));
    made(&directory, &KeyRequest { terms, ..ask("shop", "prime", false) }).unwrap();
    let entry = listed(&directory).pop().unwrap();
    let budgets: Vec<_> =
        entry.budgets.iter().map(|budget| (budget.period.as_str(), budget.cap_nanos)).collect();
    assert_eq!(budgets, [("day", 5_000_000_000), ("month", 50_000_000_000)]);
    assert_eq!((entry.team.as_deref(), entry.state.as_str()), (Some("web"), "active"));
    assert_eq!(entry.expires.as_deref(), Some("2027-02-14T12:00:00Z"));
    let change = KeyTermsRequest {
        tags: Some(vec!["env=prod".to_owned()]),
        budgets: Some(Vec::new()),
        ..KeyTermsRequest::default()
    };
    run(update(&directory, "shop", Some("guest"), &change, noon())).unwrap();
    let entry = listed(&directory).pop().unwrap();
    assert_eq!((entry.tier.as_str(), entry.budgets.len(), entry.team.as_deref()), ("guest", 0, Some("web")));
    assert_eq!(entry.tags["env"], "prod");
    let team = KeyTermsRequest { team: Some("none".to_owned()), ..KeyTermsRequest::default() };
    run(update(&directory, "shop", None, &team, noon())).unwrap();
    assert_eq!(listed(&directory).pop().unwrap().team, None);
    for wrong in [
        KeyTermsRequest { budgets: Some(vec!["$5".to_owned()]), ..KeyTermsRequest::default() },
        KeyTermsRequest { limits: Some(vec!["5".to_owned()]), ..KeyTermsRequest::default() },
        KeyTermsRequest { tags: Some(vec!["x".to_owned()]), ..KeyTermsRequest::default() },
        KeyTermsRequest { expires: Some("soon".to_owned()), ..KeyTermsRequest::default() },
        KeyTermsRequest { models: Some(vec![String::new()]), ..KeyTermsRequest::default() },
    ] {
        let refused = run(update(&directory, "shop", None, &wrong, noon())).unwrap_err();
        assert!(refused.is_bad_input(), "{refused}");
    }
}

#[test]
fn a_replaced_key_is_of_the_same_caller_and_expires_after_the_overlap() {
    let directory = MemoryDirectory::new();
    let master = MasterSecret::new(vec![7; 32]).unwrap();
    let terms = terms("web", &["$50/month"], None);
    let first = made(&directory, &KeyRequest { terms, ..ask("shop", "prime", false) }).unwrap();
    let hour = Duration::from_secs(3_600);
    let (second, old) = run(rotate(&directory, &master, "shop", false, hour, noon())).unwrap();
    assert_ne!(first.key, second.key);
    let found = |key: &IssuedKey| {
        let hash = CredentialHash(hash_api_key(key.key.as_deref().unwrap()));
        run(directory.find(&hash)).unwrap().unwrap()
    };
    let (before, after) = (found(&first), found(&second));
    assert_eq!((before.caller, &before.name), (after.caller, &after.name));
    assert_eq!(after.contract.budgets, before.contract.budgets);
    assert_eq!((before.contract.expires, after.contract.expires), (Some(noon() + hour), None));
    assert_eq!(old.len(), 1);
    // Both are revoked by their name; afterwards the name is free.
    assert_eq!(run(revoke(&directory, "shop", noon())).unwrap().len(), 2);
    assert!(made(&directory, &ask("shop", "prime", false)).is_ok());
}

#[test]
fn an_expired_key_is_listed_as_such_and_its_name_is_free() {
    let directory = MemoryDirectory::new();
    made(&directory, &KeyRequest { terms: terms("web", &[], Some("1s")), ..ask("shop", "prime", false) })
        .unwrap();
    let later = noon() + Duration::from_secs(1);
    let key = run(list(&directory)).unwrap().pop().unwrap();
    assert_eq!(key_entry(&key, &names(), later).state, "expired");
    let master = MasterSecret::new(vec![7; 32]).unwrap();
    assert!(run(create(&directory, &master, &ask("shop", "prime", false), later)).is_ok());
}

#[test]
fn a_moment_is_written_as_a_date() {
    assert_eq!(format_date(UtcTime::from_nanos(0)), "1970-01-01T00:00:00Z");
    let last = UtcTime::from_civil(2024, 2, 29) + Duration::from_millis(86_399_999);
    assert_eq!(format_date(last), "2024-02-29T23:59:59Z");
}
