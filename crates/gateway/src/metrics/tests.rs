//! The table, the page and the counters.

use super::page::{HistogramValues, MetricsPage, NanoDecimal};
use super::table::{self, ALL, MetricKind};
use super::{DURATION, FIRST_CONTENT, Metrics, OVERHEAD, metrics_reference};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use seawall_core::breaker::{BreakerPhase, Transition};
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::pressure::{Pressure, PressureTransition};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use seawall_pipeline::event::{Event, EventSink as _};
use seawall_pipeline::{
    AttemptCause, AttemptError, AttemptOutcomeKind, AttemptRecord, Rejection, RequestInterruption,
    RequestOutcome, RequestRecord, RequestStage, StageTimes, Tier, TierOrigin,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[test]
fn names_are_valid_and_follow_the_customs() {
    let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name()).collect();
    assert_eq!(names.len(), ALL.len(), "each once");
    for metric in ALL {
        let name = metric.name();
        assert!(is_name(name) && (name.starts_with("seawall_") || name.starts_with("process_")), "{name}");
        assert_eq!(metric.kind() == MetricKind::Counter, name.ends_with("_total"), "{name}");
        for reserved in ["_bucket", "_sum", "_count"] {
            assert!(!name.ends_with(reserved), "{name}");
        }
        assert!(metric.help().ends_with('.') && !metric.help().contains(['\n', '\\', '|']), "{name}");
        assert!(metric.labels().iter().all(|label| is_name(label) && *label != "le"), "{name}");
    }
}

#[test]
fn no_label_identifies_a_caller() {
    // The values of `limit` are limits of the settings and do not identify a caller.
    let known = [
        "version",
        "face",
        "route",
        "reason",
        "tier",
        "target",
        "outcome",
        "kind",
        "limit",
        "scope",
        "mode",
        "invariant",
        "thread",
        "stage",
        "to",
        "rung",
        "model",
        "state",
        "sink",
    ];
    assert!(ALL.iter().flat_map(|metric| metric.labels()).all(|label| known.contains(label)));
}

#[test]
fn the_reference_page_has_every_metric() {
    let page = metrics_reference();
    assert!(ALL.iter().all(|metric| page.contains(&format!(
        "| `{}` | {} |",
        metric.name(),
        metric.kind().name()
    ))));
    assert!(page.contains("| `seawall_overhead_seconds` | 0.00005, 0.0001, 0.0002, 0.0005, 0.001, "));
    assert!(page.contains("`rejected` |") && page.contains("`shutting_down`, `other` |"), "{page}");
}

#[test]
fn seconds_have_all_their_digits_and_no_more() {
    for (nanos, text) in [
        (0, "0"),
        (1, "0.000000001"),
        (50_000, "0.00005"),
        (1_000_000_000, "1"),
        (1_500_000_000, "1.5"),
        (120_000_000_100, "120.0000001"),
    ] {
        assert_eq!(NanoDecimal { nanos }.to_string(), text);
    }
}

#[test]
fn a_page_is_written_as_the_format_has_it() {
    let mut page = MetricsPage::default();
    page.value(&table::UPTIME, &[], 5);
    page.value(&table::COST, &["prime", "a\"b\\c\nd\u{7}"], 7);
    page.value(&table::COST, &["guest", "x"], 8);
    page.histogram(
        &table::OVERHEAD,
        &["openai"],
        &HistogramValues { bounds: &[50, 1_500_000], counts: &[1, 2, 4], sum_nanos: 10 },
    );
    let text = page.into_text();
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
    assert_eq!(
        samples,
        [
            "# TYPE seawall_uptime_seconds gauge",
            "seawall_uptime_seconds 5",
            "# TYPE seawall_cost_usd_total counter",
            "seawall_cost_usd_total{tier=\"prime\",target=\"a\\\"b\\\\c\\nd\u{fffd}\"} 7",
            "seawall_cost_usd_total{tier=\"guest\",target=\"x\"} 8",
            "# TYPE seawall_overhead_seconds histogram",
            "seawall_overhead_seconds_bucket{face=\"openai\",le=\"0.00005\"} 1",
            "seawall_overhead_seconds_bucket{face=\"openai\",le=\"1.5\"} 3",
            "seawall_overhead_seconds_bucket{face=\"openai\",le=\"+Inf\"} 7",
            "seawall_overhead_seconds_sum{face=\"openai\"} 0.00000001",
            "seawall_overhead_seconds_count{face=\"openai\"} 7",
        ]
    );
    assert_eq!(text.matches("# HELP").count(), 3);
}

fn record(outcome: RequestOutcome) -> RequestRecord {
    RequestRecord {
        caller: Some((7, Tier::Prime, TierOrigin::Settings)),
        route: Some("manga".into()),
        outcome,
        attempts: 1,
        ..RequestRecord::new(1, "anthropic")
    }
}

/// The counters alone, as a page.
fn text(metrics: &Metrics) -> String {
    let mut page = MetricsPage::default();
    metrics.write_requests(&mut page);
    metrics.write_faces(&mut page);
    metrics.write_stages(&mut page);
    metrics.write_attempts(&mut page);
    metrics.write_transitions(&mut page);
    page.into_text()
}

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    for (bounds, name) in [
        (FIRST_CONTENT, "seawall_first_content_seconds"),
        (DURATION, "seawall_request_duration_seconds"),
        (OVERHEAD, "seawall_overhead_seconds"),
    ] {
        assert!(bounds.is_sorted_by(|one, next| one < next));
        for bound in bounds {
            for (nanos, is_in) in [(bound * 1_000, 1), (bound * 1_000 + 1, 0)] {
                let (metrics, duration) = (Metrics::default(), Duration::from_nanos(nanos));
                let record = RequestRecord {
                    duration,
                    first_content: Some(duration),
                    overhead: Some(duration),
                    ..record(RequestOutcome::Answered)
                };
                metrics.record_request(&record);
                let le = NanoDecimal { nanos: bound * 1_000 };
                let line = format!("{name}_bucket{{face=\"anthropic\",le=\"{le}\"}} {is_in}\n");
                assert!(text(&metrics).contains(&line), "{line} in {}", text(&metrics));
            }
        }
    }
}

#[test]
fn what_was_counted_stays_when_a_name_goes_and_goes_on_when_it_comes_back() {
    let metrics = Metrics::default();
    metrics.register_names(["manga"], ["strong"]);
    metrics.record_request(&record(RequestOutcome::Answered));
    metrics.register_names(["novel"], ["other"]);
    metrics.record_request(&record(RequestOutcome::Answered));
    metrics.register_names(["manga"], ["strong"]);
    metrics.record_request(&record(RequestOutcome::Answered));
    let line = r#"seawall_requests_total{face="anthropic",route="manga",outcome="answered",reason="",tier="prime"} 3"#;
    assert!(text(&metrics).contains(line), "{}", text(&metrics));
    assert!(text(&metrics).contains("seawall_output_tokens_total{target=\"other\"} 0\n"));
    assert_eq!(metrics.requests(), 3);
}

#[test]
fn lookup_fallbacks_are_counted() {
    let metrics = Metrics::default();
    for origin in [TierOrigin::Fallback, TierOrigin::Settings, TierOrigin::Directory, TierOrigin::Guest] {
        metrics.record_request(&RequestRecord {
            caller: Some((1, Tier::Guest, origin)),
            ..record(RequestOutcome::Answered)
        });
    }
    assert_eq!(metrics.lookup_fallbacks.get(0), 1);
}

#[test]
fn a_stage_counts_every_request_that_reached_it() {
    let metrics = Metrics::default();
    let reached = |count: usize| {
        let mut stages = StageTimes::default();
        for stage in RequestStage::ALL.into_iter().take(count) {
            stages.set(stage, Duration::from_millis(stage.index() as u64 + 1));
        }
        RequestRecord { stages, ..record(RequestOutcome::Answered) }
    };
    // Rejected by a limit, rejected by every target, answered; and one of which no stage is known.
    [3, 5, 6, 0].into_iter().for_each(|count| metrics.record_request(&reached(count)));
    let text = text(&metrics);
    for (stage, sum, count) in [
        ("receive", "0.003", 3),
        ("admit", "0.009", 3),
        ("plan", "0.008", 2),
        ("answer", "0.01", 2),
        ("relay", "0.006", 1),
    ] {
        assert!(text.contains(&format!("seawall_stage_seconds_sum{{stage=\"{stage}\"}} {sum}\n")), "{text}");
        assert!(
            text.contains(&format!("seawall_stage_seconds_count{{stage=\"{stage}\"}} {count}\n")),
            "{text}"
        );
    }
    assert!(text.contains("# TYPE seawall_stage_seconds summary\n"));
}

#[test]
fn changes_of_breakers_pressure_and_settings_are_counted() {
    let metrics = Metrics::default();
    metrics.register_names(["manga"], ["strong"]);
    let (strong, gone) = (Arc::from("strong"), Arc::from("gone"));
    let (at, stage) = (Timestamp::ZERO, |stage| BreakerPhase::HalfOpen { stage });
    for (from, to) in [
        (BreakerPhase::Closed, BreakerPhase::Open),
        (BreakerPhase::Open, stage(0)),
        (stage(0), stage(1)),
        (stage(1), BreakerPhase::Open),
    ] {
        let transition = &Transition { at, from, to, reason: None };
        metrics.accept(&Event::BreakerChanged { target: &strong, transition });
        metrics.accept(&Event::BreakerChanged { target: &gone, transition });
    }
    let transition = PressureTransition { from: Pressure::Normal, to: Pressure::Slight };
    metrics.accept(&Event::PressureChanged { target: &strong, transition });
    metrics.accept(&Event::SettingsReloaded { keys: "", is_changed: true });
    metrics.accept(&Event::SettingsRejected { reason: "", details: None });
    metrics.accept(&Event::SettingsRejected { reason: "", details: None });
    assert_eq!((metrics.reloads.get(0), metrics.reloads.get(1)), (1, 2));
    let text = text(&metrics);
    for (to, count) in [("open", 2), ("half_open", 1), ("closed", 0)] {
        let line = format!("seawall_breaker_transitions_total{{target=\"strong\",to=\"{to}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
    assert!(
        text.contains("seawall_pressure_transitions_total{target=\"strong\",to=\"slight\"} 1\n"),
        "{text}"
    );
    assert!(!text.contains("gone"));
}

fn outcome() -> impl Strategy<Value = RequestOutcome> {
    prop_oneof![
        Just(RequestOutcome::Answered),
        Just(RequestOutcome::Degraded),
        Just(RequestOutcome::Abandoned),
        prop::sample::select(&FailureKind::ALL[..])
            .prop_map(|kind| RequestOutcome::Interrupted(RequestInterruption::Failed(kind))),
        prop::sample::select(&RequestInterruption::OWN[..]).prop_map(RequestOutcome::Interrupted),
        prop::sample::select(&Rejection::LABELS[..]).prop_map(RequestOutcome::Rejected),
    ]
}

fn attempt_outcome() -> impl Strategy<Value = AttemptOutcomeKind> {
    prop_oneof![
        Just(AttemptOutcomeKind::Succeeded),
        Just(AttemptOutcomeKind::Abandoned),
        prop::sample::select(&FailureKind::ALL[..]).prop_map(AttemptOutcomeKind::Failed),
    ]
}

/// Every series of a page with a value other than zero.
fn series(text: &str) -> BTreeMap<String, u64> {
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_seconds"));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs
        .map(|(series, value)| {
            let is_money = series.contains("_usd");
            let value = if is_money { seawall_testkit::parse_billionths(value) } else { value.parse().ok() };
            (series.to_owned(), value.unwrap())
        })
        .filter(|(_, value)| *value > 0)
        .collect()
}

proptest! {
    /// Compared with a naive model: a map with one entry per series.
    #[test]
    fn every_request_and_attempt_is_counted_under_its_own_labels(
        requests in prop::collection::vec(
            (
                prop::sample::select(&["anthropic", "openai", "bedrock_invoke", "bedrock_converse", "chat"][..]),
                prop::option::of(prop::sample::select(&["manga", "novel"][..])),
                outcome(),
                prop::option::of(prop::sample::select(&Tier::ALL[..])),
            ),
            0..40,
        ),
        attempts in prop::collection::vec(
            (prop::sample::select(&["strong", "fast"][..]), attempt_outcome(), prop::sample::select(&Tier::ALL[..]), any::<[u16; 5]>()),
            0..40,
        ),
    ) {
        let metrics = Metrics::default();
        metrics.register_names(["manga", "novel"], ["strong", "fast"]);
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |series: String, amount: u64| {
            if amount > 0 {
                *expected.entry(series).or_default() += amount;
            }
        };
        let count = requests.len() as u64;
        for (face, route, outcome, tier) in requests {
            let (label, reason) = (outcome.label(), outcome.reason().unwrap_or_default());
            add(format!(
                "seawall_requests_total{{face=\"{face}\",route=\"{}\",outcome=\"{label}\",reason=\"{reason}\",tier=\"{}\"}}",
                route.unwrap_or_default(),
                tier.map_or("", Tier::name),
            ), 1);
            metrics.record_request(&RequestRecord {
                face,
                route: route.map(Into::into),
                caller: tier.map(|tier| (1, tier, TierOrigin::Settings)),
                ..record(outcome)
            });
        }
        for (target, outcome, tier, numbers) in attempts {
            let [input, cache_read, cache_write, output, cost] = numbers.map(u64::from);
            let label = match outcome {
                AttemptOutcomeKind::Succeeded => "succeeded",
                AttemptOutcomeKind::Abandoned => "abandoned",
                AttemptOutcomeKind::Failed(kind) => kind.label(),
            };
            add(format!("seawall_attempts_total{{target=\"{target}\",outcome=\"{label}\"}}"), 1);
            for (kind, tokens) in [("uncached", input), ("cache_read", cache_read), ("cache_write", cache_write)] {
                add(format!("seawall_input_tokens_total{{target=\"{target}\",kind=\"{kind}\"}}"), tokens);
            }
            add(format!("seawall_output_tokens_total{{target=\"{target}\"}}"), output);
            add(format!("seawall_cost_usd_total{{tier=\"{}\",target=\"{target}\"}}", tier.name()), cost);
            metrics.record_attempt(&AttemptRecord {
                request: 1,
                number: 0,
                cause: AttemptCause::First,
                delay: Duration::ZERO,
                started: Timestamp::ZERO,
                duration: Duration::ZERO,
                target: &Arc::from(target),
                tier,
                grade: Grade::Strong,
                first_content: None,
                received_bytes: 0,
                error: &AttemptError::default(),
                opened_breaker: false,
                outcome,
                usage: Usage { input, cache_read, cache_write, output, ..Usage::default() },
                cost: Money::from_nanos(cost),
                overrun: Money::ZERO,
                is_cost_unknown: false,
                is_capped: false,
            });
        }
        prop_assert_eq!(series(&text(&metrics)), expected);
        prop_assert_eq!(metrics.requests(), count);
    }
}
