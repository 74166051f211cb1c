//! CloudWatch alarms on the four metrics, towards an SNS topic, as a CloudFormation template.

use crate::metric::{MetricName, NAMESPACE};
use serde_json::{Value, json};

/// When an alarm is raised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlarmDefinition {
    /// The metric, summed over all its dimensions.
    pub metric: MetricName,
    /// The sum in five minutes from which on it is raised.
    pub threshold: f64,
    /// How many periods in a row.
    pub periods: u32,
    /// What it means, and what to do.
    pub description: &'static str,
}

/// The length of a period, in seconds.
const PERIOD: u32 = 300;

/// One alarm for each metric.
pub const ALARMS: [AlarmDefinition; 4] = [
    AlarmDefinition {
        metric: MetricName::RateLimitErrors,
        threshold: 10.0,
        periods: 2,
        description: "DRS throttles our calls. Others use the quota of this account and region too.",
    },
    AlarmDefinition {
        metric: MetricName::RetryAttempts,
        threshold: 50.0,
        periods: 2,
        description: "Many DRS calls are retried. Recoveries still proceed, more slowly.",
    },
    AlarmDefinition {
        metric: MetricName::RetryExhausted,
        threshold: 1.0,
        periods: 1,
        description: "A DRS call failed although it was retried. Its notice has the details.",
    },
    AlarmDefinition {
        metric: MetricName::ApiCallCount,
        threshold: 2_400.0,
        periods: 2,
        description: "DRS calls are at 80 % of what ten calls per second allow. Spread the work.",
    },
];

/// A CloudFormation template with the four alarms, which notify `topic_arn`.
///
/// A search expression sums a metric over its dimensions, so that one alarm covers all operations.
#[must_use]
pub fn alarm_template(region: &str, topic_arn: &str) -> Value {
    let resources = ALARMS.iter().map(|alarm| {
        let name = alarm.metric.label();
        let dimensions = schema(alarm.metric);
        let search = format!(
            "SUM(SEARCH('{{{NAMESPACE},{dimensions}}} MetricName=\"{name}\" Region=\"{region}\"', 'Sum', {PERIOD}))"
        );
        let resource = json!({
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": format!("drs-{region}-{name}"),
                "AlarmDescription": alarm.description,
                "Metrics": [{ "Id": "total", "Expression": search, "ReturnData": true }],
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "Threshold": alarm.threshold,
                "EvaluationPeriods": alarm.periods,
                "TreatMissingData": "notBreaching",
                "AlarmActions": [topic_arn],
            },
        });
        (format!("{name}Alarm"), resource)
    });
    let resources: serde_json::Map<String, Value> = resources.collect();
    json!({ "AWSTemplateFormatVersion": "2010-09-09", "Resources": resources })
}

/// The dimensions of a metric, as a search expression names them.
const fn schema(metric: MetricName) -> &'static str {
    match metric {
        MetricName::ApiCallCount => "Operation,Region,Success",
        MetricName::RateLimitErrors => "ErrorType,Operation,Region",
        MetricName::RetryAttempts => "Attempt,Operation,Region,Success",
        MetricName::RetryExhausted => "Operation,Region",
    }
}

#[cfg(test)]
mod tests {
    use super::{ALARMS, alarm_template};
    use crate::metric::MetricName;

    #[test]
    fn every_metric_has_an_alarm_that_notifies_the_topic() {
        let template = alarm_template("eu-west-1", "arn:aws:sns:eu-west-1:1:t");
        for metric in MetricName::ALL {
            assert_eq!(ALARMS.iter().filter(|alarm| alarm.metric == metric).count(), 1);
            let alarm = &template["Resources"][format!("{}Alarm", metric.label())]["Properties"];
            assert_eq!(alarm["AlarmActions"][0], "arn:aws:sns:eu-west-1:1:t");
            let expression = alarm["Metrics"][0]["Expression"].as_str().unwrap();
            assert!(expression.contains(metric.label()) && expression.contains("eu-west-1"), "{expression}");
        }
    }
}
