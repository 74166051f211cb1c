//! The metrics of the guard, in CloudWatch's form.
//!
//! | metric | dimensions | counts |
//! | --- | --- | --- |
//! | `APICallCount` | Region, Operation, Success, and ErrorCode on failure | every call that was sent, retries and pages included |
//! | `RateLimitErrors` | ErrorType, Region, Operation | throttles and exhausted quotas, and callers that got no rate token in time |
//! | `RetryAttempts` | Region, Operation, Attempt, Success | retries, by their number; the first retry is 1 |
//! | `RetryExhausted` | Region, Operation | calls that failed although they were retried |
//!
//! `Attempt` is at most the number of retries, and `ErrorCode` is one of the vendor's codes, so that the number of
//! series stays small.

use crate::event::{CallLabels, GuardEvent, GuardEventKind};
use seawall_core::failure::FailureKind;
use seawall_core::time::UtcTime;

/// The namespace of the metrics.
pub const NAMESPACE: &str = "DRS/RateLimits";
/// The error type of a caller that got no rate token in time.
pub const TOKEN_TIMEOUT_ERROR: &str = "RateTokenTimeout";

/// The name of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricName {
    /// Calls sent.
    ApiCallCount,
    /// Throttles, exhausted quotas and missing rate tokens.
    RateLimitErrors,
    /// Retries.
    RetryAttempts,
    /// Calls that failed after their retries.
    RetryExhausted,
}

impl MetricName {
    /// Every metric.
    pub const ALL: [Self; 4] =
        [Self::ApiCallCount, Self::RateLimitErrors, Self::RetryAttempts, Self::RetryExhausted];

    /// The name in CloudWatch.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ApiCallCount => "APICallCount",
            Self::RateLimitErrors => "RateLimitErrors",
            Self::RetryAttempts => "RetryAttempts",
            Self::RetryExhausted => "RetryExhausted",
        }
    }
}

/// One measurement: one event of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricDatum {
    /// The metric.
    pub name: MetricName,
    /// How many; the unit is `Count`.
    pub value: f64,
    /// Names and values, in the order of the table above.
    pub dimensions: Vec<(&'static str, String)>,
    /// When.
    pub at: UtcTime,
}

/// The measurements of an event, in order.
#[must_use]
pub fn metrics_of(event: &GuardEvent) -> Vec<MetricDatum> {
    let labels = &event.labels;
    let datum = |name, dimensions| MetricDatum { name, value: 1.0, dimensions, at: event.at };
    match &event.kind {
        GuardEventKind::AttemptSucceeded { attempt } => {
            let mut data = vec![datum(MetricName::ApiCallCount, call_dimensions(labels, None))];
            data.extend(
                retry_dimensions(labels, *attempt, true).map(|is| datum(MetricName::RetryAttempts, is)),
            );
            data
        }
        GuardEventKind::AttemptFailed { attempt, error, .. } => {
            let code = dimension_value(&error.code);
            let mut data = vec![datum(MetricName::ApiCallCount, call_dimensions(labels, Some(&code)))];
            if matches!(error.failure.kind, FailureKind::Throttled | FailureKind::QuotaExhausted) {
                data.push(datum(MetricName::RateLimitErrors, error_dimensions(labels, code)));
            }
            data.extend(
                retry_dimensions(labels, *attempt, false).map(|is| datum(MetricName::RetryAttempts, is)),
            );
            data
        }
        GuardEventKind::TokenTimeout { .. } => {
            let dimensions = error_dimensions(labels, TOKEN_TIMEOUT_ERROR.to_owned());
            vec![datum(MetricName::RateLimitErrors, dimensions)]
        }
        GuardEventKind::Exhausted { .. } => {
            vec![datum(MetricName::RetryExhausted, place_dimensions(labels))]
        }
        GuardEventKind::JobLookedUp { .. }
        | GuardEventKind::TokenAwaited { .. }
        | GuardEventKind::CapacityAwaited { .. }
        | GuardEventKind::CapacityAvailable { .. }
        | GuardEventKind::CapacityTimedOut { .. }
        | GuardEventKind::CapacityUnknown { .. } => Vec::new(),
    }
}

type Dimensions = Vec<(&'static str, String)>;

fn place_dimensions(labels: &CallLabels) -> Dimensions {
    vec![("Region", dimension_value(&labels.region)), ("Operation", dimension_value(&labels.operation))]
}

fn call_dimensions(labels: &CallLabels, error: Option<&str>) -> Dimensions {
    let mut dimensions = place_dimensions(labels);
    dimensions.push(("Success", success_label(error.is_none()).to_owned()));
    dimensions.extend(error.map(|code| ("ErrorCode", code.to_owned())));
    dimensions
}

fn error_dimensions(labels: &CallLabels, error: String) -> Dimensions {
    let mut dimensions = vec![("ErrorType", error)];
    dimensions.extend(place_dimensions(labels));
    dimensions
}

/// The dimensions of a retry; `None` for the first attempt, which is none.
fn retry_dimensions(labels: &CallLabels, attempt: u32, success: bool) -> Option<Dimensions> {
    let retry = attempt.checked_sub(1).filter(|retry| *retry > 0)?;
    let mut dimensions = place_dimensions(labels);
    dimensions.push(("Attempt", retry.to_string()));
    dimensions.push(("Success", success_label(success).to_owned()));
    Some(dimensions)
}

const fn success_label(success: bool) -> &'static str {
    if success { "True" } else { "False" }
}

/// A value that CloudWatch accepts: ASCII without control characters, not empty, at most 255 characters.
fn dimension_value(text: &str) -> String {
    let value: String =
        text.chars().filter(|sign| sign.is_ascii_graphic() || *sign == ' ').take(255).collect();
    let value = value.trim();
    if value.is_empty() { "Unknown".to_owned() } else { value.to_owned() }
}
