//! The guard on another service, in its three forms: around `send()`, as an HTTP client with an interceptor, and as a
//! `tower` layer.

use crate::cloud::{EventRecorder, KEY_ID, SECRET, TestCloud};
use aws_smithy_types::retry::RetryConfig;
use seawall_core::failure::DRS;
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::aws::smithy::{GuardInterceptor, GuardedHttpClient};
use seawall_drs::fake::FakeSettings;
use seawall_drs::{
    ApiCall, ApiError, ApiGuard, BucketKey, ErrorDescription, GuardError, GuardEventKind, GuardLayer,
    GuardObserver, GuardPolicy, GuardSettings, RateBucket,
};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer as _;
use tower_service::Service;

type Clock = crate::clock::VirtualClock;

fn slow_bucket(cloud: &TestCloud) -> RateBucket<Clock> {
    let rate = WaitingSettings::new(1, Duration::from_secs(1), 2).unwrap();
    cloud.buckets.bucket(BucketKey::new("111122223333", "sts/eu-west-1"), rate).unwrap()
}

fn arrivals(cloud: &TestCloud) -> Vec<u128> {
    cloud.fake.calls().iter().map(|call| (call.at - Timestamp::ZERO).as_millis()).collect()
}

#[test]
fn any_operation_of_any_service_can_be_guarded_around_send() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let config =
            cloud.config(KEY_ID, SECRET).into_builder().retry_config(RetryConfig::disabled()).build();
        let sts = aws_sdk_sts::Client::new(&config);
        let observer = Arc::clone(&cloud.recorder) as Arc<dyn GuardObserver>;
        let guard =
            ApiGuard::new(cloud.clock.clone(), slow_bucket(&cloud), GuardSettings::default(), observer);
        for _ in 0..5 {
            let call = ApiCall::read("get_caller_identity");
            let identity = guard.call(call, || sts.get_caller_identity().send()).await.unwrap();
            assert_eq!(identity.account(), Some("111122223333"));
        }
    });
    assert_eq!(arrivals(&cloud), [0, 0, 1_000, 2_000, 3_000]);
}

#[test]
fn a_client_is_guarded_by_its_http_client_and_reported_by_an_interceptor() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let bucket = slow_bucket(&cloud);
        let config = cloud.config(KEY_ID, SECRET);
        let http =
            GuardedHttpClient::new(config.http_client().unwrap(), bucket.clone(), Duration::from_secs(2));
        let observer = Arc::clone(&cloud.recorder) as Arc<dyn GuardObserver>;
        let interceptor = GuardInterceptor::reporting(cloud.clock.clone(), bucket, &DRS, observer);
        let config = aws_sdk_sts::config::Builder::from(&config)
            .http_client(http)
            .interceptor(interceptor)
            .retry_config(RetryConfig::disabled())
            .build();
        let sts = aws_sdk_sts::Client::from_conf(config);
        for _ in 0..4 {
            sts.get_caller_identity().send().await.unwrap();
        }
        // No role of this name: a refusal that is reported with its code.
        let refused = sts.assume_role().role_arn("arn:aws:iam::1:role/x").role_session_name("s").send().await;
        assert!(refused.is_err());
    });
    assert_eq!(arrivals(&cloud), [0, 0, 1_000, 2_000, 3_000]);
    assert_eq!(
        cloud.recorder.count(|kind| matches!(kind, GuardEventKind::AttemptSucceeded { attempt: 1 })),
        4
    );
    let events = cloud.recorder.events();
    let failed = events.last().unwrap();
    assert_eq!(failed.labels.operation, "AssumeRole");
    assert!(
        matches!(&failed.kind, GuardEventKind::AttemptFailed { error, .. } if error.failure.kind.label() == "unauthorized")
    );
}

#[test]
fn an_interceptor_alone_refuses_what_exceeds_the_rate() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let observer = Arc::clone(&cloud.recorder) as Arc<dyn GuardObserver>;
        let interceptor =
            GuardInterceptor::reporting(cloud.clock.clone(), slow_bucket(&cloud), &DRS, observer);
        let config = aws_sdk_sts::config::Builder::from(&cloud.config(KEY_ID, SECRET))
            .interceptor(interceptor.refusing())
            .retry_config(RetryConfig::disabled())
            .build();
        let sts = aws_sdk_sts::Client::from_conf(config);
        assert!(sts.get_caller_identity().send().await.is_ok());
        assert!(sts.get_caller_identity().send().await.is_ok());
        assert!(sts.get_caller_identity().send().await.is_err());
        cloud.clock.sleep_until(Timestamp::ZERO + Duration::from_secs(1)).await;
        assert!(sts.get_caller_identity().send().await.is_ok());
    });
    assert_eq!(cloud.fake.calls().len(), 3);
    assert_eq!(cloud.recorder.count(|kind| matches!(kind, GuardEventKind::TokenTimeout { .. })), 1);
}

/// A service that refuses every second request.
#[derive(Clone)]
struct Flaky {
    calls: Arc<AtomicU32>,
    times: Arc<Mutex<Vec<Timestamp>>>,
    clock: Clock,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("status {0}")]
struct BadStatus(u16);

impl From<Infallible> for BadStatus {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl ApiError for BadStatus {
    fn describe(&self) -> ErrorDescription {
        ErrorDescription { status: Some(self.0), ..ErrorDescription::default() }
    }
}

impl Service<&'static str> for Flaky {
    type Response = u16;
    type Error = BadStatus;
    type Future = std::future::Ready<Result<u16, BadStatus>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BadStatus>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: &'static str) -> Self::Future {
        self.times.lock().unwrap().push(self.clock.monotonic());
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(if request == "bad" {
            400
        } else if number.is_multiple_of(2) {
            503
        } else {
            200
        }))
    }
}

#[derive(Clone)]
struct StatusPolicy;

impl GuardPolicy<&'static str, u16, BadStatus> for StatusPolicy {
    fn call(&self, _: &&'static str) -> ApiCall {
        ApiCall::read("list_things")
    }

    fn check(&self, response: u16) -> Result<u16, BadStatus> {
        if response < 400 { Ok(response) } else { Err(BadStatus(response)) }
    }
}

#[test]
fn a_tower_service_is_guarded_by_a_layer() {
    let clock = Clock::new(1);
    let buckets = seawall_drs::RateBuckets::new(clock.clone());
    let rate = WaitingSettings::new(1, Duration::from_secs(10), 1).unwrap();
    let bucket = buckets.bucket(BucketKey::new("a", "r"), rate).unwrap();
    let recorder = Arc::new(EventRecorder::default());
    let observer = Arc::clone(&recorder) as Arc<dyn GuardObserver>;
    let guard = ApiGuard::new(clock.clone(), bucket, GuardSettings::default(), observer);
    let inner = Flaky { calls: Arc::default(), times: Arc::default(), clock: clock.clone() };
    let times = Arc::clone(&inner.times);
    let mut service = GuardLayer::new(guard, StatusPolicy).layer(inner);
    clock.run(async {
        assert_eq!(service.call("good").await.unwrap(), 200);
        let refused = service.call("bad").await.unwrap_err();
        assert!(matches!(refused, GuardError::Refused { error: BadStatus(400), attempts: 1 }));
    });
    // A retry takes a token as well, and waits for it.
    let seconds: Vec<_> = times.lock().unwrap().iter().map(|at| (*at - Timestamp::ZERO).as_secs()).collect();
    assert_eq!(seconds, [0, 10, 20]);
    // Three attempts; before two of them the wait was reported.
    let events = recorder.events();
    let waits = events.iter().filter(|event| matches!(event.kind, GuardEventKind::TokenAwaited { .. }));
    assert_eq!((events.len(), waits.count()), (5, 2));
}
