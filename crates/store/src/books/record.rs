//! What a journal holds, as bytes.
//!
//! One byte for the version of the encoding (1), one for the kind, then the fields in their order. Numbers take seven bits
//! a byte, the lowest first; texts stand behind their length; what may be missing is one byte, 0 or 1, before it. There
//! is one way to write a record and no other. What is of an unknown version or kind, cut short or too long, is refused:
//! nothing is read that was not written.

use crate::encoding::{Reader, put_number, put_text};
use crate::usage::{CallId, Certainty, UsageEvent};
use seawall_core::budget::{Entry, LeaseId, Reservation, ReservationId};
use seawall_core::money::{Money, Usage};
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

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A change of the books.
    Entry(Entry),
    /// A call that has ended.
    Event(UsageEvent),
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no record of a journal that this version writes")]
pub struct NoRecord;

impl JournalRecord {
    /// As bytes, behind those that are there.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(VERSION);
        match self {
            Self::Entry(Entry::Reserved(reservation)) => put_reservation(bytes, reservation),
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
        }
    }

    /// The way back, of exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoRecord> {
        read(Reader::new(bytes)).ok_or(NoRecord)
    }
}

fn read(mut reader: Reader<'_>) -> Option<JournalRecord> {
    if reader.byte()? != VERSION {
        return None;
    }
    let kind = reader.byte()?;
    let record = if kind == EVENT {
        JournalRecord::Event(read_event(&mut reader)?)
    } else {
        JournalRecord::Entry(read_entry(kind, &mut reader)?)
    };
    reader.end()?;
    Some(record)
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
    bytes.push(RESERVED);
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

fn put_event(bytes: &mut Vec<u8>, event: &UsageEvent) {
    let UsageEvent { id, at, day, caller, tier, model, usage, cost, certainty } = event;
    bytes.push(EVENT);
    bytes.extend_from_slice(&id.request.to_le_bytes());
    put_number(bytes, id.attempt.into());
    put_number(bytes, at.as_nanos());
    put_number(bytes, *day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(*tier));
    put_text(bytes, model);
    put_usage(bytes, usage);
    put_number(bytes, cost.as_nanos());
    bytes.push(match certainty {
        Certainty::Told => 0,
        Certainty::Counted => 1,
        Certainty::Worst => 2,
    });
}

fn read_event(reader: &mut Reader<'_>) -> Option<UsageEvent> {
    let request = u128::from_le_bytes(reader.array()?);
    Some(UsageEvent {
        id: CallId { request, attempt: u32::try_from(reader.number()?).ok()? },
        at: UtcTime::from_nanos(reader.number()?),
        day: reader.number()?,
        caller: read_hash(reader)?,
        tier: read_tier(reader)?,
        model: Arc::from(reader.text()?),
        usage: read_usage(reader)?,
        cost: read_money(reader)?,
        certainty: Certainty::ALL.get(usize::from(reader.byte()?)).copied()?,
    })
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

fn put_usage(bytes: &mut Vec<u8>, usage: &Usage) {
    for number in [usage.input, usage.cache_read, usage.cache_write, usage.output] {
        put_number(bytes, number);
    }
}

fn read_usage(reader: &mut Reader<'_>) -> Option<Usage> {
    Some(Usage {
        input: reader.number()?,
        cache_read: reader.number()?,
        cache_write: reader.number()?,
        output: reader.number()?,
    })
}

fn read_money(reader: &mut Reader<'_>) -> Option<Money> {
    reader.number().map(Money::from_nanos)
}

/// A number that is spread over all that there are, for which seven bits a byte would take more room.
fn read_hash(reader: &mut Reader<'_>) -> Option<u64> {
    reader.array().map(u64::from_le_bytes)
}

const fn tier_byte(tier: Tier) -> u8 {
    match tier {
        Tier::Prime => 0,
        Tier::Standard => 1,
        Tier::Guest => 2,
    }
}

fn read_tier(reader: &mut Reader<'_>) -> Option<Tier> {
    Tier::ALL.get(usize::from(reader.byte()?)).copied()
}

#[cfg(test)]
mod tests {
    use super::{JournalRecord, NoRecord};
    use crate::usage::{CallId, Certainty, UsageEvent};
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
    use proptest::sample::select;
    use seawall_core::budget::{Entry, LeaseId, Reservation, ReservationId};
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::{Timestamp, UtcTime};
    use seawall_core::vocabulary::Tier;

    /// Small, large and everything between.
    fn numbers() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
    }

    fn money() -> impl Strategy<Value = Money> {
        numbers().prop_map(Money::from_nanos)
    }

    fn ids() -> impl Strategy<Value = ReservationId> {
        numbers().prop_map(ReservationId)
    }

    fn usages() -> impl Strategy<Value = Usage> {
        [numbers(), numbers(), numbers(), numbers()].prop_map(|[input, cache_read, cache_write, output]| {
            Usage { input, cache_read, cache_write, output }
        })
    }

    fn tiers() -> impl Strategy<Value = Tier> {
        select(Tier::ALL.to_vec())
    }

    fn leases() -> impl Strategy<Value = LeaseId> {
        (numbers(), tiers(), numbers(), numbers()).prop_map(|(day, tier, node, generation)| LeaseId {
            day,
            tier,
            node,
            generation,
        })
    }

    fn reservations() -> impl Strategy<Value = Entry> {
        let numbers = (ids(), numbers(), numbers(), numbers(), numbers(), numbers(), numbers());
        (numbers, tiers(), proptest::option::of(any::<u64>()), money()).prop_map(
            |((id, day, caller, generation, input, output, expires), tier, session, worst)| {
                let expires = Timestamp::from_nanos(expires);
                Entry::Reserved(Reservation {
                    id,
                    day,
                    caller,
                    tier,
                    generation,
                    session,
                    input,
                    output,
                    worst,
                    expires,
                })
            },
        )
    }

    fn events() -> impl Strategy<Value = UsageEvent> {
        let id = (any::<u128>(), any::<u32>()).prop_map(|(request, attempt)| CallId { request, attempt });
        let certainty = select(Certainty::ALL.to_vec());
        (id, numbers(), numbers(), numbers(), tiers(), ".{0,30}", usages(), money(), certainty).prop_map(
            |(id, at, day, caller, tier, model, usage, cost, certainty)| UsageEvent {
                id,
                at: UtcTime::from_nanos(at),
                day,
                caller,
                tier,
                model: model.into(),
                usage,
                cost,
                certainty,
            },
        )
    }

    fn records() -> impl Strategy<Value = JournalRecord> {
        prop_oneof![
            reservations().prop_map(JournalRecord::Entry),
            (ids(), usages(), money()).prop_map(|(id, usage, cost)| JournalRecord::Entry(Entry::Posted {
                id,
                usage,
                cost
            })),
            ids().prop_map(|id| JournalRecord::Entry(Entry::Voided(id))),
            ids().prop_map(|id| JournalRecord::Entry(Entry::Expired(id))),
            (leases(), money(), money()).prop_map(|(lease, granted, returned)| {
                JournalRecord::Entry(Entry::Leased { lease, granted, returned })
            }),
            (leases(), money())
                .prop_map(|(lease, total)| JournalRecord::Entry(Entry::Returned { lease, total })),
            events().prop_map(JournalRecord::Event),
        ]
    }

    #[test]
    fn the_bytes_of_a_record_do_not_change_between_versions() {
        let lease = LeaseId { day: 20_773, tier: Tier::Guest, node: 258, generation: 1 };
        let record = JournalRecord::Entry(Entry::Returned { lease, total: Money::from_nanos(300) });
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(bytes, [1, 5, 0xa5, 0xa2, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0xac, 2]);
    }

    #[test]
    fn an_unknown_version_or_kind_is_refused() {
        let mut bytes = Vec::new();
        JournalRecord::Entry(Entry::Voided(ReservationId(7))).encode(&mut bytes);
        assert_eq!(bytes, [1, 2, 7]);
        for wrong in [[2, 2, 7], [0, 2, 7], [1, 7, 7], [1, 255, 7]] {
            assert_eq!(JournalRecord::decode(&wrong), Err(NoRecord));
        }
    }

    proptest! {
        #[test]
        fn a_record_survives_and_is_refused_when_cut_or_too_long(record in records(), cut in any::<usize>()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(JournalRecord::decode(&bytes), Ok(record));
            prop_assert_eq!(JournalRecord::decode(&bytes[..cut % bytes.len()]), Err(NoRecord));
            bytes.push(0);
            prop_assert_eq!(JournalRecord::decode(&bytes), Err(NoRecord));
        }

        #[test]
        fn a_damaged_record_is_refused_or_is_another_that_is_written_so(
            record in records(),
            place in any::<usize>(),
            damage in 1_u8..,
        ) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let place = place % bytes.len();
            bytes[place] ^= damage;
            if let Ok(other) = JournalRecord::decode(&bytes) {
                let mut again = Vec::new();
                other.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(rest in vec(any::<u8>(), 0..90), kind in 0_u8..8) {
            let bytes = [&[1, kind], rest.as_slice()].concat();
            for bytes in [&bytes, &rest] {
                if let Ok(record) = JournalRecord::decode(bytes) {
                    let mut again = Vec::new();
                    record.encode(&mut again);
                    prop_assert_eq!(&again, bytes);
                }
            }
        }
    }
}
