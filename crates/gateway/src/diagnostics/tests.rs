//! Formats, the queue, and the table of events.

use super::queue::{CAPACITY, DiagnosticQueue};
use super::{DiagnosticSink, DiagnosticsOptions, dispatch, event, start_writer};
use crate::diagnostic;
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, Supervisor};
use seawall_config::{DiagnosticFormat, DiagnosticLevel};
use seawall_core::breaker::{BreakerPhase, Transition, TripReason};
use seawall_core::health::{HealthTransition, TargetCondition};
use seawall_core::key_pool::{KeyCondition, KeyTransition};
use seawall_core::time::Timestamp;
use seawall_pipeline::RequestRecord;
use seawall_pipeline::event::{Event, EventSinks};
use seawall_store::SharedStoreState;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// What is written when `emit` runs with these options.
fn written(format: DiagnosticFormat, level: DiagnosticLevel, colours: bool, emit: impl FnOnce()) -> String {
    let queue = Arc::<DiagnosticQueue>::default();
    let options = DiagnosticsOptions { format, level, colours };
    tracing::dispatcher::with_default(&dispatch(options, TokioRuntime::new(), &queue), emit);
    let mut text = Vec::new();
    queue.close();
    queue.write_to(&mut text);
    String::from_utf8(text).unwrap()
}

/// The names of the events that `emit` causes on this thread.
pub(crate) fn events_of(emit: impl FnOnce()) -> Vec<String> {
    let text = written(DiagnosticFormat::Json, DiagnosticLevel::Info, false, emit);
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

fn emit_two() {
    diagnostic!(KEY_CREATED, key = "k1", tier = "prime", "key k1 created (tier prime)");
    diagnostic!(
        BREAKER_OPENED,
        target = "so\nnnet",
        reason = None::<&str>,
        "target so\nnnet: \u{1b}[31mbreaker opened"
    );
}

#[test]
fn json_lines_have_a_stable_name_and_the_fields_that_have_a_value() {
    let text = written(DiagnosticFormat::Json, DiagnosticLevel::Info, false, emit_two);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut expected = [
        json!({ "level": "INFO", "event": "key_created", "key": "k1", "tier": "prime", "message": "key k1 created (tier prime)" }),
        json!({ "level": "WARN", "event": "breaker_opened", "target": "so\nnnet", "message": "target so\nnnet: \u{1b}[31mbreaker opened" }),
    ];
    for (line, expected) in lines.iter().zip(&mut expected) {
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        expected["timestamp"] = line["timestamp"].clone();
    }
    assert_eq!(lines, expected);
}

#[test]
fn text_is_one_line_without_foreign_control_characters() {
    let text = written(DiagnosticFormat::Text, DiagnosticLevel::Info, false, emit_two);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("Z  INFO seawall: key k1 created (tier prime)"), "{text}");
    assert!(lines[1].ends_with("Z  WARN seawall: target so\\nnnet: \\u{1b}[31mbreaker opened"), "{text}");
    let coloured = written(DiagnosticFormat::Text, DiagnosticLevel::Info, true, emit_two);
    assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m seawall: "), "{coloured}");
}

#[test]
fn details_follow_on_lines_of_their_own() {
    let emit = || diagnostic!(SETTINGS_REJECTED, details = "one\ntwo\n", "rejected:");
    let text = written(DiagnosticFormat::Text, DiagnosticLevel::Info, false, emit);
    assert!(text.ends_with(" ERROR seawall: rejected:\none\ntwo\n"), "{text}");
    let json = written(DiagnosticFormat::Json, DiagnosticLevel::Info, false, emit);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["details"], "one\ntwo\n");
}

#[test]
fn lower_levels_and_other_libraries_are_left_out() {
    let emit = || {
        emit_two();
        tracing::error!(target: "h2", "of another library");
        // What libraries trace on the request path costs a comparison of levels.
        assert!(LevelFilter::current() <= LevelFilter::INFO);
    };
    let text = written(DiagnosticFormat::Text, DiagnosticLevel::Warn, false, emit);
    assert!(text.contains("breaker opened") && text.lines().count() == 1, "{text}");
    assert_eq!(written(DiagnosticFormat::Text, DiagnosticLevel::Error, false, emit), "");
}

#[test]
fn events_of_targets_stores_settings_and_the_node_are_diagnostics_and_those_of_requests_are_not() {
    let sinks = EventSinks::new(vec![Arc::new(DiagnosticSink)]);
    let target = &Arc::from("sonnet");
    let change = |from, to, reason| Transition { at: Timestamp::ZERO, from, to, reason };
    let (closed, open, trial) =
        (BreakerPhase::Closed, BreakerPhase::Open, |stage| BreakerPhase::HalfOpen { stage });
    let failures = Some(TripReason::ConsecutiveFailures);
    let transitions = [
        change(closed, open, failures),
        change(open, trial(0), None),
        change(trial(0), trial(1), None),
        change(trial(1), open, failures),
        change(trial(1), closed, None),
    ];
    let breaker = transitions.each_ref().map(|transition| Event::BreakerChanged { target, transition });
    use TargetCondition::{CredentialRejected, Failing, Healthy, QuotaExhausted, UnknownModel};
    let health = [
        (Healthy, CredentialRejected),
        (CredentialRejected, Healthy),
        (Healthy, QuotaExhausted),
        (Healthy, UnknownModel),
        (Healthy, Failing),
        (Failing, Healthy),
    ];
    let health = health.map(|(from, to)| HealthTransition { from, to, lasted: Duration::from_secs(70) });
    let model = &Arc::from("claude");
    let error = "401 unauthorized: invalid x-api-key";
    let health =
        health.each_ref().map(|transition| Event::TargetHealthChanged { target, model, transition, error });
    let keys = [
        (KeyCondition::Usable, KeyCondition::Rejected),
        (KeyCondition::Rejected, KeyCondition::Usable),
        (KeyCondition::Usable, KeyCondition::Throttled),
        (KeyCondition::Throttled, KeyCondition::QuotaExhausted),
    ];
    let keys = keys.map(|(from, to)| KeyTransition { key: 1, from, to });
    let keys = keys.each_ref().map(|transition| Event::TargetKeyChanged { target, keys: 3, transition });
    let store = [SharedStoreState::Unreachable, SharedStoreState::Recovering, SharedStoreState::Reachable]
        .map(|state| Event::SharedStoreChanged { store: "redis", state, reason: "timeout" });
    let record = RequestRecord::new(1, "chat");
    let others = [
        Event::JournalChanged { problem: Some("no space"), data_dir: Some(Path::new("state")) },
        Event::JournalChanged { problem: None, data_dir: None },
        Event::DataDirChanged { problem: Some("no space") },
        Event::DataDirChanged { problem: None },
        Event::SettingsReloaded { keys: "", is_changed: false },
        Event::SettingsRejected { reason: "no route", details: None },
        Event::DrainStarted { cause: "SIGTERM", timeout: Duration::from_secs(120) },
        Event::DrainCompleted { duration: Duration::from_millis(7) },
        Event::RequestCompleted(&record),
    ];
    let all = || breaker.iter().chain(&health).chain(&keys).chain(&store).chain(&others);
    let names = events_of(|| all().for_each(|event| sinks.emit(event)));
    let expected = [
        "breaker_opened",
        "breaker_half_open",
        "breaker_opened",
        "breaker_closed",
        "credential_rejected",
        "credential_accepted",
        "vendor_quota_exhausted",
        "model_unknown",
        "target_unhealthy",
        "target_healthy",
        "vendor_key_rejected",
        "vendor_key_accepted",
        "vendor_key_exhausted",
        "shared_store_unavailable",
        "shared_store_recovering",
        "shared_store_available",
        "journal_unavailable",
        "journal_available",
        "data_dir_unavailable",
        "data_dir_available",
        "settings_reloaded",
        "settings_rejected",
        "shutdown_started",
        "shutdown_completed",
    ];
    assert_eq!(names, expected);
    let emit = || all().for_each(|event| sinks.emit(event));
    let text = written(DiagnosticFormat::Text, DiagnosticLevel::Info, false, emit);
    for line in [
        "target sonnet: breaker opened: consecutive_failures\n",
        "target sonnet: the provider rejects our API key; check targets.sonnet.api_key (401 unauthorized: invalid x-api-key)\n",
        "target sonnet: the provider does not know the model claude; check targets.sonnet.model (401 ",
        "target sonnet: answers again after 1m10s (failing)\n",
        "target sonnet: the provider rejects API key 2 of 3; check targets.sonnet.api_keys\n",
        "redis is unavailable (timeout): this node enforces its own share of every limit\n",
        "no model is called: no space (data directory state)\n",
        "settings reloaded: no key changed; secrets and certificates were read again\n",
        "settings rejected, nothing changed: no route\n",
        "SIGTERM received: draining requests, for at most 2m\n",
        "drained in 7ms\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A sink that blocks until it is released, and then keeps what it is given.
struct Stalled(std::sync::mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.recv();
        self.1.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stalled_sink_drops_the_newest_events_and_delays_nobody() {
    let (queue, supervisor) = (Arc::<DiagnosticQueue>::default(), Supervisor::default());
    let ((release, released), received) = (channel(), Arc::<Mutex<Vec<u8>>>::default());
    start_writer(&queue, Stalled(released, Arc::clone(&received)), &supervisor).unwrap();
    let line = [b'x'; 1024];
    // What the thread has taken does not count: at most the queue once more.
    let pushed = 3 * CAPACITY / line.len();
    (0..pushed).for_each(|_| queue.push(&line));
    let dropped = queue.dropped();
    assert!(dropped >= (pushed - 2 * CAPACITY / line.len()) as u64, "{dropped}");
    drop(release);
    assert!(supervisor.stop(ShutdownStage::Diagnostics, Duration::ZERO).is_empty());
    assert_eq!(received.lock().unwrap().len() as u64, (pushed as u64 - dropped) * line.len() as u64);
}

#[test]
fn a_sink_that_stays_stalled_does_not_hold_up_the_end() {
    let (queue, supervisor) = (Arc::<DiagnosticQueue>::default(), Supervisor::default());
    let (release, released) = channel();
    start_writer(&queue, Stalled(released, Arc::default()), &supervisor).unwrap();
    queue.push(b"line\n");
    assert_eq!(supervisor.stop(ShutdownStage::Diagnostics, Duration::ZERO), ["diagnostics"]);
    drop(release);
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The page of events is generated from the table, so the table must have what the code has.
#[test]
fn events_in_the_code_have_the_fields_of_the_table_and_none_is_unused() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = ["gateway/src", "cli/src"].into_iter().flat_map(|source| rust_files(&crates.join(source)));
    let mut used = BTreeSet::new();
    for path in sources.filter(|path| !path.ends_with("diagnostics/tests.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
        assert!(!code.contains("eprint") || !path.starts_with(crates.join("gateway")), "{}", path.display());
        for call in code.split("diagnostic!(").skip(1) {
            let mut parts = call.split('"').next().unwrap().split(',').map(str::trim);
            let name = parts.next().unwrap().to_owned();
            let fields = parts.filter(|part| !part.is_empty()).map(|part| part.split(" = ").next().unwrap());
            let (_, event) = event::ALL.iter().find(|(constant, _)| *constant == name).unwrap();
            for field in fields {
                assert!(event.fields().contains(&field), "{name}: {field} in {}", path.display());
            }
            used.insert(name);
        }
    }
    let unused: Vec<_> = event::ALL.iter().filter(|(constant, _)| !used.contains(*constant)).collect();
    assert!(unused.is_empty(), "{unused:?}");
    let names: BTreeSet<&str> = event::ALL.iter().map(|(_, event)| event.name()).collect();
    assert_eq!(names.len(), event::ALL.len(), "names are unique");
}
