//! What is counted, and how it is told.
//!
//! Counts every request and every attempt when it is over, with a few additions to numbers that threads share: no lock,
//! nothing allocated. Whoever asks for the page pays for it: how targets, queues and budgets stand is looked up then.
//!
//! **What it will not do.** It writes no name that is not in its table, and no label that a caller could choose. What was
//! counted for a route or a target stays when settings take the name away, so that no counter ever falls.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `table` | every metric: its name, its kind, its labels, what it means |
//! | `words` | the closed lists that labels are taken from |
//! | `cells` | numbers that threads share |
//! | `gather` | from all that is known to the page |
//! | `page` | the text that Prometheus reads |
//! | `process` | what the system says of this process |
//! | `reference` | the page about metrics, for people |

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

/// Everything that is counted, since the start.
#[derive(Debug)]
pub struct Metrics {
    named: ArcSwap<Named>,
    /// Requests that asked for no route that there is.
    no_route: Arc<RouteCells>,
    faces: [FaceCells; FACES.len()],
    /// Lines of the log that were lost.
    lines_lost: Cells<1>,
    directory_fallbacks: Cells<1>,
    /// By limit and scope.
    limited: Cells<{ words::LIMITS.len() * LimitScope::LABELS.len() }>,
    would_limit: Cells<1>,
}

/// What is counted under names of settings. Names are added and never taken away.
#[derive(Clone, Debug, Default)]
struct Named {
    routes: BTreeMap<Arc<str>, Arc<RouteCells>>,
    targets: BTreeMap<Arc<str>, Arc<TargetCells>>,
}

#[derive(Debug, Default)]
struct RouteCells {
    /// By face, ending and tier.
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
    /// New, read from a cache, written to one, and output.
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
    /// Knows these names from now on, beside those it knows already.
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

    /// Counts a request that is over.
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

    /// Counts an attempt that is over.
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

    /// Counts a line of the log that was lost.
    pub(crate) fn lost_a_line(&self) {
        self.lines_lost.add(0, 1);
    }

    /// How many lines of the log were lost.
    #[must_use]
    pub fn lines_lost(&self) -> u64 {
        self.lines_lost.get(0)
    }

    /// How many requests are over.
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
