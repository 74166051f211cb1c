//! Tests identification without waiting. Lookups are tested on a virtual clock, in the crate that has one.

use super::{
    CallerDirectory, CallerOptions, Callers, Finding, ListedKey, NotKnown, ProofKind, Proven, TierOrigin,
    number_of,
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
    let listed = ListedKey { tier: Tier::Prime, routes: Some(routes) };
    CallerOptions {
        keys: [(HASH, listed)].into_iter().collect(),
        directory,
        believe_for: Duration::from_secs(10),
        find_within: Duration::from_millis(50),
        guests: true,
    }
}

fn credential(hash: [u8; 32], proof: ProofKind, tier: Option<Tier>) -> Proven {
    Proven::Credential { hash, proof, tier }
}

#[test]
fn a_listed_key_is_what_settings_say_and_is_not_looked_up() {
    let callers = Callers::new(options(Some(Arc::new(MemoryDirectory::new()))));
    let known = callers.known(&credential(HASH, ProofKind::Key, None), Timestamp::ZERO);
    let caller = known.unwrap().unwrap();
    assert_eq!((caller.id, caller.tier, caller.origin), (0x0102, Tier::Prime, TierOrigin::Settings));
    assert_eq!(caller.routes.as_deref(), Some(["manga".into()].as_slice()));
    assert_eq!((caller.is_clamped, caller.network), (false, None));
    // A token's hash is derived from public names, so listing it as a key must grant nothing.
    for proof in [ProofKind::Token, ProofKind::Signature] {
        assert_eq!(callers.known(&credential(HASH, proof, None), Timestamp::ZERO), None);
    }
}

#[test]
fn a_guest_is_a_guest_with_its_network() {
    let callers = Callers::new(options(Some(Arc::new(MemoryDirectory::new()))));
    let guest = Proven::Guest { hash: HASH, network: 77 };
    let caller = callers.known(&guest, Timestamp::ZERO).unwrap().unwrap();
    assert_eq!((caller.id, caller.tier, caller.origin), (0x0102, Tier::Guest, TierOrigin::Guest));
    assert_eq!((caller.routes, caller.is_clamped, caller.network), (None, false, Some(77)));
}

#[test]
fn without_a_directory_nobody_waits() {
    let callers = Callers::new(options(None));
    let other = [7; 32];
    let known = |proof, tier| callers.known(&credential(other, proof, tier), Timestamp::ZERO).unwrap();
    assert_eq!(known(ProofKind::Key, None), Err(NotKnown::Unknown));
    let subject = known(ProofKind::Token, Some(Tier::Standard)).unwrap();
    assert_eq!((subject.tier, subject.origin), (Tier::Standard, TierOrigin::Issuer));
    assert_eq!(subject.id, number_of(&other));
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
    fn find(&self, _: &[u8; 32]) -> Finding<'_> {
        Box::pin(async { Ok(None) })
    }
}

#[test]
fn other_settings_keep_what_is_counted_unless_the_directory_is_another() {
    let directory: Arc<dyn CallerDirectory> = Arc::new(Nobody);
    let callers = Callers::new(options(Some(Arc::clone(&directory))));
    let stays = callers.renewed(options(Some(directory)));
    assert!(Arc::ptr_eq(&callers.shared, &stays.shared));
    assert!(!Arc::ptr_eq(&callers.shared, &callers.renewed(options(None)).shared));
    assert!(!Arc::ptr_eq(
        &callers.shared,
        &callers.renewed(options(Some(Arc::new(MemoryDirectory::new())))).shared
    ));
    let none = Callers::new(options(None));
    assert!(Arc::ptr_eq(&none.shared, &none.renewed(options(None)).shared));
}
