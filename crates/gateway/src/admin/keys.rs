//! Key management: creates, lists and revokes callers' keys while the gateway runs.
//!
//! The guard has authorised the request before. Without an admin credential, every local process is authorised.

use super::Admin;
use super::answer::{AdminError, Answer};
use super::routes::Asked;
use crate::identity::issue::{self, IssueError, KeyAsk, KeyList};
use seawall_pipeline::Runtime as _;
use seawall_store::embedded::EmbeddedStore;
use serde::Serialize;
use std::sync::Arc;

/// Creates a key. The key itself appears in this response only.
pub(super) async fn create(admin: &Admin, asked: Asked) -> Result<Answer, AdminError> {
    let ask: KeyAsk = serde_json::from_slice(&asked.body)
        .map_err(|error| AdminError::Parameter(format!("the body: {error}")))?;
    let (store, now) = (folder(admin)?, admin.sight.runtime.now().utc);
    let master = admin.sight.gate.load_full();
    let key = issue::create(store.as_ref(), master.master(), &ask, now).await.map_err(refused)?;
    // Log the id, which is no secret. The name is arbitrary user input and stays out.
    eprintln!("seawall: key {} created (tier {})", key.id, key.tier);
    told(&key)
}

/// Lists all keys, without their secrets.
pub(super) async fn list(admin: &Admin, _: Asked) -> Result<Answer, AdminError> {
    let keys = issue::list(folder(admin)?.as_ref(), admin.sight.gate.load_full().pseudonyms())
        .await
        .map_err(refused)?;
    told(&KeyList { keys })
}

/// Revokes a key at once.
pub(super) async fn revoke(admin: &Admin, asked: Asked) -> Result<Answer, AdminError> {
    let name = decoded(&asked.id)
        .ok_or_else(|| AdminError::Parameter("the name in the path cannot be read".to_owned()))?;
    let now = admin.sight.runtime.now().utc;
    let gate = admin.sight.gate.load_full();
    let revoked = issue::revoke(folder(admin)?.as_ref(), gate.pseudonyms(), &name, now).await;
    let (key, hash) = revoked.map_err(refused)?;
    admin.sight.path.forget_caller(&hash);
    eprintln!("seawall: key {} revoked (tier {})", key.id, key.tier);
    told(&key)
}

fn folder(admin: &Admin) -> Result<Arc<EmbeddedStore>, AdminError> {
    let memory = "state is kept in memory, where keys would end with the process: list them in settings";
    admin.sight.store.clone().ok_or(AdminError::Forbidden(memory))
}

fn refused(error: IssueError) -> AdminError {
    match error {
        IssueError::Unknown(_) => AdminError::NoSuchThing(error.to_string()),
        IssueError::Taken(_) => AdminError::Taken(error.to_string()),
        error if error.is_bad_input() => AdminError::Parameter(error.to_string()),
        error => AdminError::Failed(error.to_string()),
    }
}

fn told(value: &impl Serialize) -> Result<Answer, AdminError> {
    serde_json::to_value(value).map(Answer::Json).map_err(|error| AdminError::Failed(error.to_string()))
}

/// Percent-decodes one path segment.
fn decoded(step: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), step.as_bytes());
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        // `from_str_radix` would accept a sign.
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::decoded;

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
            assert_eq!(decoded(step).as_deref(), name, "{step}");
        }
    }
}
