//! Spend by key, team, tier, model, target, route, tag and day, from the ledger.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use crate::identity::key_management::key_id;
use crate::log::Rfc3339;
use crate::status_view::StatusView;
use seawall_config::parse_duration;
use seawall_core::money::Money;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_pipeline::callers::caller_id_of;
use seawall_pipeline::{Runtime as _, Timer as _};
use seawall_store::{CredentialHash, Directory, SpendDimension, SpendItem, SpendRow, Totals};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Minimum interval between two checkpoints for queries, because requests wait a few milliseconds for each.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The longest range of a breakdown, in days.
const MAX_DAYS: u64 = 400;

/// Brings the ledger up to date for queries.
#[derive(Debug, Default)]
pub(crate) struct SpendingQueries(Mutex<Option<Timestamp>>);

impl SpendingQueries {
    /// Lets the ledger learn of all calls that have ended, unless it has just done so.
    pub(super) async fn refresh(&self, status: &StatusView) -> Result<(), AdminError> {
        let now = status.runtime.monotonic();
        {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now - last < MIN_REFRESH_INTERVAL) {
                return Ok(());
            }
            *last = Some(now);
        }
        status.pipeline.checkpoint_ledger().map_err(failed)?;
        status.ledger.flush().await.map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> AdminError {
    AdminError::Failed(error.to_string())
}

fn dimension(name: &str) -> Option<SpendDimension> {
    Some(match name {
        "key" => SpendDimension::Caller,
        "team" => SpendDimension::Team,
        "tier" => SpendDimension::Tier,
        "model" => SpendDimension::Model,
        "target" => SpendDimension::Target,
        "route" => SpendDimension::Route,
        "tag" => SpendDimension::Tag,
        "day" => SpendDimension::Day,
        _ => return None,
    })
}

/// What was spent, by one dimension. The rows and what is unattributed add up to the total; a call with several tags is in
/// the row of each.
pub(super) async fn breakdown(
    admin: &AdminState,
    by: &str,
    request: &AdminRequest,
) -> Result<AdminResponse, AdminError> {
    let dimension = dimension(by).ok_or_else(|| {
        let message = "by must be key, team, tier, model, target, route, tag or day";
        AdminError::InvalidParameter(message.to_owned())
    })?;
    let now = admin.status.runtime.now().utc;
    let today = now.day();
    let first = request.query.get("since").map_or(Ok(today), |since| first_day(since, now))?;
    admin.spending.refresh(&admin.status).await?;
    let (ledger, days) = (&admin.status.ledger, first..today.saturating_add(1));
    let rows = ledger.spend(days.clone(), dimension).await.map_err(failed)?;
    let mut total = Totals::default();
    for row in ledger.spend(days, SpendDimension::Day).await.map_err(failed)? {
        total.join(&row.totals);
    }
    let attributed = rows.iter().fold(Totals::default(), |mut sum, row| {
        sum.join(&row.totals);
        sum
    });
    let names = if dimension == SpendDimension::Caller { key_names(admin).await? } else { BTreeMap::new() };
    let mut rows: Vec<(Money, Value)> =
        rows.iter().map(|row| (row.totals.cost, row_json(admin, row, &names))).collect();
    if dimension != SpendDimension::Day {
        rows.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    }
    Ok(AdminResponse::Json(json!({
        "by": by,
        "since": format_day(first),
        "until": Rfc3339(now).to_string(),
        "rows": rows.into_iter().map(|(_, row)| row).collect::<Vec<Value>>(),
        // Tags overlap, so that their rows have no remainder.
        "unattributed_nanos": (dimension != SpendDimension::Tag)
            .then(|| total.cost.saturating_sub(attributed.cost).as_nanos()),
        "total": totals(&total),
    })))
}

/// The first day of a range: a date, or a duration before now.
fn first_day(since: &str, now: UtcTime) -> Result<u64, AdminError> {
    let invalid = || {
        let message =
            format!("since: {since:?} is neither a date such as 2026-11-01 nor a duration such as 7d");
        AdminError::InvalidParameter(message)
    };
    let day = match seawall_config::parse_day(since) {
        Some(date) => date.day(),
        None => {
            let before = parse_duration(since).ok_or_else(invalid)?;
            let nanos = u64::try_from(before.as_nanos()).map_err(|_| invalid())?;
            UtcTime::from_nanos(now.as_nanos().saturating_sub(nanos)).day()
        }
    };
    if day > now.day() || now.day() - day > MAX_DAYS {
        let message = format!("since: must be at most {MAX_DAYS} days ago and not in the future");
        return Err(AdminError::InvalidParameter(message));
    }
    Ok(day)
}

/// The names and ids of keys, by caller. Of a key and the ones it replaced, the newest counts.
async fn key_names(admin: &AdminState) -> Result<BTreeMap<u64, (String, String)>, AdminError> {
    let mut names = BTreeMap::new();
    for (name, key) in &admin.running.settings().callers.keys {
        names.insert(caller_id_of(&key.hash), (name.clone(), key_id(&key.hash)));
    }
    let Some(store) = &admin.status.store else { return Ok(names) };
    let mut after: Option<CredentialHash> = None;
    let mut created: BTreeMap<u64, UtcTime> = BTreeMap::new();
    loop {
        let page = Directory::list(store.as_ref(), after, 1_000).await.map_err(failed)?;
        let Some((last, _)) = page.last() else { return Ok(names) };
        after = Some(*last);
        for (credential, record) in page {
            let newest = created.entry(record.caller).or_insert(record.created);
            if record.created >= *newest {
                *newest = record.created;
                names.insert(record.caller, (record.name.to_string(), key_id(&credential.0)));
            }
        }
    }
}

fn row_json(admin: &AdminState, row: &SpendRow, names: &BTreeMap<u64, (String, String)>) -> Value {
    let mut shown = totals(&row.totals);
    match &row.item {
        SpendItem::Caller(caller) => {
            let pseudonym = admin.status.authenticator.load_full().pseudonyms().encode(*caller);
            shown["caller"] = format!("{pseudonym:016x}").into();
            let (name, id) = names
                .get(caller)
                .map_or((Value::Null, Value::Null), |(name, id)| (name.as_str().into(), id.as_str().into()));
            (shown["name"], shown["key"]) = (name, id);
        }
        SpendItem::Day(day) => shown["name"] = format_day(*day).into(),
        SpendItem::Name(name) => shown["name"] = (&**name).into(),
    }
    shown
}

fn totals(totals: &Totals) -> Value {
    json!({
        "calls": totals.calls,
        "cost_nanos": totals.cost.as_nanos(),
        "input_tokens": totals.usage.input,
        "cache_read_tokens": totals.usage.cache_read,
        "cache_write_tokens": totals.usage.cache_write,
        "output_tokens": totals.usage.output,
    })
}

fn format_day(day: u64) -> String {
    let (year, month, day) = UtcTime::start_of_day(day).civil();
    format!("{year:04}-{month:02}-{day:02}")
}
