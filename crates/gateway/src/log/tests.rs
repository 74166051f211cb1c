//! Log lines, and how they reach their sink.

use super::{LineDetail, MAX_SHOWN, MAX_UNWRITTEN, RequestLog, Rfc3339, recent_requests, write_line};
use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, Supervisor};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use seawall_core::evaluator::{PlanPolicy, PlanSituation, Posture, evaluate};
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::{Level, Rung};
use seawall_pipeline::event::{Event, EventSinks};
use seawall_pipeline::{
    AttemptCause, AttemptOutcomeKind, AttemptSummary, CompactDuration, PlanRecord, RequestInterruption,
    RequestOutcome, RequestRecord, RequestStage, SkipKind, StageTimes, Tier, TierOrigin,
};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Characters that reverse text or end a line without being control characters.
const TURNING: [char; 4] = ['\u{202e}', '\u{2028}', '\u{2066}', '\u{feff}'];

pub(super) fn record(outcome: RequestOutcome) -> RequestRecord {
    RequestRecord {
        id: 255,
        face: "anthropic",
        caller: Some((7, Tier::Prime, TierOrigin::Settings)),
        route: Some("manga".into()),
        rung: Some(Rung::StrongModel),
        target: Some("str\"ong".into()),
        model: None,
        limit_observed: false,
        limit: None,
        cause: None,
        failed_targets: None,
        plan: None,
        first_attempts: [first_attempt("strong", AttemptOutcomeKind::Succeeded)].into_iter().collect(),
        stages: StageTimes::default(),
        outcome,
        attempts: 2,
        usage: Usage { input: 20, cache_read: 3, cache_write: 4, output: 8, ..Usage::default() },
        cost: Money::from_nanos(180_000),
        overrun: Money::ZERO,
        is_cost_unknown: false,
        is_capped: false,
        first_content: Some(Duration::from_millis(350)),
        duration: Duration::from_secs(1),
        overhead: Some(Duration::from_micros(42)),
        ended: Timestamp::from_nanos(5_000_000_000),
    }
}

fn first_attempt(target: &str, outcome: AttemptOutcomeKind) -> AttemptSummary {
    AttemptSummary {
        target: target.into(),
        cause: AttemptCause::First,
        outcome,
        delay: CompactDuration::default(),
        start: CompactDuration::of(Duration::from_micros(40)),
        duration: CompactDuration::of(Duration::from_millis(300)),
    }
}

/// Two seconds after the record above ended.
fn now() -> Now {
    let utc = UtcTime::from_civil(2026, 11, 16) + Duration::from_millis(2_000 + 3_723_004);
    Now::new(Timestamp::from_nanos(7_000_000_000), utc)
}

fn line(record: &RequestRecord) -> String {
    let mut line = String::new();
    write_line(&mut line, record, now(), LineDetail::Compact, |caller| caller + 1);
    line
}

#[test]
fn a_line_is_one_json_object_with_all_that_is_known() {
    let line = line(&record(RequestOutcome::Interrupted(RequestInterruption::Failed(
        FailureKind::StreamInterrupted,
    ))));
    assert!(line.ends_with("}\n"));
    let value: Value = serde_json::from_str(&line).unwrap();
    let expected = json!({
        "time": "2026-11-16T01:02:03.004Z",
        "id": "req_00000000000000ff",
        "face": "anthropic",
        "route": "manga",
        "caller": "0000000000000008",
        "tier": "prime",
        "tier_origin": "settings",
        "outcome": "interrupted",
        "reason": "stream_interrupted",
        "rung": "strong_model",
        "target": "str\"ong",
        "attempts": 2,
        "attempt_details": [
            { "cause": "first", "target": "strong", "outcome": "succeeded", "start_us": 40, "duration_us": 300_000 },
        ],
        "tokens": { "input": 20, "cache_read": 3, "cache_write": 4, "output": 8 },
        "cost_nanos": 180_000,
        "first_content_us": 350_000,
        "duration_us": 1_000_000,
        "overhead_us": 42,
    });
    assert_eq!(value, expected);
}

#[test]
fn what_is_not_known_is_left_out() {
    let nothing = RequestRecord {
        caller: None,
        route: None,
        rung: None,
        target: None,
        first_content: None,
        overhead: None,
        ..record(RequestOutcome::Rejected("rate_limited"))
    };
    let value: Value = serde_json::from_str(&line(&nothing)).unwrap();
    assert_eq!((&value["outcome"], &value["reason"]), (&"rejected".into(), &"rate_limited".into()));
    for key in ["caller", "tier", "tier_origin", "route", "rung", "target", "first_content_us", "overhead_us"]
    {
        assert_eq!(value.get(key), None, "{key}");
    }
    for outcome in [RequestOutcome::Answered, RequestOutcome::Abandoned] {
        let value: Value = serde_json::from_str(&line(&record(outcome))).unwrap();
        assert_eq!(value.get("reason"), None);
    }
}

#[test]
fn stages_attempts_and_the_plan_are_written_where_they_explain_something() {
    let mut stages = StageTimes::default();
    stages.set(RequestStage::Receive, Duration::from_nanos(12_900));
    stages.set(RequestStage::Identify, Duration::ZERO);
    stages.set(RequestStage::Answer, Duration::from_secs(2));
    let plain = RequestRecord { attempts: 1, stages, ..record(RequestOutcome::Answered) };
    let value: Value = serde_json::from_str(&line(&plain)).unwrap();
    assert_eq!(value["stages_us"], json!({ "receive": 12, "identify": 0, "answer": 2_000_000 }));
    assert_eq!(value.get("attempt_details"), None, "the usual way needs no explanation");
    let mut full = String::new();
    write_line(&mut full, &plain, now(), LineDetail::Full, |caller| caller);
    let value: Value = serde_json::from_str(&full).unwrap();
    assert_eq!(value["attempt_details"].as_array().map(Vec::len), Some(1));

    let posture = Posture { level: Level::HighLoad, ..Posture::default() };
    let evaluate = |posture: &Posture| {
        evaluate(&PlanPolicy::default(), posture, &PlanSituation::of(7, Tier::Prime), now().utc).plan
    };
    let (restricted, free) = (evaluate(&posture), evaluate(&Posture::default()));
    let second = AttemptSummary {
        cause: AttemptCause::Failover(Some(SkipKind::BreakerOpen)),
        delay: CompactDuration::of(Duration::from_millis(7)),
        ..first_attempt("fa\"st", AttemptOutcomeKind::Failed(FailureKind::Throttled))
    };
    let explained = RequestRecord {
        attempts: 6,
        first_attempts: [first_attempt("strong", AttemptOutcomeKind::Abandoned), second]
            .into_iter()
            .collect(),
        plan: Some(Arc::new(PlanRecord { reasons: restricted.reasons, shadow: Some(free) })),
        ..plain.clone()
    };
    let value: Value = serde_json::from_str(&line(&explained)).unwrap();
    assert_eq!(value["attempts"], 6, "those that are not listed are counted");
    let expected = json!([
        { "cause": "first", "target": "strong", "outcome": "abandoned", "start_us": 40, "duration_us": 300_000 },
        {
            "cause": "failover", "skipped": "breaker_open", "target": "fa\"st", "outcome": "throttled",
            "delay_us": 7_000, "start_us": 40, "duration_us": 300_000,
        },
    ]);
    assert_eq!(value["attempt_details"], expected);
    assert_eq!(value["plan_reasons"], json!(["level:high_load=fast"]));
    assert_eq!(
        value["shadow_plan"],
        json!({ "ceiling": "strong", "rungs": ["strong_model", "fast_model", "stale_cache", "faq", "apology"], "reasons": [] })
    );
    let only_delayed = AttemptSummary {
        delay: CompactDuration::of(Duration::from_micros(1)),
        ..first_attempt("a", AttemptOutcomeKind::Succeeded)
    };
    let delayed = RequestRecord { first_attempts: [only_delayed].into_iter().collect(), ..plain };
    assert!(line(&delayed).contains("\"delay_us\":1"), "a wait is worth a line");
}

#[test]
fn moments_are_written_as_the_standard_has_them() {
    for (nanos, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999_999_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
        (1_763_251_200_001_000_000, "2025-11-16T00:00:00.001Z"),
    ] {
        assert_eq!(Rfc3339(UtcTime::from_nanos(nanos)).to_string(), expected);
    }
}

proptest! {
    #[test]
    fn no_name_breaks_a_line_or_steers_a_terminal(route in any::<String>(), target in any::<String>()) {
        let named = RequestRecord {
            route: Some(route.as_str().into()),
            target: Some(target.as_str().into()),
            ..record(RequestOutcome::Answered)
        };
        let line = line(&named);
        let inside = line.strip_suffix('\n').unwrap();
        prop_assert!(!inside.chars().any(char::is_control));
        prop_assert!(!inside.contains(TURNING));
        let value: Value = serde_json::from_str(inside).unwrap();
        prop_assert_eq!(&value["route"], &Value::from(route));
        prop_assert_eq!(&value["target"], &Value::from(target));
    }

    /// Compared with a naive model on lists.
    #[test]
    fn the_newest_are_shown_and_all_but_the_dropped_are_written_once_in_order(
        steps in prop::collection::vec((1_usize..4_000, 0_usize..200), 1..8)
    ) {
        let recent = recent_requests(true);
        let (mut all, mut waiting, mut taken) = (Vec::new(), VecDeque::new(), Vec::new());
        for (pushed, most) in steps {
            for _ in 0..pushed {
                let id = all.len() as u64;
                let is_lost = recent.push(RequestRecord { id, ..record(RequestOutcome::Answered) });
                prop_assert_eq!(is_lost, waiting.len() == MAX_UNWRITTEN);
                if is_lost {
                    waiting.pop_front();
                }
                waiting.push_back(id);
                all.push(id);
            }
            recent.take(most, &mut taken);
            let expected: Vec<u64> = waiting.drain(..most.min(waiting.len())).collect();
            prop_assert_eq!(taken.iter().map(|record| record.id).collect::<Vec<_>>(), expected);
            let newest: Vec<u64> = recent.newest(most).iter().map(|record| record.id).collect();
            prop_assert_eq!(newest, all.iter().rev().take(most).copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn without_a_writer_exactly_as_many_are_kept_as_are_shown() {
    let recent = recent_requests(false);
    for id in 0..=MAX_SHOWN as u64 {
        assert!(!recent.push(RequestRecord { id, ..record(RequestOutcome::Answered) }));
    }
    let newest = recent.newest(usize::MAX);
    assert_eq!((newest.len(), newest[0].id, newest[MAX_SHOWN - 1].id), (MAX_SHOWN, MAX_SHOWN as u64, 1));
}

/// A sink whose content the test can read.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log(sink: impl std::io::Write + Send + 'static) -> (EventSinks, Arc<Metrics>, Supervisor) {
    let (metrics, supervisor) = (Arc::new(Metrics::default()), Supervisor::default());
    let (runtime, sink) = (TokioRuntime::new(), Some(Box::new(sink) as Box<_>));
    let log = RequestLog::new(runtime, sink, |caller| caller, &supervisor).unwrap();
    (EventSinks::new(vec![Arc::<Metrics>::clone(&metrics), Arc::new(log)]), metrics, supervisor)
}

fn dropped(sinks: &EventSinks) -> u64 {
    let dropped: Vec<_> = sinks.dropped().collect();
    assert_eq!((dropped.len(), dropped[0].0), (1, "access_log"));
    dropped[0].1
}

#[test]
fn every_line_is_written_before_the_log_stops() {
    let sink = Sink::default();
    let (log, metrics, supervisor) = log(sink.clone());
    for id in 0..9_000 {
        log.emit(&Event::RequestCompleted(&RequestRecord { id, ..record(RequestOutcome::Answered) }));
    }
    assert!(supervisor.stop(ShutdownStage::Log, Duration::ZERO).is_empty());
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    for (id, line) in text.lines().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["id"], format!("req_{id:016x}"));
    }
    assert_eq!((text.lines().count(), dropped(&log), metrics.requests()), (9_000, 0, 9_000));
}

/// A sink that blocks.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl std::io::Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_sink_drops_lines_and_delays_no_request() {
    let (hold, held) = std::sync::mpsc::channel();
    let (log, metrics, supervisor) = log(Stuck(held));
    // Records that the thread has taken are no longer in the ring: at most one batch.
    let pushed = 5 * MAX_UNWRITTEN as u64;
    for _ in 0..pushed {
        log.emit(&Event::RequestCompleted(&record(RequestOutcome::Answered)));
    }
    let lost = dropped(&log);
    assert!(lost > 0 && lost <= pushed - MAX_UNWRITTEN as u64, "{lost}");
    assert_eq!(metrics.requests(), pushed, "what is lost to the log is not lost to counters");
    assert_eq!(supervisor.stop(ShutdownStage::Log, Duration::ZERO), ["access-log"], "nothing waits for it");
    drop(hold);
}
