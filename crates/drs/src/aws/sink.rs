//! Metrics to CloudWatch and notices to SNS.

use super::error::describe_sdk_error;
use crate::error::ErrorDescription;
use crate::escalation::{EscalationNotice, NoticeSink};
use crate::metric::MetricDatum;
use crate::outbox::SinkError;
use crate::publisher::MetricSink;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum as CloudWatchDatum, StandardUnit};
use seawall_core::failure::{BEDROCK, Retryability};

/// Publishes metrics by PutMetricData.
#[derive(Clone, Debug)]
pub struct CloudWatchSink {
    client: aws_sdk_cloudwatch::Client,
}

impl CloudWatchSink {
    /// A sink on this client, whose own retries should be off: the publisher keeps a batch until it is accepted.
    #[must_use]
    pub const fn new(client: aws_sdk_cloudwatch::Client) -> Self {
        Self { client }
    }
}

impl MetricSink for CloudWatchSink {
    async fn put(&self, namespace: &'static str, batch: Vec<MetricDatum>) -> Result<(), SinkError> {
        let data = batch.into_iter().map(cloud_watch_datum).collect();
        let sent = self.client.put_metric_data().namespace(namespace).set_metric_data(Some(data)).send().await;
        sent.map(|_| ()).map_err(|error| sink_error(&describe_sdk_error(&error)))
    }
}

fn cloud_watch_datum(datum: MetricDatum) -> CloudWatchDatum {
    let dimension = |(name, value)| Dimension::builder().name(name).value(value).build();
    let millis = i64::try_from(datum.at.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
    CloudWatchDatum::builder()
        .metric_name(datum.name.label())
        .value(datum.value)
        .unit(StandardUnit::Count)
        .timestamp(DateTime::from_millis(millis))
        .set_dimensions(Some(datum.dimensions.into_iter().map(dimension).collect()))
        .build()
}

/// Sends escalation notices to an SNS topic.
#[derive(Clone, Debug)]
pub struct SnsSink {
    client: aws_sdk_sns::Client,
    topic_arn: String,
}

impl SnsSink {
    /// A sink to this topic.
    #[must_use]
    pub const fn new(client: aws_sdk_sns::Client, topic_arn: String) -> Self {
        Self { client, topic_arn }
    }
}

impl NoticeSink for SnsSink {
    async fn notify(&self, notice: EscalationNotice) -> Result<(), SinkError> {
        let publish = self.client.publish().topic_arn(&self.topic_arn);
        let sent = publish.subject(notice.subject()).message(notice.message()).send().await;
        sent.map(|_| ()).map_err(|error| sink_error(&describe_sdk_error(&error)))
    }
}

/// Worth another try if it is worth a retry. The names of general AWS errors are in Bedrock's table.
fn sink_error(description: &ErrorDescription) -> SinkError {
    let failure = description.failure(&BEDROCK);
    let code = description.code_or_kind(&failure);
    SinkError {
        is_temporary: failure.retryability == Retryability::SameTarget,
        message: format!("{code}: {}", description.message),
    }
}
