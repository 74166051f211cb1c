//! The publisher and the notifier on a virtual clock, and scenario 88 without sockets.

use crate::clock::VirtualClock;
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_core::time::Timestamp;
use seawall_drs::{
    CallLabels, EscalationNotice, EscalationNotifier, EventError, GuardEvent, GuardEventKind, GuardObserver,
    MetricDatum, MetricName, MetricPublisher, MetricSink, NAMESPACE, NoticeSink, SinkError,
};
use std::sync::Mutex;
use std::time::Duration;

/// A sink that is down until a time, and takes a while for each batch.
struct TestSink {
    clock: VirtualClock,
    down_until: Timestamp,
    takes: Duration,
    refuses: bool,
    batches: Mutex<Vec<(Timestamp, usize)>>,
}

impl TestSink {
    fn new(clock: &VirtualClock) -> Self {
        Self {
            clock: clock.clone(),
            down_until: Timestamp::ZERO,
            takes: Duration::ZERO,
            refuses: false,
            batches: Mutex::default(),
        }
    }

    fn batches(&self) -> Vec<(Timestamp, usize)> {
        self.batches.lock().unwrap().clone()
    }

    async fn accept(&self, items: usize) -> Result<(), SinkError> {
        self.clock.sleep_until(self.clock.monotonic() + self.takes).await;
        if self.refuses {
            return Err(SinkError { is_temporary: false, message: "AccessDenied".to_owned() });
        }
        if self.clock.monotonic() < self.down_until {
            return Err(SinkError { is_temporary: true, message: "ServiceUnavailable".to_owned() });
        }
        self.batches.lock().unwrap().push((self.clock.monotonic(), items));
        Ok(())
    }
}

impl MetricSink for TestSink {
    async fn put(&self, namespace: &'static str, batch: Vec<MetricDatum>) -> Result<(), SinkError> {
        assert_eq!(namespace, NAMESPACE);
        self.accept(batch.len()).await
    }
}

impl NoticeSink for TestSink {
    async fn notify(&self, _: EscalationNotice) -> Result<(), SinkError> {
        self.accept(1).await
    }
}

fn datum(clock: &VirtualClock) -> MetricDatum {
    let dimensions = vec![("Region", "eu-west-1".to_owned()), ("Operation", "describe_jobs".to_owned())];
    MetricDatum { name: MetricName::RetryExhausted, value: 1.0, dimensions, at: clock.now().utc }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

#[test]
fn a_batch_is_sent_when_it_is_full_or_after_a_second() {
    let clock = VirtualClock::new(1);
    let (publisher, sink) = (MetricPublisher::new(clock.clone()), TestSink::new(&clock));
    clock.run(async {
        let feed = async {
            for _ in 0..45 {
                publisher.publish(datum(&clock));
            }
            clock.sleep_until(at(5_000)).await;
            publisher.publish(datum(&clock));
            clock.sleep_until(at(5_400)).await;
            publisher.publish(datum(&clock));
            clock.sleep_until(at(10_000)).await;
            publisher.shut_down();
        };
        tokio::join!(publisher.run(&sink), feed);
    });
    assert_eq!(sink.batches(), [(at(0), 20), (at(0), 20), (at(1_000), 5), (at(6_000), 2)]);
    assert_eq!(publisher.report().sent, 47);
}

#[test]
fn a_sink_that_is_down_for_five_minutes_costs_bounded_memory_and_no_time() {
    let clock = VirtualClock::new(1);
    let publisher = MetricPublisher::new(clock.clone());
    let sink = TestSink { down_until: at(300_000), ..TestSink::new(&clock) };
    clock.run(async {
        let feed = async {
            // Ten times the call rate: more than the queue holds.
            for second in 0..300_u64 {
                for _ in 0..100 {
                    publisher.publish(datum(&clock));
                    assert!(publisher.queued() <= 10_000);
                }
                assert_eq!(clock.monotonic(), at(second * 1_000), "publishing takes no time");
                clock.sleep_until(at((second + 1) * 1_000)).await;
            }
            clock.sleep_until(at(400_000)).await;
            publisher.shut_down();
        };
        tokio::join!(publisher.run(&sink), feed);
    });
    let report = publisher.report();
    assert_eq!(report.sent + report.dropped, 30_000, "{report:?}");
    assert!(report.sent >= 10_000 && report.lost == 0, "{report:?}");
}

#[test]
fn shutdown_sends_what_is_queued_within_five_seconds() {
    let clock = VirtualClock::new(1);
    let publisher = MetricPublisher::new(clock.clone());
    let sink = TestSink { takes: Duration::from_millis(900), ..TestSink::new(&clock) };
    for _ in 0..100 {
        publisher.publish(datum(&clock));
    }
    publisher.shut_down();
    let report = clock.run(publisher.run(&sink));
    assert_eq!((report.sent, report.lost), (100, 0));
    assert!(clock.monotonic() <= at(5_000));
}

#[test]
fn shutdown_with_a_sink_that_is_down_ends_after_five_seconds() {
    let clock = VirtualClock::new(1);
    let publisher = MetricPublisher::new(clock.clone());
    let sink = TestSink { down_until: Timestamp::NEVER, ..TestSink::new(&clock) };
    for _ in 0..100 {
        publisher.publish(datum(&clock));
    }
    clock.run(async {
        let stop = async {
            clock.sleep_until(at(10_000)).await;
            publisher.shut_down();
        };
        tokio::join!(publisher.run(&sink), stop);
    });
    assert_eq!((publisher.report().sent, publisher.report().lost), (0, 100));
    assert!((at(15_000)..=at(15_200)).contains(&clock.monotonic()), "{}", clock.monotonic());
}

#[test]
fn a_batch_that_is_refused_for_good_is_dropped_and_does_not_block_others() {
    let clock = VirtualClock::new(1);
    let publisher = MetricPublisher::new(clock.clone());
    let sink = TestSink { refuses: true, ..TestSink::new(&clock) };
    for _ in 0..40 {
        publisher.publish(datum(&clock));
    }
    clock.run(async {
        let stop = async {
            clock.sleep_until(at(2_000)).await;
            assert_eq!(publisher.report().lost, 40);
            publisher.shut_down();
        };
        tokio::join!(publisher.run(&sink), stop);
    });
}

fn exhausted(clock: &VirtualClock) -> GuardEvent {
    let failure = seawall_core::failure::DRS.classify(429, Some("ThrottlingException"));
    let error = EventError { code: "ThrottlingException".to_owned(), message: "slow".to_owned(), failure };
    let labels = CallLabels {
        operation: "describe_jobs".into(),
        region: "eu-west-1".into(),
        account: "111122223333".into(),
        correlation_id: "c-1".into(),
    };
    let stopped = seawall_core::retry::StopReason::AttemptsUsed;
    GuardEvent { at: clock.now().utc, labels, kind: GuardEventKind::Exhausted { attempts: 6, error, stopped } }
}

#[test]
fn a_notice_is_sent_for_each_exhausted_call_and_waits_for_a_sink_that_is_down() {
    let clock = VirtualClock::new(1);
    let notifier = EscalationNotifier::new(clock.clone());
    let sink = TestSink { down_until: at(60_000), ..TestSink::new(&clock) };
    notifier.observe(&exhausted(&clock));
    notifier.observe(&exhausted(&clock));
    clock.run(async {
        let stop = async {
            clock.sleep_until(at(120_000)).await;
            notifier.shut_down();
        };
        tokio::join!(notifier.run(Some(&sink)), stop);
    });
    assert_eq!(notifier.report().sent, 2);
    assert!(sink.batches().iter().all(|(when, _)| *when >= at(60_000)));
}

#[test]
fn without_a_topic_notices_are_discarded_silently() {
    let clock = VirtualClock::new(1);
    let notifier = EscalationNotifier::new(clock.clone());
    notifier.observe(&exhausted(&clock));
    notifier.shut_down();
    let report = clock.run(notifier.run(None::<&TestSink>));
    assert_eq!((report.dropped, report.lost), (0, 0));
}
