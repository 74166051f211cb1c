//! The values of a Prometheus page that the screen needs.

use std::collections::BTreeMap;

/// A page: values by name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MetricsSample(Vec<MetricSeries>);

#[derive(Clone, Debug, PartialEq)]
struct MetricSeries {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl MetricsSample {
    /// Reads a page. Lines that cannot be read are left out.
    pub(super) fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse_line).collect())
    }

    /// The sum of each value of `label` over the series of `name` that `is_wanted` accepts.
    pub(super) fn by_label(
        &self,
        name: &str,
        label: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for series in self.0.iter().filter(|series| series.name == name) {
            let outcome = series.labels.get("outcome").map_or("", String::as_str);
            if is_wanted(outcome) {
                let value = series.labels.get(label).cloned().unwrap_or_default();
                *sums.entry(value).or_insert(0.0) += series.value;
            }
        }
        sums
    }

    /// The quantile of what a histogram has counted since an earlier page, over all its labels.
    pub(super) fn quantile_since(&self, earlier: &Self, name: &str, quantile: f64) -> Option<f64> {
        let bucket = format!("{name}_bucket");
        let mut counts: Vec<(f64, f64)> = Vec::new();
        let before = earlier.by_label(&bucket, "le", |_| true);
        for (bound, count) in self.by_label(&bucket, "le", |_| true) {
            let bound_value = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            counts.push((bound_value, count - before.get(&bound).copied().unwrap_or_default()));
        }
        counts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let wanted = counts.last()?.1 * quantile;
        if wanted <= 0.0 {
            return None;
        }
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted {
                // Above the last bound nothing more is known.
                return Some(if bound.is_finite() {
                    lower + (bound - lower) * (wanted - below) / (count - below)
                } else {
                    lower
                });
            }
            (lower, below) = (bound, count);
        }
        None
    }
}

fn parse_line(line: &str) -> Option<MetricSeries> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}')?)),
        None => (series, BTreeMap::new()),
    };
    Some(MetricSeries { name: name.to_owned(), labels, value: value.parse().ok()? })
}

/// Labels have names of ours, and values that may be escaped.
fn parse_labels(text: &str) -> BTreeMap<String, String> {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    while let Some((name, behind)) = rest.split_once("=\"") {
        let (mut value, mut characters) = (String::new(), behind.char_indices());
        let end = loop {
            match characters.next() {
                Some((_, '\\')) => value.extend(characters.next().map(|(_, escaped)| escaped)),
                Some((end, '"')) => break end + 1,
                Some((_, other)) => value.push(other),
                None => break behind.len(),
            }
        };
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &behind[end..];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::MetricsSample;
    use std::collections::BTreeMap;

    #[test]
    fn values_are_summed_by_label_and_quantiles_are_those_since_a_page() {
        let page = |count: u32| {
            MetricsSample::parse(&format!(
                "# HELP x\nx_total{{target=\"a\",outcome=\"ok\"}} 2\nx_total{{target=\"a\",outcome=\"bad\"}} 3\n\
                 x_total{{target=\"b\\\"c\",outcome=\"bad\"}} 4\nh_bucket{{le=\"1\"}} {count}\nh_bucket{{le=\"2\"}} {}\n\
                 h_bucket{{le=\"+Inf\"}} {}\nbroken\n",
                2 * count,
                2 * count
            ))
        };
        let sums = page(1).by_label("x_total", "target", |outcome| outcome == "bad");
        assert_eq!(sums, BTreeMap::from([("a".to_owned(), 3.0), ("b\"c".to_owned(), 4.0)]));
        assert_eq!(page(30).quantile_since(&page(20), "h", 0.5), Some(1.0));
        assert_eq!(page(30).quantile_since(&page(20), "h", 0.75), Some(1.5));
        assert_eq!(page(30).quantile_since(&page(30), "h", 0.5), None);
    }
}
