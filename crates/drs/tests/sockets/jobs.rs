//! Scenarios 85 and 86: one job, never two, and never more than the service allows.

use crate::cloud::{ACCOUNT, REGION, TestCloud};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::aws::{DrsError, RecoveryRequest, TerminationRequest, WaveProgress};
use seawall_drs::fake::{FakeFault, FakeSettings};
use seawall_drs::{CapacityStatus, GuardError, GuardEventKind, GuardSettings, ThrottlerSettings};
use std::time::Duration;
use tokio::task::JoinSet;

fn cloud() -> TestCloud {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2"]);
    cloud
}

fn job_count(cloud: &TestCloud) -> usize {
    cloud.fake.with_region(ACCOUNT, REGION, |region| region.jobs.len())
}

#[test]
fn scenario_85_an_error_after_the_execution_leaves_one_job() {
    let faults = [
        FakeFault::execute_then_500(),
        FakeFault::ExecuteThenRefuse { status: 503, code: "ServiceUnavailable" },
        FakeFault::ExecuteThenDisconnect,
        FakeFault::ExecuteThenGarbage,
    ];
    for fault in faults {
        for has_tags in [true, false] {
            let cloud = cloud();
            cloud.fake.add_fault(Some("StartRecovery"), fault.clone(), 1);
            let started = cloud.run(async {
                let client = cloud.client().await;
                let client = if has_tags { client } else { client.without_job_tags() };
                client.start_recovery(&RecoveryRequest::drill(["s-1", "s-2"])).await.unwrap()
            });
            assert!(started.was_found, "{fault:?}");
            assert_eq!((job_count(&cloud), started.attempts), (1, 1), "{fault:?}");
            assert_eq!(cloud.fake.calls_of("StartRecovery").len(), 1);
            let job = cloud.fake.with_region(ACCOUNT, REGION, |region| region.jobs[0].clone());
            assert_eq!(job["jobID"], started.job.job_id());
        }
    }
}

#[test]
fn an_error_before_the_execution_is_retried_after_a_look() {
    for fault in [FakeFault::internal_error(), FakeFault::Disconnect] {
        let cloud = cloud();
        cloud.fake.add_fault(Some("StartRecovery"), fault, 2);
        let started = cloud.run(async {
            cloud.client().await.start_recovery(&RecoveryRequest::recovery(["s-1"])).await.unwrap()
        });
        assert_eq!((started.was_found, started.attempts, job_count(&cloud)), (false, 3, 1));
        // One look for capacity and one before each of the two retries.
        assert_eq!(cloud.fake.calls_of("DescribeJobs").len(), 3);
        let looks = cloud.recorder.count(|kind| matches!(kind, GuardEventKind::JobLookedUp { job_id: None }));
        assert_eq!(looks, 2);
    }
}

#[test]
fn a_throttled_start_is_repeated_without_a_look() {
    let cloud = cloud();
    cloud.fake.add_fault(Some("StartRecovery"), FakeFault::throttle(), 3);
    let started = cloud.run(async {
        cloud.client().await.start_recovery(&RecoveryRequest::recovery(["s-1"])).await.unwrap()
    });
    assert_eq!((started.attempts, job_count(&cloud)), (4, 1));
    assert_eq!(cloud.fake.calls_of("DescribeJobs").len(), 1);
}

#[test]
fn if_the_jobs_cannot_be_listed_nothing_is_repeated_and_nothing_is_claimed() {
    let cloud = cloud();
    cloud.fake.add_fault(Some("StartRecovery"), FakeFault::execute_then_500(), 1);
    let error = cloud.run(async {
        let client = cloud.client().await;
        // The look for capacity succeeds; those after the failure do not.
        cloud.fake.add_fault(Some("DescribeJobs"), FakeFault::Refuse { status: 200, code: "", retry_after: None }, 0);
        let request = RecoveryRequest::drill(["s-1"]);
        let start = client.start_recovery(&request);
        let spoil = async {
            while cloud.fake.calls_of("StartRecovery").is_empty() {
                cloud.clock.sleep_until(cloud.clock.monotonic() + Duration::from_millis(10)).await;
            }
            cloud.fake.add_fault(Some("DescribeJobs"), FakeFault::internal_error(), u64::MAX);
        };
        tokio::join!(start, spoil).0.unwrap_err()
    });
    assert!(matches!(error, DrsError::OutcomeUnknown { .. }), "{error}");
    assert_eq!((job_count(&cloud), cloud.fake.calls_of("StartRecovery").len()), (1, 1));
}

#[test]
fn an_exhausted_quota_waits_for_capacity() {
    // The service counts differently: it is full at 5 jobs, and one of them ends after a while.
    let settings = FakeSettings {
        max_jobs: 5,
        job_times: Some((Duration::from_secs(1), Duration::from_secs(20))),
        ..FakeSettings::default()
    };
    let cloud = TestCloud::start(settings);
    let throttler = ThrottlerSettings { threshold: 5, ..ThrottlerSettings::default() };
    let started = cloud.run(async {
        let client = cloud.client_with(GuardSettings::default(), throttler).await;
        client.start_recovery(&RecoveryRequest::drill(["s-1"])).await.unwrap();
        // Somebody else takes the rest between our count and our start.
        cloud.fake.add_fault(
            Some("StartRecovery"),
            FakeFault::Refuse { status: 402, code: "ServiceQuotaExceededException", retry_after: None },
            1,
        );
        cloud.fake.add_jobs(ACCOUNT, REGION, "STARTED", 4);
        client.start_recovery(&RecoveryRequest::drill(["s-2"])).await
    });
    // Four jobs of others and ours: full at the first look, so the wait comes before the start.
    let started = started.unwrap();
    assert_eq!(started.attempts, 2);
    assert!(cloud.recorder.count(|kind| matches!(kind, GuardEventKind::CapacityAwaited { .. })) >= 1);
    assert_eq!(cloud.fake.with_region(ACCOUNT, REGION, |region| region.active_jobs()), 5);
}

#[test]
fn scenario_86_of_five_callers_one_starts_and_four_wait() {
    let cloud = cloud();
    cloud.fake.add_jobs(ACCOUNT, REGION, "STARTED", 10);
    cloud.fake.add_jobs(ACCOUNT, REGION, "PENDING", 7);
    cloud.fake.add_jobs(ACCOUNT, REGION, "COMPLETED", 100);
    cloud.run(async {
        let client = cloud.client().await;
        let mut callers = JoinSet::new();
        for number in 0..5 {
            let client = client.clone();
            callers.spawn(async move {
                client.start_recovery(&RecoveryRequest::drill([format!("s-{number}")])).await
            });
        }
        cloud.clock.sleep_until(Timestamp::ZERO + Duration::from_secs(590)).await;
        assert_eq!(cloud.fake.calls_of("StartRecovery").len(), 1, "exactly one starts");
        assert!(callers.try_join_next().unwrap().unwrap().is_ok());
        assert!(callers.try_join_next().is_none(), "four keep waiting");
        let mut timed_out = 0;
        while let Some(outcome) = callers.join_next().await {
            let Err(DrsError::Capacity { timeout, .. }) = outcome.unwrap() else { panic!("it started") };
            assert_eq!(timeout.current_jobs, 18);
            assert!((599..=601).contains(&timeout.waited.as_secs()), "{:?}", timeout.waited);
            timed_out += 1;
        }
        assert_eq!(timed_out, 4);
        let elapsed = cloud.clock.monotonic() - Timestamp::ZERO;
        assert!((Duration::from_secs(599)..=Duration::from_secs(601)).contains(&elapsed), "{elapsed:?}");
    });
    assert_eq!(cloud.fake.calls_of("StartRecovery").len(), 1);
}

#[test]
fn scenario_86_a_list_that_fails_does_not_stop_a_recovery() {
    let cloud = cloud();
    cloud.fake.add_fault(
        Some("DescribeJobs"),
        FakeFault::Refuse { status: 403, code: "AccessDeniedException", retry_after: None },
        u64::MAX,
    );
    let started = cloud.run(async {
        cloud.client().await.start_recovery(&RecoveryRequest::recovery(["s-1"])).await.unwrap()
    });
    assert_eq!(started.capacity.status, CapacityStatus::Unknown);
    assert_eq!(cloud.recorder.count(|kind| matches!(kind, GuardEventKind::CapacityUnknown { .. })), 1);
    assert_eq!(job_count(&cloud), 1);
}

#[test]
fn a_termination_is_one_job_too_and_a_wave_is_followed_to_its_end() {
    let settings = FakeSettings {
        job_times: Some((Duration::from_secs(5), Duration::from_secs(60))),
        ..FakeSettings::default()
    };
    let cloud = TestCloud::start(settings);
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2", "s-fails"]);
    cloud.run(async {
        let client = cloud.client().await;
        let good = client.start_recovery(&RecoveryRequest::recovery(["s-1", "s-2"])).await.unwrap();
        let mixed = client.start_recovery(&RecoveryRequest::recovery(["s-fails"])).await.unwrap();
        let (good, mixed) = (good.job.job_id().to_owned(), mixed.job.job_id().to_owned());
        let status = client.poll_wave_status([&good]).await.unwrap();
        assert_eq!((status.progress, status.active_jobs), (WaveProgress::InProgress, 1));
        cloud.clock.sleep_until(cloud.clock.monotonic() + Duration::from_secs(120)).await;
        let status = client.poll_wave_status([&good]).await.unwrap();
        assert_eq!((status.progress, status.done_servers), (WaveProgress::Succeeded, 2));
        let status = client.poll_wave_status([&good, &mixed]).await.unwrap();
        assert_eq!((status.progress, status.failed_servers), (WaveProgress::Failed, 1));
        let status = client.poll_wave_status([good.as_str(), "drsjob-missing"]).await.unwrap();
        assert_eq!((status.progress, status.missing_jobs.len()), (WaveProgress::Unknown, 1));

        let instances = client.describe_recovery_instances(None).await.unwrap();
        assert_eq!(instances.len(), 2);
        let ids: Vec<String> =
            instances.iter().filter_map(|instance| instance.recovery_instance_id().map(str::to_owned)).collect();
        cloud.fake.add_fault(Some("TerminateRecoveryInstances"), FakeFault::execute_then_500(), 1);
        let request = TerminationRequest {
            recovery_instance_ids: ids,
            deadline: seawall_core::deadline::Deadline::NEVER,
            correlation_id: None,
        };
        let terminated = client.terminate_recovery_instances(&request).await.unwrap();
        assert!(terminated.was_found);
        assert_eq!(cloud.fake.calls_of("TerminateRecoveryInstances").len(), 1);
        cloud.clock.sleep_until(cloud.clock.monotonic() + Duration::from_secs(120)).await;
        assert!(client.describe_recovery_instances(None).await.unwrap().is_empty());
    });
}

#[test]
fn all_retries_used_up_end_with_the_last_error() {
    let cloud = cloud();
    cloud.fake.add_fault(Some("StartRecovery"), FakeFault::throttle(), u64::MAX);
    let error = cloud.run(async {
        cloud.client().await.start_recovery(&RecoveryRequest::recovery(["s-1"])).await.unwrap_err()
    });
    let DrsError::Call { error: GuardError::Exhausted(end), .. } = &error else { panic!("{error}") };
    assert_eq!((end.attempts, end.last_error.code()), (6, Some("ThrottlingException")));
    assert_eq!(cloud.fake.calls_of("StartRecovery").len(), 6);
    assert_eq!(
        error.to_string(),
        "start_recovery: failed after 6 attempts: ThrottlingException: a fault that was asked for"
    );
}
