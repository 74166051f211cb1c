//! Tests identification without waiting. Lookups are tested on a virtual clock, in the crate that has one.

use super::{
    CallerDirectory, CallerIdentity, CallerOptions, CallerResolver, CredentialKind, DirectoryLookup,
    IdentifyError, StaticKey, TierOrigin, caller_id_of,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_store::MemoryDirectory;
use std::sync::Arc;
use std::time::Duration;

const HASH: [u8; 32] =
    [0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

fn options(directory: Option<Arc<dyn CallerDirectory>>) -> CallerOptions {
    let routes: Arc<[Box<str>]> = ["manga".into()].into();
    let listed = StaticKey { tier: Tier::Prime, routes: Some(routes), contract: Default::default() };
    CallerOptions {
        keys: [(HASH, listed)].into_iter().collect(),
        directory,
        cache_ttl: Duration::from_secs(10),
        lookup_timeout: Duration::from_millis(50),
        allows_guests: true,
    }
}

fn credential(hash: [u8; 32], kind: CredentialKind, tier: Option<Tier>) -> CallerIdentity {
    CallerIdentity::Credential { hash, kind, tier }
}

#[test]
fn a_listed_key_is_what_settings_say_and_is_not_looked_up() {
    let callers = CallerResolver::new(options(Some(Arc::new(MemoryDirectory::new()))));
    let known = callers.find_cached(&credential(HASH, CredentialKind::Key, None), Timestamp::ZERO);
    let caller = known.unwrap().unwrap();
    assert_eq!((caller.id, caller.tier, caller.origin), (0x0102, Tier::Prime, TierOrigin::Settings));
    assert_eq!(caller.routes.as_deref(), Some(["manga".into()].as_slice()));
    assert_eq!((caller.is_suspended, caller.network), (false, None));
    // A token's hash is derived from public names, so listing it as a key must grant nothing.
    for kind in [CredentialKind::Token, CredentialKind::Signature] {
        assert_eq!(callers.find_cached(&credential(HASH, kind, None), Timestamp::ZERO), None);
    }
}

#[test]
fn a_guest_is_a_guest_with_its_network() {
    let callers = CallerResolver::new(options(Some(Arc::new(MemoryDirectory::new()))));
    let guest = CallerIdentity::Guest { hash: HASH, network: 77 };
    let caller = callers.find_cached(&guest, Timestamp::ZERO).unwrap().unwrap();
    assert_eq!((caller.id, caller.tier, caller.origin), (0x0102, Tier::Guest, TierOrigin::Guest));
    assert_eq!((caller.routes, caller.is_suspended, caller.network), (None, false, Some(77)));
}

#[test]
fn without_a_directory_nobody_waits() {
    let callers = CallerResolver::new(options(None));
    let other = [7; 32];
    let known = |kind, tier| callers.find_cached(&credential(other, kind, tier), Timestamp::ZERO).unwrap();
    assert_eq!(known(CredentialKind::Key, None), Err(IdentifyError::Unknown));
    let subject = known(CredentialKind::Token, Some(Tier::Standard)).unwrap();
    assert_eq!((subject.tier, subject.origin), (Tier::Standard, TierOrigin::Issuer));
    assert_eq!(subject.id, caller_id_of(&other));
}

#[test]
fn each_origin_has_a_name_of_its_own() {
    use TierOrigin::{Directory, Fallback, Guest, Issuer, Settings};
    let names = [Settings, Directory, Issuer, Guest, Fallback].map(TierOrigin::name);
    assert_eq!(names, ["settings", "directory", "issuer", "guest", "fallback"]);
}

/// A directory that these tests never query.
struct Nobody;

impl CallerDirectory for Nobody {
    fn find(&self, _: &[u8; 32]) -> DirectoryLookup<'_> {
        Box::pin(async { Ok(None) })
    }
}

#[test]
fn other_settings_keep_what_is_counted_unless_the_directory_is_another() {
    let directory: Arc<dyn CallerDirectory> = Arc::new(Nobody);
    let callers = CallerResolver::new(options(Some(Arc::clone(&directory))));
    let stays = callers.rebuild(options(Some(directory)));
    assert!(Arc::ptr_eq(&callers.shared, &stays.shared));
    assert!(!Arc::ptr_eq(&callers.shared, &callers.rebuild(options(None)).shared));
    assert!(!Arc::ptr_eq(
        &callers.shared,
        &callers.rebuild(options(Some(Arc::new(MemoryDirectory::new())))).shared
    ));
    let none = CallerResolver::new(options(None));
    assert!(Arc::ptr_eq(&none.shared, &none.rebuild(options(None)).shared));
}
