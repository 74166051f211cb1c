//! The arguments of a script that decides over several records.

use super::rules::{LimitRule, ScriptRules};
use crate::StoreError;
use crate::claims::ClaimRequest;
use crate::quotas::{CallerBudgetRequest, Placement};
use crate::redis::connection::STORE;
use crate::redis::key;
use crate::redis::packing::{FixedWidthFields, MAX_EXACT, micros};
use seawall_core::quota::{GroupId, MAX_SCOPES, QuotaScope, QuotaUnit, QuotaUnits, ScopeError, ScopeList};
use seawall_core::time::Now;
use smallvec::SmallVec;
use std::time::Duration;

/// Groups of limits, of one request.
pub(super) type GroupIds = SmallVec<[GroupId; 4]>;

/// The index of the requested units among the script's arguments.
const fn unit_index(unit: QuotaUnit) -> u64 {
    match unit {
        QuotaUnit::Request => 3,
        QuotaUnit::Token => 4,
    }
}

/// The limits that one script decides over, and the records that contain them.
#[derive(Clone, Debug, Default)]
pub(super) struct TouchedLimits {
    pub(super) keys: Vec<String>,
    /// Each limit with the index of its record, counted from 1.
    pub(super) limits: Vec<(u64, LimitRule)>,
    /// The groups of the limits, in the same order.
    pub(super) groups: GroupIds,
    partition_keys: SmallVec<[u64; 4]>,
}

impl TouchedLimits {
    /// The limits of these scopes in the records of a partition.
    pub(super) fn in_partition(partition: u64, scopes: &[QuotaScope], rules: &ScriptRules) -> Self {
        let mut touched = Self::default();
        for scope in scopes {
            let Some(group) = rules.group(scope) else { continue };
            let record = touched.record(partition, scope.key.0);
            touched.groups.push(scope.group);
            for limit in &group.limits {
                touched.limits.push((record, *limit));
            }
        }
        touched
    }

    /// The limits of one fleet-wide group.
    pub(super) fn of_fleet(scope: &QuotaScope, rules: &ScriptRules) -> Self {
        let mut touched = Self::default();
        if let Some(group) = rules.group(scope) {
            touched.keys.push(key::fleet(&group.name, scope.key.0));
            touched.groups.push(scope.group);
            for limit in &group.limits {
                touched.limits.push((1, *limit));
            }
        }
        touched
    }

    /// The index of a record among the keys; the key is added if it is missing.
    pub(super) fn record(&mut self, partition: u64, key: u64) -> u64 {
        let index = self.partition_keys.iter().position(|existing| *existing == key).unwrap_or_else(|| {
            self.partition_keys.push(key);
            self.keys.push(key::record(partition, key));
            self.partition_keys.len() - 1
        });
        index as u64 + 1
    }
}

/// Sorts scopes by group, and rejects sets of scopes that no decision can be taken over.
pub(super) fn sort_scopes(scopes: &[QuotaScope], rules: &ScriptRules) -> Result<ScopeList, StoreError> {
    let scope_error = |error: ScopeError| StoreError::failed(STORE, error);
    if scopes.is_empty() {
        return Err(scope_error(ScopeError::None));
    }
    if scopes.len() > MAX_SCOPES {
        return Err(scope_error(ScopeError::TooMany));
    }
    let mut ordered = ScopeList::from_slice(scopes);
    ordered.sort_unstable_by_key(|scope| scope.group);
    for (index, scope) in ordered.iter().enumerate() {
        if index > 0 && ordered[index - 1].group == scope.group {
            return Err(scope_error(ScopeError::Repeated(scope.group)));
        }
        if rules.group(scope).is_none() {
            return Err(scope_error(ScopeError::Unknown(scope.group)));
        }
    }
    Ok(ordered)
}

/// The scopes whose counts have this placement.
pub(super) fn with_placement(scopes: &[QuotaScope], rules: &ScriptRules, placement: Placement) -> ScopeList {
    let has_placement =
        |scope: &&QuotaScope| rules.group(scope).is_some_and(|group| group.placement == placement);
    scopes.iter().filter(has_placement).copied().collect()
}

/// The arguments of a reservation.
pub(super) struct ReserveArguments<'a> {
    pub(super) given: Option<Now>,
    pub(super) cost: QuotaUnits,
    pub(super) money: Option<(u64, CallerBudgetRequest)>,
    pub(super) number: u64,
    pub(super) claim: Option<ClaimRequest<'a>>,
}

impl ReserveArguments<'_> {
    /// Encodes the arguments of the script. `records` is the number of keys that are records.
    pub(super) fn pack(&self, touched: &TouchedLimits, records: usize) -> Vec<u8> {
        let mut fields = FixedWidthFields::default();
        put_time(&mut fields, self.given);
        fields.put::<4>(self.cost.requests.into()).put::<4>(self.cost.tokens.into());
        let (record, max_cost, cap, timeout) = self.money.map_or((0, 0, 0, 0), |(record, money)| {
            (record, money.max_cost.as_nanos(), money.cap.as_nanos(), micros(money.timeout))
        });
        fields.put::<1>(record).put::<7>(max_cost).put::<7>(cap).put::<7>(timeout).put::<6>(self.number);
        let (fingerprint, timeout) =
            self.claim.map_or((0, 0), |claim| (claim.fingerprint, micros(claim.timeout)));
        fields.bytes(&fingerprint.to_be_bytes()).put::<7>(timeout).put::<1>(records as u64);
        for (record, rule) in &touched.limits {
            fields.put::<1>(*record).put::<6>(rule.id).put::<7>(rule.shape);
            fields.put::<4>(rule.capacity.into()).put::<1>(unit_index(rule.unit));
        }
        fields.finish()
    }
}

/// Writes the time on both clocks, or -1 where the server's clock is used.
fn put_time(fields: &mut FixedWidthFields, given: Option<Now>) {
    let (mono, utc) = given.map_or((u64::MAX, 0), |now| {
        ((now.monotonic.as_nanos() / 1_000).min(MAX_EXACT), now.utc.as_nanos() / 1_000)
    });
    fields.bytes(&mono.to_be_bytes()).put::<7>(utc);
}

/// The arguments of a settlement.
pub(super) struct SettleArguments<'a> {
    pub(super) given: Option<Now>,
    pub(super) reserved: QuotaUnits,
    pub(super) actual: QuotaUnits,
    /// The index of the record, the day, the maximum cost and the actual cost.
    pub(super) money: Option<(u64, u64, u64, u64)>,
    pub(super) number: u64,
    /// The fingerprint, and how long the key is remembered as done.
    pub(super) claim: Option<(u64, Option<Duration>)>,
    pub(super) limits: &'a [(u64, LimitRule)],
    pub(super) marks: &'a [u64],
}

impl SettleArguments<'_> {
    pub(super) fn pack(&self, records: usize) -> Vec<u8> {
        let mut fields = FixedWidthFields::default();
        put_time(&mut fields, self.given);
        fields.put::<4>(self.reserved.requests.into()).put::<4>(self.reserved.tokens.into());
        let (record, day, max_cost, actual_cost) = self.money.unwrap_or_default();
        fields.put::<1>(record).put::<4>(day).put::<7>(max_cost).put::<7>(actual_cost).put::<6>(self.number);
        let (fingerprint, keep) = self.claim.unwrap_or_default();
        fields.bytes(&fingerprint.to_be_bytes()).put::<7>(keep.map_or(0, micros)).put::<1>(records as u64);
        fields.put::<4>(self.actual.requests.into()).put::<4>(self.actual.tokens.into());
        for ((record, rule), mark) in self.limits.iter().zip(self.marks) {
            fields.put::<1>(*record).put::<6>(rule.id).put::<7>(rule.shape);
            fields.put::<1>(unit_index(rule.unit)).put::<7>(*mark);
        }
        fields.finish()
    }
}
