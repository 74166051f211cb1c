//! Key management: creates, lists and revokes callers' keys while the gateway runs.
//!
//! The guard has authorised the request before. Without an admin credential, every local process is authorised.

use super::AdminState;
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use crate::diagnostic;
use crate::identity::key_management::{self, IssueError, KeyList, KeyRequest};
use seawall_pipeline::Runtime as _;
use seawall_store::DurableStore;
use seawall_wire::bedrock::decode_path;
use serde::Serialize;
use std::sync::Arc;

/// Creates a key. The key itself appears in this response only.
pub(super) async fn create(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let key_request: KeyRequest = serde_json::from_slice(&request.body)
        .map_err(|error| AdminError::InvalidParameter(format!("request body: {error}")))?;
    let (store, now) = (durable_store(admin)?, admin.status.runtime.now().utc);
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
    let keys = key_management::list(
        durable_store(admin)?.as_ref(),
        admin.status.authenticator.load_full().pseudonyms(),
    )
    .await
    .map_err(admin_error)?;
    json_response(&KeyList { keys })
}

/// Revokes a key at once.
pub(super) async fn revoke(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let name = decode_segment(&request.id)
        .ok_or_else(|| AdminError::InvalidParameter("invalid percent-encoding in the key name".to_owned()))?;
    let now = admin.status.runtime.now().utc;
    let authenticator = admin.status.authenticator.load_full();
    let revoked =
        key_management::revoke(durable_store(admin)?.as_ref(), authenticator.pseudonyms(), &name, now).await;
    let (key, hash) = revoked.map_err(admin_error)?;
    admin.status.pipeline.invalidate_caller(&hash);
    let (id, tier) = (&key.id, &key.tier);
    diagnostic!(KEY_REVOKED, key = %id, tier = %tier, "key {id} revoked (tier {tier})");
    json_response(&key)
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
