//! Rate limits, idempotency keys and callers' daily budgets, in one script.
//!
//! The usage of a key is one record, stored with all other records of its partition, so that a decision is one read, some
//! arithmetic and one write. Limits within a record are found by the names of group and limit, so that changed limits
//! find the old counts after a reload. A refusal writes nothing.

mod arguments;
mod fleet;
mod merge;
mod rules;
mod specialized;

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::micros;
use super::script::StoreScript;
use crate::quotas::{AdmissionRequest, AdmitDecision, CheckedLimits, Placement, Quotas, Settlement};
use crate::receipt::QuotaReceipt;
use crate::{StoreError, StoreFuture, lock};
use ::redis::Value;
use arguments::{ReserveArguments, SettleArguments, TouchedLimits, sort_scopes, with_placement};
use fleet::{ChunkPart, FleetDecision, FleetLeases};
use rules::{LimitRule, ScriptRules};
use seawall_core::budget::DayShortage;
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaRefusal, QuotaScope, QuotaUnits,
};
use seawall_core::runtime::Runtime;
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, UtcTime};
use specialized::{ScriptOperation, ScriptVariant, general_reserve, general_settle};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The width of the random numbers that identify reservations.
const RESERVATION_ID_BITS: u32 = 48;

#[derive(Debug)]
struct Scripts {
    reserve: StoreScript,
    settle: StoreScript,
    view: StoreScript,
    merge: StoreScript,
    incarnation: StoreScript,
}

impl Scripts {
    fn new() -> Self {
        let guard = include_str!("../lua/guard.lua");
        Self {
            reserve: general_reserve(),
            settle: general_settle(),
            view: StoreScript::over_records(include_str!("../lua/view.lua"), guard),
            merge: StoreScript::over_records(include_str!("../lua/merge.lua"), guard),
            incarnation: StoreScript::new(merge::INCARNATION),
        }
    }
}

/// Quotas in Redis.
pub struct RedisQuotas<R> {
    connection: RedisConnection<R>,
    scripts: Scripts,
    rules: Mutex<Arc<ScriptRules>>,
    /// The names of the groups that are stored in the caller's partition. All others are fleet-wide.
    partitioned_groups: Vec<Box<str>>,
    leases: FleetLeases,
    /// Whether the time is passed in instead of being the server's, which only tests do.
    manual_clock: bool,
}

/// What one request has taken.
#[derive(Debug)]
struct RedisQuotaReservation {
    charge: ScriptCharge,
    fleet: Vec<ChunkPart>,
}

/// What one script has taken.
#[derive(Clone, Debug, Default)]
struct ScriptCharge {
    /// The keys of the records, followed by the key of the claim if there is one.
    keys: Vec<String>,
    records: usize,
    limits: Vec<(u64, LimitRule)>,
    marks: Vec<u64>,
    cost: QuotaUnits,
    number: u64,
    /// The index of the record, the day and the maximum cost.
    money: Option<(u64, u64, u64)>,
    /// The fingerprint, and how long the idempotency key is remembered.
    claim: Option<(u64, Duration)>,
    /// The settlement script for these limits, because the limits may have changed by then.
    settle: Option<Arc<StoreScript>>,
}

/// The outcome of one script.
enum ScriptDecision {
    Granted { charge: ScriptCharge, tightest: Option<LimitView> },
    Refused(AdmitDecision),
}

impl<R: Runtime> RedisQuotas<R> {
    /// Quotas with these groups and the placement of their counts.
    pub fn new(
        connection: RedisConnection<R>,
        groups: Vec<(QuotaGroup, Placement)>,
    ) -> Result<Self, SettingError> {
        let is_partitioned = |(group, placement): &(QuotaGroup, Placement)| {
            (*placement == Placement::Partition).then(|| group.name().into())
        };
        let partitioned_groups: Vec<Box<str>> = groups.iter().filter_map(is_partitioned).collect();
        let groups: Vec<QuotaGroup> = groups.into_iter().map(|(group, _)| group).collect();
        let rules = Mutex::new(Arc::new(ScriptRules::new(&groups, &partitioned_groups)?));
        let leases = FleetLeases::default();
        Ok(Self {
            connection,
            scripts: Scripts::new(),
            rules,
            partitioned_groups,
            leases,
            manual_clock: false,
        })
    }

    /// Uses the time that is passed in instead of the server's. For tests that step time; real nodes' clocks would
    /// disagree.
    #[must_use]
    pub fn with_manual_clock(self) -> Self {
        Self { manual_clock: true, ..self }
    }

    /// Gives back what is left of expired chunks.
    async fn return_expired_chunks(&self, now: Now) {
        for expired in self.leases.expired(now.monotonic) {
            self.give_back_chunk(&expired, now).await;
        }
    }

    fn rules(&self) -> Arc<ScriptRules> {
        Arc::clone(&lock(&self.rules))
    }

    fn given(&self, now: Now) -> Option<Now> {
        self.manual_clock.then_some(now)
    }

    /// The time to live of a key. With a manual clock, an hour is added so that the server's own clock does not
    /// expire it first.
    fn millis(&self, span: Duration) -> u64 {
        micros(span).div_ceil(1_000).max(1) + if self.manual_clock { 3_600_000 } else { 0 }
    }

    /// Runs one script that decides over all limits it touches.
    async fn take(
        &self,
        mut touched: TouchedLimits,
        claim_key: Option<String>,
        mut reserve: ReserveArguments<'_>,
        rules: &ScriptRules,
    ) -> Result<ScriptDecision, StoreError> {
        let records = touched.keys.len();
        let variant = ScriptVariant {
            operation: ScriptOperation::Reserve,
            money: reserve.money.is_some(),
            claim: claim_key.is_some(),
            manual_clock: self.manual_clock,
        };
        let specialized = rules.specialized.script(&touched, variant);
        let settle = rules
            .specialized
            .script(&touched, ScriptVariant { operation: ScriptOperation::Settle, ..variant });
        touched.keys.extend(claim_key);
        reserve.number = self.connection.runtime().draw().bits() >> (u64::BITS - RESERVATION_ID_BITS);
        let argument = reserve.pack(&touched, records);
        let claim = reserve.claim.map(|claim| (claim.fingerprint, claim.retention));
        let script = specialized.as_deref().unwrap_or(&self.scripts.reserve);
        let claim_timeout = reserve.claim.map_or(1, |claim| self.millis(claim.timeout)).to_string();
        let response =
            self.connection.run(script, &touched.keys, &[&argument, claim_timeout.as_bytes()]).await?;
        let response = match parse_specialized(&response) {
            Some((mono, tightest, left)) => {
                let utc = reserve.given.map_or(mono, |now| now.utc.as_nanos() / 1_000);
                let marks = touched.limits.iter().map(|(_, rule)| rule.mark(reserve.cost, mono, utc));
                [0, tightest, left, utc / rules::DAY_MICROS].into_iter().chain(marks).collect()
            }
            // The counts of a script are never negative.
            None => parse_integers(&response)?.into_iter().map(i64::unsigned_abs).collect::<Vec<u64>>(),
        };
        let rule = |index: u64| {
            let index = usize::try_from(index.saturating_sub(1)).unwrap_or(usize::MAX);
            touched.limits.get(index).map(|(_, rule)| *rule).ok_or_else(unexpected_response)
        };
        let view = |index: u64, left: u64| {
            let rule = rule(index)?;
            let remaining = u32::try_from(left).unwrap_or(u32::MAX).min(rule.capacity);
            Ok::<_, StoreError>(LimitView { limit: rule.limit, capacity: rule.capacity, remaining })
        };
        let refused = match response.as_slice() {
            [0, tightest, left, day, marks @ ..] if marks.len() == touched.limits.len() => {
                let tightest = if marks.is_empty() { None } else { Some(view(*tightest, *left)?) };
                let money = reserve.money.map(|(record, money)| (record, *day, money.max_cost.as_nanos()));
                let charge = ScriptCharge {
                    records,
                    limits: std::mem::take(&mut touched.limits),
                    keys: touched.keys,
                    marks: marks.to_vec(),
                    cost: reserve.cost,
                    number: reserve.number,
                    money,
                    claim,
                    settle,
                };
                return Ok(ScriptDecision::Granted { charge, tightest });
            }
            [1, index, left, wait] => AdmitDecision::RateLimited(QuotaRefusal {
                binding: view(*index, *left)?,
                wait: Duration::from_micros(*wait),
            }),
            [2, index] => {
                let rule = rule(*index)?;
                AdmitDecision::TooLarge { limit: rule.limit, capacity: rule.capacity }
            }
            [3, available, unspent, resets] => AdmitDecision::InsufficientBudget(DayShortage {
                available: Money::from_nanos(*available),
                unspent: Money::from_nanos(*unspent),
                resets: UtcTime::from_nanos(resets.saturating_mul(1_000)),
                window: None,
            }),
            [4] => AdmitDecision::InProgress,
            [5] => AdmitDecision::Completed,
            [6] => AdmitDecision::KeyReused,
            _ => return Err(unexpected_response()),
        };
        Ok(ScriptDecision::Refused(refused))
    }

    /// Corrects what one script has taken to the actual usage.
    async fn correct(&self, charge: &ScriptCharge, spent: Settlement, now: Now) -> Result<(), StoreError> {
        let is_exact =
            charge.limits.iter().all(|(_, rule)| rule.units(charge.cost) == rule.units(spent.units));
        if is_exact && charge.money.is_none() && charge.claim.is_none() {
            return Ok(());
        }
        let settle = SettleArguments {
            given: self.given(now),
            reserved: charge.cost,
            actual: spent.units,
            money: charge.money.map(|(record, day, max_cost)| (record, day, max_cost, spent.cost.as_nanos())),
            number: charge.number,
            claim: charge.claim.map(|(fingerprint, keep)| (fingerprint, spent.answered.then_some(keep))),
            limits: &charge.limits,
            marks: &charge.marks,
        };
        let argument = settle.pack(charge.records);
        let script = charge.settle.as_deref().unwrap_or(&self.scripts.settle);
        let keep = charge.claim.map_or(1, |(_, keep)| self.millis(keep)).to_string();
        let response = self.connection.run(script, &charge.keys, &[&argument, keep.as_bytes()]).await?;
        if response == Value::Int(0) { Ok(()) } else { parse_integers(&response).map(|_| ()) }
    }
}

impl<R: Runtime> RedisQuotas<R> {
    async fn decide(&self, request: &AdmissionRequest<'_>, now: Now) -> Result<AdmitDecision, StoreError> {
        let rules = self.rules();
        let scopes = sort_scopes(request.scopes, &rules)?;
        let parts = match self.take_fleet(&scopes, request.units, &rules, now).await? {
            FleetDecision::Granted(parts) => parts,
            FleetDecision::Refused(refusal) => return Ok(refusal),
        };
        let mut touched = TouchedLimits::in_partition(
            request.partition,
            &with_placement(&scopes, &rules, Placement::Partition),
            &rules,
        );
        let money = request.money.map(|money| (touched.record(request.partition, money.caller), money));
        let reserve = ReserveArguments {
            given: self.given(now),
            cost: request.units,
            money,
            number: 0,
            claim: request.claim,
        };
        let claim = request.claim.map(|claim| key::claim(request.partition, claim.caller, claim.key));
        let response = if touched.keys.is_empty() && claim.is_none() {
            Ok(ScriptDecision::Granted {
                charge: ScriptCharge { cost: request.units, ..ScriptCharge::default() },
                tightest: None,
            })
        } else {
            self.take(touched, claim, reserve, &rules).await
        };
        match response {
            Ok(ScriptDecision::Granted { charge, tightest }) => {
                let views = parts.iter().flat_map(|part| part.tightest).chain(tightest);
                let tightest =
                    views.min_by_key(|view| (view.remaining, view.limit)).ok_or_else(unexpected_response)?;
                let reservation = QuotaReceipt::new(RedisQuotaReservation { charge, fleet: parts });
                Ok(AdmitDecision::Granted { reservation, tightest })
            }
            Ok(ScriptDecision::Refused(refusal)) => {
                self.leases.give_back(&parts, now.monotonic);
                Ok(refusal)
            }
            Err(error) => {
                self.leases.give_back(&parts, now.monotonic);
                Err(error)
            }
        }
    }

    async fn correct_all(
        &self,
        reservation: RedisQuotaReservation,
        spent: Settlement,
        now: Now,
    ) -> Result<(), StoreError> {
        let mut outcome = self.correct(&reservation.charge, spent, now).await;
        for part in &reservation.fleet {
            let corrected = self.correct(&part.charge, spent, now).await;
            outcome = outcome.and(corrected);
        }
        outcome
    }

    async fn remaining(
        &self,
        partition: u64,
        scopes: &[QuotaScope],
        now: Now,
    ) -> Result<Vec<LimitView>, StoreError> {
        let rules = self.rules();
        let scopes = sort_scopes(scopes, &rules)?;
        let partitioned = with_placement(&scopes, &rules, Placement::Partition);
        let mut touched = vec![TouchedLimits::in_partition(partition, &partitioned, &rules)];
        for scope in &with_placement(&scopes, &rules, Placement::Fleet) {
            touched.push(TouchedLimits::of_fleet(scope, &rules));
        }
        let mut views = Vec::new();
        for touched in touched.iter().filter(|touched| !touched.keys.is_empty()) {
            let reserve = ReserveArguments {
                given: self.given(now),
                cost: QuotaUnits::NOTHING,
                money: None,
                number: 0,
                claim: None,
            };
            let argument = reserve.pack(touched, touched.keys.len());
            let response =
                parse_integers(&self.connection.run(&self.scripts.view, &touched.keys, &[&argument]).await?)?;
            let remainders = response.get(1..).filter(|remainders| remainders.len() == touched.limits.len());
            for ((_, rule), left) in touched.limits.iter().zip(remainders.ok_or_else(unexpected_response)?) {
                let remaining = u32::try_from(*left).unwrap_or(0).min(rule.capacity);
                views.push(LimitView { limit: rule.limit, capacity: rule.capacity, remaining });
            }
        }
        views.sort_unstable_by_key(|view| view.limit);
        Ok(views)
    }
}

impl<R: Runtime> Quotas for RedisQuotas<R> {
    fn reserve<'a>(&'a self, request: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::boxed(self.decide(request, now))
    }

    fn settle(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        match receipt.into_content(STORE) {
            Ok(reservation) => StoreFuture::boxed(self.correct_all(reservation, spent, now)),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }

    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::boxed(self.remaining(partition, scopes, now))
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        ScriptRules::check(&groups)?;
        Ok(CheckedLimits::new(groups))
    }

    fn change_limits(&self, limits: CheckedLimits, _now: Now) -> Vec<LimitChange> {
        *lock(&self.rules) =
            Arc::new(ScriptRules::of_checked(&limits.into_groups(), &self.partitioned_groups));
        self.leases.forget();
        Vec::new()
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let position = self.rules().groups.iter().position(|group| *group.name == *name)?;
        u16::try_from(position).ok().map(GroupId::from_index)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        let rules = self.rules();
        rules.groups.get(usize::from(limit.group.index()))?.limit_names.get(limit.quota).cloned()
    }
}

/// The response of a specialised script: the time, the tightest limit, and what is left of it.
fn parse_specialized(response: &Value) -> Option<(u64, u64, u64)> {
    let Value::BulkString(bytes) = response else { return None };
    let bytes: &[u8; 12] = bytes.as_slice().try_into().ok()?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (mono, rest) = bytes.split_at(7);
    let (tightest, left) = rest.split_at(1);
    Some((number(mono), number(tightest), number(left)))
}

fn unexpected_response() -> StoreError {
    StoreError::failed(STORE, "unexpected response of a script")
}
