//! Metrics for Prometheus.
//!
//! Every request and every attempt is counted when it ends, with a few atomic additions: no lock, no allocation. The
//! cost of the page is paid by the scrape: the state of targets, queues and budgets is read then.
//!
//! **What it does not do.** It writes no name that is not in its table, and no label that a caller could choose. Counts
//! of a route or a target stay when the name is removed from the settings, so that no counter ever decreases.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `table` | every metric: name, kind, labels, help |
//! | `labels` | the closed lists of label values |
//! | `counters` | lock-free counters |
//! | `gather` | collects all values for the page |
//! | `page` | the Prometheus text format |
//! | `process` | memory and file descriptors of this process |
//! | `reference` | the reference page of all metrics |

mod counters;
mod gather;
mod labels;
mod page;
mod process;
mod reference;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use gather::{GatewayGauges, queue_outcomes};
pub(crate) use page::CONTENT_TYPE;
pub use reference::metrics_reference;

use arc_swap::ArcSwap;
use counters::{CounterCells, DurationHistogram};
use labels::{ATTEMPT_OUTCOMES, FACES, REQUEST_OUTCOMES, TIERS};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{AttemptRecord, RequestRecord, TierOrigin};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Upper bounds of buckets, in microseconds.
const FIRST_CONTENT: &[u64] = &[
    50_000, 100_000, 200_000, 300_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000,
    5_000_000, 10_000_000, 30_000_000,
];
const DURATION: &[u64] = &[
    10_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_000_000,
    3_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
];
const OVERHEAD: &[u64] = &[50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000];

/// All counters since the start of the process.
#[derive(Debug)]
pub struct Metrics {
    named: ArcSwap<NamedCounters>,
    /// Requests that named no existing route.
    no_route: Arc<RouteCells>,
    faces: [FaceCells; FACES],
    /// Log lines that were lost.
    lines_dropped: CounterCells<1>,
    lookup_fallbacks: CounterCells<1>,
    /// By limit, scope and mode.
    limited: CounterCells<{ labels::LIMIT_SERIES }>,
}

/// Counters per route and target. Names are added and never removed.
#[derive(Clone, Debug, Default)]
struct NamedCounters {
    routes: BTreeMap<Arc<str>, Arc<RouteCells>>,
    targets: BTreeMap<Arc<str>, Arc<TargetCells>>,
}

#[derive(Debug, Default)]
struct RouteCells {
    /// By face, outcome and tier.
    requests: CounterCells<{ FACES * REQUEST_OUTCOMES * TIERS }>,
}

#[derive(Debug)]
struct FaceCells {
    first_content: DurationHistogram,
    duration: DurationHistogram,
    overhead: DurationHistogram,
}

#[derive(Debug, Default)]
struct TargetCells {
    attempts: CounterCells<ATTEMPT_OUTCOMES>,
    /// Input, cache reads, cache writes, and output.
    tokens: CounterCells<4>,
    cost: CounterCells<{ Tier::ALL.len() }>,
}

impl Default for Metrics {
    fn default() -> Self {
        let face = |_| FaceCells {
            first_content: DurationHistogram::new(FIRST_CONTENT),
            duration: DurationHistogram::new(DURATION),
            overhead: DurationHistogram::new(OVERHEAD),
        };
        Self {
            named: ArcSwap::default(),
            no_route: Arc::default(),
            faces: std::array::from_fn(face),
            lines_dropped: CounterCells::default(),
            lookup_fallbacks: CounterCells::default(),
            limited: CounterCells::default(),
        }
    }
}

impl Metrics {
    /// Adds these names to the known ones.
    pub fn register_names(
        &self,
        routes: impl IntoIterator<Item: AsRef<str>>,
        targets: impl IntoIterator<Item: AsRef<str>>,
    ) {
        let mut named = NamedCounters::clone(&self.named.load());
        for route in routes {
            named.routes.entry(route.as_ref().into()).or_default();
        }
        for target in targets {
            named.targets.entry(target.as_ref().into()).or_default();
        }
        self.named.store(Arc::new(named));
    }

    /// Counts a completed request.
    pub fn record_request(&self, record: &RequestRecord) {
        let face = labels::face_index(record.face);
        let (named, tier) = (self.named.load(), record.caller.map(|(_, tier, _)| tier));
        let route = record.route.as_ref().and_then(|route| named.routes.get(route));
        route
            .unwrap_or(&self.no_route)
            .requests
            .add(request_index(face, labels::request_outcome(&record.outcome), labels::tier_index(tier)), 1);
        if let Some(cells) = self.faces.get(face) {
            cells.duration.record(record.duration);
            if let Some(first) = record.first_content {
                cells.first_content.record(first);
            }
            if let Some(overhead) = record.overhead {
                cells.overhead.record(overhead);
            }
        }
        if matches!(record.caller, Some((_, _, TierOrigin::Fallback))) {
            self.lookup_fallbacks.add(0, 1);
        }
        if let Some(limit) = &record.limit {
            self.limited.add(labels::limit_index(&limit.name, &limit.scope, record.limit_observed), 1);
        }
    }

    /// Counts a completed attempt.
    pub fn record_attempt(&self, attempt: &AttemptRecord<'_>) {
        let named = self.named.load();
        let Some(cells) = named.targets.get(attempt.target) else { return };
        cells.attempts.add(labels::attempt_outcome(attempt.outcome), 1);
        let usage = &attempt.usage;
        for (index, tokens) in
            [usage.input, usage.cache_read, usage.cache_write, usage.output].into_iter().enumerate()
        {
            cells.tokens.add(index, tokens);
        }
        cells.cost.add(attempt.tier.index(), attempt.cost.as_nanos());
    }

    /// Counts a lost log line.
    pub(crate) fn count_dropped_line(&self) {
        self.lines_dropped.add(0, 1);
    }

    /// The number of lost log lines.
    #[must_use]
    pub fn lines_dropped(&self) -> u64 {
        self.lines_dropped.get(0)
    }

    /// The number of completed requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let named = self.named.load();
        let routes = named.routes.values().map(|cells| cells.requests.sum());
        routes.fold(self.no_route.requests.sum(), u64::saturating_add)
    }
}

const fn request_index(face: usize, outcome: usize, tier: usize) -> usize {
    (face * REQUEST_OUTCOMES + outcome) * TIERS + tier
}
