//! Scenario 88 with the real sinks: CloudWatch and SNS of the fake, over sockets.

use crate::cloud::{ACCOUNT, KEY_ID, REGION, SECRET, TestCloud};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::aws::{DrsClient, DrsConnection};
use seawall_drs::fake::{FakeFault, FakeSettings};
use seawall_drs::{EscalationNotifier, GuardObserver, MetricPublisher, ObserverList};
use std::sync::Arc;
use std::time::Duration;

const TOPIC: &str = "arn:aws:sns:eu-west-1:111122223333:drs-alerts";

type Clock = crate::clock::VirtualClock;

async fn reporting_client(
    cloud: &TestCloud,
) -> (DrsConnection, DrsClient<Clock>, MetricPublisher<Clock>, EscalationNotifier<Clock>) {
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1"]);
    let config = cloud.config(KEY_ID, SECRET);
    let connection = DrsConnection::with_config(config, TestCloud::options()).await.unwrap();
    let publisher = MetricPublisher::new(cloud.clock.clone());
    let notifier = EscalationNotifier::new(cloud.clock.clone());
    let observers: Vec<Arc<dyn GuardObserver>> = vec![Arc::new(publisher.clone()), Arc::new(notifier.clone())];
    let observer = Arc::new(ObserverList(observers));
    let client = connection.client(cloud.clock.clone(), &cloud.buckets, observer).unwrap();
    (connection, client, publisher, notifier)
}

#[test]
fn an_exhausted_call_is_published_and_escalated() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let (connection, client, publisher, notifier) = reporting_client(&cloud).await;
        cloud.fake.add_fault(Some("GetLaunchConfiguration"), FakeFault::throttle(), 6);
        let call = async {
            client.get_launch_configuration("s-1").await.unwrap_err();
            client.get_launch_configuration("s-1").await.unwrap();
            publisher.shut_down();
            notifier.shut_down();
        };
        let (sink, topic) = (connection.cloud_watch(), connection.sns(TOPIC));
        tokio::join!(publisher.run(&sink), notifier.run(Some(&topic)), call);
    });
    let metrics = cloud.fake.metrics();
    let count = |name: &str| metrics.iter().filter(|datum| datum["MetricName"] == name).count();
    assert_eq!(
        [count("APICallCount"), count("RateLimitErrors"), count("RetryAttempts"), count("RetryExhausted")],
        [7, 6, 5, 1]
    );
    for datum in &metrics {
        assert_eq!(datum["Namespace"], "DRS/RateLimits");
        assert_eq!((datum["Value"].as_f64(), datum["Unit"].as_str()), (Some(1.0), Some("Count")));
        let has = |name: &str, value: &str| {
            let dimensions = datum["Dimensions"].as_array().unwrap();
            dimensions.iter().any(|dimension| dimension["Name"] == name && dimension["Value"] == value)
        };
        assert!(has("Region", REGION) && has("Operation", "get_launch_configuration"), "{datum}");
        assert!(datum["Timestamp"].as_i64().is_some_and(|millis| millis > 1_700_000_000_000), "{datum}");
    }
    let notices = cloud.fake.notices();
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].topic.as_str(), notices[0].subject.as_str()), (TOPIC, "DRS rate limit escalation - eu-west-1"));
    assert!(notices[0].message.contains("- Attempts: 6"), "{}", notices[0].message);
}

#[test]
fn scenario_88_a_sink_that_is_down_for_five_minutes_does_not_touch_the_calls() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.fake.set_sinks_down(true);
    let mut most = 0;
    cloud.run(async {
        let (connection, client, publisher, _) = reporting_client(&cloud).await;
        let calls = async {
            // One call per second for five minutes, none of which waits.
            for second in 0..300_u64 {
                let start = Timestamp::ZERO + Duration::from_secs(second);
                cloud.clock.sleep_until(start).await;
                client.get_launch_configuration("s-1").await.unwrap();
                assert_eq!(cloud.clock.monotonic(), start);
                most = most.max(publisher.queued());
            }
            cloud.fake.set_sinks_down(false);
            cloud.clock.sleep_until(Timestamp::ZERO + Duration::from_secs(400)).await;
            publisher.shut_down();
        };
        tokio::join!(publisher.run(&connection.cloud_watch()), calls);
        assert_eq!((publisher.report().sent, publisher.report().dropped), (300, 0));
    });
    assert!(most <= 10_000);
    assert_eq!(cloud.fake.metrics().len(), 300);
    assert!(cloud.fake.metric_batches().iter().all(|size| (1..=20).contains(size)));
}

#[test]
fn scenario_88_shutdown_sends_a_hundred_measurements_within_five_seconds() {
    let cloud = TestCloud::start(FakeSettings::default());
    cloud.run(async {
        let (connection, client, publisher, _) = reporting_client(&cloud).await;
        for _ in 0..100 {
            client.get_launch_configuration("s-1").await.unwrap();
        }
        assert_eq!(publisher.queued(), 100);
        let before = cloud.clock.monotonic();
        publisher.shut_down();
        let report = publisher.run(&connection.cloud_watch()).await;
        assert_eq!((report.sent, report.lost), (100, 0));
        assert!(cloud.clock.monotonic() - before <= Duration::from_secs(5));
    });
    assert_eq!(cloud.fake.metric_batches(), [20, 20, 20, 20, 20]);
}
