//! The encoding of the parts that records are made of. Reading and writing are kept side by side, so that they stay in
//! step.

use super::{EVENT, LABELLED_EVENT};
use crate::encoding::{ByteReader, put_text, put_varint};
use crate::node_ledger::admission::{IdempotencyRecord, LimitCharge};
use crate::usage::{CallId, Certainty, KeyLabels, SpendLabels, UsageEvent};
use seawall_core::budget::{BudgetReservation, BudgetWindows, LeaseId, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{MAX_SCOPES, QuotaUnits};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use smallvec::SmallVec;
use std::sync::Arc;

/// The optional fields of a reservation, one bit each.
const HAS_SESSION: u8 = 1;
const HAS_WINDOWS: u8 = 2;
/// The optional fields of labels.
const HAS_KEY: u8 = 1;
const HAS_TEAM: u8 = 2;

pub(super) fn put_reservation(bytes: &mut Vec<u8>, reservation: &BudgetReservation) {
    let BudgetReservation {
        id,
        day,
        caller,
        tier,
        generation,
        session,
        input,
        output,
        max_cost,
        expires,
        windows,
    } = *reservation;
    put_varint(bytes, id.0);
    put_varint(bytes, day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(tier));
    put_varint(bytes, generation);
    let has_session = if session.is_some() { HAS_SESSION } else { 0 };
    let has_windows = if windows.is_empty() { 0 } else { HAS_WINDOWS };
    bytes.push(has_session | has_windows);
    if let Some(session) = session {
        bytes.extend_from_slice(&session.to_le_bytes());
    }
    if !windows.is_empty() {
        let (set, hour, team) = windows.to_parts();
        put_varint(bytes, set.into());
        put_varint(bytes, hour.into());
        bytes.extend_from_slice(&team.to_le_bytes());
    }
    for number in [input, output, max_cost.as_nanos(), expires.as_nanos()] {
        put_varint(bytes, number);
    }
}

pub(super) fn read_reservation(reader: &mut ByteReader<'_>) -> Option<BudgetReservation> {
    let (id, day) = (ReservationId(reader.varint()?), reader.varint()?);
    let (caller, tier, generation) = (read_hash(reader)?, read_tier(reader)?, reader.varint()?);
    let flags = reader.byte().filter(|flags| flags & !(HAS_SESSION | HAS_WINDOWS) == 0)?;
    Some(BudgetReservation {
        id,
        day,
        caller,
        tier,
        generation,
        session: if flags & HAS_SESSION != 0 { Some(read_hash(reader)?) } else { None },
        windows: if flags & HAS_WINDOWS != 0 { read_windows(reader)? } else { BudgetWindows::NONE },
        input: reader.varint()?,
        output: reader.varint()?,
        max_cost: read_money(reader)?,
        expires: Timestamp::from_nanos(reader.varint()?),
    })
}

fn read_windows(reader: &mut ByteReader<'_>) -> Option<BudgetWindows> {
    let set = u16::try_from(reader.varint()?).ok()?;
    BudgetWindows::from_parts(set, u32::try_from(reader.varint()?).ok()?, read_hash(reader)?)
}

/// The names in the previous record, which most records share.
#[derive(Debug, Default)]
pub(crate) struct RecentNames {
    pub(crate) model: Arc<str>,
    labels: SpendLabels,
}

impl RecentNames {
    pub(super) fn read_model(&mut self, reader: &mut ByteReader<'_>) -> Option<Arc<str>> {
        Some(shared(&mut self.model, reader.text()?))
    }

    /// Reads labels where the record has any; a record with empty ones is not valid.
    pub(super) fn read_optional_labels(
        &mut self,
        reader: &mut ByteReader<'_>,
        has_labels: bool,
    ) -> Option<SpendLabels> {
        if has_labels {
            self.read_labels(reader).filter(|labels| !labels.is_empty())
        } else {
            Some(SpendLabels::default())
        }
    }

    fn read_labels(&mut self, reader: &mut ByteReader<'_>) -> Option<SpendLabels> {
        let (target, route) = (reader.text()?, reader.text()?);
        let flags = reader.byte().filter(|flags| [0, HAS_KEY, HAS_KEY | HAS_TEAM].contains(flags))?;
        let key = if flags & HAS_KEY != 0 { Some(self.read_key_labels(reader, flags)?) } else { None };
        let last = &mut self.labels;
        let labels = SpendLabels {
            target: shared(&mut last.target, target),
            route: shared(&mut last.route, route),
            key,
        };
        last.key.clone_from(&labels.key);
        Some(labels)
    }

    fn read_key_labels(&self, reader: &mut ByteReader<'_>, flags: u8) -> Option<Arc<KeyLabels>> {
        let team = if flags & HAS_TEAM != 0 { Some(reader.text()?.into()) } else { None };
        let mut tags: Vec<(Box<str>, Box<str>)> = Vec::new();
        for _ in 0..reader.varint()? {
            tags.push((reader.text()?.into(), reader.text()?.into()));
        }
        let labels = KeyLabels { team, tags: tags.into() };
        Some(match &self.labels.key {
            Some(last) if **last == labels => Arc::clone(last),
            _ => Arc::new(labels),
        })
    }
}

/// The last text if it is the same, else a new one, which becomes the last.
fn shared(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = Arc::from(text);
    }
    Arc::clone(last)
}

pub(crate) fn put_labels(bytes: &mut Vec<u8>, SpendLabels { target, route, key }: &SpendLabels) {
    put_text(bytes, target);
    put_text(bytes, route);
    let Some(KeyLabels { team, tags }) = key.as_deref() else {
        bytes.push(0);
        return;
    };
    bytes.push(if team.is_some() { HAS_KEY | HAS_TEAM } else { HAS_KEY });
    if let Some(team) = team {
        put_text(bytes, team);
    }
    put_varint(bytes, tags.len() as u64);
    for (name, value) in tags {
        put_text(bytes, name);
        put_text(bytes, value);
    }
}

/// Reads labels on their own, without sharing their allocations.
#[cfg(feature = "embedded")]
pub(crate) fn read_labels(reader: &mut ByteReader<'_>) -> Option<SpendLabels> {
    RecentNames::default().read_labels(reader)
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
    let UsageEvent { id, at, day, caller, tier, model, labels, usage, cost, certainty } = event;
    bytes.push(if labels.is_empty() { EVENT } else { LABELLED_EVENT });
    put_call(bytes, *id);
    put_varint(bytes, at.as_nanos());
    put_varint(bytes, *day);
    bytes.extend_from_slice(&caller.to_le_bytes());
    bytes.push(tier_byte(*tier));
    put_text(bytes, model);
    put_usage(bytes, usage);
    put_varint(bytes, cost.as_nanos());
    bytes.push(certainty_byte(*certainty));
    if !labels.is_empty() {
        put_labels(bytes, labels);
    }
}

pub(super) fn read_event(
    reader: &mut ByteReader<'_>,
    has_labels: bool,
    recent: &mut RecentNames,
) -> Option<UsageEvent> {
    Some(UsageEvent {
        id: read_call(reader)?,
        at: UtcTime::from_nanos(reader.varint()?),
        day: reader.varint()?,
        caller: read_hash(reader)?,
        tier: read_tier(reader)?,
        model: recent.read_model(reader)?,
        usage: read_usage(reader)?,
        cost: read_money(reader)?,
        certainty: read_certainty(reader)?,
        labels: recent.read_optional_labels(reader, has_labels)?,
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
