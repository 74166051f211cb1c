//! Processes are imitated by separate sets of buckets.

use redis::aio::ConnectionManager;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::{
    BucketKey, RateBuckets, RedisBucket, SharedBucket as _, SharedBucketDecision, SystemRuntime,
};
use seawall_testkit::RedisServer;
use std::sync::Arc;
use std::time::Duration;

async fn bucket(server: &RedisServer) -> RedisBucket {
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    RedisBucket::new(ConnectionManager::new(client).await.unwrap(), "seawall-drs")
}

#[test]
fn processes_share_one_rate() {
    let server = RedisServer::start().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let settings = WaitingSettings::new(1, Duration::from_secs(60), 5).unwrap();
        let key = BucketKey::new("111122223333", "eu-west-1");
        let mut granted = 0;
        for _ in 0..3 {
            // Each process has a full bucket of its own; together they have five tokens.
            let buckets = RateBuckets::new(SystemRuntime::new()).with_shared(Arc::new(bucket(&server).await));
            let local = buckets.bucket(key.clone(), settings).unwrap();
            for _ in 0..5 {
                granted += u32::from(local.acquire(Duration::ZERO).await.is_ok());
            }
            assert_eq!(buckets.shared_failures(), 0);
        }
        assert_eq!(granted, 5);
        // Turns are given in order, one per interval, and a refusal takes none.
        let shared = bucket(&server).await;
        let wait = |limit| shared.reserve(&key, settings, Duration::from_secs(limit));
        let SharedBucketDecision::Granted { wait: first } = wait(600).await.unwrap() else { panic!() };
        assert!(matches!(wait(90).await.unwrap(), SharedBucketDecision::Refused { .. }));
        let SharedBucketDecision::Granted { wait: second } = wait(600).await.unwrap() else { panic!() };
        let apart = second.as_secs_f64() - first.as_secs_f64();
        assert!((59.0..=60.5).contains(&apart), "{apart}");
        // Another region has a bucket of its own.
        let other = BucketKey::new("111122223333", "us-east-1");
        let free = SharedBucketDecision::Granted { wait: Duration::ZERO };
        assert_eq!(shared.reserve(&other, settings, Duration::ZERO).await.unwrap(), free);
    });
}
