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
//! | `words` | the closed lists of label values |
//! | `cells` | lock-free counters |
//! | `gather` | collects all values for the page |
//! | `page` | the Prometheus text format |
//! | `process` | memory and file descriptors of this process |
//! | `reference` | the reference page of all metrics |

mod cells;
mod gather;
mod page;
mod process;
mod reference;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use gather::{Standing, outcomes as queue_outcomes};
pub(crate) use page::CONTENT_TYPE;
pub use reference::metrics_reference;

use arc_swap::ArcSwap;
use cells::{Cells, Durations};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{AttemptRecord, LimitScope, Record, TierOrigin};
use std::collections::BTreeMap;
use std::sync::Arc;
use words::{ENDINGS, FACES, OUTCOMES, TIERS};

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
    named: ArcSwap<Named>,
    /// Requests that named no existing route.
    no_route: Arc<RouteCells>,
    faces: [FaceCells; FACES.len()],
    /// Log lines that were lost.
    lines_lost: Cells<1>,
    directory_fallbacks: Cells<1>,
    /// By limit and scope.
    limited: Cells<{ words::LIMITS.len() * LimitScope::LABELS.len() }>,
    would_limit: Cells<1>,
}

/// Counters per route and target. Names are added and never removed.
#[derive(Clone, Debug, Default)]
struct Named {
    routes: BTreeMap<Arc<str>, Arc<RouteCells>>,
    targets: BTreeMap<Arc<str>, Arc<TargetCells>>,
}

#[derive(Debug, Default)]
struct RouteCells {
    /// By face, outcome and tier.
    requests: Cells<{ FACES.len() * ENDINGS * TIERS }>,
}

#[derive(Debug)]
struct FaceCells {
    first_content: Durations,
    duration: Durations,
    overhead: Durations,
}

#[derive(Debug, Default)]
struct TargetCells {
    attempts: Cells<OUTCOMES>,
    /// Input, cache reads, cache writes, and output.
    tokens: Cells<4>,
    cost: Cells<{ Tier::ALL.len() }>,
}

impl Default for Metrics {
    fn default() -> Self {
        let face = |_| FaceCells {
            first_content: Durations::new(FIRST_CONTENT),
            duration: Durations::new(DURATION),
            overhead: Durations::new(OVERHEAD),
        };
        Self {
            named: ArcSwap::default(),
            no_route: Arc::default(),
            faces: std::array::from_fn(face),
            lines_lost: Cells::default(),
            directory_fallbacks: Cells::default(),
            limited: Cells::default(),
            would_limit: Cells::default(),
        }
    }
}

impl Metrics {
    /// Adds these names to the known ones.
    pub fn know(
        &self,
        routes: impl IntoIterator<Item: AsRef<str>>,
        targets: impl IntoIterator<Item: AsRef<str>>,
    ) {
        let mut named = Named::clone(&self.named.load());
        for route in routes {
            named.routes.entry(route.as_ref().into()).or_default();
        }
        for target in targets {
            named.targets.entry(target.as_ref().into()).or_default();
        }
        self.named.store(Arc::new(named));
    }

    /// Counts a completed request.
    pub fn settled(&self, record: &Record) {
        let face = words::face(record.face);
        let (named, tier) = (self.named.load(), record.caller.map(|(_, tier, _)| tier));
        let route = record.route.as_ref().and_then(|route| named.routes.get(route));
        route
            .unwrap_or(&self.no_route)
            .requests
            .add(place_of_request(face, words::ending(&record.verdict), words::tier(tier)), 1);
        if let Some(cells) = self.faces.get(face) {
            cells.duration.record(record.took);
            if let Some(first) = record.first_content {
                cells.first_content.record(first);
            }
            if let Some(overhead) = record.overhead {
                cells.overhead.record(overhead);
            }
        }
        if matches!(record.caller, Some((_, _, TierOrigin::Fallback))) {
            self.directory_fallbacks.add(0, 1);
        }
        if let Some(limit) = &record.limit {
            self.limited.add(words::limited(&limit.name, &limit.scope), 1);
        }
        if record.would_limit {
            self.would_limit.add(0, 1);
        }
    }

    /// Counts a completed attempt.
    pub fn attempted(&self, attempt: &AttemptRecord<'_>) {
        let named = self.named.load();
        let Some(cells) = named.targets.get(attempt.target) else { return };
        cells.attempts.add(words::outcome(attempt.ending), 1);
        let usage = &attempt.usage;
        for (place, tokens) in
            [usage.input, usage.cache_read, usage.cache_write, usage.output].into_iter().enumerate()
        {
            cells.tokens.add(place, tokens);
        }
        cells.cost.add(attempt.tier.index(), attempt.cost.as_nanos());
    }

    /// Counts a lost log line.
    pub(crate) fn lost_a_line(&self) {
        self.lines_lost.add(0, 1);
    }

    /// The number of lost log lines.
    #[must_use]
    pub fn lines_lost(&self) -> u64 {
        self.lines_lost.get(0)
    }

    /// The number of completed requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let named = self.named.load();
        let routes = named.routes.values().map(|cells| cells.requests.sum());
        routes.fold(self.no_route.requests.sum(), u64::saturating_add)
    }
}

const fn place_of_request(face: usize, ending: usize, tier: usize) -> usize {
    (face * ENDINGS + ending) * TIERS + tier
}
