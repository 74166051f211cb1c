//! The status of targets as JSON: their health, protections and keys.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use super::views::millis;
use crate::log::Rfc3339;
use crate::metrics::queue_outcomes;
use seawall_core::breaker::{BreakerMode, BreakerPeek, BreakerPhase, RejectReason};
use seawall_core::health::LastError;
use seawall_core::key_pool::KeyView;
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Priority;
use seawall_pipeline::{Runtime as _, TargetHealthStatus, TargetStatus};
use serde_json::{Map, Value, json};

/// The status of every target.
pub(super) async fn targets(admin: &AdminState, _: AdminRequest) -> Result<AdminResponse, AdminError> {
    let now = admin.status.runtime.now().monotonic;
    let targets: Vec<Value> =
        admin.status.pipeline.targets().iter().map(|status| target(status, now)).collect();
    Ok(AdminResponse::Json(json!({ "targets": targets })))
}

fn target(target: &TargetStatus, at: Timestamp) -> Value {
    let TargetStatus { queue, time_to_first_content: (started, p50, p95), .. } = target;
    let by_class: Map<String, Value> = Priority::ALL
        .iter()
        .zip(queue.by_class)
        .map(|(class, size)| (class.name().to_owned(), size.into()))
        .collect();
    let outcomes: Map<String, Value> = queue_outcomes(queue)
        .into_iter()
        .map(|(outcome, count)| (outcome.to_owned(), count.into()))
        .collect();
    let (now, limit, peak) = target.in_flight;
    json!({
        "name": &*target.name,
        "model": &*target.model,
        "grade": target.grade.name(),
        "routes": target.routes.iter().map(|route| &**route).collect::<Vec<&str>>(),
        "breaker": breaker(&target.breaker),
        "panic_calls": target.panic_calls,
        "health": health(&target.health, at),
        "keys": target.keys.iter().zip(1..).map(|(view, number)| key(number, view)).collect::<Vec<_>>(),
        "credential": target.health.credential.label(),
        "pressure": target.pressure.label(),
        "pacing": {
            "retry_after_ms": millis(target.pacing.retry_after),
            "calls_per_second": target.pacing.rate,
            "waiting": target.pacing.waiting,
        },
        "in_flight": { "now": now, "limit": limit, "peak": peak },
        "queue": {
            "size": queue.size,
            "capacity": queue.capacity,
            "by_class": by_class,
            "oldest_ms": millis(queue.oldest_wait),
            "entered": queue.entered,
            "outcomes": outcomes,
        },
        "overruns": { "count": target.overruns.0, "suspended_ms": target.overruns.1.map(millis) },
        "time_to_first_content": { "count": started, "p50_ms": p50.map(millis), "p95_ms": p95.map(millis) },
    })
}

fn health(health: &TargetHealthStatus, now: Timestamp) -> Value {
    json!({
        "state": health.condition.name(),
        "since": health.since.map(time),
        "for_ms": health.since.map(|since| millis(now - since.monotonic)),
        "count": health.occurrences,
        "last_error": health.last_error.as_ref().map(last_error),
    })
}

/// A key by its number. What it is stays in the settings.
fn key(number: u32, view: &KeyView) -> Value {
    json!({
        "n": number,
        "state": view.condition.name(),
        // The time of the process start stands for a key that never failed.
        "since": (view.since != Now::default()).then(|| time(view.since)),
        "set_aside_ms": view.set_aside_for.map(millis),
        "count": view.occurrences,
        "last_error": view.last_error.as_ref().map(last_error),
    })
}

fn last_error(error: &LastError) -> Value {
    json!({ "at": time(error.at), "text": &*error.text })
}

fn time(at: Now) -> String {
    Rfc3339(at.utc).to_string()
}

fn breaker(peek: &BreakerPeek) -> Value {
    let (phase, stage) = match peek.phase {
        BreakerPhase::Closed => ("closed", None),
        BreakerPhase::Open => ("open", None),
        BreakerPhase::HalfOpen { stage } => ("half_open", Some(stage)),
    };
    let mode = match peek.mode {
        BreakerMode::Automatic => "automatic",
        BreakerMode::Observing => "observing",
        BreakerMode::ForcedOpen => "forced_open",
        BreakerMode::ForcedClosed => "forced_closed",
    };
    let reject_reason = peek.rejects.map(|reason| match reason {
        RejectReason::Open(trip) => trip.label(),
        RejectReason::ProbesInFlight => "probes_in_flight",
        RejectReason::ForcedOpen => "forced_open",
    });
    json!({
        "phase": phase,
        "stage": stage,
        "mode": mode,
        "reject_reason": reject_reason,
        "retry_after_ms": peek.retry_after.map(millis),
        "open_for_one_caller": peek.is_open_for_one_caller,
    })
}
