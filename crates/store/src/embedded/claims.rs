//! Idempotency keys.
//!
//! Claims are stored with wall-clock times because they must survive the process: a request that was done is not
//! repeated after a restart. The claim of a process that died also stays until its expiry, because its call may have
//! been made.

use super::EmbeddedStore;
use super::codec::{Input, Output, name_hash};
use super::rows::{Batch, Kind, Rows};
use super::shelf::Shelf;
use crate::StoreError;
use crate::claims::{ClaimAsk, ClaimDecision, Claims};
use seawall_core::time::{Now, UtcTime};
use std::ops::Bound;
use std::time::Duration;

/// The most expired claims that are removed with each new one: more than are added, so that they do not accumulate.
const FORGOTTEN_AT_ONCE: usize = 4;

/// The right to process a request.
#[derive(Debug)]
pub struct EmbeddedClaim {
    name: [u8; 32],
    number: u64,
    keep: Duration,
}

struct Claim {
    fingerprint: u64,
    number: u64,
    is_done: bool,
    until: UtcTime,
}

fn row(claim: &Claim) -> Vec<u8> {
    let Claim { fingerprint, number, is_done, until } = *claim;
    Output::default().number(fingerprint).number(number).byte(u8::from(is_done)).moment(until).row()
}

fn read(rows: &mut impl Rows, name: &[u8]) -> Result<Option<Claim>, StoreError> {
    let Some(row) = rows.get(Kind::Claims, name)? else { return Ok(None) };
    let mut input = Input::row("claims", &row)?;
    let (fingerprint, number) = (input.number()?, input.number()?);
    let (is_done, until) = (input.word(&[false, true])?, input.moment()?);
    input.end(Some(Claim { fingerprint, number, is_done, until }))
}

fn end_key(until: UtcTime, name: &[u8]) -> Vec<u8> {
    Output::default().moment(until).fixed(name).key()
}

fn put(batch: &mut Batch<'_>, name: &[u8], claim: &Claim) -> Result<(), StoreError> {
    batch.put(Kind::Claims, name, &row(claim))?;
    batch.put(Kind::ClaimEnds, &end_key(claim.until, name), &[])
}

fn remove(batch: &mut Batch<'_>, name: &[u8], claim: &Claim) -> Result<(), StoreError> {
    batch.remove(Kind::Claims, name)?;
    batch.remove(Kind::ClaimEnds, &end_key(claim.until, name))
}

fn forget_some(batch: &mut Batch<'_>, now: UtcTime) -> Result<(), StoreError> {
    // A claim expires exactly at its end, not after it.
    let end = end_key(now + Duration::from_nanos(1), &[]);
    let bounds = (Bound::Unbounded, Bound::Excluded(end.as_slice()));
    for (key, _) in batch.range(Kind::ClaimEnds, bounds, FORGOTTEN_AT_ONCE)? {
        let mut input = Input::key("claim_ends", &key);
        let (_, name): (UtcTime, [u8; 32]) = (input.moment()?, input.fixed()?);
        batch.remove(Kind::ClaimEnds, &key)?;
        batch.remove(Kind::Claims, &name)?;
    }
    Ok(())
}

fn claim(
    batch: &mut Batch<'_>,
    shelf: &mut Shelf,
    name: [u8; 32],
    ask: (u64, Duration, Duration),
    now: UtcTime,
) -> Result<ClaimDecision<EmbeddedClaim>, StoreError> {
    let (fingerprint, lasts, keep) = ask;
    if let Some(before) = read(batch, &name)? {
        if before.until > now {
            return Ok(match before {
                Claim { fingerprint: other, .. } if other != fingerprint => ClaimDecision::OtherRequest,
                Claim { is_done: true, .. } => ClaimDecision::Done,
                Claim { .. } => ClaimDecision::InProgress,
            });
        }
        remove(batch, &name, &before)?;
    }
    forget_some(batch, now)?;
    let number = shelf.claim_number();
    put(batch, &name, &Claim { fingerprint, number, is_done: false, until: now + lasts })?;
    Ok(ClaimDecision::Yours(EmbeddedClaim { name, number, keep }))
}

/// The claim as stored, unless it has been lost.
fn held(batch: &mut Batch<'_>, claim: &EmbeddedClaim, now: UtcTime) -> Result<Option<Claim>, StoreError> {
    let kept = read(batch, &claim.name)?;
    Ok(kept.filter(|kept| kept.number == claim.number && !kept.is_done && kept.until > now))
}

fn finish(batch: &mut Batch<'_>, claim: &EmbeddedClaim, now: UtcTime) -> Result<(), StoreError> {
    let Some(before) = held(batch, claim, now)? else { return Ok(()) };
    remove(batch, &claim.name, &before)?;
    put(batch, &claim.name, &Claim { is_done: true, until: now + claim.keep, ..before })
}

fn give_up(batch: &mut Batch<'_>, claim: &EmbeddedClaim, now: UtcTime) -> Result<(), StoreError> {
    let Some(before) = held(batch, claim, now)? else { return Ok(()) };
    remove(batch, &claim.name, &before)
}

impl Claims for EmbeddedStore {
    type Claim = EmbeddedClaim;

    async fn claim(&self, ask: &ClaimAsk<'_>, now: Now) -> Result<ClaimDecision<EmbeddedClaim>, StoreError> {
        let name = name_hash("claim", ask.caller, ask.name);
        let ask = (ask.fingerprint, ask.lasts, ask.keep);
        self.write(move |batch, shelf| claim(batch, shelf, name, ask, now.utc)).await
    }

    async fn finish(&self, claim: EmbeddedClaim, now: Now) -> Result<(), StoreError> {
        self.write(move |batch, _| finish(batch, &claim, now.utc)).await
    }

    async fn give_up(&self, claim: EmbeddedClaim, now: Now) -> Result<(), StoreError> {
        self.write(move |batch, _| give_up(batch, &claim, now.utc)).await
    }
}
