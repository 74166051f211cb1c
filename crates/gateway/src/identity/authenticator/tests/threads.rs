//! Concurrent lookup, revocation and eviction of callers.

use crate::identity::hash_api_key;
use crate::runtime::TokioRuntime;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{
    CallerDirectory, CallerIdentity, CallerOptions, CallerResolver, CredentialKind, DirectoryLookup,
    IdentifyError, StaticKeys,
};
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, MemoryDirectory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A directory with a delay between reading a record and returning it, to widen the window for races.
struct Dawdling(MemoryDirectory);

impl CallerDirectory for Dawdling {
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_> {
        let credential = CredentialHash(*hash);
        Box::pin(async move {
            let found = Directory::find(&self.0, &credential).await;
            (0..200).for_each(|_| std::thread::yield_now());
            found
        })
    }
}

const ROUNDS: usize = 300;
const THREADS: usize = 4;

#[test]
fn no_request_is_authenticated_after_a_revocation() {
    let directory = Arc::new(Dawdling(MemoryDirectory::new()));
    let callers = CallerResolver::new(CallerOptions {
        keys: StaticKeys::default(),
        directory: Some(Arc::<Dawdling>::clone(&directory)),
        // A wrong cache entry would stay until the end of the test.
        cache_ttl: Duration::from_secs(3_600),
        lookup_timeout: Duration::from_secs(60),
        allows_guests: true,
    });
    let runtime = TokioRuntime::new();
    let (let_in, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..ROUNDS {
        let hash = hash_api_key(&format!("key {round}"));
        let identity = CallerIdentity::Credential { hash, kind: CredentialKind::Key, tier: None };
        let record = CallerRecord {
            caller: 1,
            name: "somebody".into(),
            tier: Tier::Prime,
            ceiling: None,
            created: UtcTime::from_nanos(0),
            revoked: None,
            contract: Default::default(),
        };
        let block_on = |work: &mut dyn FnMut(&tokio::runtime::Runtime)| {
            work(&tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
        };
        block_on(&mut |tokio| {
            let added = tokio.block_on(directory.0.add(&CredentialHash(hash), &record)).unwrap();
            assert_eq!(added, AddDecision::Added);
        });
        let is_told = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    block_on(&mut |tokio| {
                        loop {
                            let was_told = is_told.load(Ordering::SeqCst);
                            let found = tokio.block_on(callers.find(&runtime, &identity));
                            if was_told {
                                assert_eq!(found, Err(IdentifyError::Revoked));
                                refused.fetch_add(1, Ordering::Relaxed);
                                return;
                            }
                            if found.is_ok() {
                                let_in.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                });
            }
            block_on(&mut |tokio| {
                let known = tokio.block_on(directory.0.revoke(&CredentialHash(hash), UtcTime::from_nanos(1)));
                assert_eq!(known, Ok(true));
                callers.invalidate(&hash);
                is_told.store(true, Ordering::SeqCst);
            });
        });
    }
    assert_eq!((refused.into_inner(), callers.fallbacks()), (ROUNDS * THREADS, 0));
    assert!(let_in.into_inner() > 0, "somebody must have been let in before");
}
