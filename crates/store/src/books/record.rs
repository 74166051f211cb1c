//! The encoding of journal records.
//!
//! One byte for the version of the encoding (1), one for the kind, then the fields in order. Numbers are varints of
//! seven bits a byte, the lowest first; texts are prefixed with their length; an optional field is preceded by one
//! byte, 0 or 1. Every record has exactly one encoding. Bytes of an unknown version or kind, truncated bytes and
//! trailing bytes are rejected: nothing is decoded that was not written.

mod parts;
#[cfg(test)]
mod tests;

pub(crate) use parts::{
    certainty_byte, put_call, put_usage, read_call, read_certainty, read_hash, read_money, read_tier,
    read_usage, tier_byte,
};

use super::counted::{LimitCharge, NameMark};
use crate::encoding::{Reader, put_number, put_text};
use crate::usage::{CallId, Certainty, UsageEvent};
use parts::{
    put_charge, put_cost, put_event, put_lease, put_name, put_reservation, read_charge, read_cost,
    read_event, read_lease, read_name, read_reservation,
};
use seawall_core::budget::{Correction, Entry, Reservation, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::Cost;
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
const ATTEMPT: u8 = 7;
const BEGUN: u8 = 8;
const ENDED: u8 = 9;
const CORRECTED: u8 = 16;
const COUNTED: u8 = 20;
const RECOUNTED: u8 = 21;
const DONE: u8 = 22;
const RELEASED: u8 = 23;

/// One record of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A change of the books.
    Entry(Entry),
    /// A call that has ended.
    Event(UsageEvent),
    /// The call that a reservation pays for, written together with it. After a crash, a call that is charged at its
    /// worst-case cost can so still be identified.
    Attempt {
        /// The reservation that is annotated.
        reservation: ReservationId,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
    },
    /// A reservation and the call it pays for: the record that is written before a call.
    Begun {
        /// The amount that is held and its owner.
        reservation: Reservation,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
    },
    /// The end of a call: the record that is written after it. The owner is in the record of the beginning.
    Ended {
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
    /// A request was admitted: what it has taken from limits, and its idempotency key.
    Counted {
        /// The charge to the limits.
        charge: LimitCharge,
        /// The idempotency key, where the caller sent one.
        name: Option<NameMark>,
    },
    /// The actual usage of a request differs from what was charged.
    Recounted {
        /// The original charge.
        charge: LimitCharge,
        /// When it was corrected.
        at: UtcTime,
        /// The actual usage.
        actual: Cost,
    },
    /// The request with this idempotency key has been answered.
    Done(NameMark),
    /// The request with this idempotency key was not answered, which frees the key.
    Released([u8; 32]),
}

/// Bytes that are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no record of a journal that this version writes")]
pub struct NoRecord;

impl JournalRecord {
    /// The change of the books that this record contains, if any.
    #[must_use]
    pub const fn entry(&self) -> Option<Entry> {
        match self {
            Self::Entry(entry) => Some(*entry),
            Self::Begun { reservation, .. } => Some(Entry::Reserved(*reservation)),
            Self::Ended { reservation, usage, cost, .. } => {
                Some(Entry::Posted { id: *reservation, usage: *usage, cost: *cost })
            }
            Self::Event(_)
            | Self::Attempt { .. }
            | Self::Counted { .. }
            | Self::Recounted { .. }
            | Self::Done(_)
            | Self::Released(_) => None,
        }
    }

    /// Appends the encoded record to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(VERSION);
        match self {
            Self::Entry(Entry::Reserved(reservation)) => {
                bytes.push(RESERVED);
                put_reservation(bytes, reservation);
            }
            Self::Entry(Entry::Posted { id, usage, cost }) => {
                bytes.push(POSTED);
                put_number(bytes, id.0);
                put_usage(bytes, usage);
                put_number(bytes, cost.as_nanos());
            }
            Self::Entry(Entry::Voided(id)) => {
                bytes.push(VOIDED);
                put_number(bytes, id.0);
            }
            Self::Entry(Entry::Expired(id)) => {
                bytes.push(EXPIRED);
                put_number(bytes, id.0);
            }
            Self::Entry(Entry::Corrected { id, correction }) => {
                let Correction { day, caller, tier, charged, cost } = correction;
                bytes.push(CORRECTED);
                put_number(bytes, id.0);
                put_number(bytes, *day);
                bytes.extend_from_slice(&caller.to_le_bytes());
                bytes.push(tier_byte(*tier));
                put_number(bytes, charged.as_nanos());
                put_number(bytes, cost.as_nanos());
            }
            Self::Entry(Entry::Leased { lease, granted, returned }) => {
                bytes.push(LEASED);
                put_lease(bytes, lease);
                put_number(bytes, granted.as_nanos());
                put_number(bytes, returned.as_nanos());
            }
            Self::Entry(Entry::Returned { lease, total }) => {
                bytes.push(RETURNED);
                put_lease(bytes, lease);
                put_number(bytes, total.as_nanos());
            }
            Self::Event(event) => put_event(bytes, event),
            Self::Attempt { reservation, id, model } => {
                bytes.push(ATTEMPT);
                put_number(bytes, reservation.0);
                put_call(bytes, *id);
                put_text(bytes, model);
            }
            Self::Begun { reservation, id, model } => {
                bytes.push(BEGUN);
                put_reservation(bytes, reservation);
                put_call(bytes, *id);
                put_text(bytes, model);
            }
            Self::Ended { reservation, at, usage, cost, certainty } => {
                bytes.push(ENDED);
                put_number(bytes, reservation.0);
                put_number(bytes, at.as_nanos());
                put_usage(bytes, usage);
                put_number(bytes, cost.as_nanos());
                bytes.push(certainty_byte(*certainty));
            }
            Self::Counted { charge, name } => {
                bytes.push(COUNTED);
                put_charge(bytes, charge);
                bytes.push(u8::from(name.is_some()));
                if let Some(name) = name {
                    put_name(bytes, name);
                }
            }
            Self::Recounted { charge, at, actual } => {
                bytes.push(RECOUNTED);
                put_charge(bytes, charge);
                put_number(bytes, at.as_nanos());
                put_cost(bytes, *actual);
            }
            Self::Done(name) => {
                bytes.push(DONE);
                put_name(bytes, name);
            }
            Self::Released(name) => {
                bytes.push(RELEASED);
                bytes.extend_from_slice(name);
            }
        }
    }

    /// Decodes exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoRecord> {
        let (mut reader, mut name) = (Reader::new(bytes), Arc::default());
        read(&mut reader, &mut name).ok_or(NoRecord)
    }

    /// Decodes a record that follows one with this model. Consecutive records of the same model share one allocation of
    /// its name.
    #[cfg(feature = "embedded")]
    pub(crate) fn decode_after(bytes: &[u8], last_model: &mut Arc<str>) -> Result<Self, NoRecord> {
        read(&mut Reader::new(bytes), last_model).ok_or(NoRecord)
    }
}

fn read(reader: &mut Reader<'_>, last_model: &mut Arc<str>) -> Option<JournalRecord> {
    if reader.byte()? != VERSION {
        return None;
    }
    let kind = reader.byte()?;
    let record = match kind {
        EVENT => JournalRecord::Event(read_event(reader, last_model)?),
        ATTEMPT => JournalRecord::Attempt {
            reservation: ReservationId(reader.number()?),
            id: read_call(reader)?,
            model: read_model(reader, last_model)?,
        },
        BEGUN => JournalRecord::Begun {
            reservation: read_reservation(reader)?,
            id: read_call(reader)?,
            model: read_model(reader, last_model)?,
        },
        ENDED => JournalRecord::Ended {
            reservation: ReservationId(reader.number()?),
            at: UtcTime::from_nanos(reader.number()?),
            usage: read_usage(reader)?,
            cost: read_money(reader)?,
            certainty: read_certainty(reader)?,
        },
        COUNTED => JournalRecord::Counted {
            charge: read_charge(reader)?,
            name: if reader.flag()? { Some(read_name(reader)?) } else { None },
        },
        RECOUNTED => JournalRecord::Recounted {
            charge: read_charge(reader)?,
            at: UtcTime::from_nanos(reader.number()?),
            actual: read_cost(reader)?,
        },
        DONE => JournalRecord::Done(read_name(reader)?),
        RELEASED => JournalRecord::Released(reader.array()?),
        _ => JournalRecord::Entry(read_entry(kind, reader)?),
    };
    reader.end()?;
    Some(record)
}

/// Reads the name of a model, which most records share with the previous one.
fn read_model(reader: &mut Reader<'_>, last_model: &mut Arc<str>) -> Option<Arc<str>> {
    let model = reader.text()?;
    if **last_model != *model {
        *last_model = Arc::from(model);
    }
    Some(Arc::clone(last_model))
}

fn read_entry(kind: u8, reader: &mut Reader<'_>) -> Option<Entry> {
    Some(match kind {
        RESERVED => Entry::Reserved(read_reservation(reader)?),
        POSTED => Entry::Posted {
            id: ReservationId(reader.number()?),
            usage: read_usage(reader)?,
            cost: read_money(reader)?,
        },
        VOIDED => Entry::Voided(ReservationId(reader.number()?)),
        EXPIRED => Entry::Expired(ReservationId(reader.number()?)),
        CORRECTED => Entry::Corrected {
            id: ReservationId(reader.number()?),
            correction: Correction {
                day: reader.number()?,
                caller: read_hash(reader)?,
                tier: read_tier(reader)?,
                charged: read_money(reader)?,
                cost: read_money(reader)?,
            },
        },
        LEASED => Entry::Leased {
            lease: read_lease(reader)?,
            granted: read_money(reader)?,
            returned: read_money(reader)?,
        },
        RETURNED => Entry::Returned { lease: read_lease(reader)?, total: read_money(reader)? },
        _ => return None,
    })
}
