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
//! | `answers` | counters of answers by what gave them, with a bounded number of series |
//! | `counters` | lock-free counters |
//! | `gather` | collects all values for the page |
//! | `page` | the Prometheus text format |
//! | `sink` | receives the events that are counted |
//! | `process` | memory and file descriptors of this process |
//! | `reference` | the reference page of all metrics |

mod answers;
mod counters;
mod gather;
mod labels;
mod page;
mod process;
mod reference;
mod sink;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use gather::{GatewayGauges, queue_outcomes};
pub(crate) use page::CONTENT_TYPE;
pub use reference::metrics_reference;

use answers::AnswerCounters;
use arc_swap::ArcSwap;
use counters::{CounterCells, DurationHistogram};
use labels::{ATTEMPT_OUTCOMES, FACES, REQUEST_OUTCOMES, TIERS};
use seawall_core::health::TargetCondition;
use seawall_core::pressure::Pressure;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{
    AttemptCause, AttemptRecord, RequestOutcome, RequestRecord, RequestStage, StageTimes, TierOrigin,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    stages: StageCells,
    /// Reloads of the settings: applied and rejected.
    reloads: CounterCells<2>,
    is_last_reload_rejected: AtomicBool,
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
    answers: AnswerCounters,
}

#[derive(Debug)]
struct FaceCells {
    first_content: DurationHistogram,
    duration: DurationHistogram,
    overhead: DurationHistogram,
}

/// Times of stages. A sum and a count per stage, and no buckets: they show where time goes, and those of first content
/// and of whole requests how it is distributed.
#[derive(Debug, Default)]
struct StageCells {
    /// Nanoseconds by stage.
    time: CounterCells<{ RequestStage::ALL.len() }>,
    /// Requests by the last stage that they reached. A request that reached a stage has passed all before it, so one
    /// addition counts it in every stage.
    last: CounterCells<{ RequestStage::ALL.len() }>,
}

impl StageCells {
    fn record(&self, stages: &StageTimes) {
        let mut last = None;
        for (stage, time) in stages.iter() {
            self.time.add(stage.index(), u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            last = Some(stage.index());
        }
        if let Some(last) = last {
            self.last.add(last, 1);
        }
    }

    /// The sum of nanoseconds and the number of requests of a stage.
    fn get(&self, stage: RequestStage) -> (u64, u64) {
        let reached = (stage.index()..RequestStage::ALL.len()).map(|last| self.last.get(last));
        (self.time.get(stage.index()), reached.fold(0, u64::saturating_add))
    }
}

#[derive(Debug)]
struct TargetCells {
    /// By the phase that the breaker changed to: closed, half-open, open.
    breaker: CounterCells<3>,
    /// By the pressure that it changed to.
    pressure: CounterCells<{ Pressure::ALL.len() }>,
    /// By the condition that it changed to.
    health: CounterCells<{ TargetCondition::ALL.len() }>,
    attempts: CounterCells<ATTEMPT_OUTCOMES>,
    duration: DurationHistogram,
    rotations: CounterCells<1>,
    /// Input, cache reads, cache writes, and output.
    tokens: CounterCells<4>,
    cost: CounterCells<{ Tier::ALL.len() }>,
    unpriced: CounterCells<1>,
}

impl Default for TargetCells {
    fn default() -> Self {
        Self {
            breaker: CounterCells::default(),
            pressure: CounterCells::default(),
            health: CounterCells::default(),
            attempts: CounterCells::default(),
            duration: DurationHistogram::new(DURATION),
            rotations: CounterCells::default(),
            tokens: CounterCells::default(),
            cost: CounterCells::default(),
            unpriced: CounterCells::default(),
        }
    }
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
            stages: StageCells::default(),
            reloads: CounterCells::default(),
            is_last_reload_rejected: AtomicBool::new(false),
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
        let route = route.unwrap_or(&self.no_route);
        if let (RequestOutcome::Answered, Some(rung)) = (&record.outcome, record.rung) {
            route.answers.add(rung, record.target.as_deref(), record.model.as_deref());
        }
        route
            .requests
            .add(request_index(face, labels::request_outcome(&record.outcome), labels::tier_index(tier)), 1);
        self.stages.record(&record.stages);
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
        cells.duration.record(attempt.duration);
        cells.rotations.add(0, u64::from(attempt.cause == AttemptCause::Rotation));
        let usage = &attempt.usage;
        for (index, tokens) in
            [usage.input, usage.cache_read, usage.cache_write, usage.output].into_iter().enumerate()
        {
            cells.tokens.add(index, tokens);
        }
        cells.cost.add(attempt.tier.index(), attempt.cost.as_nanos());
        if attempt.is_cost_unknown {
            cells.unpriced.add(0, 1);
        }
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
