//! Changes the terms of keys, and replaces keys.

use super::{
    IssueError, IssuedKey, KeyTermsRequest, MasterSecret, NewCredential, StoredKey, add, find, parse_tier,
};
use seawall_core::time::UtcTime;
use seawall_store::{CallerRecord, Directory, KeyContract};
use std::time::Duration;

/// Sets the tier and the terms of a key, and of the one that it replaced. Returns them, the newest last, for cache
/// invalidation.
pub async fn update(
    directory: &dyn Directory,
    name_or_id: &str,
    tier: Option<&str>,
    terms: &KeyTermsRequest,
    now: UtcTime,
) -> Result<Vec<StoredKey>, IssueError> {
    let tier = tier.map(parse_tier).transpose()?;
    let mut keys = find(directory, name_or_id, now).await?;
    let newest = keys.len().saturating_sub(1);
    for (index, key) in keys.iter_mut().enumerate() {
        let contract = terms.apply_to(key.record.contract.clone(), now)?;
        // A key that was replaced keeps the end of its overlap.
        let expires = if index == newest { contract.expires } else { key.record.contract.expires };
        key.record.contract = KeyContract { expires, ..contract };
        key.record.tier = tier.unwrap_or(key.record.tier);
    }
    for StoredKey { credential, record } in &keys {
        directory.update(credential, record).await?;
    }
    Ok(keys)
}

/// Replaces a key by a new one of the same caller, which therefore has the same budgets and counts. The old key is accepted
/// for the overlap, so that its users can change to the new one without a rejected request. Returns the new key and the
/// replaced ones, for cache invalidation.
pub async fn rotate(
    directory: &dyn Directory,
    master: &MasterSecret,
    name_or_id: &str,
    aws: bool,
    overlap: Duration,
    now: UtcTime,
) -> Result<(IssuedKey, Vec<StoredKey>), IssueError> {
    let mut old = find(directory, name_or_id, now).await?;
    let Some(newest) = old.last().cloned() else { return Err(IssueError::UnknownKey(name_or_id.to_owned())) };
    let credential = NewCredential::generate(master, aws)?;
    let record = CallerRecord { created: now, ..newest.record };
    // The new key exists before the old one is limited: if this fails in between, both are accepted.
    let issued = add(directory, credential, &record).await?;
    let end = now + overlap;
    for key in &mut old {
        let expires = key.record.contract.expires.map_or(end, |expires| expires.min(end));
        key.record.contract.expires = Some(expires);
        directory.update(&key.credential, &key.record).await?;
    }
    Ok((issued, old))
}
