//! The Prometheus text format (0.0.4).
//!
//! Families are written in the order of the table, each once, with help and type; label values are escaped. A family
//! without samples is left out, for example that of a target that was not called yet.

use super::table::{Metric, MetricKind};
use std::fmt::{Display, Write as _};

/// The content type of the page.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    text: String,
    /// The family whose header was written last.
    family: Option<&'static str>,
}

impl MetricsPage {
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes one sample of a counter or a gauge.
    pub(super) fn value(&mut self, metric: &'static Metric, labels: &[&str], value: impl Display) {
        debug_assert!(matches!(metric.kind(), MetricKind::Counter | MetricKind::Gauge), "{}", metric.name());
        self.write_family_header(metric);
        self.write_sample(metric, "", labels, None, value);
    }

    /// Writes one histogram: the buckets with their upper bounds, the one above the last bound, the sum and the count.
    pub(super) fn histogram(
        &mut self,
        metric: &'static Metric,
        labels: &[&str],
        values: &HistogramValues<'_>,
    ) {
        debug_assert_eq!(metric.kind(), MetricKind::Histogram, "{}", metric.name());
        self.write_family_header(metric);
        let mut below = 0_u64;
        for (bound, count) in values.bounds.iter().zip(values.counts) {
            below = below.saturating_add(*count);
            self.write_sample(metric, "_bucket", labels, Some(&NanoDecimal::of_micros(*bound)), below);
        }
        // The last count is that of values above the last bound.
        let above = values.counts.get(values.bounds.len()).copied().unwrap_or(0);
        let all = below.saturating_add(above);
        self.write_sample(metric, "_bucket", labels, Some(&"+Inf"), all);
        self.write_sample(metric, "_sum", labels, None, NanoDecimal { nanos: values.sum_nanos });
        self.write_sample(metric, "_count", labels, None, all);
    }

    /// Writes one summary: the sum and the count.
    pub(super) fn summary(&mut self, metric: &'static Metric, labels: &[&str], sum_nanos: u64, count: u64) {
        debug_assert_eq!(metric.kind(), MetricKind::Summary, "{}", metric.name());
        self.write_family_header(metric);
        self.write_sample(metric, "_sum", labels, None, NanoDecimal { nanos: sum_nanos });
        self.write_sample(metric, "_count", labels, None, count);
    }

    fn write_family_header(&mut self, metric: &'static Metric) {
        let name = metric.name();
        if self.family == Some(name) {
            return;
        }
        self.family = Some(name);
        // Writing to a string cannot fail, here and below. Our help texts need no escapes; a test checks that.
        let _ = writeln!(self.text, "# HELP {name} {}", metric.help());
        let _ = writeln!(self.text, "# TYPE {name} {}", metric.kind().name());
    }

    fn write_sample(
        &mut self,
        metric: &Metric,
        suffix: &str,
        labels: &[&str],
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        debug_assert_eq!(metric.labels().len(), labels.len(), "{}", metric.name());
        let _ = write!(self.text, "{}{suffix}", metric.name());
        let mut opening = '{';
        for (name, value) in metric.labels().iter().zip(labels) {
            let _ = write!(self.text, "{opening}{name}=\"");
            self.escape(value);
            self.text.push('"');
            opening = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(self.text, "{opening}le=\"{bound}\"");
            opening = ',';
        }
        let closing = if opening == ',' { "}" } else { "" };
        let _ = writeln!(self.text, "{closing} {value}");
    }

    fn escape(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                // The format allows control characters, but they garble a terminal.
                control if control.is_control() => self.text.push('\u{fffd}'),
                other => self.text.push(other),
            }
        }
    }
}

/// The values of a histogram.
#[derive(Debug)]
pub(super) struct HistogramValues<'a> {
    /// Upper bounds in microseconds, ascending.
    pub(super) bounds: &'a [u64],
    /// The count of each bucket, and one more for values above the last bound.
    pub(super) counts: &'a [u64],
    pub(super) sum_nanos: u64,
}

/// Formats billionths of a unit (seconds, dollars) exactly as units, without trailing zeros.
#[derive(Debug)]
pub(super) struct NanoDecimal {
    pub(super) nanos: u64,
}

impl NanoDecimal {
    const fn of_micros(micros: u64) -> Self {
        Self { nanos: micros.saturating_mul(1_000) }
    }
}

impl Display for NanoDecimal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut rest, mut digits) = (self.nanos / 1_000_000_000, self.nanos % 1_000_000_000, 9);
        write!(formatter, "{whole}")?;
        if rest == 0 {
            return Ok(());
        }
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(formatter, ".{rest:0digits$}")
    }
}
