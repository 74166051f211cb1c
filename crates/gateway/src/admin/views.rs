//! The state of the gateway as JSON. Field names are a stable interface: `docs/admin.md` lists them.

use super::Admin;
use super::answer::{AdminError, Answer};
use super::routes::Asked;
use crate::keeper::Kept;
use crate::log::{Rfc3339, SHOWN, write_line};
use crate::metrics::{CONTENT_TYPE, queue_outcomes};
use seawall_config::{Needs, listed, unfollowed};
use seawall_core::breaker::{BreakerMode, BreakerPeek, BreakerPhase, RejectReason};
use seawall_core::budget::Account;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Priority, Tier};
use seawall_pipeline::{Runtime as _, TargetStatus};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The default number of requests shown.
const USUALLY_SHOWN: usize = 50;

/// The status of the gateway.
pub(super) async fn status(admin: &Admin, _: Asked) -> Result<Answer, AdminError> {
    let sight = &admin.sight;
    let now = sight.runtime.now().utc;
    let uptime = sight.uptime();
    let since_epoch = Duration::from_nanos(now.as_nanos()).saturating_sub(uptime);
    let written = sight.written.load();
    let ignored: Vec<String> = written
        .as_ref()
        .map(|written| unfollowed(written).into_iter().map(|change| change.key).collect())
        .unwrap_or_default();
    Ok(Answer::Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "time": Rfc3339(now).to_string(),
        "started": Rfc3339(UtcTime::from_nanos(0) + since_epoch).to_string(),
        "uptime_ms": millis(uptime),
        "addresses": {
            "server": sight.address.get().map(ToString::to_string),
            "admin": admin.address.to_string(),
        },
        "state": state(&sight.kept),
        "draining": sight.is_draining(),
        "requests": sight.metrics.requests(),
        "log_lines_lost": sight.metrics.lines_lost(),
        "level": sight.path.level().name(),
        "not_followed": ignored,
    })))
}

fn state(kept: &Kept) -> Value {
    let Kept::Folder { path, report } = kept else { return json!({ "kind": "memory" }) };
    let charged = report.charged.iter().fold(Money::ZERO, |sum, call| sum.saturating_add(call.cost));
    let cut = report
        .cut
        .as_ref()
        .map(|(file, bytes)| json!({ "file": file.display().to_string(), "bytes": bytes }));
    json!({
        "kind": "folder",
        "path": path.display().to_string(),
        "created": report.created,
        "replayed": report.replayed,
        "charged_calls": report.charged.len(),
        "charged_nanos": charged.as_nanos(),
        "cut": cut,
    })
}

/// The status of every target.
pub(super) async fn targets(admin: &Admin, _: Asked) -> Result<Answer, AdminError> {
    let targets: Vec<Value> = admin.sight.path.targets().iter().map(target).collect();
    Ok(Answer::Json(json!({ "targets": targets })))
}

fn target(target: &TargetStatus) -> Value {
    let TargetStatus { queue, starts: (started, half, most), .. } = target;
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
        "credential": target.credential.label(),
        "pressure": target.pressure.label(),
        "pacing": {
            "held_back_ms": millis(target.pacing.held_for),
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
        "overruns": { "count": target.overruns.0, "set_aside_ms": target.overruns.1.map(millis) },
        "starts": { "count": started, "half_within_ms": half.map(millis), "most_within_ms": most.map(millis) },
    })
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
    let blocks = peek.rejects.map(|reason| match reason {
        RejectReason::Open(trip) => trip.label(),
        RejectReason::ProbesTaken => "probes_taken",
        RejectReason::ForcedOpen => "forced_open",
    });
    json!({
        "phase": phase,
        "stage": stage,
        "mode": mode,
        "blocks_because": blocks,
        "retry_after_ms": peek.retry_after.map(millis),
        "open_for_one_caller": peek.is_open_for_one,
    })
}

/// The remaining quota of one caller.
pub(super) async fn limits(admin: &Admin, asked: Asked) -> Result<Answer, AdminError> {
    let (Some(caller), Some(tier)) = (asked.query.caller()?, asked.query.tier()?) else {
        let message = "write ?caller=HEX&tier=NAME: limits belong to a caller of a tier";
        return Err(AdminError::Parameter(message.to_owned()));
    };
    let limits = admin.sight.path.limits_of(caller_called(admin, caller), tier).await;
    let limits: Vec<Value> = limits
        .iter()
        .map(|status| {
            json!({ "limit": &*status.limit, "capacity": status.view.capacity, "remaining": status.view.remaining })
        })
        .collect();
    Ok(Answer::Json(json!({ "caller": hex(caller), "tier": tier.name(), "limits": limits })))
}

/// Today's spend and budget, in total or of one caller.
pub(super) async fn spend(admin: &Admin, asked: Asked) -> Result<Answer, AdminError> {
    let spend = admin.sight.path.spend();
    let mut answer = match asked.query.caller()? {
        Some(caller) => {
            let mut own =
                account(spend.caller_cap, &admin.sight.path.caller_day(caller_called(admin, caller)));
            own.insert("caller".to_owned(), hex(caller).into());
            own
        }
        None => {
            let mut all = account(spend.cap, &spend.all);
            let tier = |(tier, (cap, of_tier)): (Tier, (Money, Account))| {
                (tier.name().to_owned(), account(cap, &of_tier).into())
            };
            let tiers: Map<String, Value> = Tier::ALL.into_iter().zip(spend.tiers).map(tier).collect();
            all.insert("tiers".to_owned(), tiers.into());
            all.insert("overrun_nanos".to_owned(), spend.overrun.as_nanos().into());
            all
        }
    };
    let (year, month, day) = UtcTime::start_of_day(spend.day).civil();
    answer.insert("day".to_owned(), format!("{year:04}-{month:02}-{day:02}").into());
    Ok(Answer::Json(answer.into()))
}

fn account(cap: Money, account: &Account) -> Map<String, Value> {
    let nanos = |name: &str, money: Money| (name.to_owned(), money.as_nanos().into());
    Map::from_iter([
        nanos("cap_nanos", cap),
        nanos("posted_nanos", account.posted),
        nanos("held_nanos", account.held),
        nanos("left_nanos", account.free(cap)),
    ])
}

/// The most recently completed requests, as in the log.
pub(super) async fn requests(admin: &Admin, asked: Asked) -> Result<Answer, AdminError> {
    let records = admin.sight.recent.newest(asked.query.most(USUALLY_SHOWN, SHOWN)?);
    let now = admin.sight.runtime.now();
    let gate = admin.sight.gate.load();
    let shown = records.iter().filter_map(|record| {
        let mut line = String::new();
        write_line(&mut line, record, now, |caller| gate.pseudonyms().shown(caller));
        serde_json::from_str::<Value>(&line).ok()
    });
    Ok(Answer::Json(json!({ "requests": shown.collect::<Vec<_>>() })))
}

/// The settings in force, and the source of each.
pub(super) async fn settings(admin: &Admin, _: Asked) -> Result<Answer, AdminError> {
    let written = admin.sight.written.load();
    let keys = written.as_ref().map(listed).unwrap_or_default();
    let keys: Vec<Value> = keys
        .into_iter()
        .map(|key| {
            let needs = match key.needs {
                Needs::Live => "live",
                Needs::Restart => "restart",
                Needs::NotYet => "not_yet",
            };
            json!({ "key": key.key, "value": key.value, "origin": key.origin, "changes": needs })
        })
        .collect();
    Ok(Answer::Json(json!({ "settings": keys })))
}

/// The metrics page, unless it is switched off.
pub(super) async fn metrics(admin: &Admin, _: Asked) -> Result<Answer, AdminError> {
    if !admin.sight.serves_metrics.admin() {
        return Err(AdminError::NotFound);
    }
    Ok(Answer::Text(CONTENT_TYPE, admin.sight.metrics()))
}

/// The caller that has this pseudonym in the log.
pub(super) fn caller_called(admin: &Admin, pseudonym: u64) -> u64 {
    admin.sight.gate.load().pseudonyms().caller(pseudonym)
}

fn hex(caller: u64) -> String {
    format!("{caller:016x}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
