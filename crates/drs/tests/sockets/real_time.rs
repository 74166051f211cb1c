//! Scenario 83 in real time: eight threads for ten seconds.

use crate::cloud::{ACCOUNT, KEY_ID, REGION, SECRET, TestCloud, sdk_config};
use seawall_core::runtime::Timer as _;
use seawall_drs::aws::{DrsConnection, sdk_http_client};
use seawall_drs::fake::{FakeCloud, FakeFault, FakeSettings};
use seawall_drs::{NullObserver, RateBuckets, SystemRuntime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn scenario_83_eight_threads_make_at_most_120_calls_in_ten_seconds() {
    let runtime = SystemRuntime::new();
    let fake = FakeCloud::start(runtime.clone(), FakeSettings { page_size: 2, ..FakeSettings::default() }).unwrap();
    fake.add_key(KEY_ID, SECRET, ACCOUNT);
    fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2", "s-3", "s-4", "s-5"]);
    // Some calls are throttled, so that retries are among them.
    fake.add_fault(None, FakeFault::throttle(), 15);
    let buckets = RateBuckets::new(runtime.clone());
    let successes = AtomicU64::new(0);
    let started = runtime.monotonic();
    let end = started + Duration::from_secs(10);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                tokio.block_on(async {
                    let config = sdk_config(&fake.url(), KEY_ID, SECRET, sdk_http_client());
                    let connection = DrsConnection::with_config(config, TestCloud::options()).await.unwrap();
                    let client = connection.client(runtime.clone(), &buckets, Arc::new(NullObserver)).unwrap();
                    while runtime.monotonic() < end {
                        let mut pages = client.source_server_pages(None);
                        while runtime.monotonic() < end && let Ok(Some(_)) = pages.next_page().await {
                            successes.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            });
        }
    });
    let calls = fake.calls();
    let in_time = calls.iter().filter(|call| call.at <= end).count();
    let throttled = calls.iter().filter(|call| call.status == 429).count();
    let pages = calls.iter().filter(|call| call.status == 200).count();
    println!("scenario 83: {in_time} calls in ten seconds, {throttled} of them throttled, {pages} pages");
    assert!(in_time <= 120, "{in_time}");
    assert!(in_time >= 100, "the rate is used: {in_time}");
    assert_eq!(throttled, 15);
    assert_eq!(pages, usize::try_from(successes.load(Ordering::Relaxed)).unwrap());
    let bucket = buckets.bucket(
        seawall_drs::BucketKey::new(ACCOUNT, REGION),
        seawall_core::waiting::WaitingSettings::recovery_api(),
    );
    assert_eq!(bucket.unwrap().consumed(), u64::try_from(calls.len()).unwrap(), "a token per call");
}
