//! Idempotency keys.
//!
//! Claims are stored with wall-clock times because they must survive the process: a request that was done is not
//! repeated after a restart. The claim of a process that died also stays until its expiry, because its call may have
//! been made.

use super::EmbeddedStore;
use super::codec::{RowDecoder, RowEncoder, key_hash as hash_key};
use super::leases::StoredLeases;
use super::rows::{Batch, Rows, TableKind};
use crate::StoreError;
use crate::claims::{ClaimDecision, ClaimRequest, Claims};
use seawall_core::time::{Now, UtcTime};
use std::ops::Bound;
use std::time::Duration;

/// The most expired claims that are removed with each new one: more than are added, so that they do not accumulate.
const MAX_REMOVALS: usize = 4;

/// The right to process a request.
#[derive(Debug)]
pub struct EmbeddedClaim {
    key_hash: [u8; 32],
    number: u64,
    retention: Duration,
}

struct Claim {
    fingerprint: u64,
    number: u64,
    is_done: bool,
    expires: UtcTime,
}

fn row(claim: &Claim) -> Vec<u8> {
    let Claim { fingerprint, number, is_done, expires } = *claim;
    RowEncoder::default().u64(fingerprint).u64(number).byte(u8::from(is_done)).time(expires).row()
}

fn read(rows: &mut impl Rows, key_hash: &[u8]) -> Result<Option<Claim>, StoreError> {
    let Some(row) = rows.get(TableKind::Claims, key_hash)? else { return Ok(None) };
    let mut input = RowDecoder::row("claims", &row)?;
    let (fingerprint, number) = (input.u64()?, input.u64()?);
    let (is_done, expires) = (input.choice(&[false, true])?, input.time()?);
    input.end(Some(Claim { fingerprint, number, is_done, expires }))
}

fn expiry_key(expires: UtcTime, key_hash: &[u8]) -> Vec<u8> {
    RowEncoder::default().time(expires).bytes(key_hash).key()
}

fn put(batch: &mut Batch<'_>, key_hash: &[u8], claim: &Claim) -> Result<(), StoreError> {
    batch.put(TableKind::Claims, key_hash, &row(claim))?;
    batch.put(TableKind::ClaimEnds, &expiry_key(claim.expires, key_hash), &[])
}

fn remove(batch: &mut Batch<'_>, key_hash: &[u8], claim: &Claim) -> Result<(), StoreError> {
    batch.remove(TableKind::Claims, key_hash)?;
    batch.remove(TableKind::ClaimEnds, &expiry_key(claim.expires, key_hash))
}

fn remove_expired(batch: &mut Batch<'_>, now: UtcTime) -> Result<(), StoreError> {
    // A claim expires exactly at its end, not after it.
    let end = expiry_key(now + Duration::from_nanos(1), &[]);
    let bounds = (Bound::Unbounded, Bound::Excluded(end.as_slice()));
    for (key, _) in batch.range(TableKind::ClaimEnds, bounds, MAX_REMOVALS)? {
        let mut input = RowDecoder::key("claim_ends", &key);
        let (_, key_hash): (UtcTime, [u8; 32]) = (input.time()?, input.array()?);
        batch.remove(TableKind::ClaimEnds, &key)?;
        batch.remove(TableKind::Claims, &key_hash)?;
    }
    Ok(())
}

fn claim(
    batch: &mut Batch<'_>,
    leases: &mut StoredLeases,
    key_hash: [u8; 32],
    request: (u64, Duration, Duration),
    now: UtcTime,
) -> Result<ClaimDecision<EmbeddedClaim>, StoreError> {
    let (fingerprint, timeout, retention) = request;
    if let Some(existing) = read(batch, &key_hash)? {
        if existing.expires > now {
            return Ok(match existing {
                Claim { fingerprint: other, .. } if other != fingerprint => ClaimDecision::KeyReused,
                Claim { is_done: true, .. } => ClaimDecision::Completed,
                Claim { .. } => ClaimDecision::InProgress,
            });
        }
        remove(batch, &key_hash, &existing)?;
    }
    remove_expired(batch, now)?;
    let number = leases.claim_number();
    put(batch, &key_hash, &Claim { fingerprint, number, is_done: false, expires: now + timeout })?;
    Ok(ClaimDecision::Granted(EmbeddedClaim { key_hash, number, retention }))
}

/// The claim as stored, unless it has been lost.
fn find_held(
    batch: &mut Batch<'_>,
    claim: &EmbeddedClaim,
    now: UtcTime,
) -> Result<Option<Claim>, StoreError> {
    let stored = read(batch, &claim.key_hash)?;
    Ok(stored.filter(|stored| stored.number == claim.number && !stored.is_done && stored.expires > now))
}

fn finish(batch: &mut Batch<'_>, claim: &EmbeddedClaim, now: UtcTime) -> Result<(), StoreError> {
    let Some(stored) = find_held(batch, claim, now)? else { return Ok(()) };
    remove(batch, &claim.key_hash, &stored)?;
    put(batch, &claim.key_hash, &Claim { is_done: true, expires: now + claim.retention, ..stored })
}

fn release(batch: &mut Batch<'_>, claim: &EmbeddedClaim, now: UtcTime) -> Result<(), StoreError> {
    let Some(stored) = find_held(batch, claim, now)? else { return Ok(()) };
    remove(batch, &claim.key_hash, &stored)
}

impl Claims for EmbeddedStore {
    type Claim = EmbeddedClaim;

    async fn claim(
        &self,
        request: &ClaimRequest<'_>,
        now: Now,
    ) -> Result<ClaimDecision<EmbeddedClaim>, StoreError> {
        let key_hash = hash_key("claim", request.caller, request.key);
        let request = (request.fingerprint, request.timeout, request.retention);
        self.write(move |batch, leases| claim(batch, leases, key_hash, request, now.utc)).await
    }

    async fn finish(&self, claim: EmbeddedClaim, now: Now) -> Result<(), StoreError> {
        self.write(move |batch, _| finish(batch, &claim, now.utc)).await
    }

    async fn release(&self, claim: EmbeddedClaim, now: Now) -> Result<(), StoreError> {
        self.write(move |batch, _| release(batch, &claim, now.utc)).await
    }
}
