//! What a journal holds, as bytes.
//!
//! One byte for the version of the encoding (1), one for the kind, then the fields in their order. Numbers take seven bits
//! a byte, the lowest first; texts stand behind their length; what may be missing is one byte, 0 or 1, before it. There
//! is one way to write a record and no other. What is of an unknown version or kind, cut short or too long, is refused:
//! nothing is read that was not written.

#[cfg(test)]
mod tests;

use super::counted::{Charge, NameMark};
use crate::encoding::{Reader, put_number, put_text};
use crate::usage::{CallId, Certainty, UsageEvent};
use arrayvec::ArrayVec;
use seawall_core::budget::{Correction, Entry, LeaseId, Reservation, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::Cost;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
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

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A change of the books.
    Entry(Entry),
    /// A call that has ended.
    Event(UsageEvent),
    /// What a reservation is for, written together with it: after a crash, what is charged at its worst still has a name.
    Attempt {
        /// Which reservation.
        reservation: ReservationId,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
    },
    /// A reservation together with what it is for: what books write before a call.
    Begun {
        /// What is held.
        reservation: Reservation,
        /// The call that it pays for.
        id: CallId,
        /// The vendor's name of the model.
        model: Arc<str>,
    },
    /// A call has ended: what books write after it. Whose it was, the beginning says.
    Ended {
        /// Which reservation.
        reservation: ReservationId,
        /// When.
        at: UtcTime,
        /// What it used.
        usage: Usage,
        /// What that cost.
        cost: Money,
        /// How sure that is.
        certainty: Certainty,
    },
    /// A request was let in: what it has taken of limits, and the name it has.
    Counted {
        /// Of limits.
        charge: Charge,
        /// The name, where its caller gave it one.
        name: Option<NameMark>,
    },
    /// A request has truly taken something else than it was charged.
    Corrected {
        /// What was charged.
        charge: Charge,
        /// When it was put right.
        at: UtcTime,
        /// What it has taken.
        actual: Cost,
    },
    /// A request of this name has been answered.
    Done(NameMark),
    /// A request of this name was not answered: the name is free.
    Released([u8; 32]),
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no record of a journal that this version writes")]
pub struct NoRecord;

impl JournalRecord {
    /// The change of the books that this stands for, if it is one.
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
            | Self::Corrected { .. }
            | Self::Done(_)
            | Self::Released(_) => None,
        }
    }

    /// As bytes, behind those that are there.
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
            Self::Entry(Entry::Corrected(Correction { id, day, caller, tier, charged, cost })) => {
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
            Self::Corrected { charge, at, actual } => {
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

    /// The way back, of exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoRecord> {
        let (mut reader, mut name) = (Reader::new(bytes), Arc::default());
        read(&mut reader, &mut name).ok_or(NoRecord)
    }

    /// The same, behind a record with this model. One name is kept for all records in a row that have it.
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
        RECOUNTED => JournalRecord::Corrected {
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

/// The name of a model, which most records share with the one before.
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
        CORRECTED => Entry::Corrected(Correction {
            id: ReservationId(reader.number()?),
            day: reader.number()?,
            caller: read_hash(reader)?,
            tier: read_tier(reader)?,
            charged: read_money(reader)?,
            cost: read_money(reader)?,
        }),
        LEASED => Entry::Leased {
            lease: read_lease(reader)?,
            granted: read_money(reader)?,
            returned: read_money(reader)?,
        },
        RETURNED => Entry::Returned { lease: read_lease(reader)?, total: read_money(reader)? },
        _ => return None,
    })
}

fn put_reservation(bytes: &mut Vec<u8>, reservation: &Reservation) {
    let Reservation { id, day, caller, tier, generation, session, input, output, worst, expires } =
        *reservation;
    put_number(bytes, id.0);
    put_number(bytes, day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(tier));
    put_number(bytes, generation);
    bytes.push(u8::from(session.is_some()));
    if let Some(session) = session {
        bytes.extend_from_slice(&session.to_le_bytes());
    }
    for number in [input, output, worst.as_nanos(), expires.as_nanos()] {
        put_number(bytes, number);
    }
}

fn read_reservation(reader: &mut Reader<'_>) -> Option<Reservation> {
    Some(Reservation {
        id: ReservationId(reader.number()?),
        day: reader.number()?,
        caller: read_hash(reader)?,
        tier: read_tier(reader)?,
        generation: reader.number()?,
        session: if reader.flag()? { Some(read_hash(reader)?) } else { None },
        input: reader.number()?,
        output: reader.number()?,
        worst: read_money(reader)?,
        expires: Timestamp::from_nanos(reader.number()?),
    })
}

fn put_charge(bytes: &mut Vec<u8>, Charge { at, cost, scopes }: &Charge) {
    put_number(bytes, at.as_nanos());
    put_cost(bytes, *cost);
    put_number(bytes, scopes.len() as u64);
    for (tag, key) in scopes {
        bytes.extend_from_slice(&tag.to_le_bytes());
        // What belongs to everybody has no key.
        bytes.push(u8::from(*key != 0));
        if *key != 0 {
            bytes.extend_from_slice(&key.to_le_bytes());
        }
    }
}

fn read_charge(reader: &mut Reader<'_>) -> Option<Charge> {
    let (at, cost) = (UtcTime::from_nanos(reader.number()?), read_cost(reader)?);
    let mut scopes = ArrayVec::new();
    for _ in 0..reader.number()? {
        let tag = read_hash(reader)?;
        let key = if reader.flag()? { read_hash(reader).filter(|key| *key != 0)? } else { 0 };
        scopes.try_push((tag, key)).ok()?;
    }
    Some(Charge { at, cost, scopes })
}

fn put_cost(bytes: &mut Vec<u8>, Cost { requests, tokens }: Cost) {
    put_number(bytes, requests.into());
    put_number(bytes, tokens.into());
}

fn read_cost(reader: &mut Reader<'_>) -> Option<Cost> {
    let mut number = || u32::try_from(reader.number()?).ok();
    Some(Cost { requests: number()?, tokens: number()? })
}

fn put_name(bytes: &mut Vec<u8>, NameMark { name, fingerprint, until }: &NameMark) {
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&fingerprint.to_le_bytes());
    put_number(bytes, until.as_nanos());
}

fn read_name(reader: &mut Reader<'_>) -> Option<NameMark> {
    let (name, fingerprint) = (reader.array()?, read_hash(reader)?);
    Some(NameMark { name, fingerprint, until: UtcTime::from_nanos(reader.number()?) })
}

fn put_event(bytes: &mut Vec<u8>, event: &UsageEvent) {
    let UsageEvent { id, at, day, caller, tier, model, usage, cost, certainty } = event;
    bytes.push(EVENT);
    put_call(bytes, *id);
    put_number(bytes, at.as_nanos());
    put_number(bytes, *day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(*tier));
    put_text(bytes, model);
    put_usage(bytes, usage);
    put_number(bytes, cost.as_nanos());
    bytes.push(certainty_byte(*certainty));
}

fn read_event(reader: &mut Reader<'_>, last_model: &mut Arc<str>) -> Option<UsageEvent> {
    Some(UsageEvent {
        id: read_call(reader)?,
        at: UtcTime::from_nanos(reader.number()?),
        day: reader.number()?,
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
    put_number(bytes, id.attempt.into());
}

pub(crate) fn read_call(reader: &mut Reader<'_>) -> Option<CallId> {
    let request = u128::from_le_bytes(reader.array()?);
    Some(CallId { request, attempt: u32::try_from(reader.number()?).ok()? })
}

fn put_lease(bytes: &mut Vec<u8>, lease: &LeaseId) {
    put_number(bytes, lease.day);
    bytes.push(tier_byte(lease.tier));
    bytes.extend_from_slice(&lease.node.to_le_bytes());
    put_number(bytes, lease.generation);
}

fn read_lease(reader: &mut Reader<'_>) -> Option<LeaseId> {
    Some(LeaseId {
        day: reader.number()?,
        tier: read_tier(reader)?,
        node: read_hash(reader)?,
        generation: reader.number()?,
    })
}

pub(crate) fn put_usage(bytes: &mut Vec<u8>, usage: &Usage) {
    for number in [usage.input, usage.cache_read, usage.cache_write, usage.output] {
        put_number(bytes, number);
    }
}

pub(crate) fn read_usage(reader: &mut Reader<'_>) -> Option<Usage> {
    Some(Usage {
        input: reader.number()?,
        cache_read: reader.number()?,
        cache_write: reader.number()?,
        output: reader.number()?,
        ..Usage::default()
    })
}

pub(crate) fn read_money(reader: &mut Reader<'_>) -> Option<Money> {
    reader.number().map(Money::from_nanos)
}

/// A number that is spread over all that there are, for which seven bits a byte would take more room.
pub(crate) fn read_hash(reader: &mut Reader<'_>) -> Option<u64> {
    reader.array().map(u64::from_le_bytes)
}

pub(crate) const fn certainty_byte(certainty: Certainty) -> u8 {
    match certainty {
        Certainty::Told => 0,
        Certainty::Counted => 1,
        Certainty::Worst => 2,
    }
}

pub(crate) fn read_certainty(reader: &mut Reader<'_>) -> Option<Certainty> {
    Certainty::ALL.get(usize::from(reader.byte()?)).copied()
}

pub(crate) const fn tier_byte(tier: Tier) -> u8 {
    match tier {
        Tier::Prime => 0,
        Tier::Standard => 1,
        Tier::Guest => 2,
    }
}

pub(crate) fn read_tier(reader: &mut Reader<'_>) -> Option<Tier> {
    Tier::ALL.get(usize::from(reader.byte()?)).copied()
}
