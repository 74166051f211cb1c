//! A bucket that several processes share, here an imitation of one.

use crate::clock::VirtualClock;
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::{
    BucketKey, RateBucket, RateBuckets, SharedBucket, SharedBucketDecision, SharedBucketError,
    SharedBucketFuture,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers in order.
struct ScriptedBucket(Mutex<Vec<Result<SharedBucketDecision, SharedBucketError>>>);

impl SharedBucket for ScriptedBucket {
    fn reserve<'a>(&'a self, _: &'a BucketKey, _: WaitingSettings, _: Duration) -> SharedBucketFuture<'a> {
        let answer = self.0.lock().unwrap().remove(0);
        Box::pin(async move { answer })
    }
}

fn buckets(
    clock: &VirtualClock,
    answers: Vec<Result<SharedBucketDecision, SharedBucketError>>,
) -> (RateBuckets<VirtualClock>, RateBucket<VirtualClock>) {
    let shared = Arc::new(ScriptedBucket(Mutex::new(answers)));
    let buckets = RateBuckets::new(clock.clone()).with_shared(shared);
    let bucket = buckets.bucket(BucketKey::new("a", "r"), WaitingSettings::recovery_api()).unwrap();
    (buckets, bucket)
}

#[test]
fn a_turn_in_the_shared_bucket_is_waited_for() {
    let clock = VirtualClock::new(1);
    let wait = Duration::from_secs(3);
    let (_, bucket) = buckets(&clock, vec![Ok(SharedBucketDecision::Granted { wait })]);
    clock.run(async {
        drop(bucket.acquire(Duration::from_secs(30)).await.unwrap());
        assert_eq!(clock.monotonic(), Timestamp::ZERO + wait);
    });
}

#[test]
fn a_refusal_of_the_shared_bucket_returns_the_local_token() {
    let clock = VirtualClock::new(1);
    let would_wait = Duration::from_secs(99);
    let (_, bucket) = buckets(&clock, vec![Ok(SharedBucketDecision::Refused { would_wait })]);
    clock.run(async {
        let refused = bucket.acquire(Duration::from_secs(30)).await.map(drop).unwrap_err();
        assert_eq!((refused.would_wait, bucket.available(), bucket.consumed()), (would_wait, 20, 0));
    });
}

#[test]
fn while_the_shared_bucket_is_away_the_local_one_decides() {
    let clock = VirtualClock::new(1);
    let (buckets, bucket) = buckets(&clock, vec![Err(SharedBucketError("refused".to_owned()))]);
    clock.run(async {
        drop(bucket.acquire(Duration::from_secs(30)).await.unwrap());
        assert_eq!((buckets.shared_failures(), bucket.consumed()), (1, 1));
    });
}
