//! From answers of the admin API to what the screen shows: differences between samples, and what happened between them.

use super::exposition::MetricsSample;
use super::snapshot::{CallerRow, SpendSummary, TargetRow, TopEvent, TopSnapshot};
use crate::record_text::{Attention, items, number_of, reason, text_of};
use seawall_core::time::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Windows of what is shown.
const MINUTE: Duration = Duration::from_secs(60);
const FIVE_MINUTES: Duration = Duration::from_secs(300);
const TEN_MINUTES: Duration = Duration::from_secs(600);
/// Bounds of memory.
const MAX_EVENTS: usize = 200;
const MAX_RECORDS: usize = 5_000;

/// The answers of the admin API at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct AdminSample {
    pub(super) status: Value,
    pub(super) targets: Value,
    pub(super) spend: Value,
    pub(super) metrics: MetricsSample,
    /// The records since the last sample, the oldest first.
    pub(super) records: Vec<Value>,
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct TopHistory {
    samples: VecDeque<(Timestamp, MetricsSample)>,
    records: VecDeque<(Timestamp, Value)>,
    events: VecDeque<TopEvent>,
    rates: VecDeque<(Timestamp, f64, f64)>,
    phases: BTreeMap<String, (String, String)>,
    level: Option<String>,
    snapshot: TopSnapshot,
    answered: Option<Timestamp>,
}

impl TopHistory {
    /// The snapshot, with how long the gateway has been silent.
    pub(super) fn snapshot(&self, now: Timestamp) -> TopSnapshot {
        let silent_for = self.answered.map_or(0, |answered| (now - answered).as_secs());
        TopSnapshot { silent_for, ..self.snapshot.clone() }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, sample: AdminSample, now: Timestamp) {
        let AdminSample { status, targets, spend, metrics, records } = sample;
        self.answered = Some(now);
        let time = text_of(&status, "time", "").to_owned();
        self.note_changes(&status, &targets, &time);
        for record in records {
            self.note_record(&record);
            self.records.push_back((now, record));
        }
        while self.records.len() > MAX_RECORDS
            || self.records.front().is_some_and(|(at, _)| now - *at > FIVE_MINUTES)
        {
            self.records.pop_front();
        }
        while self.samples.front().is_some_and(|(at, _)| now - *at > FIVE_MINUTES) {
            self.samples.pop_front();
        }
        let rate = self.samples.back().and_then(|(at, earlier)| {
            let between = (now - *at).as_secs_f64();
            let more = total(&metrics) - total(earlier);
            (between > 0.0 && more >= 0.0).then(|| more / between)
        });
        let minute = self.sample_since(now, MINUTE).cloned().unwrap_or_else(|| metrics.clone());
        let quantile = |share| metrics.quantile_since(&minute, "seawall_first_content_seconds", share);
        let first_content = quantile(0.5).zip(quantile(0.99));
        if let Some(rate) = rate {
            self.rates.push_back((now, rate, first_content.map_or(0.0, |(_, p99)| p99)));
        }
        while self.rates.front().is_some_and(|(at, ..)| now - *at > TEN_MINUTES) {
            self.rates.pop_front();
        }
        let since_minute = |is_wanted: &dyn Fn(&str) -> bool| sum_since(&metrics, &minute, is_wanted);
        self.snapshot = TopSnapshot {
            address: text_of(&status["addresses"], "server", "-").to_owned(),
            version: text_of(&status, "version", "-").to_owned(),
            uptime: number_of(&status, "uptime_ms") / 1_000,
            time,
            level: text_of(&status, "level", "-").to_owned(),
            is_draining: status["draining"] == true,
            silent_for: 0,
            rate,
            bad: (since_minute(&|outcome| outcome != "answered"), since_minute(&|_| true)),
            first_content,
            in_flight: items(&targets, "targets")
                .iter()
                .map(|target| number_of(&target["in_flight"], "now"))
                .sum(),
            rungs: self.rungs(now),
            spend: spend_summary(&spend),
            targets: items(&targets, "targets")
                .iter()
                .map(|target| target_row(target, &metrics, &minute))
                .collect(),
            rejected: self.rejected(&metrics, now),
            callers: self.callers(),
            events: self.events.iter().cloned().collect(),
            rate_history: self.rates.iter().map(|(_, rate, _)| *rate).collect(),
            p99_history: self.rates.iter().map(|(_, _, p99)| *p99).collect(),
            records: self.records.iter().rev().take(60).rev().map(|(_, record)| record.clone()).collect(),
        };
        self.samples.push_back((now, metrics));
    }

    /// The oldest sample that is not older than this.
    fn sample_since(&self, now: Timestamp, window: Duration) -> Option<&MetricsSample> {
        self.samples.iter().find(|(at, _)| now - *at <= window).map(|(_, sample)| sample)
    }

    fn note_changes(&mut self, status: &Value, targets: &Value, time: &str) {
        let mut found = Vec::new();
        let level = text_of(status, "level", "-").to_owned();
        if let Some(before) = self.level.replace(level.clone()).filter(|before| *before != level) {
            found.push((Attention::Warning, format!("level {before} -> {level}")));
        }
        for target in items(targets, "targets") {
            let name = text_of(target, "name", "-").to_owned();
            let phase = text_of(&target["breaker"], "phase", "-").to_owned();
            let credential = text_of(target, "credential", "-").to_owned();
            let before = self.phases.insert(name.clone(), (phase.clone(), credential.clone()));
            let Some((was_phase, was_credential)) = before else { continue };
            if was_phase != phase {
                let cause = target["breaker"]["reject_reason"].as_str().map(|cause| format!(": {cause}"));
                let severity = if phase == "open" { Attention::Bad } else { Attention::Warning };
                found.push((severity, format!("{name} breaker {phase}{}", cause.unwrap_or_default())));
            }
            if was_credential != credential {
                let severity = if credential == "rejected" { Attention::Bad } else { Attention::Fine };
                found.push((severity, format!("{name} credential {credential}")));
            }
        }
        for (severity, text) in found {
            self.push_event(TopEvent { time: time.to_owned(), severity, text, id: None });
        }
    }

    fn note_record(&mut self, record: &Value) {
        let outcome = text_of(record, "outcome", "-");
        if outcome == "answered" {
            return;
        }
        let repeats = record["repeats"].as_u64().map(|repeats| format!(" x{repeats}")).unwrap_or_default();
        let text = format!("{outcome}{repeats} {}", reason(record).unwrap_or_default());
        self.push_event(TopEvent {
            time: text_of(record, "time", "-").to_owned(),
            severity: Attention::of_outcome(outcome),
            text,
            id: record["id"].as_str().map(ToOwned::to_owned),
        });
    }

    fn push_event(&mut self, event: TopEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn rungs(&self, now: Timestamp) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let recent = self.records.iter().filter(|(at, _)| now - *at <= MINUTE);
        for rung in recent.filter_map(|(_, record)| record["rung"].as_str()) {
            *counts.entry(rung).or_default() += 1;
        }
        by_count(counts.into_iter().map(|(rung, count)| (rung.to_owned(), count)))
    }

    fn rejected(&self, metrics: &MetricsSample, now: Timestamp) -> (Vec<(String, u64)>, u64) {
        let Some((since, earlier)) = self.samples.front() else { return (Vec::new(), 0) };
        let is_rejected = |outcome: &str| outcome == "rejected";
        let before = earlier.by_label("seawall_requests_total", "reason", is_rejected);
        let counts = metrics.by_label("seawall_requests_total", "reason", is_rejected).into_iter();
        let more = counts.map(|(reason, count)| {
            let before = before.get(&reason).copied().unwrap_or_default();
            (reason, whole(count - before))
        });
        (by_count(more.filter(|(_, count)| *count > 0)), (now - *since).as_secs())
    }

    fn callers(&self) -> Vec<CallerRow> {
        let mut rows: BTreeMap<String, CallerRow> = BTreeMap::new();
        for (_, record) in &self.records {
            let Some(caller) = record["caller"].as_str() else { continue };
            let row = rows.entry(caller.to_owned()).or_default();
            let count = record["repeats"].as_u64().unwrap_or(1);
            row.tier = text_of(record, "tier", "-").to_owned();
            row.requests += count;
            row.rejected += if text_of(record, "outcome", "") == "rejected" { count } else { 0 };
            row.cost = row.cost.saturating_add(number_of(record, "cost_nanos"));
        }
        let mut rows: Vec<CallerRow> =
            rows.into_iter().map(|(caller, row)| CallerRow { caller, ..row }).collect();
        rows.sort_by(|one, other| (other.requests, &one.caller).cmp(&(one.requests, &other.caller)));
        rows
    }
}

/// All completed requests.
fn total(metrics: &MetricsSample) -> f64 {
    metrics.by_label("seawall_requests_total", "outcome", |_| true).values().sum()
}

fn sum_since(metrics: &MetricsSample, earlier: &MetricsSample, is_wanted: &dyn Fn(&str) -> bool) -> u64 {
    let sum = |page: &MetricsSample| -> f64 {
        page.by_label("seawall_requests_total", "outcome", is_wanted).values().sum()
    };
    whole(sum(metrics) - sum(earlier))
}

/// A count: never negative, because a counter that fell belongs to another process.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole and not negative"
)]
fn whole(count: f64) -> u64 {
    count.max(0.0) as u64
}

fn by_count(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    counts
}

fn spend_summary(spend: &Value) -> Option<SpendSummary> {
    let posted = spend["posted_nanos"].as_u64()?;
    // An unlimited budget is the largest amount that there is.
    let cap = spend["cap_nanos"].as_u64().filter(|cap| *cap < u64::MAX / 2);
    let tiers = spend["tiers"].as_object().into_iter().flatten();
    let nearly_spent = tiers.filter_map(|(tier, account)| {
        let cap = number_of(account, "cap_nanos");
        let used = number_of(account, "posted_nanos").saturating_add(number_of(account, "held_nanos"));
        let percent = u64::try_from(u128::from(used) * 100 / u128::from(cap.max(1))).unwrap_or(u64::MAX);
        (cap < u64::MAX / 2 && percent > 80).then(|| (tier.clone(), percent))
    });
    let nearly_spent = nearly_spent.collect();
    Some(SpendSummary { posted, held: number_of(spend, "held_nanos"), cap, nearly_spent })
}

fn target_row(target: &Value, metrics: &MetricsSample, minute: &MetricsSample) -> TargetRow {
    let (name, breaker) = (text_of(target, "name", "-"), &target["breaker"]);
    let attempts = |is_wanted: &dyn Fn(&str) -> bool| {
        let of = |page: &MetricsSample| {
            page.by_label("seawall_attempts_total", "target", is_wanted)
                .get(name)
                .copied()
                .unwrap_or_default()
        };
        whole(of(metrics) - of(minute))
    };
    let cause = match (breaker["reject_reason"].as_str(), text_of(target, "credential", "-")) {
        (Some(reason), _) => reason.to_owned(),
        (None, "rejected") => "key rejected".to_owned(),
        _ if number_of(&target["pacing"], "retry_after_ms") > 0 => "throttled".to_owned(),
        _ => "-".to_owned(),
    };
    let first = &target["time_to_first_content"];
    TargetRow {
        name: name.to_owned(),
        grade: text_of(target, "grade", "-").to_owned(),
        breaker: text_of(breaker, "phase", "-").to_owned(),
        retry_after: breaker["retry_after_ms"].as_u64(),
        in_flight: (number_of(&target["in_flight"], "now"), number_of(&target["in_flight"], "limit")),
        queue: number_of(&target["queue"], "size"),
        first_content: (first["p50_ms"].as_u64(), first["p95_ms"].as_u64()),
        failed: (attempts(&|outcome| outcome != "succeeded" && outcome != "abandoned"), attempts(&|_| true)),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::{AdminSample, TopHistory};
    use crate::record_text::Attention;
    use crate::top::exposition::MetricsSample;
    use seawall_core::time::Timestamp;
    use serde_json::json;
    use std::time::Duration;

    fn sample(requests: u64, rejected: u64, phase: &str) -> AdminSample {
        let metrics = format!(
            "seawall_requests_total{{outcome=\"answered\",reason=\"\"}} {requests}\n\
             seawall_requests_total{{outcome=\"rejected\",reason=\"rate_limited\"}} {rejected}\n\
             seawall_attempts_total{{target=\"sonnet\",outcome=\"throttled\"}} {rejected}\n"
        );
        AdminSample {
            status: json!({ "level": "normal", "time": "2026-11-16T13:12:07.000Z", "uptime_ms": 5_000 }),
            targets: json!({ "targets": [{
                "name": "sonnet", "breaker": { "phase": phase, "reject_reason": "throttled" }, "in_flight": { "now": 2, "limit": 9 }
            }] }),
            spend: json!({ "posted_nanos": 5, "cap_nanos": u64::MAX,
                "tiers": { "guest": { "cap_nanos": 100, "posted_nanos": 80, "held_nanos": 10 } } }),
            metrics: MetricsSample::parse(&metrics),
            records: vec![
                json!({ "id": "req_1", "caller": "aa", "outcome": "rejected", "reason": "rate_limited", "repeats": 3 }),
                json!({ "id": "req_2", "caller": "aa", "outcome": "answered", "rung": "fast_model", "cost_nanos": 7 }),
            ],
        }
    }

    #[test]
    fn rates_rows_and_events_are_the_differences_between_samples() {
        let mut history = TopHistory::default();
        let at = |seconds| Timestamp::from_nanos(0) + Duration::from_secs(seconds);
        history.add(sample(100, 4, "closed"), at(1));
        assert_eq!(history.snapshot(at(1)).rate, None, "one sample is no rate");
        history.add(sample(120, 14, "open"), at(3));
        let snapshot = history.snapshot(at(8));
        assert_eq!((snapshot.rate, snapshot.bad, snapshot.silent_for), (Some(15.0), (10, 30), 5));
        assert_eq!((snapshot.targets[0].failed, &*snapshot.targets[0].cause), ((10, 10), "throttled"));
        assert_eq!(snapshot.rejected, (vec![("rate_limited".to_owned(), 10)], 2));
        let spend = snapshot.spend.unwrap();
        assert_eq!((spend.cap, spend.nearly_spent), (None, vec![("guest".to_owned(), 90)]));
        let caller = &snapshot.callers[0];
        assert_eq!((caller.requests, caller.rejected, caller.cost), (8, 6, 14));
        let opened = snapshot.events.iter().find(|event| event.id.is_none()).unwrap();
        assert_eq!((opened.severity, &*opened.text), (Attention::Bad, "sonnet breaker open: throttled"));
        assert_eq!(snapshot.rungs, [("fast_model".to_owned(), 2)]);
    }
}
