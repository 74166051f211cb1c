//! The encoding of the parts that records are made of. Reading and writing are kept side by side, so that they stay in
//! step.

use super::{EVENT, read_model};
use crate::encoding::{ByteReader, put_text, put_varint};
use crate::node_ledger::admission::{IdempotencyRecord, LimitCharge};
use crate::usage::{CallId, Certainty, UsageEvent};
use seawall_core::budget::{BudgetReservation, LeaseId, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{MAX_SCOPES, QuotaUnits};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn put_reservation(bytes: &mut Vec<u8>, reservation: &BudgetReservation) {
    let BudgetReservation { id, day, caller, tier, generation, session, input, output, max_cost, expires } =
        *reservation;
    put_varint(bytes, id.0);
    put_varint(bytes, day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(tier));
    put_varint(bytes, generation);
    bytes.push(u8::from(session.is_some()));
    if let Some(session) = session {
        bytes.extend_from_slice(&session.to_le_bytes());
    }
    for number in [input, output, max_cost.as_nanos(), expires.as_nanos()] {
        put_varint(bytes, number);
    }
}

pub(super) fn read_reservation(reader: &mut ByteReader<'_>) -> Option<BudgetReservation> {
    Some(BudgetReservation {
        id: ReservationId(reader.varint()?),
        day: reader.varint()?,
        caller: read_hash(reader)?,
        tier: read_tier(reader)?,
        generation: reader.varint()?,
        session: if reader.flag()? { Some(read_hash(reader)?) } else { None },
        input: reader.varint()?,
        output: reader.varint()?,
        max_cost: read_money(reader)?,
        expires: Timestamp::from_nanos(reader.varint()?),
    })
}

pub(super) fn put_charge(bytes: &mut Vec<u8>, LimitCharge { at, cost, scopes }: &LimitCharge) {
    put_varint(bytes, at.as_nanos());
    put_cost(bytes, *cost);
    put_varint(bytes, scopes.len() as u64);
    for (tag, key) in scopes {
        bytes.extend_from_slice(&tag.to_le_bytes());
        // A group that is shared by all callers has no key.
        bytes.push(u8::from(*key != 0));
        if *key != 0 {
            bytes.extend_from_slice(&key.to_le_bytes());
        }
    }
}

pub(super) fn read_charge(reader: &mut ByteReader<'_>) -> Option<LimitCharge> {
    let (at, cost) = (UtcTime::from_nanos(reader.varint()?), read_cost(reader)?);
    let count = reader.varint().filter(|count| *count <= MAX_SCOPES as u64)?;
    let mut scopes = SmallVec::new();
    for _ in 0..count {
        let tag = read_hash(reader)?;
        let key = if reader.flag()? { read_hash(reader).filter(|key| *key != 0)? } else { 0 };
        scopes.push((tag, key));
    }
    Some(LimitCharge { at, cost, scopes })
}

pub(super) fn put_cost(bytes: &mut Vec<u8>, QuotaUnits { requests, tokens }: QuotaUnits) {
    put_varint(bytes, requests.into());
    put_varint(bytes, tokens.into());
}

pub(super) fn read_cost(reader: &mut ByteReader<'_>) -> Option<QuotaUnits> {
    let mut number = || u32::try_from(reader.varint()?).ok();
    Some(QuotaUnits { requests: number()?, tokens: number()? })
}

pub(super) fn put_key(
    bytes: &mut Vec<u8>,
    IdempotencyRecord { key_hash, fingerprint, expires }: &IdempotencyRecord,
) {
    bytes.extend_from_slice(key_hash);
    bytes.extend_from_slice(&fingerprint.to_le_bytes());
    put_varint(bytes, expires.as_nanos());
}

pub(super) fn read_key(reader: &mut ByteReader<'_>) -> Option<IdempotencyRecord> {
    let (key_hash, fingerprint) = (reader.array()?, read_hash(reader)?);
    Some(IdempotencyRecord { key_hash, fingerprint, expires: UtcTime::from_nanos(reader.varint()?) })
}

pub(super) fn put_event(bytes: &mut Vec<u8>, event: &UsageEvent) {
    let UsageEvent { id, at, day, caller, tier, model, usage, cost, certainty } = event;
    bytes.push(EVENT);
    put_call(bytes, *id);
    put_varint(bytes, at.as_nanos());
    put_varint(bytes, *day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(*tier));
    put_text(bytes, model);
    put_usage(bytes, usage);
    put_varint(bytes, cost.as_nanos());
    bytes.push(certainty_byte(*certainty));
}

pub(super) fn read_event(reader: &mut ByteReader<'_>, last_model: &mut Arc<str>) -> Option<UsageEvent> {
    Some(UsageEvent {
        id: read_call(reader)?,
        at: UtcTime::from_nanos(reader.varint()?),
        day: reader.varint()?,
        caller: read_hash(reader)?,
        tier: read_tier(reader)?,
        model: read_model(reader, last_model)?,
        usage: read_usage(reader)?,
        cost: read_money(reader)?,
        certainty: read_certainty(reader)?,
    })
}

pub(crate) fn put_call(bytes: &mut Vec<u8>, id: CallId) {
    bytes.extend_from_slice(&id.request.to_le_bytes());
    put_varint(bytes, id.attempt.into());
}

pub(crate) fn read_call(reader: &mut ByteReader<'_>) -> Option<CallId> {
    let request = u128::from_le_bytes(reader.array()?);
    Some(CallId { request, attempt: u32::try_from(reader.varint()?).ok()? })
}

pub(super) fn put_lease(bytes: &mut Vec<u8>, lease: &LeaseId) {
    put_varint(bytes, lease.day);
    bytes.push(tier_byte(lease.tier));
    bytes.extend_from_slice(&lease.node.to_le_bytes());
    put_varint(bytes, lease.generation);
}

pub(super) fn read_lease(reader: &mut ByteReader<'_>) -> Option<LeaseId> {
    Some(LeaseId {
        day: reader.varint()?,
        tier: read_tier(reader)?,
        node: read_hash(reader)?,
        generation: reader.varint()?,
    })
}

pub(crate) fn put_usage(bytes: &mut Vec<u8>, usage: &Usage) {
    for number in [usage.input, usage.cache_read, usage.cache_write, usage.output] {
        put_varint(bytes, number);
    }
}

pub(crate) fn read_usage(reader: &mut ByteReader<'_>) -> Option<Usage> {
    Some(Usage {
        input: reader.varint()?,
        cache_read: reader.varint()?,
        cache_write: reader.varint()?,
        output: reader.varint()?,
        ..Usage::default()
    })
}

pub(crate) fn read_money(reader: &mut ByteReader<'_>) -> Option<Money> {
    reader.varint().map(Money::from_nanos)
}

/// Reads a fixed-width number. Hashes use the whole range, for which a varint would take more bytes.
pub(crate) fn read_hash(reader: &mut ByteReader<'_>) -> Option<u64> {
    reader.array().map(u64::from_le_bytes)
}

pub(crate) const fn certainty_byte(certainty: Certainty) -> u8 {
    match certainty {
        Certainty::Reported => 0,
        Certainty::Counted => 1,
        Certainty::Maximum => 2,
    }
}

pub(crate) fn read_certainty(reader: &mut ByteReader<'_>) -> Option<Certainty> {
    Certainty::ALL.get(usize::from(reader.byte()?)).copied()
}

pub(crate) const fn tier_byte(tier: Tier) -> u8 {
    match tier {
        Tier::Prime => 0,
        Tier::Standard => 1,
        Tier::Guest => 2,
    }
}

pub(crate) fn read_tier(reader: &mut ByteReader<'_>) -> Option<Tier> {
    Tier::ALL.get(usize::from(reader.byte()?)).copied()
}
