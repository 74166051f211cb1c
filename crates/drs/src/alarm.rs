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
/// Each alarm is a Metrics Insights query, which sums a metric over all operations. Why not a search expression? CloudWatch
/// accepts those in graphs only, and rejects an alarm on one.
#[must_use]
pub fn alarm_template(region: &str, topic_arn: &str) -> Value {
    let resources = ALARMS.iter().map(|alarm| {
        let name = alarm.metric.label();
        let query =
            format!("SELECT SUM({name}) FROM {} WHERE Region = '{region}'", query_source(alarm.metric));
        let resource = json!({
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": format!("drs-{region}-{name}"),
                "AlarmDescription": alarm.description,
                "Metrics": [{ "Id": "total", "Expression": query, "Period": PERIOD, "ReturnData": true }],
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

/// What a query reads: the metrics with exactly these dimensions. Calls that succeed and calls that fail have different
/// ones, and both count, so their query reads the whole namespace.
fn query_source(metric: MetricName) -> String {
    let dimensions = match metric {
        MetricName::ApiCallCount => return format!("\"{NAMESPACE}\""),
        MetricName::RateLimitErrors => "ErrorType, Operation, Region",
        MetricName::RetryAttempts => "Attempt, Operation, Region, Success",
        MetricName::RetryExhausted => "Operation, Region",
    };
    format!("SCHEMA(\"{NAMESPACE}\", {dimensions})")
}

#[cfg(test)]
mod tests {
    use super::{ALARMS, alarm_template};
    use crate::metric::MetricName;
    use serde_json::{Value, json};

    fn template() -> Value {
        alarm_template("eu-west-1", "arn:aws:sns:eu-west-1:1:t")
    }

    fn expression(metric: MetricName) -> String {
        let template = template();
        let alarm = &template["Resources"][format!("{}Alarm", metric.label())]["Properties"];
        alarm["Metrics"][0]["Expression"].as_str().unwrap().to_owned()
    }

    #[test]
    fn every_metric_has_an_alarm_that_notifies_the_topic() {
        for metric in MetricName::ALL {
            assert_eq!(ALARMS.iter().filter(|alarm| alarm.metric == metric).count(), 1);
            let alarm = &template()["Resources"][format!("{}Alarm", metric.label())];
            assert_eq!(alarm["Type"], "AWS::CloudWatch::Alarm");
            let properties = &alarm["Properties"];
            assert_eq!(properties["AlarmActions"], json!(["arn:aws:sns:eu-west-1:1:t"]));
            // One query that returns one series, with a period of its own: what CloudWatch requires of an alarm.
            let queries = properties["Metrics"].as_array().unwrap();
            assert_eq!(queries.len(), 1);
            let keys: Vec<&String> = queries[0].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["Expression", "Id", "Period", "ReturnData"]);
            assert_eq!((&queries[0]["Period"], &queries[0]["ReturnData"]), (&json!(300), &json!(true)));
            // A property of alarms on a single metric, which excludes queries.
            for single in ["MetricName", "Namespace", "Statistic", "Period", "Dimensions"] {
                assert!(properties.get(single).is_none(), "{single}");
            }
        }
    }

    #[test]
    fn alarms_are_metrics_insights_queries_and_no_search_expressions() {
        assert_eq!(
            expression(MetricName::RateLimitErrors),
            "SELECT SUM(RateLimitErrors) FROM SCHEMA(\"DRS/RateLimits\", ErrorType, Operation, Region) \
             WHERE Region = 'eu-west-1'"
        );
        for metric in MetricName::ALL {
            assert!(!expression(metric).contains("SEARCH"), "{}", expression(metric));
        }
    }

    #[test]
    fn the_alarm_on_calls_counts_failed_calls_which_have_another_dimension() {
        let expected = "SELECT SUM(APICallCount) FROM \"DRS/RateLimits\" WHERE Region = 'eu-west-1'";
        assert_eq!(expression(MetricName::ApiCallCount), expected);
    }
}
