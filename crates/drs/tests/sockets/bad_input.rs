//! What callers and services should not send, and sometimes do.

use crate::cloud::{ACCOUNT, KEY_ID, REGION, TestCloud};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::aws::{ConnectError, DrsConnection, DrsError, DrsOptions, RecoveryRequest, TerminationRequest};
use seawall_drs::fake::{FakeFault, FakeSettings};
use seawall_drs::{AccountAccess, GuardError};
use std::time::Duration;

#[test]
fn invalid_requests_are_not_sent() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let client = cloud.client().await;
        let many: Vec<String> = (0..201).map(|number| format!("s-{number}")).collect();
        for (servers, problem) in [
            (vec![], "name at least one source server"),
            (vec!["s-1".to_owned(), "s-1".to_owned()], "the source server s-1 is named twice"),
            (vec!["s 1\n".to_owned()], "\"s 1\\n\" is not a source server id: use letters, digits and -"),
            (vec![String::new()], "\"\" is not a source server id: use letters, digits and -"),
            (many, "201 source servers are more than the 200 of one job: start several jobs"),
        ] {
            let error = client.start_recovery(&RecoveryRequest::recovery(servers)).await.unwrap_err();
            assert_eq!(error.to_string(), format!("start_recovery: {problem}"));
        }
        let none =
            TerminationRequest { recovery_instance_ids: vec![], deadline: Deadline::NEVER, correlation_id: None };
        assert!(client.terminate_recovery_instances(&none).await.is_err());
        assert!(client.poll_wave_status(Vec::<String>::new()).await.is_err());
        assert_eq!(client.guard().bucket().consumed(), 0);
    });
    assert!(cloud.fake.calls().is_empty());
}

#[test]
fn invalid_regions_and_accounts_are_refused_before_any_call() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        for region in ["", "EU-WEST-1", "eu-west-1.evil.example", "eu west", "-eu", "../x"] {
            let error = DrsConnection::open(DrsOptions::new(region)).await.unwrap_err();
            assert!(matches!(error, ConnectError::Region(_)), "{region:?}: {error}");
        }
        let access = AccountAccess::assume("12", "role");
        let error = DrsConnection::open(DrsOptions { access, ..DrsOptions::new(REGION) }).await.unwrap_err();
        assert!(matches!(error, ConnectError::Access(_)));
    });
    assert!(cloud.fake.calls().is_empty());
}

#[test]
fn a_wrong_secret_is_refused_once_and_not_retried() {
    let cloud = TestCloud::start(FakeSettings::default());
    let error = cloud.run(async {
        let config = cloud.config(KEY_ID, "not-the-secret");
        let connection = DrsConnection::with_config(config, TestCloud::options()).await.unwrap();
        let observer = std::sync::Arc::new(seawall_drs::NullObserver);
        let client = connection.client(cloud.clock.clone(), &cloud.buckets, observer).unwrap();
        client.describe_source_servers(None).await.unwrap_err()
    });
    assert!(matches!(error, DrsError::Call { error: GuardError::Refused { attempts: 1, .. }, .. }), "{error:?}");
    assert!(error.to_string().contains("InvalidSignatureException"), "{error}");
    assert_eq!(cloud.fake.refused_signatures(), 1);
}

#[test]
fn an_unknown_account_is_an_error_that_says_what_to_do() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let config = cloud.config("AKIAUNKNOWN", "x");
        let error = DrsConnection::with_config(config, DrsOptions::new(REGION)).await.unwrap_err();
        assert!(error.to_string().contains("name the account"), "{error}");
    });
}

#[test]
fn answers_that_cannot_be_read_are_errors_and_not_retried() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_fault(None, FakeFault::ExecuteThenGarbage, 1);
    let error = cloud.run(async { cloud.client().await.describe_jobs(None).await.unwrap_err() });
    assert!(matches!(error, DrsError::Call { error: GuardError::Refused { attempts: 1, .. }, .. }), "{error:?}");
}

#[test]
fn a_closed_connection_is_retried_for_reads() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_fault(None, FakeFault::Disconnect, 2);
    let jobs = cloud.run(async { cloud.client().await.describe_jobs(None).await.unwrap() });
    assert!(jobs.is_empty());
    assert_eq!(cloud.fake.calls().len(), 3);
}

#[test]
fn a_retry_after_lengthens_the_backoff_by_at_most_five_seconds() {
    for (seconds, range) in [(3, 3_000..=6_500), (200, 5_000..=6_600), (100_000, 500..=1_500)] {
        let cloud = TestCloud::start(FakeSettings::default());
        let throttle =
            FakeFault::Refuse { status: 429, code: "ThrottlingException", retry_after: Some(seconds) };
        cloud.fake.add_fault(None, throttle, 1);
        cloud.run(async { cloud.client().await.describe_jobs(None).await.unwrap() });
        let calls = cloud.fake.calls();
        let waited = (calls[1].at - calls[0].at).as_millis();
        assert!(range.contains(&waited), "{seconds} s: {waited} ms");
    }
}

#[test]
fn a_deadline_ends_the_retries_early_and_the_count_is_true() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_fault(Some("StartRecovery"), FakeFault::throttle(), u64::MAX);
    let error = cloud.run(async {
        let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(8));
        let request = RecoveryRequest { deadline, ..RecoveryRequest::drill(["s-1"]) };
        cloud.client().await.start_recovery(&request).await.unwrap_err()
    });
    let DrsError::Call { error: GuardError::Exhausted(end), .. } = &error else { panic!("{error}") };
    let calls = cloud.fake.calls_of("StartRecovery").len();
    assert_eq!(usize::try_from(end.attempts).unwrap(), calls);
    assert!(calls < 6 && cloud.clock.monotonic() <= Timestamp::ZERO + Duration::from_secs(8));
    assert!(error.to_string().contains("as the deadline allows no more"), "{error}");
}

#[test]
fn a_missing_server_is_reported_as_the_service_says_it() {
    let cloud = TestCloud::start(FakeSettings::default());
    let error = cloud.run(async { cloud.client().await.get_launch_configuration("s-none").await.unwrap_err() });
    let expected = "get_launch_configuration: ResourceNotFoundException: the server is unknown";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_launch_configuration_is_changed_and_an_unclear_failure_is_repeated() {
    use seawall_drs::aws::sdk::operation::update_launch_configuration::UpdateLaunchConfigurationInput;
    use seawall_drs::aws::sdk::types::LaunchDisposition;
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1"]);
    cloud.fake.add_fault(Some("UpdateLaunchConfiguration"), FakeFault::execute_then_500(), 1);
    cloud.run(async {
        let client = cloud.client().await;
        let input = UpdateLaunchConfigurationInput::builder()
            .source_server_id("s-1")
            .launch_disposition(LaunchDisposition::Stopped)
            .copy_tags(true)
            .build()
            .unwrap();
        let updated = client.update_launch_configuration(input).await.unwrap();
        assert_eq!(updated.launch_disposition(), Some(&LaunchDisposition::Stopped));
        let read = client.get_launch_configuration("s-1").await.unwrap();
        assert_eq!((read.launch_disposition(), read.copy_tags()), (Some(&LaunchDisposition::Stopped), Some(true)));
    });
    assert_eq!(cloud.fake.calls_of("UpdateLaunchConfiguration").len(), 2);
}
