//! A storm: everything is throttled for a minute, and fifty callers keep trying.

use crate::cloud::{ACCOUNT, REGION, TestCloud};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::aws::DrsError;
use seawall_drs::fake::{FakeFault, FakeSettings};
use seawall_drs::{GuardError, GuardEventKind};
use std::time::Duration;
use tokio::task::JoinSet;

/// The most calls above `10 * seconds + 20` in any window that begins and ends with a call.
fn excess(times: &[Timestamp]) -> f64 {
    let mut worst = f64::MIN;
    for (first, start) in times.iter().enumerate() {
        for (calls, end) in times[first..].iter().enumerate() {
            let allowed = 10.0 * (*end - *start).as_secs_f64() + 20.0;
            worst = worst.max((calls + 1) as f64 - allowed);
        }
    }
    worst
}

#[test]
fn a_minute_of_throttling_with_fifty_callers_never_exceeds_the_rate() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1"]);
    cloud.fake.add_fault(None, FakeFault::throttle(), u64::MAX);
    let storm_ends = Timestamp::ZERO + Duration::from_secs(60);
    let (mut succeeded, mut exhausted, mut refused) = (0, 0, 0);
    cloud.run(async {
        let client = cloud.client().await;
        let mut callers = JoinSet::new();
        for _ in 0..50 {
            let (client, clock) = (client.clone(), cloud.clock.clone());
            callers.spawn(async move {
                let mut outcomes = Vec::new();
                // Each caller tries again until it succeeds.
                loop {
                    let outcome = client.get_launch_configuration("s-1").await;
                    let is_over = outcome.is_ok() || clock.monotonic() > Timestamp::ZERO + Duration::from_secs(600);
                    outcomes.push(outcome.map(drop));
                    if is_over {
                        return outcomes;
                    }
                }
            });
        }
        let end_storm = async {
            cloud.clock.sleep_until(storm_ends).await;
            cloud.fake.clear_faults();
        };
        let collect = async {
            while let Some(outcomes) = callers.join_next().await {
                for outcome in outcomes.unwrap() {
                    match outcome {
                        Ok(()) => succeeded += 1,
                        Err(DrsError::Call { error: GuardError::Exhausted(_), .. }) => exhausted += 1,
                        Err(DrsError::Call { error: GuardError::RateLimited { .. }, .. }) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        tokio::join!(end_storm, collect);
    });
    let calls = cloud.fake.calls();
    let times: Vec<_> = calls.iter().map(|call| call.at).collect();
    let during = calls.iter().filter(|call| call.at < storm_ends).count();
    println!(
        "storm: {} calls, {during} in the minute; {succeeded} succeeded, {exhausted} exhausted, {refused} without a token; \
         worst window {:.2} calls below the bound",
        calls.len(),
        -excess(&times)
    );
    assert_eq!(succeeded, 50, "every caller ends");
    assert!(excess(&times) <= 1e-6, "{}", excess(&times));
    assert!(during > 100, "the storm was one");
    assert!(calls.iter().all(|call| (call.status == 429) == (call.at < storm_ends)));
    let failures = cloud.recorder.count(|kind| matches!(kind, GuardEventKind::AttemptFailed { .. }));
    assert_eq!(failures, during);
}
