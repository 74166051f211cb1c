//! Key management: creates, changes, replaces, lists and revokes callers' keys while the gateway runs.
//!
//! The guard has authorised the request before. Without an admin credential, every local process is authorised.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use crate::diagnostic;
use crate::identity::key_management::{
    self, IssueError, KeyChange, KeyEntry, KeyList, KeyRequest, KeyRotation, KeyTermsRequest, StoredKey,
};
use seawall_config::parse_limits;
use seawall_core::budget::BudgetOwner;
use seawall_pipeline::Runtime as _;
use seawall_store::DurableStore;
use seawall_wire::bedrock::decode_path;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Creates a key. The key itself appears in this response only.
pub(super) async fn create(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let key_request: KeyRequest = body(&request)?;
    let (store, now) = (durable_store(admin)?, admin.status.runtime.now().utc);
    prepare_limits(admin, &key_request.terms).await?;
    let master = admin.status.authenticator.load_full();
    let key = key_management::create(store.as_ref(), master.master(), &key_request, now)
        .await
        .map_err(admin_error)?;
    // Log the id, which is no secret. The name is arbitrary user input and stays out.
    let (id, tier) = (&key.id, &key.tier);
    diagnostic!(KEY_CREATED, key = %id, tier = %tier, "key {id} created (tier {tier})");
    json_response(&key)
}

/// Lists all keys, without their secrets.
pub(super) async fn list(admin: &AdminState, _: AdminRequest) -> Result<AdminResponse, AdminError> {
    let store = durable_store(admin)?;
    admin.spending.refresh(&admin.status).await?;
    let stored = key_management::list(store.as_ref()).await.map_err(admin_error)?;
    json_response(&KeyList { keys: entries(admin, store.as_ref(), &stored).await? })
}

/// Changes the tier and the terms of a key at once.
pub(super) async fn update(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let (name, change): (String, KeyChange) = (name(&request)?, body(&request)?);
    let (store, now) = (durable_store(admin)?, admin.status.runtime.now().utc);
    prepare_limits(admin, &change.terms).await?;
    let tier = change.tier.as_deref();
    let changed = key_management::update(store.as_ref(), &name, tier, &change.terms, now).await;
    let changed = changed.map_err(admin_error)?;
    invalidate(admin, &changed);
    let entry = newest(admin, store.as_ref(), &changed).await?;
    let (id, tier) = (&entry.id, &entry.tier);
    diagnostic!(KEY_CHANGED, key = %id, tier = %tier, "key {id} changed (tier {tier})");
    json_response(&entry)
}

/// Replaces a key by a new one, which appears in this response only.
pub(super) async fn rotate(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let name = name(&request)?;
    let rotation: KeyRotation =
        if request.body.is_empty() { KeyRotation::default() } else { body(&request)? };
    let overlap = rotation.overlap().map_err(admin_error)?;
    let (store, now) = (durable_store(admin)?, admin.status.runtime.now().utc);
    let master = admin.status.authenticator.load_full();
    let rotated =
        key_management::rotate(store.as_ref(), master.master(), &name, rotation.aws, overlap, now).await;
    let (key, replaced) = rotated.map_err(admin_error)?;
    invalidate(admin, &replaced);
    let (id, tier) = (&key.id, &key.tier);
    diagnostic!(KEY_ROTATED, key = %id, tier = %tier, "key {id} replaces the key of the same name (tier {tier})");
    json_response(&key)
}

/// Revokes a key at once.
pub(super) async fn revoke(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let (name, store) = (name(&request)?, durable_store(admin)?);
    let now = admin.status.runtime.now().utc;
    let revoked = key_management::revoke(store.as_ref(), &name, now).await.map_err(admin_error)?;
    invalidate(admin, &revoked);
    let entry = newest(admin, store.as_ref(), &revoked).await?;
    let (id, tier) = (&entry.id, &entry.tier);
    diagnostic!(KEY_REVOKED, key = %id, tier = %tier, "key {id} revoked (tier {tier})");
    json_response(&entry)
}

/// Rate limits have to be in force before a key has them.
async fn prepare_limits(admin: &AdminState, terms: &KeyTermsRequest) -> Result<(), AdminError> {
    let limits = parse_limits(terms.limits.iter().flatten().map(String::as_str));
    let limits = limits.map_err(|error| AdminError::InvalidParameter(error.to_string()))?;
    let limits: Vec<Box<str>> = limits.into_iter().map(Into::into).collect();
    admin.running.prepare_key_limits(&limits).map_err(|error| AdminError::Conflict(error.to_string()))
}

fn invalidate(admin: &AdminState, keys: &[StoredKey]) {
    for key in keys {
        admin.status.pipeline.invalidate_caller(&key.credential.0);
    }
}

/// The last of these keys, as listed.
async fn newest(
    admin: &AdminState,
    store: &dyn DurableStore,
    keys: &[StoredKey],
) -> Result<KeyEntry, AdminError> {
    let last = keys.split_at_checked(keys.len().saturating_sub(1)).map_or(keys, |(_, last)| last);
    let missing = || AdminError::Failed("the key is missing".to_owned());
    entries(admin, store, last).await?.pop().ok_or_else(missing)
}

/// These keys with what they have used.
async fn entries(
    admin: &AdminState,
    store: &dyn DurableStore,
    keys: &[StoredKey],
) -> Result<Vec<KeyEntry>, AdminError> {
    let authenticator = admin.status.authenticator.load_full();
    let (pipeline, now) = (&admin.status.pipeline, admin.status.runtime.now().utc);
    let mut entries = Vec::with_capacity(keys.len());
    for key in keys {
        let window = |period| Some(pipeline.window_spend(BudgetOwner::Key, key.record.caller, period));
        let entry = key_management::used_key_entry(key, authenticator.pseudonyms(), store, window, now).await;
        entries.push(entry.map_err(admin_error)?);
    }
    Ok(entries)
}

fn durable_store(admin: &AdminState) -> Result<Arc<dyn DurableStore>, AdminError> {
    let memory = "store.kind is \"memory\", which cannot store keys: list them under callers.keys, or use store.kind = \"embedded\"";
    admin.status.store.clone().ok_or(AdminError::Forbidden(memory))
}

fn admin_error(error: IssueError) -> AdminError {
    match error {
        IssueError::UnknownKey(_) => AdminError::UnknownKey(error.to_string()),
        IssueError::NameInUse(_) => AdminError::Conflict(error.to_string()),
        error if error.is_bad_input() => AdminError::InvalidParameter(error.to_string()),
        error => AdminError::Failed(error.to_string()),
    }
}

fn body<T: DeserializeOwned>(request: &AdminRequest) -> Result<T, AdminError> {
    serde_json::from_slice(&request.body)
        .map_err(|error| AdminError::InvalidParameter(format!("request body: {error}")))
}

/// The name or id in the path.
fn name(request: &AdminRequest) -> Result<String, AdminError> {
    decode_segment(&request.id)
        .ok_or_else(|| AdminError::InvalidParameter("invalid percent-encoding in the key name".to_owned()))
}

fn json_response(value: &impl Serialize) -> Result<AdminResponse, AdminError> {
    serde_json::to_value(value)
        .map(AdminResponse::Json)
        .map_err(|error| AdminError::Failed(error.to_string()))
}

/// Percent-decodes one path segment.
fn decode_segment(step: &str) -> Option<String> {
    decode_path(step).and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::decode_segment;

    #[test]
    fn a_name_in_a_path_is_decoded_once_and_wholly() {
        for (step, name) in [
            ("plain", Some("plain")),
            ("a%20b%2Fc", Some("a b/c")),
            ("%E6%BC%AB", Some("漫")),
            ("%2541", Some("%41")),
            ("%4", None),
            ("%+1", None),
            ("%zz", None),
            ("%FF", None),
        ] {
            assert_eq!(decode_segment(step).as_deref(), name, "{step}");
        }
    }
}
