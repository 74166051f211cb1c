//! Collects all values and writes the metrics page.

use super::labels::{self, ATTEMPT_OUTCOMES, PHASES, REQUEST_OUTCOMES, TIERS, face_labels};
use super::page::{MetricsPage, NanoDecimal};
use super::sink::RELOADS;
use super::table::Metric;
use super::{Metrics, process, request_index, table};
use crate::connection_limiter::ConnectionEnd;
use crate::shared_limits::SharedStoreStatus;
use seawall_core::health::TargetCondition;
use seawall_core::invariant::{Invariant, violation_count};
use seawall_core::key_pool::KeyCondition;
use seawall_core::money::Money;
use seawall_core::pressure::Pressure;
use seawall_core::queue::QueueStats;
use seawall_core::retry::StopReason;
use seawall_core::runtime::Runtime;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{CredentialStatus, DaySpend, Pipeline, RequestStage, TargetStatus};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// State of the gateway that the pipeline does not hold.
#[derive(Debug)]
pub(crate) struct GatewayGauges {
    pub(crate) uptime: Duration,
    pub(crate) started: UtcTime,
    /// When the settings in force were applied.
    pub(crate) settings_applied: UtcTime,
    pub(crate) is_draining: bool,
    pub(crate) shared: Option<SharedStoreStatus>,
    /// Open connections of callers, and the limit.
    pub(crate) connections: (usize, usize),
    /// Connections rejected or closed, by reason.
    pub(crate) ended: [(&'static str, u64); ConnectionEnd::ALL.len()],
    /// Bytes of request bodies in memory, and the limit.
    pub(crate) body_memory: (u64, u64),
    pub(crate) diagnostics_dropped: u64,
    /// Panics by background thread.
    pub(crate) panics: Vec<(String, u64)>,
}

impl Metrics {
    /// The metrics page: counters, and the current state of everything.
    pub(crate) fn text<R: Runtime>(&self, pipeline: &Pipeline<R>, gauges: &GatewayGauges) -> String {
        let mut page = MetricsPage::default();
        page.value(&table::BUILD, &[env!("CARGO_PKG_VERSION")], 1);
        page.value(&table::UPTIME, &[], seconds(gauges.uptime));
        page.value(&table::DRAINING, &[], u8::from(gauges.is_draining));
        page.value(&table::LEVEL, &[], pipeline.level().index());
        self.write_requests(&mut page);
        self.write_answers(&mut page);
        self.write_faces(&mut page);
        self.write_stages(&mut page);
        self.write_attempts(&mut page);
        write_retries(&mut page, pipeline);
        write_targets(&mut page, &pipeline.targets());
        self.write_transitions(&mut page);
        write_budget(&mut page, &pipeline.spend());
        page.value(&table::JOURNAL_FAILURES, &[], pipeline.ledger_stats().journal_failures);
        page.value(&table::JOURNAL_UP, &[], u8::from(pipeline.journal_error().is_none()));
        page.value(&table::LOOKUP_FALLBACKS, &[], self.lookup_fallbacks.get(0));
        for index in 0..labels::LIMIT_SERIES {
            let count = self.limited.get(index);
            if count > 0 {
                page.value(&table::RATE_LIMITED, &labels::limit_labels(index), count);
            }
        }
        if let Some(shared) = gauges.shared {
            page.value(&table::SHARED_UP, &[], u8::from(shared.is_up));
            page.value(&table::SHARED_LOCAL_DECISIONS, &[], shared.local_decisions);
            page.value(&table::SHARED_LOST_SETTLEMENTS, &[], shared.lost_settlements);
        }
        page.value(&table::CONNECTIONS, &[], gauges.connections.0 as u64);
        page.value(&table::CONNECTIONS_LIMIT, &[], gauges.connections.1 as u64);
        for (reason, count) in gauges.ended {
            page.value(&table::CONNECTIONS_ENDED, &[reason], count);
        }
        page.value(&table::BODY_MEMORY, &[], gauges.body_memory.0);
        page.value(&table::BODY_MEMORY_LIMIT, &[], gauges.body_memory.1);
        for (index, outcome) in RELOADS.into_iter().enumerate() {
            page.value(&table::RELOADS, &[outcome], self.reloads.get(index));
        }
        let is_successful = !self.is_last_reload_rejected.load(Ordering::Relaxed);
        page.value(&table::RELOAD_SUCCESSFUL, &[], u8::from(is_successful));
        page.value(&table::RELOAD_TIME, &[], timestamp(gauges.settings_applied));
        for (sink, dropped) in pipeline.events().dropped() {
            page.value(&table::EVENTS_DROPPED, &[sink], dropped);
        }
        page.value(&table::DIAGNOSTICS_DROPPED, &[], gauges.diagnostics_dropped);
        for (thread, count) in &gauges.panics {
            page.value(&table::BACKGROUND_PANICS, &[thread], count);
        }
        // With zeros, so that an alert sees the first violation as an increase.
        for invariant in Invariant::ALL {
            page.value(&table::INVARIANT_VIOLATIONS, &[invariant.name()], violation_count(invariant));
        }
        if let Some(time) = process::cpu_time() {
            page.value(&table::CPU, &[], seconds(time));
        }
        page.value(&table::START_TIME, &[], timestamp(gauges.started));
        if let Some(bytes) = process::memory() {
            page.value(&table::MEMORY, &[], bytes);
        }
        if let Some(files) = process::open_files() {
            page.value(&table::OPEN_FILES, &[], files);
        }
        page.into_text()
    }

    /// Writes only series that have a value: most combinations of face, outcome and tier never occur.
    pub(super) fn write_requests(&self, page: &mut MetricsPage) {
        let named = self.named.load();
        let routes = named.routes.iter().map(|(name, cells)| (&**name, cells));
        for (route, cells) in [("", &self.no_route)].into_iter().chain(routes) {
            for (face, face_label) in face_labels().iter().enumerate() {
                for outcome in 0..REQUEST_OUTCOMES {
                    for tier in 0..TIERS {
                        let count = cells.requests.get(request_index(face, outcome, tier));
                        if count > 0 {
                            let (outcome_label, reason) = labels::request_outcome_labels(outcome);
                            let labels = [face_label, route, outcome_label, reason, labels::tier_label(tier)];
                            page.value(&table::REQUESTS, &labels, count);
                        }
                    }
                }
            }
        }
    }

    /// Writes only series that have a value.
    pub(super) fn write_answers(&self, page: &mut MetricsPage) {
        let named = self.named.load();
        for (route, cells) in &named.routes {
            cells.answers.each(|rung, target, model, count| {
                page.value(&table::ANSWERS, &[route, rung, target, model], count);
            });
        }
    }

    pub(super) fn write_faces(&self, page: &mut MetricsPage) {
        let faces = || face_labels().into_iter().zip(&self.faces);
        for (face, cells) in faces() {
            cells.first_content.write(page, &table::FIRST_CONTENT, &[face]);
        }
        for (face, cells) in faces() {
            cells.duration.write(page, &table::DURATION, &[face]);
        }
        for (face, cells) in faces() {
            cells.overhead.write(page, &table::OVERHEAD, &[face]);
        }
    }

    pub(super) fn write_stages(&self, page: &mut MetricsPage) {
        for stage in RequestStage::ALL {
            let (nanos, count) = self.stages.get(stage);
            page.summary(&table::STAGES, &[stage.name()], nanos, count);
        }
    }

    /// Writes changes of breakers and pressure, with zeros, so that an alert sees the first one as an increase.
    pub(super) fn write_transitions(&self, page: &mut MetricsPage) {
        let named = self.named.load();
        for (target, cells) in &named.targets {
            for (index, phase) in PHASES.into_iter().enumerate() {
                page.value(&table::BREAKER_CHANGES, &[target, phase], cells.breaker.get(index));
            }
        }
        for (target, cells) in &named.targets {
            for to in TargetCondition::ALL {
                page.value(&table::HEALTH_CHANGES, &[target, to.name()], cells.health.get(to.index()));
            }
        }
        for (target, cells) in &named.targets {
            for to in Pressure::ALL {
                page.value(&table::PRESSURE_CHANGES, &[target, to.label()], cells.pressure.get(to.index()));
            }
        }
    }

    /// Writes targets by name, with zeros where a rate is worth watching from the start.
    pub(super) fn write_attempts(&self, page: &mut MetricsPage) {
        let named = self.named.load();
        for (target, cells) in &named.targets {
            for index in 0..ATTEMPT_OUTCOMES {
                let count = cells.attempts.get(index);
                if count > 0 || index == 0 {
                    page.value(&table::ATTEMPTS, &[target, labels::attempt_outcome_label(index)], count);
                }
            }
        }
        for (target, cells) in &named.targets {
            cells.duration.write(page, &table::ATTEMPT_DURATION, &[target]);
        }
        for (target, cells) in &named.targets {
            page.value(&table::ROTATIONS, &[target], cells.rotations.get(0));
        }
        for (target, cells) in &named.targets {
            for (index, kind) in ["uncached", "cache_read", "cache_write"].into_iter().enumerate() {
                page.value(&table::INPUT_TOKENS, &[target, kind], cells.tokens.get(index));
            }
        }
        for (target, cells) in &named.targets {
            page.value(&table::OUTPUT_TOKENS, &[target], cells.tokens.get(3));
        }
        for (target, cells) in &named.targets {
            for tier in Tier::ALL {
                page.value(
                    &table::COST,
                    &[tier.name(), target],
                    NanoDecimal { nanos: cells.cost.get(tier.index()) },
                );
            }
        }
        for (target, cells) in &named.targets {
            page.value(&table::UNPRICED, &[target], cells.unpriced.get(0));
        }
    }
}

fn write_retries<R: Runtime>(page: &mut MetricsPage, pipeline: &Pipeline<R>) {
    let counters = pipeline.retry_counters();
    let snapshot = counters.snapshot();
    page.value(&table::RETRIES, &[], snapshot.retries);
    page.value(&table::FAILOVERS, &[], snapshot.failovers);
    for reason in StopReason::ALL {
        page.value(&table::STOPS, &[reason.label()], counters.stops(reason));
    }
}

type ReadGauge = fn(&TargetStatus) -> u64;

pub(super) fn write_targets(page: &mut MetricsPage, targets: &[TargetStatus]) {
    let gauges: [(&'static Metric, ReadGauge); 11] = [
        (&table::BREAKER, |target| labels::phase_index(target.breaker.phase) as u64),
        (&table::OPEN_FOR_ONE, |target| u64::from(target.breaker.is_open_for_one_caller)),
        (&table::PANIC_CALLS, |target| target.panic_calls),
        (&table::CREDENTIAL_REJECTED, |target| {
            u64::from(target.health.credential == CredentialStatus::Rejected)
        }),
        (&table::PRESSURE, |target| target.pressure.index() as u64),
        (&table::IN_FLIGHT, |target| target.in_flight.0.into()),
        (&table::IN_FLIGHT_LIMIT, |target| target.in_flight.1.into()),
        (&table::IN_FLIGHT_PEAK, |target| target.in_flight.2.into()),
        (&table::QUEUE_SIZE, |target| target.queue.size as u64),
        (&table::QUEUE_CAPACITY, |target| target.queue.capacity as u64),
        (&table::QUEUE_ENTERED, |target| target.queue.entered),
    ];
    let (first, rest) = gauges.split_at(4);
    let (pressure, rest) = rest.split_at(1);
    write_gauges(page, targets, first);
    write_conditions(page, targets);
    write_gauges(page, targets, pressure);
    write_pacing(page, targets);
    write_gauges(page, targets, rest);
    for target in targets {
        page.value(&table::QUEUE_OLDEST, &[&target.name], seconds(target.queue.oldest_wait));
    }
    for target in targets {
        for (outcome, count) in queue_outcomes(&target.queue) {
            page.value(&table::QUEUE_OUTCOMES, &[&target.name, outcome], count);
        }
    }
    for target in targets {
        page.value(&table::OVERRUNS, &[&target.name], target.overruns.0);
    }
    for target in targets {
        page.value(&table::SUSPENDED, &[&target.name], u64::from(target.overruns.1.is_some()));
    }
}

fn write_conditions(page: &mut MetricsPage, targets: &[TargetStatus]) {
    for target in targets {
        for condition in TargetCondition::ALL {
            let is_present = u8::from(target.health.condition == condition);
            page.value(&table::TARGET_HEALTH, &[&target.name, condition.name()], is_present);
        }
    }
    for target in targets.iter().filter(|target| !target.keys.is_empty()) {
        for condition in KeyCondition::ALL {
            let count = target.keys.iter().filter(|key| key.condition == condition).count();
            page.value(&table::TARGET_KEYS, &[&target.name, condition.name()], count);
        }
    }
}

fn write_gauges(page: &mut MetricsPage, targets: &[TargetStatus], gauges: &[(&'static Metric, ReadGauge)]) {
    for (metric, read) in gauges {
        for target in targets {
            page.value(metric, &[&target.name], read(target));
        }
    }
}

fn write_pacing(page: &mut MetricsPage, targets: &[TargetStatus]) {
    for target in targets {
        page.value(&table::RETRY_AFTER, &[&target.name], seconds(target.pacing.retry_after));
    }
    for target in targets {
        if let Some(rate) = target.pacing.rate {
            page.value(&table::PACED_RATE, &[&target.name], format_args!("{rate:.3}"));
        }
    }
    for target in targets {
        page.value(&table::PACED_WAITING, &[&target.name], target.pacing.waiting);
    }
}

/// Outcomes of the requests that tried to enter the queue.
pub(crate) const fn queue_outcomes(queue: &QueueStats) -> [(&'static str, u64); 6] {
    [
        ("served", queue.served),
        ("expired", queue.expired),
        ("evicted", queue.evicted),
        ("cancelled", queue.cancelled),
        ("rejected_full", queue.rejected_full),
        ("rejected_late", queue.rejected_late),
    ]
}

pub(super) fn write_budget(page: &mut MetricsPage, spend: &DaySpend) {
    page.value(&table::DAY_CAP, &[], usd(spend.cap));
    let tiers = || Tier::ALL.into_iter().zip(spend.tiers);
    for (tier, (cap, _)) in tiers() {
        page.value(&table::BUDGET_CAP, &[tier.name()], usd(cap));
    }
    for (tier, (_, account)) in tiers() {
        page.value(&table::BUDGET_POSTED, &[tier.name()], usd(account.posted));
    }
    for (tier, (_, account)) in tiers() {
        page.value(&table::BUDGET_HELD, &[tier.name()], usd(account.held));
    }
    page.value(&table::BUDGET_OVERRUN, &[], usd(spend.overrun));
}

fn timestamp(at: UtcTime) -> NanoDecimal {
    NanoDecimal { nanos: at.as_nanos() }
}

fn usd(money: Money) -> NanoDecimal {
    NanoDecimal { nanos: money.as_nanos() }
}

fn seconds(duration: Duration) -> NanoDecimal {
    NanoDecimal { nanos: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) }
}
