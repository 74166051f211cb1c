//! A question over several records, as a script wants it.

use super::rules::{LimitRule, Placement, Rules};
use crate::StoreError;
use crate::claims::ClaimAsk;
use crate::quotas::{MOST_LIMITS, MoneyAsk};
use crate::redis::key;
use crate::redis::link::STORE;
use crate::redis::packing::{Packing, micros};
use arrayvec::ArrayVec;
use seawall_core::quota::{Cost, Scope, ScopeError, Unit};
use seawall_core::time::Now;
use std::time::Duration;

/// The most groups one request may touch.
pub(super) const MOST_SCOPES: usize = 4;

/// Where in an ask a script finds how many of a unit are wanted.
const fn place_of(unit: Unit) -> u64 {
    match unit {
        Unit::Request => 3,
        Unit::Token => 4,
    }
}

/// Limits that one step decides over, and the records they are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pub(super) keys: Vec<String>,
    /// Each with the place of its record, counted from 1.
    pub(super) limits: Vec<(u64, LimitRule)>,
    homes: ArrayVec<u64, { MOST_SCOPES + 1 }>,
}

impl Touched {
    /// The limits of these scopes in the records of a home.
    pub(super) fn at_home(home: u64, scopes: &[Scope], rules: &Rules) -> Self {
        let mut touched = Self::default();
        for scope in scopes {
            let Some(group) = rules.group(scope) else { continue };
            let record = touched.record(home, scope.key.0);
            for limit in &group.limits {
                touched.limits.push((record, *limit));
            }
        }
        touched
    }

    /// The limits of one group of the whole fleet.
    pub(super) fn of_fleet(scope: &Scope, rules: &Rules) -> Self {
        let mut touched = Self::default();
        if let Some(group) = rules.group(scope) {
            touched.keys.push(key::fleet(&group.name, scope.key.0));
            for limit in &group.limits {
                touched.limits.push((1, *limit));
            }
        }
        touched
    }

    /// The place of somebody's record among the keys.
    pub(super) fn record(&mut self, home: u64, key: u64) -> u64 {
        let place = self.homes.iter().position(|known| *known == key).unwrap_or_else(|| {
            let _ = self.homes.try_push(key);
            self.keys.push(key::record(home, key));
            self.homes.len() - 1
        });
        place as u64 + 1
    }
}

/// Scopes in the order of their groups; refuses what no decision can be taken over.
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

/// The scopes whose counts lie in this kind of place.
pub(super) fn placed(scopes: &[Scope], rules: &Rules, placement: Placement) -> ArrayVec<Scope, MOST_SCOPES> {
    let here = |scope: &&Scope| rules.group(scope).is_some_and(|group| group.placement == placement);
    scopes.iter().filter(here).copied().collect()
}

/// What a reservation asks of one script.
pub(super) struct Reserve<'a> {
    pub(super) given: Option<Now>,
    pub(super) cost: Cost,
    pub(super) money: Option<(u64, MoneyAsk)>,
    pub(super) number: u64,
    pub(super) claim: Option<ClaimAsk<'a>>,
}

impl Reserve<'_> {
    /// The argument of the script. `records` are the keys that are records.
    pub(super) fn pack(&self, touched: &Touched, records: usize) -> Vec<u8> {
        let mut packing = Packing::new();
        packing.time(self.given);
        packing.number(self.cost.requests.into()).number(self.cost.tokens.into());
        match self.money {
            Some((record, money)) => {
                packing.number(record).number(money.worst.as_nanos()).number(money.cap.as_nanos());
                packing.span(money.lasts);
            }
            None => {
                packing.number(0).number(0).number(0).number(0);
            }
        }
        packing.number(self.number);
        match &self.claim {
            Some(claim) => packing.bytes(&claim.fingerprint.to_be_bytes()).span(claim.lasts),
            None => packing.bytes(b"").number(0),
        };
        packing.number(records as u64);
        for (record, rule) in &touched.limits {
            packing.number(*record).number(rule.id).number(rule.shape);
            packing.number(rule.most.into()).number(place_of(rule.unit));
        }
        packing.finish()
    }
}

/// What a settlement tells one script.
pub(super) struct Settle<'a> {
    pub(super) given: Option<Now>,
    pub(super) reserved: Cost,
    pub(super) actual: Cost,
    /// The record, the day, the worst and the truth.
    pub(super) money: Option<(u64, u64, u64, u64)>,
    pub(super) number: u64,
    /// The fingerprint, and for how long it is remembered as done.
    pub(super) claim: Option<(u64, Option<Duration>)>,
    pub(super) limits: &'a [(u64, LimitRule)],
    pub(super) marks: &'a [u64],
}

impl Settle<'_> {
    pub(super) fn pack(&self, records: usize) -> Vec<u8> {
        let mut packing = Packing::new();
        packing.time(self.given);
        packing.number(self.reserved.requests.into()).number(self.reserved.tokens.into());
        let (record, day, worst, truth) = self.money.unwrap_or_default();
        packing.number(record).number(day).number(worst).number(truth).number(self.number);
        match self.claim {
            Some((fingerprint, keep)) => {
                packing.bytes(&fingerprint.to_be_bytes()).number(keep.map_or(0, micros))
            }
            None => packing.bytes(b"").number(0),
        };
        packing.number(records as u64);
        packing.number(self.actual.requests.into()).number(self.actual.tokens.into());
        for ((record, rule), mark) in self.limits.iter().zip(self.marks) {
            packing.number(*record).number(rule.id).number(rule.shape);
            packing.number(place_of(rule.unit)).number(*mark);
        }
        packing.finish()
    }
}
