//! Expiry and renewal, with a source that counts its calls.

use crate::bedrock::credentials::cache::CredentialCache;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use seawall_core::runtime::Timer;
use seawall_core::time::{Timestamp, UtcTime};
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// A manual clock.
#[derive(Clone, Default)]
struct SetTimer(Arc<AtomicU64>);

impl Timer for SetTimer {
    fn monotonic(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

/// A source whose credentials expire this many seconds after the epoch; each permit completes one request.
#[derive(Debug)]
struct Source {
    end: Mutex<Option<u64>>,
    asked: AtomicUsize,
    permits: Semaphore,
}

impl ProvideCredentials for Source {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.permits.acquire().await.unwrap().forget();
            let end = self.end.lock().unwrap().ok_or_else(|| CredentialsError::not_loaded("none"))?;
            let end = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
            Ok(Credentials::new("id", "hush", None, Some(end), "test"))
        })
    }
}

struct Bench {
    source: Arc<Source>,
    cache: CredentialCache<SetTimer>,
    timer: SetTimer,
}

impl Bench {
    fn new(permits: usize) -> Self {
        let source =
            Source { end: Mutex::new(None), asked: AtomicUsize::new(0), permits: Semaphore::new(permits) };
        let (source, timer) = (Arc::new(source), SetTimer::default());
        let shared = SharedCredentialsProvider::new(Arc::clone(&source) as Arc<dyn ProvideCredentials>);
        Self { source, cache: CredentialCache::new(shared, timer.clone()), timer }
    }

    fn gives_keys_until(&self, end: Option<u64>) {
        *self.source.end.lock().unwrap() = end;
    }

    /// The expiry of the credentials that a call at this second receives.
    async fn get(&self, second: u64) -> Option<u64> {
        let keys = self.cache.get(UtcTime::from_nanos(second * 1_000_000_000)).await?;
        Some(keys.expiry()?.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    fn asked(&self) -> usize {
        self.source.asked.load(Ordering::Relaxed)
    }

    /// Runs background tasks until they are idle.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn keys_are_renewed_five_minutes_before_their_end_while_the_old_ones_are_used() {
    let bench = Bench::new(100);
    bench.gives_keys_until(Some(1_000));
    assert_eq!(bench.get(0).await, Some(1_000));
    bench.gives_keys_until(Some(2_000));
    assert_eq!(bench.get(699).await, Some(1_000));
    bench.settle().await;
    assert_eq!(bench.asked(), 1);
    assert_eq!(bench.get(700).await, Some(1_000));
    bench.settle().await;
    assert_eq!((bench.asked(), bench.get(700).await), (2, Some(2_000)));
}

#[tokio::test]
async fn renewals_run_one_at_a_time_and_callers_with_valid_credentials_do_not_wait() {
    let bench = Bench::new(1);
    bench.gives_keys_until(Some(1_000));
    assert_eq!(bench.get(0).await, Some(1_000));
    // From here on the source does not respond.
    for second in 700..1_000 {
        assert_eq!(bench.get(second).await, Some(1_000));
        bench.settle().await;
    }
    assert_eq!(bench.asked(), 2);
    // A call without valid credentials waits for the renewal in progress.
    bench.gives_keys_until(Some(5_000));
    let waiters = async { tokio::join!(bench.get(1_000), bench.get(1_000), bench.get(1_000)) };
    let answer = async {
        bench.settle().await;
        bench.source.permits.add_permits(1);
    };
    let (got, ()) = tokio::join!(waiters, answer);
    assert_eq!((got, bench.asked()), ((Some(5_000), Some(5_000), Some(5_000)), 2));
}

#[tokio::test]
async fn a_renewal_continues_after_its_caller_is_dropped() {
    let bench = Bench::new(0);
    bench.gives_keys_until(Some(1_000));
    tokio::select! {
        biased;
        _ = bench.get(0) => panic!("there are none yet"),
        () = bench.settle() => {}
    }
    bench.source.permits.add_permits(1);
    bench.settle().await;
    assert_eq!((bench.get(0).await, bench.asked()), (Some(1_000), 1));
}

#[tokio::test]
async fn a_source_that_fails_is_left_alone_for_a_second() {
    let bench = Bench::new(100);
    assert_eq!(bench.get(0).await, None);
    bench.gives_keys_until(Some(1_000));
    bench.timer.0.store(999_999_999, Ordering::Relaxed);
    assert_eq!((bench.get(1).await, bench.asked()), (None, 1));
    bench.timer.0.store(1_000_000_000, Ordering::Relaxed);
    assert_eq!((bench.get(1).await, bench.asked()), (Some(1_000), 2));
    // The old credentials are used until they expire, and not beyond.
    bench.gives_keys_until(None);
    assert_eq!(bench.get(999).await, Some(1_000));
    bench.settle().await;
    assert_eq!((bench.asked(), bench.get(999).await, bench.get(1_000).await), (3, Some(1_000), None));
    assert_eq!(bench.asked(), 3);
}
