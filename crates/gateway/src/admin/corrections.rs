//! Corrections of amounts that were posted to the ledger, requested by an operator.
//!
//! If a provider reports more usage than there was, we accept it up to what is possible, and that may still be a good
//! part of a day's budget. An operator who knows the real cost of the call corrects it here. The ledger changes at
//! once, the journal preserves the correction over a restart, and the audit trail records who requested it and why,
//! including refused requests.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use super::views::caller_of_pseudonym;
use seawall_core::budget::Correction;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::Runtime as _;
use seawall_store::{ChangeDecision, ChangeOrder, CorrectionError, SwitchChange, Switches};
use serde::Deserialize;
use serde_json::json;

/// Maximum length of a reason.
const MAX_REASON: usize = 500;
/// Attempts to append a request to the audit trail when a concurrent one was written first.
const MAX_TRIES: u32 = 16;

/// The body of the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CorrectionRequest {
    /// The caller, by its pseudonym in the log: sixteen hexadecimal digits.
    caller: String,
    tier: String,
    /// Days since 1970; today if absent.
    day: Option<u64>,
    /// The posted amount, as in the log.
    charged_nanos: u64,
    /// The real cost of the call.
    cost_nanos: u64,
    reason: String,
    /// The name of the operator who requests it.
    operator: Option<String>,
}

/// Replaces a posted amount.
pub(super) async fn correct(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let request: CorrectionRequest = serde_json::from_slice(&request.body)
        .map_err(|error| AdminError::InvalidParameter(format!("request body: {error}")))?;
    let wrong = |field: &str, problem: &str| AdminError::InvalidParameter(format!("{field}: {problem}"));
    let is_hex = request.caller.len() == 16 && request.caller.bytes().all(|byte| byte.is_ascii_hexdigit());
    let caller = u64::from_str_radix(&request.caller, 16).ok().filter(|_| is_hex);
    let pseudonym = caller.ok_or_else(|| wrong("caller", "must be 16 hexadecimal digits, as in the log"))?;
    let caller = caller_of_pseudonym(admin, pseudonym);
    let tier = Tier::parse(&request.tier).map_err(|error| AdminError::InvalidParameter(error.to_string()))?;
    if request.reason.trim().is_empty() || request.reason.len() > MAX_REASON {
        return Err(wrong("reason", "is required, with at most 500 bytes"));
    }
    let now = admin.status.runtime.now().utc;
    let day = request.day.unwrap_or(now.day());
    let [charged, cost] = [request.charged_nanos, request.cost_nanos].map(Money::from_nanos);
    let correction = Correction { day, caller, tier, charged, cost };
    let corrected = admin.status.pipeline.correct_posting(&correction);
    if let Some(store) = &admin.status.store {
        let order = ChangeOrder {
            change: SwitchChange::CorrectPosting(correction),
            operator: request.operator.as_deref().unwrap_or("operator").into(),
            role: "finops".into(),
            reason: request.reason.as_str().into(),
            at: now,
            refused: corrected.is_err(),
        };
        audit(&**store, &order).await?;
    }
    corrected.map_err(|error| match error {
        CorrectionError::Refused(refusal) => AdminError::Conflict(refusal.to_string()),
        CorrectionError::Journal(error) => AdminError::Failed(error.to_string()),
    })?;
    let spend = admin.status.pipeline.caller_spend(caller);
    let (year, month, date) = UtcTime::start_of_day(day).civil();
    Ok(AdminResponse::Json(json!({
        "day": format!("{year:04}-{month:02}-{date:02}"),
        "caller": format!("{pseudonym:016x}"),
        "tier": tier.name(),
        "charged_nanos": charged.as_nanos(),
        "cost_nanos": cost.as_nanos(),
        "caller_posted_today_nanos": spend.posted.as_nanos(),
    })))
}

/// Appends a correction request to the audit trail.
async fn audit(store: &dyn Switches, order: &ChangeOrder) -> Result<(), AdminError> {
    let failed = |error: seawall_store::StoreError| {
        AdminError::Failed(format!("cannot write the audit trail: {error}"))
    };
    let mut seen = store.read().await.map_err(failed)?.version;
    for _ in 0..MAX_TRIES {
        match store.apply(order, seen).await.map_err(failed)? {
            ChangeDecision::Recorded(_) => return Ok(()),
            ChangeDecision::Outdated(state) => seen = state.version,
        }
    }
    Err(AdminError::Failed(
        "concurrent changes prevented the audit record of this correction; check GET /admin/spend before you repeat it"
            .to_owned(),
    ))
}
