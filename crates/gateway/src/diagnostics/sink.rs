//! The events of the stream that are diagnostics: changes of targets, stores, settings and of the node itself.
//!
//! The queue of diagnostics is bounded, so this sink needs none of its own. `seawall_diagnostics_dropped_total` counts what
//! that queue drops, whether it comes from here or from elsewhere.

use crate::diagnostic;
use crate::target_problem::{key_problem, problem_text};
use seawall_config::format_duration;
use seawall_core::breaker::{BreakerPhase, Transition};
use seawall_core::health::{HealthTransition, TargetCondition};
use seawall_core::key_pool::{KeyCondition, KeyTransition};
use seawall_pipeline::event::{Event, EventSink, EventTopic, EventTopics};
use seawall_store::SharedStoreState;
use std::mem::discriminant;
use std::path::Path;
use std::time::Duration;

/// Reports events as diagnostics.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticSink;

impl EventSink for DiagnosticSink {
    fn name(&self) -> &'static str {
        "diagnostics"
    }

    fn topics(&self) -> EventTopics {
        EventTopics::of(&[
            EventTopic::BreakerChanged,
            EventTopic::TargetHealthChanged,
            EventTopic::TargetKeyChanged,
            EventTopic::SettingsReloaded,
            EventTopic::SettingsRejected,
            EventTopic::SharedStoreChanged,
            EventTopic::JournalChanged,
            EventTopic::DataDirChanged,
            EventTopic::DrainStarted,
            EventTopic::DrainCompleted,
        ])
    }

    fn accept(&self, event: &Event<'_>) {
        match event {
            Event::BreakerChanged { target, transition } => report_breaker(target, transition),
            Event::TargetHealthChanged { target, model, transition, error } => {
                report_health(target, model, transition, error);
            }
            Event::TargetKeyChanged { target, keys, transition } => report_key(target, *keys, transition),
            Event::SettingsReloaded { keys, is_changed } => report_reload(keys, *is_changed),
            Event::SettingsRejected { reason, details } => report_rejection(reason, *details),
            Event::SharedStoreChanged { store, state, reason } => report_shared_store(store, *state, reason),
            Event::JournalChanged { problem, data_dir } => report_journal(*problem, *data_dir),
            Event::DataDirChanged { problem: Some(problem) } => {
                diagnostic!(DATA_DIR_UNAVAILABLE, reason = *problem, "{problem}");
            }
            Event::DataDirChanged { problem: None } => {
                diagnostic!(DATA_DIR_AVAILABLE, "the data directory is writable again");
            }
            Event::DrainStarted { cause, timeout } => diagnostic!(
                SHUTDOWN_STARTED,
                signal = *cause,
                drain_timeout_ms = milliseconds(*timeout),
                "{cause} received: draining requests, for at most {}",
                format_duration(*timeout)
            ),
            Event::DrainCompleted { duration } => {
                let duration_ms = milliseconds(*duration);
                let took = format_duration(Duration::from_millis(duration_ms));
                diagnostic!(SHUTDOWN_COMPLETED, duration_ms, "drained in {took}");
            }
            _ => {}
        }
    }
}

/// Reports a change of phase. All stages of a half-open trial are one phase. A failed probe reopens the breaker without
/// a change of phase, and is worth an event: only then there is a reason.
fn report_breaker(target: &str, transition: &Transition) {
    if discriminant(&transition.from) == discriminant(&transition.to) && transition.reason.is_none() {
        return;
    }
    let reason = transition.reason.map(|reason| reason.label());
    let suffix = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    match transition.to {
        BreakerPhase::Open => {
            diagnostic!(BREAKER_OPENED, target, reason, "target {target}: breaker opened{suffix}");
        }
        BreakerPhase::HalfOpen { .. } => {
            diagnostic!(BREAKER_HALF_OPEN, target, reason, "target {target}: breaker half-open{suffix}");
        }
        BreakerPhase::Closed => {
            diagnostic!(BREAKER_CLOSED, target, reason, "target {target}: breaker closed{suffix}");
        }
    }
}

fn report_health(target: &str, model: &str, transition: &HealthTransition, error: &str) {
    let HealthTransition { from, lasted, to } = *transition;
    let problem = problem_text(model, to).unwrap_or_default();
    match to {
        TargetCondition::CredentialRejected => diagnostic!(
            CREDENTIAL_REJECTED,
            target,
            reason = error,
            "target {target}: {problem}; check targets.{target}.api_key ({error})"
        ),
        TargetCondition::QuotaExhausted => diagnostic!(
            VENDOR_QUOTA_EXHAUSTED,
            target,
            reason = error,
            "target {target}: {problem} ({error})"
        ),
        TargetCondition::UnknownModel => diagnostic!(
            MODEL_UNKNOWN,
            target,
            model,
            reason = error,
            "target {target}: {problem}; check targets.{target}.model ({error})"
        ),
        TargetCondition::Throttled
        | TargetCondition::Unreachable
        | TargetCondition::Failing
        | TargetCondition::Slow => diagnostic!(
            TARGET_UNHEALTHY,
            target,
            state = to.name(),
            reason = error,
            "target {target}: {problem} ({error})"
        ),
        TargetCondition::Unknown | TargetCondition::Healthy
            if from == TargetCondition::CredentialRejected =>
        {
            diagnostic!(
                CREDENTIAL_ACCEPTED,
                target,
                "target {target}: the provider accepts our API key again"
            );
        }
        TargetCondition::Unknown | TargetCondition::Healthy => {
            let (state, lasted_ms) = (from.name(), milliseconds(lasted));
            let took = format_duration(Duration::from_millis(lasted_ms));
            diagnostic!(
                TARGET_HEALTHY,
                target,
                state,
                lasted_ms,
                "target {target}: answers again after {took} ({state})"
            );
        }
    }
}

/// Reports a key that an operator should look after. A throttled one is normal, and comes back by itself.
fn report_key(target: &str, keys: usize, transition: &KeyTransition) {
    let KeyTransition { key, from, to } = *transition;
    let key = key + 1;
    let problem = key_problem(key, keys, to).unwrap_or_default();
    match (from, to) {
        (_, KeyCondition::Rejected) => diagnostic!(
            VENDOR_KEY_REJECTED,
            target,
            key,
            "target {target}: {problem}; check targets.{target}.api_keys"
        ),
        (_, KeyCondition::QuotaExhausted) => {
            diagnostic!(VENDOR_KEY_EXHAUSTED, target, key, "target {target}: {problem}");
        }
        (KeyCondition::Rejected | KeyCondition::QuotaExhausted, KeyCondition::Usable) => diagnostic!(
            VENDOR_KEY_ACCEPTED,
            target,
            key,
            "target {target}: the provider accepts API key {key} of {keys} again"
        ),
        (_, KeyCondition::Usable | KeyCondition::Throttled) => {}
    }
}

fn report_reload(keys: &str, is_changed: bool) {
    let text = match keys {
        "" if !is_changed => "no key changed; secrets and certificates were read again".to_owned(),
        "" => "no changed key takes effect now".to_owned(),
        keys => format!("changed {keys}"),
    };
    diagnostic!(SETTINGS_RELOADED, keys, "settings reloaded: {text}");
}

fn report_rejection(reason: &str, details: Option<&str>) {
    match details {
        Some(details) => diagnostic!(SETTINGS_REJECTED, details, "settings rejected, nothing changed:"),
        None => diagnostic!(SETTINGS_REJECTED, reason, "settings rejected, nothing changed: {reason}"),
    }
}

fn report_shared_store(store: &str, state: SharedStoreState, reason: &str) {
    match state {
        SharedStoreState::Reachable => diagnostic!(
            SHARED_STORE_AVAILABLE,
            store,
            reason,
            "{store} is reachable ({reason}): limits are enforced across the fleet"
        ),
        SharedStoreState::Recovering => diagnostic!(
            SHARED_STORE_RECOVERING,
            store,
            reason,
            "{store} is reachable again, but its counts are incomplete ({reason}): until the longest window has \
             passed, this node also enforces its own share of every limit"
        ),
        SharedStoreState::Unreachable => diagnostic!(
            SHARED_STORE_UNAVAILABLE,
            store,
            reason,
            "{store} is unavailable ({reason}): this node enforces its own share of every limit"
        ),
    }
}

fn report_journal(problem: Option<&str>, data_dir: Option<&Path>) {
    let Some(reason) = problem else {
        diagnostic!(JOURNAL_AVAILABLE, "the journal is writable again");
        return;
    };
    let location = data_dir.map(|path| format!(" (data directory {})", path.display())).unwrap_or_default();
    diagnostic!(
        JOURNAL_UNAVAILABLE,
        reason,
        data_dir = data_dir.map(|path| tracing::field::display(path.display())),
        "no model is called: {reason}{location}"
    );
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
