//! The metrics of this process in Prometheus' text format, for programs that run long.

use crate::event::{GuardEvent, GuardObserver};
use crate::metric::{MetricName, metrics_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Counts the same four metrics that are published, by the same dimensions.
///
/// The number of series is bounded: operations, codes and attempts are small sets, and the rest is counted as one series
/// of its own.
#[derive(Debug, Default)]
pub struct CallCounters {
    series: Mutex<BTreeMap<SeriesKey, u64>>,
}

type SeriesKey = (MetricName, Vec<(&'static str, String)>);

/// Beyond this many series, only the totals of metrics grow.
const MAX_SERIES: usize = 1_000;

impl CallCounters {
    /// The page of all series.
    #[must_use]
    pub fn render(&self) -> String {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = String::new();
        let mut last = None;
        // Writing to a string cannot fail.
        for ((metric, dimensions), count) in series.iter() {
            let (name, help) = describe(*metric);
            if last != Some(*metric) {
                let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
                last = Some(*metric);
            }
            let labels: Vec<String> = dimensions
                .iter()
                .map(|(key, value)| format!("{}=\"{}\"", key.to_lowercase(), escape(value)))
                .collect();
            let _ = writeln!(page, "{name}{{{}}} {count}", labels.join(","));
        }
        page
    }
}

impl GuardObserver for CallCounters {
    fn observe(&self, event: &GuardEvent) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for datum in metrics_of(event) {
            let key = (datum.name, datum.dimensions);
            let key = if series.len() >= MAX_SERIES && !series.contains_key(&key) {
                (key.0, Vec::new())
            } else {
                key
            };
            *series.entry(key).or_default() += 1;
        }
    }
}

const fn describe(metric: MetricName) -> (&'static str, &'static str) {
    match metric {
        MetricName::ApiCallCount => ("seawall_drs_api_calls_total", "Calls sent, retries and pages included."),
        MetricName::RateLimitErrors => {
            ("seawall_drs_rate_limit_errors_total", "Throttles, exhausted quotas and missing rate tokens.")
        }
        MetricName::RetryAttempts => ("seawall_drs_retries_total", "Retries."),
        MetricName::RetryExhausted => {
            ("seawall_drs_retries_exhausted_total", "Calls that failed although they were retried.")
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
