//! Scenarios 84 and 87, property 7, and pages.

use crate::cloud::{ACCOUNT, KEY_ID, REGION, SECRET, TestCloud};
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::aws::sdk::types::DescribeSourceServersRequestFilters;
use seawall_drs::aws::{DrsConnection, DrsError, DrsOptions, RecoveryRequest};
use seawall_drs::fake::{FakeFault, FakeSettings};
use seawall_drs::{AccountAccess, GuardError, GuardSettings, NullObserver, ThrottlerSettings};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

#[test]
fn scenario_84_without_a_token_in_time_there_is_no_call() {
    let cloud = TestCloud::start(FakeSettings::default());
    let rate = WaitingSettings::new(1, Duration::from_secs(100), 1).unwrap();
    let error = cloud.run(async {
        let settings = GuardSettings { rate, ..GuardSettings::default() };
        let client = cloud.client_with(settings, ThrottlerSettings::default()).await;
        client.describe_source_servers(None).await.unwrap();
        client.describe_source_servers(None).await.unwrap_err()
    });
    let DrsError::Call { error: GuardError::RateLimited { timeout, attempts, last_error }, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*timeout, *attempts, last_error.is_none()), (Duration::from_secs(30), 0, true));
    let expected = "describe_source_servers: no rate token within 30s; the API was not called";
    assert_eq!(error.to_string(), expected);
    assert_eq!(cloud.fake.calls().len(), 1);
}

#[test]
fn of_400_callers_those_that_fit_into_30_seconds_call_and_the_rest_do_not() {
    let cloud = TestCloud::start(FakeSettings { rate: Some(WaitingSettings::recovery_api()), ..FakeSettings::default() });
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1"]);
    let (mut served, mut refused) = (0, 0);
    cloud.run(async {
        let client = cloud.client().await;
        let mut callers = JoinSet::new();
        for _ in 0..400 {
            let client = client.clone();
            callers.spawn(async move { client.get_launch_configuration("s-1").await });
        }
        while let Some(outcome) = callers.join_next().await {
            match outcome.unwrap() {
                Ok(_) => served += 1,
                Err(DrsError::Call { error: GuardError::RateLimited { .. }, .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    // Twenty at once, and ten per second for thirty seconds.
    assert_eq!((served, refused), (320, 80));
    let calls = cloud.fake.calls();
    assert_eq!(calls.len(), 320);
    assert!(calls.iter().all(|call| call.status == 200), "the service's own limit was never reached");
}

#[test]
fn scenario_87_two_accounts_in_one_region_are_independent() {
    let cloud = TestCloud::start(FakeSettings { rate: Some(WaitingSettings::recovery_api()), ..FakeSettings::default() });
    let other = "444455556666";
    cloud.fake.add_role(&format!("arn:aws:iam::{other}:role/recovery"), Some("tenant-7"));
    cloud.fake.add_servers(other, REGION, ["s-other"]);
    cloud.run(async {
        let first = cloud.client().await;
        let access = AccountAccess::assume(other, "recovery").with_external_id("tenant-7");
        let second = cloud.connect(DrsOptions { access, ..DrsOptions::new(REGION) }).await;
        for _ in 0..20 {
            first.describe_source_servers(None).await.unwrap();
        }
        assert_eq!((first.guard().bucket().available(), second.guard().bucket().available()), (0, 20));
        // The second account does not wait.
        let before = seawall_core::runtime::Timer::monotonic(&cloud.clock);
        for _ in 0..20 {
            let servers = second.describe_source_servers(None).await.unwrap();
            assert_eq!(servers[0].source_server_id(), Some("s-other"));
        }
        assert_eq!(seawall_core::runtime::Timer::monotonic(&cloud.clock), before);
    });
    let of = |account: &str| {
        cloud.fake.calls().iter().filter(|call| call.service == "drs" && call.account == account).count()
    };
    assert_eq!((of(ACCOUNT), of(other)), (20, 20));
    assert_eq!(cloud.fake.calls_of("AssumeRole").len(), 1, "the session is kept");
}

#[test]
fn a_role_that_wants_another_external_id_is_not_assumed() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_role("arn:aws:iam::444455556666:role/recovery", Some("tenant-7"));
    let error = cloud.run(async {
        let access = AccountAccess::assume("444455556666", "recovery").with_external_id("tenant-8");
        let client = cloud.connect(DrsOptions { access, ..DrsOptions::new(REGION) }).await;
        client.describe_source_servers(None).await.unwrap_err()
    });
    assert!(matches!(error, DrsError::Call { error: GuardError::Refused { .. }, .. }), "{error:?}");
    assert!(error.to_string().contains("external id"), "{error}");
    assert!(cloud.fake.calls_of("DescribeSourceServers").is_empty());
}

#[test]
fn the_account_of_the_credentials_is_read_if_it_is_not_given() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let config = cloud.config(KEY_ID, SECRET);
        let connection = DrsConnection::with_config(config, DrsOptions::new(REGION)).await.unwrap();
        assert_eq!(connection.account(), ACCOUNT);
        // A second client with another rate for the same account is refused, not silently given the first one's.
        connection.client(cloud.clock.clone(), &cloud.buckets, Arc::new(NullObserver)).unwrap();
        let rate = WaitingSettings::new(50, Duration::from_secs(1), 100).unwrap();
        let guard = GuardSettings { rate, ..GuardSettings::default() };
        let options = DrsOptions { guard, ..TestCloud::options() };
        let other = DrsConnection::with_config(cloud.config(KEY_ID, SECRET), options).await.unwrap();
        assert!(other.client(cloud.clock.clone(), &cloud.buckets, Arc::new(NullObserver)).is_err());
    });
}

#[test]
fn a_list_goes_on_where_it_failed() {
    let cloud = TestCloud::start(FakeSettings { page_size: 2, ..FakeSettings::default() });
    let ids: Vec<String> = (0..7).map(|number| format!("s-{number}")).collect();
    cloud.fake.add_servers(ACCOUNT, REGION, ids.iter().map(String::as_str));
    cloud.run(async {
        let client = cloud.client().await;
        let mut pages = client.source_server_pages(None);
        assert_eq!(pages.next_page().await.unwrap().unwrap().len(), 2);
        cloud.fake.add_fault(None, FakeFault::throttle(), 6);
        assert!(pages.next_page().await.is_err());
        let token = pages.resume_token().unwrap();
        assert_eq!(pages.next_page().await.unwrap().unwrap().len(), 2);
        let rest = client.source_server_pages(None).resume(token).all().await.unwrap();
        assert_eq!(rest.len(), 5);
        let filters = DescribeSourceServersRequestFilters::builder().source_server_ids("s-3").build();
        assert_eq!(client.describe_source_servers(Some(filters)).await.unwrap().len(), 1);
    });
    // A token for each page, and for each attempt.
    let calls = cloud.fake.calls_of("DescribeSourceServers").len();
    cloud.run(async {
        assert_eq!(cloud.client().await.guard().bucket().consumed(), u64::try_from(calls).unwrap());
    });
}

#[derive(Clone, Copy, Debug)]
enum Method {
    SourceServers,
    Jobs,
    Instances,
    LaunchConfiguration,
    StartRecovery,
    Capacity,
    Wave,
}

fn method() -> impl Strategy<Value = Method> {
    select(&[
        Method::SourceServers,
        Method::Jobs,
        Method::Instances,
        Method::LaunchConfiguration,
        Method::StartRecovery,
        Method::Capacity,
        Method::Wave,
    ])
}

proptest! {
    // Feature: drs-rate-limit-handling, Property 7: every method takes a rate token before each call, and retries what
    // is worth a retry.
    #[test]
    fn property_7_every_call_takes_a_token_first(
        methods in proptest::collection::vec((method(), 0_u64..4), 1..8),
        page_size in 1_usize..4,
    ) {
        let rate = WaitingSettings::new(2, Duration::from_secs(1), 3).unwrap();
        let cloud = TestCloud::start(FakeSettings { rate: Some(rate), page_size, ..FakeSettings::default() });
        cloud.fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2", "s-3"]);
        cloud.fake.add_jobs(ACCOUNT, REGION, "COMPLETED", 3);
        let faults: u64 = methods.iter().map(|(_, faults)| *faults).sum();
        let consumed = cloud.run(async {
            let client = cloud.client_with(GuardSettings { rate, ..GuardSettings::default() }, ThrottlerSettings::default()).await;
            for (method, faults) in &methods {
                cloud.fake.add_fault(None, FakeFault::throttle(), *faults);
                let outcome = match method {
                    Method::SourceServers => client.describe_source_servers(None).await.map(drop),
                    Method::Jobs => client.describe_jobs(None).await.map(drop),
                    Method::Instances => client.describe_recovery_instances(None).await.map(drop),
                    Method::LaunchConfiguration => client.get_launch_configuration("s-1").await.map(drop),
                    Method::StartRecovery => client.start_recovery(&RecoveryRequest::drill(["s-1"])).await.map(drop),
                    Method::Capacity => client.check_capacity().await.map(drop),
                    Method::Wave => client.poll_wave_status(["drsjob-other-1"]).await.map(drop),
                };
                assert!(outcome.is_ok(), "up to five throttles are retried: {outcome:?}");
            }
            client.guard().bucket().consumed()
        });
        let calls: Vec<_> = cloud.fake.calls().into_iter().filter(|call| call.service == "drs").collect();
        prop_assert_eq!(consumed, u64::try_from(calls.len()).unwrap(), "a token per call, and no call without one");
        prop_assert!(calls.iter().all(|call| call.sdk_request == "attempt=1; max=1"));
        // The service limits at the same rate, so that a single call without a token would have been throttled by it.
        let throttles = calls.iter().filter(|call| call.status == 429).count();
        prop_assert_eq!(u64::try_from(throttles).unwrap(), faults);
        prop_assert_eq!(cloud.fake.refused_signatures(), 0);
    }
}
