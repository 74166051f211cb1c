//! The encoding of journal records.
//!
//! One byte for the version of the encoding (1), one for the kind, then the fields in order. Numbers are varints of
//! seven bits a byte, the lowest first; texts are prefixed with their length; an optional field is preceded by one
//! byte, 0 or 1. Every record has exactly one encoding. Bytes of an unknown version or kind, truncated bytes and
//! trailing bytes are rejected: nothing is decoded that was not written.

mod parts;
#[cfg(test)]
mod tests;

#[cfg(feature = "embedded")]
pub(crate) use parts::read_labels;
pub(crate) use parts::{
    RecentNames, certainty_byte, put_call, put_labels, put_usage, read_call, read_certainty, read_hash,
    read_money, read_tier, read_usage, tier_byte,
};

use super::admission::{IdempotencyRecord, LimitCharge};
use crate::encoding::{ByteReader, put_text, put_varint};
use crate::usage::{CallId, Certainty, SpendLabels, UsageEvent};
use parts::{
    put_charge, put_cost, put_event, put_key, put_lease, put_reservation, read_charge, read_cost, read_event,
    read_key, read_lease, read_reservation,
};
use seawall_core::budget::{BudgetEntry, BudgetReservation, Correction, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::QuotaUnits;
use seawall_core::time::UtcTime;
use std::sync::Arc;

const VERSION: u8 = 1;
const RESERVED: u8 = 0;
const POSTED: u8 = 1;
const VOIDED: u8 = 2;
const EXPIRED: u8 = 3;
const LEASED: u8 = 4;
const RETURNED: u8 = 5;
const EVENT: u8 = 6;
const CALL_ASSIGNED: u8 = 7;
const CALL_STARTED: u8 = 8;
const CALL_ENDED: u8 = 9;
/// The kinds with labels. A call without labels is written as before labels existed.
const LABELLED_EVENT: u8 = 10;
const LABELLED_CALL_STARTED: u8 = 11;
const CORRECTED: u8 = 16;
const ADMITTED: u8 = 20;
const CHARGE_CORRECTED: u8 = 21;
const KEY_COMPLETED: u8 = 22;
const KEY_RELEASED: u8 = 23;

/// One record of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A change of the ledger.
    Entry(BudgetEntry),
    /// A call that has ended.
    Event(UsageEvent),
    /// The call that a reservation pays for, written together with it. After a crash, a call that is charged at its
    /// maximum cost can so still be identified.
    CallAssigned {
        /// The reservation that is annotated.
        reservation: ReservationId,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
    },
    /// A reservation and the call it pays for: the record that is written before a call.
    CallStarted {
        /// The amount that is held and its owner.
        reservation: BudgetReservation,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
        /// What the call is made for.
        labels: SpendLabels,
    },
    /// The end of a call: the record that is written after it. The owner is in the record of the beginning.
    CallEnded {
        /// The reservation that has ended.
        reservation: ReservationId,
        /// When the call ended.
        at: UtcTime,
        /// The usage of the call.
        usage: Usage,
        /// The cost of that usage.
        cost: Money,
        /// How reliable usage and cost are.
        certainty: Certainty,
    },
    /// A request was admitted: what it was charged by limits, and its idempotency key.
    Admitted {
        /// The charge to the limits.
        charge: LimitCharge,
        /// The idempotency key, where the caller sent one.
        key: Option<IdempotencyRecord>,
    },
    /// The actual usage of a request differs from what was charged.
    ChargeCorrected {
        /// The original charge.
        charge: LimitCharge,
        /// When it was corrected.
        at: UtcTime,
        /// The actual usage.
        actual: QuotaUnits,
    },
    /// The request with this idempotency key has been answered.
    KeyCompleted(IdempotencyRecord),
    /// The request with this idempotency key was not answered, which frees the key.
    KeyReleased([u8; 32]),
}

/// Bytes that are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a journal record that this version can read")]
pub struct InvalidRecord;

impl JournalRecord {
    /// The change of the ledger that this record contains, if any.
    #[must_use]
    pub const fn entry(&self) -> Option<BudgetEntry> {
        match self {
            Self::Entry(entry) => Some(*entry),
            Self::CallStarted { reservation, .. } => Some(BudgetEntry::Reserved(*reservation)),
            Self::CallEnded { reservation, usage, cost, .. } => {
                Some(BudgetEntry::Posted { id: *reservation, usage: *usage, cost: *cost })
            }
            Self::Event(_)
            | Self::CallAssigned { .. }
            | Self::Admitted { .. }
            | Self::ChargeCorrected { .. }
            | Self::KeyCompleted(_)
            | Self::KeyReleased(_) => None,
        }
    }

    /// Appends the encoded record to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(VERSION);
        match self {
            Self::Entry(BudgetEntry::Reserved(reservation)) => {
                bytes.push(RESERVED);
                put_reservation(bytes, reservation);
            }
            Self::Entry(BudgetEntry::Posted { id, usage, cost }) => {
                bytes.push(POSTED);
                put_varint(bytes, id.0);
                put_usage(bytes, usage);
                put_varint(bytes, cost.as_nanos());
            }
            Self::Entry(BudgetEntry::Voided(id)) => {
                bytes.push(VOIDED);
                put_varint(bytes, id.0);
            }
            Self::Entry(BudgetEntry::Expired(id)) => {
                bytes.push(EXPIRED);
                put_varint(bytes, id.0);
            }
            Self::Entry(BudgetEntry::Corrected { id, correction }) => {
                let Correction { day, caller, tier, charged, cost } = correction;
                bytes.push(CORRECTED);
                put_varint(bytes, id.0);
                put_varint(bytes, *day);
                bytes.extend_from_slice(&caller.to_le_bytes());
                bytes.push(tier_byte(*tier));
                put_varint(bytes, charged.as_nanos());
                put_varint(bytes, cost.as_nanos());
            }
            Self::Entry(BudgetEntry::Leased { lease, granted, returned }) => {
                bytes.push(LEASED);
                put_lease(bytes, lease);
                put_varint(bytes, granted.as_nanos());
                put_varint(bytes, returned.as_nanos());
            }
            Self::Entry(BudgetEntry::Returned { lease, total }) => {
                bytes.push(RETURNED);
                put_lease(bytes, lease);
                put_varint(bytes, total.as_nanos());
            }
            Self::Event(event) => put_event(bytes, event),
            Self::CallAssigned { reservation, id, model } => {
                bytes.push(CALL_ASSIGNED);
                put_varint(bytes, reservation.0);
                put_call(bytes, *id);
                put_text(bytes, model);
            }
            Self::CallStarted { reservation, id, model, labels } => {
                bytes.push(if labels.is_empty() { CALL_STARTED } else { LABELLED_CALL_STARTED });
                put_reservation(bytes, reservation);
                put_call(bytes, *id);
                put_text(bytes, model);
                if !labels.is_empty() {
                    put_labels(bytes, labels);
                }
            }
            Self::CallEnded { reservation, at, usage, cost, certainty } => {
                bytes.push(CALL_ENDED);
                put_varint(bytes, reservation.0);
                put_varint(bytes, at.as_nanos());
                put_usage(bytes, usage);
                put_varint(bytes, cost.as_nanos());
                bytes.push(certainty_byte(*certainty));
            }
            Self::Admitted { charge, key } => {
                bytes.push(ADMITTED);
                put_charge(bytes, charge);
                bytes.push(u8::from(key.is_some()));
                if let Some(key) = key {
                    put_key(bytes, key);
                }
            }
            Self::ChargeCorrected { charge, at, actual } => {
                bytes.push(CHARGE_CORRECTED);
                put_charge(bytes, charge);
                put_varint(bytes, at.as_nanos());
                put_cost(bytes, *actual);
            }
            Self::KeyCompleted(key) => {
                bytes.push(KEY_COMPLETED);
                put_key(bytes, key);
            }
            Self::KeyReleased(key_hash) => {
                bytes.push(KEY_RELEASED);
                bytes.extend_from_slice(key_hash);
            }
        }
    }

    /// Decodes exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let (mut reader, mut recent) = (ByteReader::new(bytes), RecentNames::default());
        read(&mut reader, &mut recent).ok_or(InvalidRecord)
    }

    /// Decodes a record that follows one with these names. Consecutive records with the same names share one allocation
    /// of each.
    #[cfg(feature = "embedded")]
    pub(crate) fn decode_after(bytes: &[u8], recent: &mut RecentNames) -> Result<Self, InvalidRecord> {
        read(&mut ByteReader::new(bytes), recent).ok_or(InvalidRecord)
    }
}

fn read(reader: &mut ByteReader<'_>, recent: &mut RecentNames) -> Option<JournalRecord> {
    if reader.byte()? != VERSION {
        return None;
    }
    let kind = reader.byte()?;
    let record = match kind {
        EVENT | LABELLED_EVENT => JournalRecord::Event(read_event(reader, kind == LABELLED_EVENT, recent)?),
        CALL_ASSIGNED => JournalRecord::CallAssigned {
            reservation: ReservationId(reader.varint()?),
            id: read_call(reader)?,
            model: recent.read_model(reader)?,
        },
        CALL_STARTED | LABELLED_CALL_STARTED => JournalRecord::CallStarted {
            reservation: read_reservation(reader)?,
            id: read_call(reader)?,
            model: recent.read_model(reader)?,
            labels: recent.read_optional_labels(reader, kind == LABELLED_CALL_STARTED)?,
        },
        CALL_ENDED => JournalRecord::CallEnded {
            reservation: ReservationId(reader.varint()?),
            at: UtcTime::from_nanos(reader.varint()?),
            usage: read_usage(reader)?,
            cost: read_money(reader)?,
            certainty: read_certainty(reader)?,
        },
        ADMITTED => JournalRecord::Admitted {
            charge: read_charge(reader)?,
            key: if reader.flag()? { Some(read_key(reader)?) } else { None },
        },
        CHARGE_CORRECTED => JournalRecord::ChargeCorrected {
            charge: read_charge(reader)?,
            at: UtcTime::from_nanos(reader.varint()?),
            actual: read_cost(reader)?,
        },
        KEY_COMPLETED => JournalRecord::KeyCompleted(read_key(reader)?),
        KEY_RELEASED => JournalRecord::KeyReleased(reader.array()?),
        _ => JournalRecord::Entry(read_entry(kind, reader)?),
    };
    reader.end()?;
    Some(record)
}

fn read_entry(kind: u8, reader: &mut ByteReader<'_>) -> Option<BudgetEntry> {
    Some(match kind {
        RESERVED => BudgetEntry::Reserved(read_reservation(reader)?),
        POSTED => BudgetEntry::Posted {
            id: ReservationId(reader.varint()?),
            usage: read_usage(reader)?,
            cost: read_money(reader)?,
        },
        VOIDED => BudgetEntry::Voided(ReservationId(reader.varint()?)),
        EXPIRED => BudgetEntry::Expired(ReservationId(reader.varint()?)),
        CORRECTED => BudgetEntry::Corrected {
            id: ReservationId(reader.varint()?),
            correction: Correction {
                day: reader.varint()?,
                caller: read_hash(reader)?,
                tier: read_tier(reader)?,
                charged: read_money(reader)?,
                cost: read_money(reader)?,
            },
        },
        LEASED => BudgetEntry::Leased {
            lease: read_lease(reader)?,
            granted: read_money(reader)?,
            returned: read_money(reader)?,
        },
        RETURNED => BudgetEntry::Returned { lease: read_lease(reader)?, total: read_money(reader)? },
        _ => return None,
    })
}
