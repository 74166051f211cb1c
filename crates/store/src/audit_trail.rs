//! The audit trail of the operators' orders: a hash chain.
//!
//! The hash of a record is SHA-256 over its encoding, which includes the hash of the previous record. Changing,
//! removing, inserting or swapping records therefore requires rewriting every later hash, which is noticed by comparing
//! with any later hash that was kept elsewhere. The chain alone cannot show that its end was cut off.
//!
//! The encoding: one byte for its version (1), the number of the record, the 32 bytes of the previous hash, the time in
//! nanoseconds since 1970, one byte for whether it was refused, the change, then operator, role and reason. Numbers are varints
//! of seven bits a byte, the lowest first. Texts are prefixed with their length, so that no text can be mistaken for
//! another field. A change is its kind followed by names: 0 with a switch and a byte for on, 1 with a protection and a
//! mode, 2 with a ceiling or nothing, 3 with a day, a caller, a tier, what was posted and what it cost.

use crate::encoding::{ByteReader, put_text, put_varint};
use crate::switches::{AuditRecord, ChangeOrder, SwitchChange, SwitchState};
use seawall_core::budget::Correction;
use seawall_core::evaluator::{Protection, Switch};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Mode, Tier};
use sha2::{Digest, Sha256};

const VERSION: u8 = 1;
const THROW: u8 = 0;
const SET_MODE: u8 = 1;
const SET_CEILING: u8 = 2;
const CORRECT_POSTING: u8 = 3;

/// A record does not continue the chain, or does not match its own hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "audit trail: record {number} does not match its hash or its predecessor (changed or damaged); keep a copy of the data \
     directory and restore a backup"
)]
pub struct BrokenAuditTrail {
    /// The number that the record at this position should have.
    pub number: u64,
}

/// Verifies that consecutive records are unchanged. A part of a trail may begin anywhere; the previous hash in its
/// first record cannot be checked and is trusted.
pub fn verify(records: &[AuditRecord]) -> Result<(), BrokenAuditTrail> {
    let mut before: Option<&AuditRecord> = None;
    for record in records {
        let number = match before {
            Some(before) => before.number.saturating_add(1),
            None => record.number,
        };
        let follows = match before {
            Some(before) => record.previous_hash == before.hash,
            None => number > 0 || record.previous_hash == [0; 32],
        };
        if record.number != number || !follows || record.hash != hash(record) {
            return Err(BrokenAuditTrail { number });
        }
        before = Some(record);
    }
    Ok(())
}

impl AuditRecord {
    /// Creates the record of an order that follows `last`.
    #[must_use]
    pub fn after(last: Option<&Self>, order: ChangeOrder) -> Self {
        let (number, previous_hash) =
            last.map_or((0, [0; 32]), |last| (last.number.saturating_add(1), last.hash));
        let mut record = Self { number, order, previous_hash, hash: [0; 32] };
        record.hash = hash(&record);
        record
    }

    /// Returns the bytes that are hashed. They do not include the hash itself.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let ChangeOrder { change, operator, role, reason, at, refused } = &self.order;
        let mut bytes = vec![VERSION];
        put_varint(&mut bytes, self.number);
        bytes.extend_from_slice(&self.previous_hash);
        put_varint(&mut bytes, at.as_nanos());
        bytes.push(u8::from(*refused));
        match *change {
            SwitchChange::Throw(switch, on) => {
                bytes.push(THROW);
                put_text(&mut bytes, switch.name());
                bytes.push(u8::from(on));
            }
            SwitchChange::SetMode(protection, mode) => {
                bytes.push(SET_MODE);
                put_text(&mut bytes, protection.name());
                put_text(&mut bytes, mode.name());
            }
            SwitchChange::SetCeiling(ceiling) => {
                bytes.push(SET_CEILING);
                put_text(&mut bytes, ceiling.map_or("", Ceiling::name));
            }
            SwitchChange::CorrectPosting(Correction { day, caller, tier, charged, cost }) => {
                bytes.push(CORRECT_POSTING);
                put_varint(&mut bytes, day);
                put_varint(&mut bytes, caller);
                put_text(&mut bytes, tier.name());
                put_varint(&mut bytes, charged.as_nanos());
                put_varint(&mut bytes, cost.as_nanos());
            }
        }
        for text in [operator, role, reason] {
            put_text(&mut bytes, text);
        }
        bytes
    }

    /// Decodes a record; `None` for bytes that no record encodes to. The hash is computed from the bytes, so that it
    /// can be compared with a hash that was kept elsewhere.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != VERSION {
            return None;
        }
        let (number, previous_hash) = (reader.varint()?, reader.array()?);
        let (at, refused) = (UtcTime::from_nanos(reader.varint()?), reader.flag()?);
        let change = match reader.byte()? {
            THROW => SwitchChange::Throw(Switch::parse(reader.text()?).ok()?, reader.flag()?),
            SET_MODE => {
                let protection = Protection::parse(reader.text()?).ok()?;
                SwitchChange::SetMode(protection, Mode::parse(reader.text()?).ok()?)
            }
            CORRECT_POSTING => SwitchChange::CorrectPosting(Correction {
                day: reader.varint()?,
                caller: reader.varint()?,
                tier: Tier::parse(reader.text()?).ok()?,
                charged: Money::from_nanos(reader.varint()?),
                cost: Money::from_nanos(reader.varint()?),
            }),
            SET_CEILING => SwitchChange::SetCeiling(match reader.text()? {
                "" => None,
                name => Some(Ceiling::parse(name).ok()?),
            }),
            _ => return None,
        };
        let (operator, role, reason) = (reader.text()?.into(), reader.text()?.into(), reader.text()?.into());
        reader.end()?;
        let order = ChangeOrder { change, operator, role, reason, at, refused };
        Some(Self { number, order, previous_hash, hash: Sha256::digest(bytes).into() })
    }
}

impl SwitchState {
    /// Returns the state after this order, which is carried out unless it was refused.
    #[must_use]
    pub fn after(mut self, order: &ChangeOrder) -> Self {
        if order.refused {
            return self;
        }
        match order.change {
            SwitchChange::Throw(switch, on) => self.protections.set_switch(switch, on),
            SwitchChange::SetMode(protection, mode) => self.protections.set_mode(protection, mode),
            SwitchChange::SetCeiling(ceiling) => self.ceiling = ceiling,
            SwitchChange::CorrectPosting(_) => {}
        }
        self.version = self.version.saturating_add(1);
        self
    }
}

fn hash(record: &AuditRecord) -> [u8; 32] {
    Sha256::digest(record.encode()).into()
}

#[cfg(test)]
mod tests {
    use super::{AuditRecord, BrokenAuditTrail, verify};
    use crate::switches::{ChangeOrder, SwitchChange};
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::sample::select;
    use seawall_core::budget::Correction;
    use seawall_core::evaluator::{Protection, Switch};
    use seawall_core::money::Money;
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::{Ceiling, Mode, Tier};

    fn changes() -> impl Strategy<Value = SwitchChange> {
        prop_oneof![
            (select(Switch::ALL.to_vec()), any::<bool>())
                .prop_map(|(switch, on)| SwitchChange::Throw(switch, on)),
            (select(Protection::ALL.to_vec()), select(Mode::ALL.to_vec()))
                .prop_map(|(protection, mode)| SwitchChange::SetMode(protection, mode)),
            proptest::option::of(select(Ceiling::ALL.to_vec())).prop_map(SwitchChange::SetCeiling),
            (any::<u64>(), any::<u64>(), select(Tier::ALL.to_vec()), any::<u64>(), any::<u64>()).prop_map(
                |(day, caller, tier, charged, cost)| {
                    let [charged, cost] = [charged, cost].map(Money::from_nanos);
                    SwitchChange::CorrectPosting(Correction { day, caller, tier, charged, cost })
                }
            ),
        ]
    }

    fn orders() -> impl Strategy<Value = ChangeOrder> {
        (changes(), ".{0,8}", ".{0,8}", ".{0,8}", any::<u64>(), any::<bool>()).prop_map(
            |(change, operator, role, reason, at, refused)| {
                let (operator, role, reason) = (operator.into(), role.into(), reason.into());
                ChangeOrder { change, operator, role, reason, at: UtcTime::from_nanos(at), refused }
            },
        )
    }

    fn trail(orders: Vec<ChangeOrder>) -> Vec<AuditRecord> {
        let mut records: Vec<AuditRecord> = Vec::new();
        for order in orders {
            records.push(AuditRecord::after(records.last(), order));
        }
        records
    }

    #[test]
    fn the_encoding_is_what_it_is_said_to_be() {
        let change = SwitchChange::SetMode(Protection::RateLimit, Mode::Observe);
        let (operator, role, reason) = ("ann".into(), "ops".into(), "".into());
        let order =
            ChangeOrder { change, operator, role, reason, at: UtcTime::from_nanos(300), refused: true };
        let record = AuditRecord::after(None, order);
        let mut expected = vec![1, 0];
        expected.extend([0; 32]);
        expected.extend([0xac, 2, 1, 1, 10]);
        expected.extend(b"rate_limit\x07observe\x03ann\x03ops\x00");
        assert_eq!(record.encode(), expected);
        let hash: String = record.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hash.starts_with(HASH), "{hash}");
    }

    /// The beginning of the output of `sha256sum` over those bytes.
    const HASH: &str = "135bd05bbc074cb0";

    proptest! {
        #[test]
        fn a_record_survives_its_encoding_and_nothing_else_is_one(order in orders(), cut in any::<usize>()) {
            let record = AuditRecord::after(None, order);
            let mut bytes = record.encode();
            prop_assert_eq!(AuditRecord::decode(&bytes), Some(record));
            prop_assert_eq!(AuditRecord::decode(&bytes[..cut % bytes.len()]), None);
            bytes.push(0);
            prop_assert_eq!(AuditRecord::decode(&bytes), None);
        }

        #[test]
        fn arbitrary_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..120)) {
            if let Some(record) = AuditRecord::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }

        #[test]
        fn every_change_of_a_trail_is_found(orders in vec(orders(), 3..8), index in any::<usize>(), how in 0..6) {
            let whole = trail(orders);
            prop_assert_eq!(verify(&whole), Ok(()));
            prop_assert_eq!(verify(&whole[1..]), Ok(()), "a part of it");
            let index = index % (whole.len() - 1);
            let mut broken = whole;
            let at = match how {
                0 => {
                    broken[index].order.refused ^= true;
                    index
                }
                1 => {
                    broken[index].hash[31] ^= 1;
                    index
                }
                2 => {
                    // The forger recomputes the hash of this record, which breaks the link to the next one.
                    broken[index].order.reason = "forged!!!".into();
                    let before = index.checked_sub(1).map(|before| broken[before].clone());
                    broken[index] = AuditRecord::after(before.as_ref(), broken[index].order.clone());
                    index + 1
                }
                3 if index > 0 => {
                    broken.remove(index);
                    index
                }
                4 => {
                    broken.swap(index, index + 1);
                    // The first record of a part may have any number, and is valid on its own unless it claims to be
                    // the first.
                    if index == 0 { 2 } else { index }
                }
                _ => {
                    broken[0].previous_hash = [1; 32];
                    0
                }
            };
            let found = verify(&broken).unwrap_err();
            prop_assert!(found.number <= at as u64 + 1);
            if how != 4 {
                prop_assert_eq!(found, BrokenAuditTrail { number: at as u64 });
            }
        }
    }
}
