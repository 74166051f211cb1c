//! Metrics to CloudWatch, or to any other sink, in the background.

use crate::event::{GuardEvent, GuardObserver};
use crate::metric::{MetricDatum, metrics_of};
use crate::outbox::{DeliveryReport, DeliverySettings, Outbox, SinkError};
use seawall_core::runtime::Runtime;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The measurements that wait at most: five minutes of the full call rate.
const CAPACITY: usize = 10_000;
/// The measurements in one request.
const MAX_BATCH: usize = 20;
/// How long a measurement waits for others.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// How long shutdown may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Where measurements go.
pub trait MetricSink {
    /// Sends one batch to this namespace.
    fn put(
        &self,
        namespace: &'static str,
        batch: Vec<MetricDatum>,
    ) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// Collects the metrics of calls and publishes them in batches of twenty, or after a second.
///
/// Calls never wait for it. While the sink is down, measurements wait in a bounded queue; what does not fit is dropped
/// and counted. [`MetricPublisher::run`] is the background work; it ends after [`MetricPublisher::shut_down`], when
/// everything has been sent or five seconds have passed.
#[derive(Clone)]
pub struct MetricPublisher<R> {
    runtime: R,
    outbox: Arc<Outbox<MetricDatum>>,
}

impl<R: Runtime> MetricPublisher<R> {
    /// A publisher with an empty queue.
    #[must_use]
    pub fn new(runtime: R) -> Self {
        let settings = DeliverySettings {
            capacity: CAPACITY,
            max_batch: MAX_BATCH,
            max_delay: MAX_DELAY,
            drain_timeout: DRAIN_TIMEOUT,
        };
        Self { runtime, outbox: Outbox::new(settings) }
    }

    /// Adds a measurement; it is dropped and counted if the queue is full.
    pub fn publish(&self, datum: MetricDatum) {
        self.outbox.push(datum);
    }

    /// The measurements that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }

    /// What became of the measurements so far.
    #[must_use]
    pub fn report(&self) -> DeliveryReport {
        self.outbox.report()
    }

    /// Publishes until shutdown. Run it once, as a task of its own.
    pub async fn run(&self, sink: &impl MetricSink) -> DeliveryReport {
        self.outbox.deliver(&self.runtime, |batch| sink.put(crate::metric::NAMESPACE, batch)).await;
        self.report()
    }

    /// Ends [`MetricPublisher::run`], which sends what is queued first.
    pub fn shut_down(&self) {
        self.outbox.shut_down();
    }
}

impl<R: Runtime> GuardObserver for MetricPublisher<R> {
    fn observe(&self, event: &GuardEvent) {
        for datum in metrics_of(event) {
            self.publish(datum);
        }
    }
}
