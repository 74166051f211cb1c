//! Properties 10 and 11, and scenario 86 without sockets: the job throttler.

use crate::EventRecorder;
use crate::clock::VirtualClock;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::{
    CallLabels, CapacityStatus, CapacityTimeout, GuardEventKind, GuardObserver, JobThrottler, ThrottlerSettings,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

fn labels() -> CallLabels {
    CallLabels {
        operation: "start_recovery".into(),
        region: "eu-west-1".into(),
        account: "111122223333".into(),
        correlation_id: "c-1".into(),
    }
}

fn throttler(
    clock: &VirtualClock,
    settings: ThrottlerSettings,
) -> (JobThrottler<VirtualClock>, Arc<EventRecorder>) {
    let recorder = Arc::new(EventRecorder::default());
    let observer = Arc::clone(&recorder) as Arc<dyn GuardObserver>;
    (JobThrottler::new(clock.clone(), settings, observer), recorder)
}

proptest! {
    // Feature: drs-rate-limit-handling, Property 10: at or above the threshold a caller waits and polls until there is
    // capacity or the time is up.
    #[test]
    fn property_10_a_caller_waits_at_the_threshold(
        counts in proptest::collection::vec(0_u32..25, 1..30),
        threshold in 0_u32..=20,
        poll in 1_u64..60,
        timeout in 0_u64..700,
    ) {
        let clock = VirtualClock::new(1);
        let settings = ThrottlerSettings {
            threshold,
            poll_interval: Duration::from_secs(poll),
            timeout: Duration::from_secs(timeout),
        };
        let (throttler, _) = throttler(&clock, settings);
        let looks = AtomicU32::new(0);
        let count = || {
            let look = usize::try_from(looks.fetch_add(1, Ordering::Relaxed)).unwrap();
            let jobs = counts[look.min(counts.len() - 1)];
            async move { Ok::<_, Infallible>(jobs) }
        };
        let outcome = clock.run(throttler.wait_for_capacity(&labels(), count));
        let looks = u64::from(looks.load(Ordering::Relaxed));
        let at = |look: u64| *counts.get(usize::try_from(look).unwrap()).unwrap_or(counts.last().unwrap());
        // The caller polls at 0, poll, 2 * poll and so on, and at last when the time is up.
        let last_look = timeout.div_ceil(poll);
        let first_room = (0..=last_look).find(|look| at(*look) < threshold);
        match (first_room, outcome) {
            (Some(look), Ok((_slot, grant))) => {
                prop_assert_eq!(looks, look + 1);
                prop_assert_eq!(grant.status, CapacityStatus::Available);
                prop_assert_eq!(grant.current_jobs, Some(at(look)));
                prop_assert_eq!(grant.wait_time, Duration::from_secs((look * poll).min(timeout)));
            }
            (None, Err(timed_out)) => {
                prop_assert_eq!(looks, last_look + 1);
                prop_assert_eq!(timed_out.waited, Duration::from_secs(timeout));
            }
            (expected, outcome) => prop_assert!(false, "{:?} but {:?}", expected, outcome.map(|(_, grant)| grant)),
        }
    }

    // Feature: drs-rate-limit-handling, Property 11: a time-out carries the number of jobs and the time waited.
    #[test]
    fn property_11_a_timeout_carries_count_and_wait(jobs in 18_u32..40, timeout in 0_u64..2_000, poll in 1_u64..90) {
        let clock = VirtualClock::new(1);
        let settings = ThrottlerSettings {
            threshold: 18,
            poll_interval: Duration::from_secs(poll),
            timeout: Duration::from_secs(timeout),
        };
        let (throttler, recorder) = throttler(&clock, settings);
        let outcome = clock.run(throttler.wait_for_capacity(&labels(), || async { Ok::<_, Infallible>(jobs) }));
        let expected = CapacityTimeout { current_jobs: jobs, max_jobs: 20, waited: Duration::from_secs(timeout) };
        let error = outcome.map(|(_, grant)| grant).unwrap_err();
        prop_assert_eq!(error, expected);
        let body = serde_json::to_value(error.body()).unwrap();
        prop_assert_eq!(&body["error"], "JOB_CAPACITY_TIMEOUT");
        prop_assert_eq!(&body["currentJobs"], jobs);
        let message = body["message"].as_str().unwrap();
        prop_assert!(message.contains(&jobs.to_string()) && message.contains(&format!("{timeout} s")), "{}", message);
        prop_assert_eq!(body.as_object().unwrap().len(), 3);
        prop_assert_eq!(CapacityTimeout::STATUS, 429);
        let timed_out = |kind: &GuardEventKind| matches!(kind, GuardEventKind::CapacityTimedOut { .. });
        prop_assert_eq!(recorder.events().iter().filter(|event| timed_out(&event.kind)).count(), 1);
    }

    #[test]
    fn callers_at_once_never_start_more_jobs_than_the_threshold_allows(
        active in 0_u32..25,
        callers in 1_usize..12,
        start_millis in 0_u64..90_000,
        count_millis in 0_u64..3_000,
    ) {
        let clock = VirtualClock::new(u64::from(active));
        let settings = ThrottlerSettings { timeout: Duration::from_secs(120), ..ThrottlerSettings::default() };
        let (throttler, _) = throttler(&clock, settings);
        let jobs = Arc::new(AtomicU32::new(active));
        let most = Arc::new(AtomicU32::new(0));
        clock.run(async {
            let mut tasks = JoinSet::new();
            for _ in 0..callers {
                let (throttler, jobs, most, inside) =
                    (throttler.clone(), Arc::clone(&jobs), Arc::clone(&most), clock.clone());
                tasks.spawn(async move {
                    let count = || {
                        // The list is taken first and arrives later: it may be old by then.
                        let seen = jobs.load(Ordering::SeqCst);
                        let arrival = inside.monotonic() + Duration::from_millis(count_millis);
                        let inside = inside.clone();
                        async move {
                            inside.sleep_until(arrival).await;
                            Ok::<_, Infallible>(seen)
                        }
                    };
                    let Ok((slot, _)) = throttler.wait_for_capacity(&labels(), count).await else { return };
                    inside.sleep_until(inside.monotonic() + Duration::from_millis(start_millis)).await;
                    most.fetch_max(jobs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    drop(slot);
                });
            }
            while let Some(outcome) = tasks.join_next().await {
                outcome.unwrap();
            }
        });
        prop_assert!(most.load(Ordering::SeqCst) <= 18);
        let room = 18_u32.saturating_sub(active).min(u32::try_from(callers).unwrap());
        prop_assert_eq!(jobs.load(Ordering::SeqCst), active + room);
    }
}

#[test]
fn a_count_that_hangs_delays_the_timeout_by_a_second_at_most() {
    let clock = VirtualClock::new(1);
    let (throttler, _) = throttler(&clock, ThrottlerSettings::default());
    let looks = AtomicU32::new(0);
    let count = || {
        let hangs = looks.fetch_add(1, Ordering::Relaxed) == 20;
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(19)
        }
    };
    let error = clock.run(throttler.wait_for_capacity(&labels(), count)).map(|(_, grant)| grant).unwrap_err();
    assert_eq!((error.current_jobs, error.waited), (19, Duration::from_secs(601)));
}

#[test]
fn a_count_that_fails_lets_the_job_start_and_raises_an_alarm() {
    let clock = VirtualClock::new(1);
    let (throttler, recorder) = throttler(&clock, ThrottlerSettings::default());
    let outcome = clock.run(throttler.wait_for_capacity(&labels(), || async { Err::<u32, _>("no list") }));
    let (_slot, grant) = outcome.unwrap();
    assert_eq!((grant.status, grant.current_jobs), (CapacityStatus::Unknown, None));
    let events = recorder.events();
    assert!(matches!(&events[0].kind, GuardEventKind::CapacityUnknown { reason } if reason == "no list"));
}

#[test]
fn the_status_has_the_names_of_the_platform() {
    let clock = VirtualClock::new(1);
    let (throttler, _) = throttler(&clock, ThrottlerSettings::default());
    clock.run(async {
        let count = || async { Ok::<_, Infallible>(17) };
        let (slot, grant) = throttler.wait_for_capacity(&labels(), count).await.unwrap();
        let expected = serde_json::json!({
            "status": "CAPACITY_AVAILABLE", "currentJobs": 17, "maxJobs": 20, "waitTime": 0.0,
        });
        assert_eq!(serde_json::to_value(grant).unwrap(), expected);
        // The reservation counts as active.
        let capacity = throttler.check_capacity(count).await.unwrap();
        let expected = serde_json::json!({
            "currentJobs": 18, "maxJobs": 20, "availableSlots": 2, "throttlingActive": true, "atCapacity": false,
        });
        assert_eq!(serde_json::to_value(capacity).unwrap(), expected);
        drop(slot);
        assert!(!throttler.check_capacity(count).await.unwrap().throttling_active);
        let full = throttler.check_capacity(|| async { Ok::<_, Infallible>(23) }).await.unwrap();
        assert_eq!((full.available_slots, full.at_capacity), (0, true));
    });
}

#[test]
fn variables_are_read_and_zero_is_a_value() {
    let read = |pairs: &'static [(&str, &str)]| {
        ThrottlerSettings::from_variables(|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(read(&[]), Ok(ThrottlerSettings::default()));
    let zero = [("JOB_THROTTLE_THRESHOLD", "0"), ("JOB_POLL_INTERVAL", "0"), ("JOB_THROTTLE_TIMEOUT", "0")];
    let expected =
        ThrottlerSettings { threshold: 0, poll_interval: Duration::ZERO, timeout: Duration::ZERO };
    assert_eq!(ThrottlerSettings::from_variables(|name| {
        zero.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }), Ok(expected));
    for (pairs, problem) in [
        (&[("JOB_THROTTLE_THRESHOLD", "21")], "JOB_THROTTLE_THRESHOLD: 21 is more than 20, the jobs that the service allows"),
        (&[("JOB_POLL_INTERVAL", "-1")], "JOB_POLL_INTERVAL: \"-1\" is not a whole number from 0 to 4294967295"),
        (&[("JOB_THROTTLE_TIMEOUT", "10m")], "JOB_THROTTLE_TIMEOUT: \"10m\" is not a whole number from 0 to 4294967295"),
        (&[("JOB_THROTTLE_TIMEOUT", "")], "JOB_THROTTLE_TIMEOUT: \"\" is not a whole number from 0 to 4294967295"),
    ] as [(&'static [(&str, &str); 1], &str); 4] {
        assert_eq!(read(pairs).unwrap_err().to_string(), problem);
    }
}

#[test]
fn with_no_time_to_wait_the_jobs_are_counted_once() {
    let clock = VirtualClock::new(1);
    let settings = ThrottlerSettings { timeout: Duration::ZERO, ..ThrottlerSettings::default() };
    let (throttler, _) = throttler(&clock, settings);
    let outcome = clock.run(throttler.wait_for_capacity(&labels(), || async { Ok::<_, Infallible>(18) }));
    assert_eq!(outcome.map(|(_, grant)| grant).unwrap_err().waited, Duration::ZERO);
    assert_eq!(clock.monotonic(), Timestamp::ZERO);
}
