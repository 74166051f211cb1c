//! Counts answers by what gave them.
//!
//! Callers choose the names of models on routes with a wildcard, so the number of series is bounded: further ones count
//! together as `other`. A series is found by comparing a few names, without a lock or an allocation; only its first answer
//! takes more.

use arc_swap::ArcSwap;
use seawall_core::vocabulary::Rung;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of series per route.
const MAX_SERIES: usize = 64;
/// The labels of all further series.
const OTHER: &str = "other";

#[derive(Debug, Default)]
pub(super) struct AnswerCounters {
    series: ArcSwap<Vec<Arc<AnswerSeries>>>,
    other: AtomicU64,
}

#[derive(Debug)]
struct AnswerSeries {
    rung: Rung,
    target: Box<str>,
    model: Box<str>,
    count: AtomicU64,
}

impl AnswerSeries {
    fn is_of(&self, rung: Rung, target: &str, model: &str) -> bool {
        self.rung == rung && *self.target == *target && *self.model == *model
    }
}

impl AnswerCounters {
    /// Counts one answer.
    pub(super) fn add(&self, rung: Rung, target: Option<&str>, model: Option<&str>) {
        let (target, model) = (target.unwrap_or_default(), model.unwrap_or_default());
        if !self.add_to_known(rung, target, model) {
            self.register(rung, target, model);
            if !self.add_to_known(rung, target, model) {
                self.other.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn add_to_known(&self, rung: Rung, target: &str, model: &str) -> bool {
        let series = self.series.load();
        let Some(known) = series.iter().find(|series| series.is_of(rung, target, model)) else {
            return false;
        };
        known.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Adds a series, unless there are too many or another thread has added it.
    fn register(&self, rung: Rung, target: &str, model: &str) {
        let new = AnswerSeries { rung, target: target.into(), model: model.into(), count: AtomicU64::new(0) };
        let new = Arc::new(new);
        self.series.rcu(|known| {
            let mut series = Vec::clone(known);
            if series.len() < MAX_SERIES && !series.iter().any(|known| known.is_of(rung, target, model)) {
                series.push(Arc::clone(&new));
            }
            series
        });
    }

    /// Visits the labels and the count of every series.
    pub(super) fn each(&self, mut visit: impl FnMut(&str, &str, &str, u64)) {
        for series in self.series.load().iter() {
            visit(series.rung.name(), &series.target, &series.model, series.count.load(Ordering::Relaxed));
        }
        let other = self.other.load(Ordering::Relaxed);
        if other > 0 {
            visit(OTHER, OTHER, OTHER, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerCounters, MAX_SERIES};
    use seawall_core::vocabulary::Rung;

    #[test]
    fn answers_count_by_their_labels_and_further_series_together() {
        let answers = AnswerCounters::default();
        for number in 0..MAX_SERIES + 3 {
            let model = format!("model-{number}");
            answers.add(Rung::StrongModel, Some("any"), Some(&model));
            answers.add(Rung::StrongModel, Some("any"), Some(&model));
        }
        answers.add(Rung::Apology, None, None);
        let mut counts = Vec::new();
        answers.each(|rung, target, model, count| {
            counts.push((rung.to_owned(), target.to_owned(), model.to_owned(), count));
        });
        assert_eq!(counts.len(), MAX_SERIES + 1);
        assert_eq!(counts[0], ("strong_model".into(), "any".into(), "model-0".into(), 2));
        assert_eq!(counts[MAX_SERIES], ("other".into(), "other".into(), "other".into(), 7));
    }
}
