//! Properties 5, 6 and 8: the bucket.

use crate::clock::VirtualClock;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::{BucketKey, RateBucket, RateBuckets, SystemRuntime};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Clone, Debug)]
enum Step {
    TryAcquire,
    Acquire { timeout_millis: u64 },
    /// Returns the token of an earlier success.
    Refund,
    Wait { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::TryAcquire),
        3 => (0_u64..3_000).prop_map(|timeout_millis| Step::Acquire { timeout_millis }),
        1 => Just(Step::Refund),
        2 => (0_u64..3_000).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// Tokens as real numbers: the definition of a bucket.
struct Model {
    tokens: f64,
    as_of: Timestamp,
    rate: f64,
    capacity: f64,
}

impl Model {
    fn at(&mut self, now: Timestamp) -> f64 {
        self.tokens = (self.tokens + (now - self.as_of).as_secs_f64() * self.rate).min(self.capacity);
        self.as_of = now;
        self.tokens
    }
}

fn bucket(clock: &VirtualClock, rate: u64, capacity: u64) -> RateBucket<VirtualClock> {
    let settings = WaitingSettings::new(rate, Duration::from_secs(1), capacity).unwrap();
    RateBuckets::new(clock.clone()).bucket(BucketKey::new("a", "r"), settings).unwrap()
}

proptest! {
    // Feature: drs-rate-limit-handling, Property 5: the tokens are always between zero and the capacity; a success
    // takes one, a refund returns one, and they refill at the rate.
    #[test]
    fn property_5_tokens_stay_within_bounds(
        rate in 1_u64..50,
        capacity in 1_u64..30,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let clock = VirtualClock::new(1);
        let bucket = bucket(&clock, rate, capacity);
        let mut model = Model { tokens: capacity as f64, as_of: Timestamp::ZERO, rate: rate as f64, capacity: capacity as f64 };
        clock.run(async {
            let mut permits = Vec::new();
            let mut taken = 0_u64;
            for step in steps {
                let before = model.at(clock.monotonic());
                match step {
                    Step::TryAcquire => {
                        let permit = bucket.try_acquire();
                        assert!(permit.is_some() == (before + 1e-6 >= 1.0) || (before - 1.0).abs() < 1e-3);
                        if let Some(permit) = permit {
                            model.tokens = (model.tokens - 1.0).max(0.0);
                            taken += 1;
                            permits.push(permit);
                        }
                    }
                    Step::Acquire { timeout_millis } => {
                        let timeout = Duration::from_millis(timeout_millis);
                        let started = clock.monotonic();
                        match bucket.acquire(timeout).await {
                            Ok(permit) => {
                                assert!(clock.monotonic() - started <= timeout);
                                model.at(clock.monotonic());
                                model.tokens = (model.tokens - 1.0).max(0.0);
                                taken += 1;
                                permits.push(permit);
                            }
                            Err(refused) => {
                                assert!(refused.would_wait > timeout, "{refused:?}");
                                assert_eq!(clock.monotonic(), started, "a refusal comes at once");
                            }
                        }
                    }
                    Step::Refund => {
                        if let Some(permit) = permits.pop() {
                            permit.refund();
                            model.tokens = (model.tokens + 1.0).min(model.capacity);
                            taken -= 1;
                        }
                    }
                    Step::Wait { millis } => {
                        clock.sleep_until(clock.monotonic() + Duration::from_millis(millis)).await;
                    }
                }
                let available = bucket.available() as f64;
                let expected = model.at(clock.monotonic());
                assert!((0.0..=capacity as f64).contains(&available));
                assert!((available - expected.floor()).abs() <= 1.0 && available <= expected + 1e-3, "{available} {expected}");
                assert_eq!(bucket.consumed(), taken);
            }
        });
    }

    // Feature: drs-rate-limit-handling, Property 6: whatever happens at once, the tokens consumed equal the successes.
    #[test]
    fn property_6_threads_never_share_a_token(threads in 2_usize..9, tries in 1_usize..40, capacity in 1_u64..60) {
        // One token per hour: what is there at the start is all there is.
        let settings = WaitingSettings::new(1, Duration::from_secs(3_600), capacity).unwrap();
        let bucket = RateBuckets::new(SystemRuntime::new()).bucket(BucketKey::new("a", "r"), settings).unwrap();
        let (successes, start) = (AtomicU64::new(0), Barrier::new(threads));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..tries {
                        if bucket.try_acquire().is_some() {
                            successes.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let expected = capacity.min(u64::try_from(threads * tries).unwrap());
        prop_assert_eq!(successes.load(Ordering::Relaxed), expected);
        prop_assert_eq!(bucket.consumed(), expected);
    }

    // Feature: drs-rate-limit-handling, Property 8: accounts and regions have buckets of their own.
    #[test]
    fn property_8_regions_and_accounts_are_independent(
        takes in proptest::collection::vec((0_usize..2, 0_usize..2), 0..120),
    ) {
        let clock = VirtualClock::new(1);
        let buckets = RateBuckets::new(clock);
        let bucket = |account: usize, region: usize| {
            let key = BucketKey::new(["111122223333", "444455556666"][account], ["eu-west-1", "us-east-1"][region]);
            buckets.bucket(key, WaitingSettings::recovery_api()).unwrap()
        };
        let mut taken = [[0_u64; 2]; 2];
        for (account, region) in takes {
            if bucket(account, region).try_acquire().is_some() {
                taken[account][region] += 1;
            }
        }
        for (account, row) in taken.iter().enumerate() {
            for (region, count) in row.iter().enumerate() {
                prop_assert!(*count <= 20);
                prop_assert_eq!(bucket(account, region).available(), 20 - count);
            }
        }
    }
}

#[test]
fn waiters_are_served_in_order_one_per_token() {
    let clock = VirtualClock::new(1);
    let bucket = bucket(&clock, 10, 2);
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    clock.run(async {
        let mut tasks = JoinSet::new();
        for number in 0..12_u64 {
            let (bucket, order, inside) = (bucket.clone(), std::sync::Arc::clone(&order), clock.clone());
            tasks.spawn(async move {
                drop(bucket.acquire(Duration::from_secs(30)).await.unwrap());
                order.lock().unwrap().push((number, inside.monotonic()));
            });
            tokio::task::yield_now().await;
        }
        while tasks.join_next().await.is_some() {}
    });
    let order = order.lock().unwrap();
    let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
    let expected: Vec<_> = (0..12_u64).map(|number| (number, at(number.saturating_sub(1) * 100))).collect();
    assert_eq!(*order, expected);
}

#[test]
fn a_waiter_that_leaves_consumes_nothing_and_the_others_move_up() {
    let clock = VirtualClock::new(1);
    let bucket = bucket(&clock, 1, 1);
    clock.run(async {
        drop(bucket.acquire(Duration::ZERO).await.unwrap());
        let first = bucket.clone();
        let mut tasks = JoinSet::new();
        let leaver = tasks.spawn(async move { drop(first.acquire(Duration::from_secs(30)).await) });
        tokio::task::yield_now().await;
        let second = bucket.clone();
        let inside = clock.clone();
        let stayed = tasks.spawn(async move {
            drop(second.acquire(Duration::from_secs(30)).await.unwrap());
            assert_eq!(inside.monotonic(), Timestamp::ZERO + Duration::from_secs(1));
        });
        tokio::task::yield_now().await;
        leaver.abort();
        while tasks.join_next().await.is_some_and(|outcome| outcome.is_ok() || outcome.unwrap_err().is_cancelled()) {}
        assert!(stayed.is_finished());
        assert_eq!(bucket.consumed(), 2);
    });
}

#[test]
fn a_second_setting_for_the_same_bucket_is_an_error() {
    let buckets = RateBuckets::new(VirtualClock::new(1));
    let key = BucketKey::new("a", "r");
    buckets.bucket(key.clone(), WaitingSettings::recovery_api()).unwrap();
    let other = WaitingSettings::new(5, Duration::from_secs(1), 20).unwrap();
    assert!(buckets.bucket(key.clone(), other).is_err());
    assert!(buckets.bucket(key, WaitingSettings::recovery_api()).is_ok());
}
