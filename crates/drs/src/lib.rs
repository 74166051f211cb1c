//! A guard for the AWS DRS API, and for any other API with a rate limit.
//!
//! AWS Elastic Disaster Recovery allows few calls per second and few jobs at once, exactly when everything has to be
//! recovered. A client that runs into these limits loses minutes; one that retries carelessly recovers servers twice.
//! This crate keeps calls below the limits and makes retries safe.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`RateBuckets`] | one token bucket per account and region: 10 calls per second, 20 at once, first come, first served |
//! | [`ApiGuard`] | a rate token before every attempt, retries with exponential backoff, typed errors |
//! | [`JobThrottler`] | waits while 18 of the 20 jobs that the service allows are active |
//! | [`MetricPublisher`] | four metrics to CloudWatch, in the background |
//! | [`EscalationNotifier`] | a notice to an SNS topic when retries did not help |
//! | [`EventLog`], [`CallCounters`] | JSON log lines; Prometheus counters |
//! | [`GuardLayer`], `aws::smithy` | the same for `tower` services and for any client of the AWS SDK |
//! | `aws::DrsClient` | the DRS client on the vendor's SDK; needs the feature `aws` |
//!
//! # What it guarantees
//!
//! - **The rate holds.** Each attempt takes a token, retries and pages included. A caller that cannot have one in time
//!   (30 s) gets [`GuardError::RateLimited`], and no call is made. Waiters are served in order; one that leaves consumes
//!   nothing.
//! - **One job, never two.** A call that is not idempotent is repeated only after an error that proves that it was not
//!   executed. After an unclear failure the job is looked up first.
//! - **Exactly `max_retries + 1` calls** without a deadline; with one perhaps fewer, and the error has the true number.
//! - **Reports never slow down a call.** Queues are bounded, and what does not fit is counted.
//!
//! It does not know what other processes do, unless they share a bucket through Redis ([`RateBuckets::with_shared`], and
//! `RedisBucket` with the feature `redis`).
//!
//! # Time and randomness
//!
//! All waiting goes through a [`Runtime`](seawall_core::runtime::Runtime) that the caller passes in. [`SystemRuntime`] is
//! the real one, on Tokio; tests pass a virtual clock and play ten minutes in milliseconds. Nothing is spawned: background
//! work such as [`MetricPublisher::run`] is a future for the caller to run.
//!
//! # Example
//!
//! A drill of two servers, with metrics and notices. It needs the feature `aws` and credentials.
//!
#![cfg_attr(feature = "aws", doc = "```no_run")]
#![cfg_attr(not(feature = "aws"), doc = "```ignore")]
//! use seawall_drs::aws::{DrsConnection, DrsOptions, RecoveryRequest};
//! use seawall_drs::{EscalationNotifier, MetricPublisher, ObserverList, RateBuckets, SystemRuntime};
//! use std::sync::Arc;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = SystemRuntime::new();
//! let publisher = MetricPublisher::new(runtime.clone());
//! let notifier = EscalationNotifier::new(runtime.clone());
//! let observer = Arc::new(ObserverList(vec![Arc::new(publisher.clone()), Arc::new(notifier.clone())]));
//!
//! let connection = DrsConnection::open(DrsOptions::new("eu-west-1")).await?;
//! // One set of buckets for all clients of the process.
//! let buckets = RateBuckets::new(runtime.clone());
//! let client = connection.client(runtime, &buckets, observer)?;
//!
//! let work = async {
//!     let started = client.start_recovery(&RecoveryRequest::drill(["s-1111", "s-2222"])).await;
//!     publisher.shut_down();
//!     notifier.shut_down();
//!     started
//! };
//! let (cloud_watch, topic) = (connection.cloud_watch(), connection.sns("arn:aws:sns:eu-west-1:111122223333:alerts"));
//! let (started, _, _) = tokio::join!(work, publisher.run(&cloud_watch), notifier.run(Some(&topic)));
//! println!("job {}", started?.job.job_id());
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(feature = "redis")]
mod redis;

mod account;
mod alarm;
mod bucket;
mod counters;
mod error;
mod escalation;
mod event;
mod guard;
mod layer;
mod log;
mod metric;
mod outbox;
mod pacing;
mod preset;
mod publisher;
mod runtime;
mod shared_bucket;
mod text;
mod throttler;

pub use account::{AccountAccess, AccountAccessError};
pub use alarm::{ALARMS, AlarmDefinition, alarm_template};
pub use bucket::{BucketKey, RateBucket, RateBuckets, RatePermit, RateWaitTimeout};
pub use counters::CallCounters;
pub use error::{ApiError, ErrorDescription, GuardError, RetryExhausted};
pub use escalation::{EscalationNotice, EscalationNotifier, NoticeSink, TOPIC_VARIABLE};
pub use event::{
    CallLabels, EventError, GuardEvent, GuardEventKind, GuardObserver, NullObserver, ObserverList,
};
pub use guard::{AdmissionTimeout, ApiCall, ApiGuard, AttemptDecision, GuardedAttempts};
pub use layer::{GuardLayer, GuardPolicy, GuardService};
pub use log::{EventLog, EventSeverity, log_line};
pub use metric::{MetricDatum, MetricName, NAMESPACE, TOKEN_TIMEOUT_ERROR, metrics_of};
pub use outbox::{DeliveryReport, SinkError};
pub use preset::{GuardSettings, RetryPreset, TOKEN_TIMEOUT, retry_options};
pub use publisher::{MetricPublisher, MetricSink};
#[cfg(feature = "redis")]
pub use redis::RedisBucket;
pub use runtime::SystemRuntime;
pub use shared_bucket::{SharedBucket, SharedBucketDecision, SharedBucketError, SharedBucketFuture};
pub use throttler::{
    CapacityGrant, CapacityStatus, CapacityTimeout, CapacityTimeoutBody, JobCapacity, JobSlot, JobThrottler,
    MAX_CONCURRENT_JOBS, ThrottlerSettings,
};
