//! The state of the gateway as JSON. Field names are a stable interface: `docs/admin.md` lists them.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use super::spending;
use crate::log::{ACCESS_LOG, Rfc3339};
use crate::metrics::CONTENT_TYPE;
use crate::store_maintenance::StorageReport;
use seawall_config::{Activation, effective_settings, unimplemented_settings};
use seawall_core::budget::BudgetAccount;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::Runtime as _;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The status of the gateway.
pub(super) async fn status(admin: &AdminState, _: AdminRequest) -> Result<AdminResponse, AdminError> {
    let status = &admin.status;
    let now = status.runtime.now().utc;
    let uptime = status.uptime();
    let since_epoch = Duration::from_nanos(now.as_nanos()).saturating_sub(uptime);
    let written = status.settings.load();
    let unimplemented: Vec<String> = written
        .as_ref()
        .map(|input| unimplemented_settings(input).into_iter().map(|change| change.key).collect())
        .unwrap_or_default();
    Ok(AdminResponse::Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "time": Rfc3339(now).to_string(),
        "started": Rfc3339(UtcTime::from_nanos(0) + since_epoch).to_string(),
        "uptime_ms": millis(uptime),
        "addresses": {
            "server": status.address.to_string(),
            "admin": admin.address.to_string(),
        },
        "store": store(&status.storage),
        "draining": status.is_draining(),
        "requests": status.metrics.requests(),
        "log_lines_dropped": status.recent.dropped(ACCESS_LOG),
        "level": status.pipeline.level().name(),
        "unimplemented_settings": unimplemented,
    })))
}

fn store(storage: &StorageReport) -> Value {
    let StorageReport::DataDir { kind, path, report } = storage else { return json!({ "kind": "memory" }) };
    let truncated = report
        .truncated
        .as_ref()
        .map(|(file, bytes)| json!({ "file": file.display().to_string(), "bytes": bytes }));
    json!({
        "kind": kind.name(),
        "data_dir": path.display().to_string(),
        "created": report.created,
        "replayed": report.replayed,
        "charged_calls": report.charged.len(),
        "charged_nanos": report.charged_cost().as_nanos(),
        "truncated": truncated,
    })
}

/// The remaining quota of one caller.
pub(super) async fn limits(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let (Some(caller), Some(tier)) = (request.query.caller()?, request.query.tier()?) else {
        let message = "caller and tier are required: ?caller=HEX&tier=NAME";
        return Err(AdminError::InvalidParameter(message.to_owned()));
    };
    let limits = admin.status.pipeline.limits_of(caller_of_pseudonym(admin, caller), tier).await;
    let limits: Vec<Value> = limits
        .iter()
        .map(|status| {
            json!({ "limit": &*status.limit, "capacity": status.view.capacity, "remaining": status.view.remaining })
        })
        .collect();
    Ok(AdminResponse::Json(json!({ "caller": hex(caller), "tier": tier.name(), "limits": limits })))
}

/// Today's spend and budget, in total or of one caller; with `by`, a breakdown of any days.
pub(super) async fn spend(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    match (request.query.get("by"), request.query.get("since"), request.query.caller()?) {
        (Some(by), _, None) => return spending::breakdown(admin, by, &request).await,
        (None, None, _) => {}
        // A parameter without effect would look like an answer to another question.
        (Some(_), _, Some(_)) => {
            return Err(AdminError::InvalidParameter("by and caller exclude each other".to_owned()));
        }
        (None, Some(_), _) => return Err(AdminError::InvalidParameter("since requires by".to_owned())),
    }
    let spend = admin.status.pipeline.spend();
    let mut answer = match request.query.caller()? {
        Some(caller) => {
            let mut own = account(
                spend.caller_cap,
                &admin.status.pipeline.caller_spend(caller_of_pseudonym(admin, caller)),
            );
            own.insert("caller".to_owned(), hex(caller).into());
            own
        }
        None => {
            let mut all = account(spend.cap, &spend.all);
            let tier = |(tier, (cap, of_tier)): (Tier, (Money, BudgetAccount))| {
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
    Ok(AdminResponse::Json(answer.into()))
}

fn account(cap: Money, account: &BudgetAccount) -> Map<String, Value> {
    let nanos = |name: &str, money: Money| (name.to_owned(), money.as_nanos().into());
    Map::from_iter([
        nanos("cap_nanos", cap),
        nanos("posted_nanos", account.posted),
        nanos("held_nanos", account.held),
        nanos("remaining_nanos", account.available(cap)),
    ])
}

/// The settings in force, and the source of each.
pub(super) async fn settings(admin: &AdminState, _: AdminRequest) -> Result<AdminResponse, AdminError> {
    let written = admin.status.settings.load();
    let keys = written.as_ref().map(effective_settings).unwrap_or_default();
    let keys: Vec<Value> = keys
        .into_iter()
        .map(|key| {
            let applies = match key.activation {
                Activation::Live => "live",
                Activation::Restart => "restart",
                Activation::NotImplemented => "not_implemented",
            };
            json!({ "key": key.key, "value": key.value, "origin": key.origin, "applies": applies })
        })
        .collect();
    Ok(AdminResponse::Json(json!({ "settings": keys })))
}

/// The metrics page, unless it is switched off.
pub(super) async fn metrics(admin: &AdminState, _: AdminRequest) -> Result<AdminResponse, AdminError> {
    if !admin.status.metrics_listeners.admin() {
        return Err(AdminError::NotFound);
    }
    Ok(AdminResponse::Text(CONTENT_TYPE, admin.status.metrics()))
}

/// The caller that has this pseudonym in the log.
pub(super) fn caller_of_pseudonym(admin: &AdminState, pseudonym: u64) -> u64 {
    admin.status.authenticator.load().pseudonyms().decode(pseudonym)
}

fn hex(caller: u64) -> String {
    format!("{caller:016x}")
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
