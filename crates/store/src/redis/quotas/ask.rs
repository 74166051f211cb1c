//! The arguments of a script that decides over several records.

use super::rules::{LimitRule, Placement, Rules};
use crate::StoreError;
use crate::claims::ClaimAsk;
use crate::quotas::{MOST_LIMITS, MoneyAsk};
use crate::redis::key;
use crate::redis::link::STORE;
use crate::redis::packing::{Fields, MOST, micros};
use arrayvec::ArrayVec;
use seawall_core::quota::{Cost, GroupId, Scope, ScopeError, Unit};
use seawall_core::time::Now;
use std::time::Duration;

/// The most groups that one request may touch.
pub(super) const MOST_SCOPES: usize = 4;

/// The index of the requested units among the script's arguments.
const fn place_of(unit: Unit) -> u64 {
    match unit {
        Unit::Request => 3,
        Unit::Token => 4,
    }
}

/// The limits that one script decides over, and the records that contain them.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pub(super) keys: Vec<String>,
    /// Each limit with the index of its record, counted from 1.
    pub(super) limits: Vec<(u64, LimitRule)>,
    /// The groups of the limits, in the same order.
    pub(super) groups: ArrayVec<GroupId, MOST_SCOPES>,
    homes: ArrayVec<u64, { MOST_SCOPES + 1 }>,
}

impl Touched {
    /// The limits of these scopes in the records of a home.
    pub(super) fn at_home(home: u64, scopes: &[Scope], rules: &Rules) -> Self {
        let mut touched = Self::default();
        for scope in scopes {
            let Some(group) = rules.group(scope) else { continue };
            let record = touched.record(home, scope.key.0);
            let _ = touched.groups.try_push(scope.group);
            for limit in &group.limits {
                touched.limits.push((record, *limit));
            }
        }
        touched
    }

    /// The limits of one fleet-wide group.
    pub(super) fn of_fleet(scope: &Scope, rules: &Rules) -> Self {
        let mut touched = Self::default();
        if let Some(group) = rules.group(scope) {
            touched.keys.push(key::fleet(&group.name, scope.key.0));
            let _ = touched.groups.try_push(scope.group);
            for limit in &group.limits {
                touched.limits.push((1, *limit));
            }
        }
        touched
    }

    /// The index of a record among the keys; the key is added if it is missing.
    pub(super) fn record(&mut self, home: u64, key: u64) -> u64 {
        let place = self.homes.iter().position(|known| *known == key).unwrap_or_else(|| {
            let _ = self.homes.try_push(key);
            self.keys.push(key::record(home, key));
            self.homes.len() - 1
        });
        place as u64 + 1
    }
}

/// Sorts scopes by group, and rejects sets of scopes that no decision can be taken over.
pub(super) fn ordered(scopes: &[Scope], rules: &Rules) -> Result<ArrayVec<Scope, MOST_SCOPES>, StoreError> {
    let wrong = |error: ScopeError| StoreError::broken(STORE, error);
    let mut ordered: ArrayVec<Scope, MOST_SCOPES> = ArrayVec::new();
    for scope in scopes {
        ordered.try_push(*scope).map_err(|_| wrong(ScopeError::TooMany))?;
    }
    ordered.sort_unstable_by_key(|scope| scope.group);
    let mut limits = 0;
    for (place, scope) in ordered.iter().enumerate() {
        if place > 0 && ordered[place - 1].group == scope.group {
            return Err(wrong(ScopeError::Repeated(scope.group)));
        }
        limits += rules.group(scope).ok_or_else(|| wrong(ScopeError::Unknown(scope.group)))?.limits.len();
    }
    match limits {
        0 => Err(wrong(ScopeError::None)),
        1..=MOST_LIMITS => Ok(ordered),
        _ => Err(wrong(ScopeError::TooMany)),
    }
}

/// The scopes whose counts have this placement.
pub(super) fn placed(scopes: &[Scope], rules: &Rules, placement: Placement) -> ArrayVec<Scope, MOST_SCOPES> {
    let here = |scope: &&Scope| rules.group(scope).is_some_and(|group| group.placement == placement);
    scopes.iter().filter(here).copied().collect()
}

/// The arguments of a reservation.
pub(super) struct Reserve<'a> {
    pub(super) given: Option<Now>,
    pub(super) cost: Cost,
    pub(super) money: Option<(u64, MoneyAsk)>,
    pub(super) number: u64,
    pub(super) claim: Option<ClaimAsk<'a>>,
}

impl Reserve<'_> {
    /// Encodes the arguments of the script. `records` is the number of keys that are records.
    pub(super) fn pack(&self, touched: &Touched, records: usize) -> Vec<u8> {
        let mut fields = Fields::default();
        put_time(&mut fields, self.given);
        fields.put::<4>(self.cost.requests.into()).put::<4>(self.cost.tokens.into());
        let (record, worst, cap, lasts) = self.money.map_or((0, 0, 0, 0), |(record, money)| {
            (record, money.worst.as_nanos(), money.cap.as_nanos(), micros(money.lasts))
        });
        fields.put::<1>(record).put::<7>(worst).put::<7>(cap).put::<7>(lasts).put::<6>(self.number);
        let (fingerprint, lasts) =
            self.claim.map_or((0, 0), |claim| (claim.fingerprint, micros(claim.lasts)));
        fields.bytes(&fingerprint.to_be_bytes()).put::<7>(lasts).put::<1>(records as u64);
        for (record, rule) in &touched.limits {
            fields.put::<1>(*record).put::<6>(rule.id).put::<7>(rule.shape);
            fields.put::<4>(rule.most.into()).put::<1>(place_of(rule.unit));
        }
        fields.finish()
    }
}

/// Writes the time on both clocks, or -1 where the server's clock is used.
fn put_time(fields: &mut Fields, given: Option<Now>) {
    let (mono, utc) = given.map_or((u64::MAX, 0), |now| {
        ((now.monotonic.as_nanos() / 1_000).min(MOST), now.utc.as_nanos() / 1_000)
    });
    fields.bytes(&mono.to_be_bytes()).put::<7>(utc);
}

/// The arguments of a settlement.
pub(super) struct Settle<'a> {
    pub(super) given: Option<Now>,
    pub(super) reserved: Cost,
    pub(super) actual: Cost,
    /// The index of the record, the day, the worst-case cost and the actual cost.
    pub(super) money: Option<(u64, u64, u64, u64)>,
    pub(super) number: u64,
    /// The fingerprint, and how long the key is remembered as done.
    pub(super) claim: Option<(u64, Option<Duration>)>,
    pub(super) limits: &'a [(u64, LimitRule)],
    pub(super) marks: &'a [u64],
}

impl Settle<'_> {
    pub(super) fn pack(&self, records: usize) -> Vec<u8> {
        let mut fields = Fields::default();
        put_time(&mut fields, self.given);
        fields.put::<4>(self.reserved.requests.into()).put::<4>(self.reserved.tokens.into());
        let (record, day, worst, truth) = self.money.unwrap_or_default();
        fields.put::<1>(record).put::<4>(day).put::<7>(worst).put::<7>(truth).put::<6>(self.number);
        let (fingerprint, keep) = self.claim.unwrap_or_default();
        fields.bytes(&fingerprint.to_be_bytes()).put::<7>(keep.map_or(0, micros)).put::<1>(records as u64);
        fields.put::<4>(self.actual.requests.into()).put::<4>(self.actual.tokens.into());
        for ((record, rule), mark) in self.limits.iter().zip(self.marks) {
            fields.put::<1>(*record).put::<6>(rule.id).put::<7>(rule.shape);
            fields.put::<1>(place_of(rule.unit)).put::<7>(*mark);
        }
        fields.finish()
    }
}
