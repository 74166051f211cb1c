//! Rate limits, idempotency keys and callers' daily budgets, in one script.
//!
//! The usage of a key is one record, stored with all other records of its home, so that a decision is one read, some
//! arithmetic and one write. Limits within a record are found by the names of group and limit, so that changed limits
//! find the old counts after a reload. A refusal writes nothing.

mod ask;
mod fleet;
mod merge;
mod rules;
mod straight;

pub use rules::Placement;

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::micros;
use super::script::StoreScript;
use crate::quotas::{AdmitDecision, MOST_LIMITS, QuotaAsk, Quotas, Spent};
use crate::{StoreError, lock};
use ::redis::Value;
use arrayvec::ArrayVec;
use ask::{Reserve, Settle, Touched, ordered, placed};
use fleet::{FleetDecision, FleetLeases, FleetPart};
use rules::{LimitRule, Rules};
use seawall_core::budget::DayShortage;
use seawall_core::handle::Runtime;
use seawall_core::money::Money;
use seawall_core::quota::{Cost, GroupId, LimitView, QuotaGroup, Refusal, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, UtcTime};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use straight::{Purpose, Wanted, general_reserve, general_settle};

/// The width of the random numbers that identify reservations.
const NUMBER_BITS: u32 = 48;

#[derive(Debug)]
struct Scripts {
    reserve: StoreScript,
    settle: StoreScript,
    view: StoreScript,
    merge: StoreScript,
}

impl Scripts {
    fn new() -> Self {
        let guard = include_str!("../lua/guard.lua");
        Self {
            reserve: general_reserve(),
            settle: general_settle(),
            view: StoreScript::over_records(include_str!("../lua/view.lua"), guard),
            merge: StoreScript::over_records(include_str!("../lua/merge.lua"), guard),
        }
    }
}

/// Quotas in Redis.
pub struct RedisQuotas<R> {
    link: RedisLink<R>,
    scripts: Scripts,
    rules: Mutex<Arc<Rules>>,
    /// The names of the groups that are stored in the caller's home. All others are fleet-wide.
    home_names: Vec<Box<str>>,
    leases: FleetLeases,
    /// Whether the time is passed in instead of being the server's, which only tests do.
    stepped: bool,
}

/// What one request has taken.
#[derive(Debug)]
pub struct RedisReceipt {
    taken: Taken,
    fleet: Vec<FleetPart>,
}

/// What one script has taken.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// The keys of the records, followed by the key of the claim if there is one.
    keys: Vec<String>,
    records: usize,
    limits: Vec<(u64, LimitRule)>,
    marks: Vec<u64>,
    cost: Cost,
    number: u64,
    /// The index of the record, the day and the worst-case cost.
    money: Option<(u64, u64, u64)>,
    /// The fingerprint, and how long the idempotency key is remembered.
    claim: Option<(u64, Duration)>,
    /// The settlement script for these limits, because the limits may have changed by then.
    settle: Option<Arc<StoreScript>>,
}

/// The outcome of one script.
enum Answer {
    Granted { taken: Taken, tightest: Option<LimitView> },
    Refused(AdmitDecision<RedisReceipt>),
}

impl<R: Runtime> RedisQuotas<R> {
    /// Quotas with these groups and the placement of their counts.
    pub fn new(link: RedisLink<R>, groups: Vec<(QuotaGroup, Placement)>) -> Result<Self, SettingError> {
        let is_at_home = |(group, placement): &(QuotaGroup, Placement)| {
            (*placement == Placement::Home).then(|| group.name().into())
        };
        let home_names: Vec<Box<str>> = groups.iter().filter_map(is_at_home).collect();
        let groups: Vec<QuotaGroup> = groups.into_iter().map(|(group, _)| group).collect();
        let rules = Mutex::new(Arc::new(Rules::new(&groups, &home_names)?));
        let leases = FleetLeases::default();
        Ok(Self { link, scripts: Scripts::new(), rules, home_names, leases, stepped: false })
    }

    /// Uses the time that is passed in instead of the server's. For tests that step time; real nodes' clocks would
    /// disagree.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    /// The group with this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        let position = self.rules().groups.iter().position(|group| *group.name == *name)?;
        u16::try_from(position).ok().map(GroupId::at)
    }

    /// Gives back what is left of expired chunks. Call it once a second, and before the node stops.
    pub async fn give_back_chunks(&self, now: Now) {
        for lapsed in self.leases.lapsed(now.monotonic) {
            self.give_back_chunk(&lapsed, now).await;
        }
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&lock(&self.rules))
    }

    fn given(&self, now: Now) -> Option<Now> {
        self.stepped.then_some(now)
    }

    /// The time to live of a key. Where time is stepped, an hour is added so that the server's own clock does not
    /// expire it first.
    fn millis(&self, span: Duration) -> u64 {
        micros(span).div_ceil(1_000).max(1) + if self.stepped { 3_600_000 } else { 0 }
    }

    /// Runs one script that decides over all limits it touches.
    async fn take(
        &self,
        mut touched: Touched,
        claim_key: Option<String>,
        mut reserve: Reserve<'_>,
        rules: &Rules,
    ) -> Result<Answer, StoreError> {
        let records = touched.keys.len();
        let wanted = Wanted {
            purpose: Purpose::Reserve,
            money: reserve.money.is_some(),
            claim: claim_key.is_some(),
            stepped: self.stepped,
        };
        let straight = rules.texts.script(&touched, wanted);
        let settle = rules.texts.script(&touched, Wanted { purpose: Purpose::Settle, ..wanted });
        touched.keys.extend(claim_key);
        reserve.number = self.link.runtime().draw().bits() >> (u64::BITS - NUMBER_BITS);
        let argument = reserve.pack(&touched, records);
        let claim = reserve.claim.map(|claim| (claim.fingerprint, claim.keep));
        let script = straight.as_deref().unwrap_or(&self.scripts.reserve);
        let claim_lasts = reserve.claim.map_or(1, |claim| self.millis(claim.lasts)).to_string();
        let answer = self.link.run(script, &touched.keys, &[&argument, claim_lasts.as_bytes()]).await?;
        let answer = match straight_answer(&answer) {
            Some((mono, tightest, left)) => {
                let utc = reserve.given.map_or(mono, |now| now.utc.as_nanos() / 1_000);
                let marks = touched.limits.iter().map(|(_, rule)| rule.mark(reserve.cost, mono, utc));
                [0, tightest, left, utc / rules::DAY_LASTS].into_iter().chain(marks).collect()
            }
            // The counts of a script are never negative.
            None => numbers(&answer)?.into_iter().map(i64::unsigned_abs).collect::<Vec<u64>>(),
        };
        let rule = |place: u64| {
            let index = usize::try_from(place.saturating_sub(1)).unwrap_or(usize::MAX);
            touched.limits.get(index).map(|(_, rule)| *rule).ok_or_else(strange)
        };
        let view = |place: u64, left: u64| {
            let rule = rule(place)?;
            let remaining = u32::try_from(left).unwrap_or(u32::MAX).min(rule.most);
            Ok::<_, StoreError>(LimitView { limit: rule.limit, capacity: rule.most, remaining })
        };
        let refused = match answer.as_slice() {
            [0, tightest, left, day, marks @ ..] if marks.len() == touched.limits.len() => {
                let tightest = if marks.is_empty() { None } else { Some(view(*tightest, *left)?) };
                let money = reserve.money.map(|(record, money)| (record, *day, money.worst.as_nanos()));
                let taken = Taken {
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
                return Ok(Answer::Granted { taken, tightest });
            }
            [1, place, left, wait] => AdmitDecision::RetryAfter(Refusal {
                binding: view(*place, *left)?,
                wait: Duration::from_micros(*wait),
            }),
            [2, place] => {
                let rule = rule(*place)?;
                AdmitDecision::TooLarge { limit: rule.limit, capacity: rule.most }
            }
            [3, free, unspent, resets] => AdmitDecision::DayShort(DayShortage {
                free: Money::from_nanos(*free),
                unspent: Money::from_nanos(*unspent),
                resets: UtcTime::from_nanos(resets.saturating_mul(1_000)),
            }),
            [4] => AdmitDecision::InProgress,
            [5] => AdmitDecision::Done,
            [6] => AdmitDecision::OtherRequest,
            _ => return Err(strange()),
        };
        Ok(Answer::Refused(refused))
    }

    /// Corrects what one script has taken to the actual usage.
    async fn correct(&self, taken: &Taken, spent: Spent, now: Now) -> Result<(), StoreError> {
        let is_exact = taken.limits.iter().all(|(_, rule)| rule.units(taken.cost) == rule.units(spent.cost));
        if is_exact && taken.money.is_none() && taken.claim.is_none() {
            return Ok(());
        }
        let settle = Settle {
            given: self.given(now),
            reserved: taken.cost,
            actual: spent.cost,
            money: taken.money.map(|(record, day, worst)| (record, day, worst, spent.money.as_nanos())),
            number: taken.number,
            claim: taken.claim.map(|(fingerprint, keep)| (fingerprint, spent.done.then_some(keep))),
            limits: &taken.limits,
            marks: &taken.marks,
        };
        let argument = settle.pack(taken.records);
        let script = taken.settle.as_deref().unwrap_or(&self.scripts.settle);
        let keep = taken.claim.map_or(1, |(_, keep)| self.millis(keep)).to_string();
        let answer = self.link.run(script, &taken.keys, &[&argument, keep.as_bytes()]).await?;
        if answer == Value::Int(0) { Ok(()) } else { numbers(&answer).map(|_| ()) }
    }
}

impl<R: Runtime> Quotas for RedisQuotas<R> {
    type Receipt = RedisReceipt;

    async fn reserve(&self, ask: &QuotaAsk<'_>, now: Now) -> Result<AdmitDecision<RedisReceipt>, StoreError> {
        let rules = self.rules();
        let scopes = ordered(ask.scopes, &rules)?;
        let parts = match self.take_fleet(&scopes, ask.cost, &rules, now).await? {
            FleetDecision::Granted(parts) => parts,
            FleetDecision::Refused(refusal) => return Ok(refusal),
        };
        let mut touched = Touched::at_home(ask.home, &placed(&scopes, &rules, Placement::Home), &rules);
        let money = ask.money.map(|money| (touched.record(ask.home, money.caller), money));
        let reserve = Reserve { given: self.given(now), cost: ask.cost, money, number: 0, claim: ask.claim };
        let claim = ask.claim.map(|claim| key::claim(ask.home, claim.caller, claim.name));
        let answer = if touched.keys.is_empty() && claim.is_none() {
            Ok(Answer::Granted { taken: Taken { cost: ask.cost, ..Taken::default() }, tightest: None })
        } else {
            self.take(touched, claim, reserve, &rules).await
        };
        match answer {
            Ok(Answer::Granted { taken, tightest }) => {
                let views = parts.iter().flat_map(|part| part.tightest).chain(tightest);
                let least = views.min_by_key(|view| (view.remaining, view.limit)).ok_or_else(strange)?;
                let receipt = RedisReceipt { taken, fleet: parts };
                Ok(AdmitDecision::Granted { receipt, tightest: least })
            }
            Ok(Answer::Refused(refusal)) => {
                self.leases.give_back(&parts, now.monotonic);
                Ok(refusal)
            }
            Err(error) => {
                self.leases.give_back(&parts, now.monotonic);
                Err(error)
            }
        }
    }

    async fn settle(&self, receipt: RedisReceipt, spent: Spent, now: Now) -> Result<(), StoreError> {
        let mut outcome = self.correct(&receipt.taken, spent, now).await;
        for part in &receipt.fleet {
            let corrected = self.correct(&part.taken, spent, now).await;
            outcome = outcome.and(corrected);
        }
        outcome
    }

    async fn view(
        &self,
        home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError> {
        let rules = self.rules();
        let scopes = ordered(scopes, &rules)?;
        let mut touched: ArrayVec<Touched, { ask::MOST_SCOPES + 1 }> = ArrayVec::new();
        touched.push(Touched::at_home(home, &placed(&scopes, &rules, Placement::Home), &rules));
        for scope in &placed(&scopes, &rules, Placement::Fleet) {
            touched.push(Touched::of_fleet(scope, &rules));
        }
        let mut views: ArrayVec<LimitView, MOST_LIMITS> = ArrayVec::new();
        for touched in touched.iter().filter(|touched| !touched.keys.is_empty()) {
            let reserve =
                Reserve { given: self.given(now), cost: Cost::NOTHING, money: None, number: 0, claim: None };
            let argument = reserve.pack(touched, touched.keys.len());
            let answer = numbers(&self.link.run(&self.scripts.view, &touched.keys, &[&argument]).await?)?;
            let lefts = answer.get(1..).filter(|lefts| lefts.len() == touched.limits.len());
            for ((_, rule), left) in touched.limits.iter().zip(lefts.ok_or_else(strange)?) {
                let remaining = u32::try_from(*left).unwrap_or(0).min(rule.most);
                let _ = views.try_push(LimitView { limit: rule.limit, capacity: rule.most, remaining });
            }
        }
        views.sort_unstable_by_key(|view| view.limit);
        Ok(views)
    }

    fn change(&self, groups: Vec<QuotaGroup>, _now: Now) -> Result<(), SettingError> {
        let rules = Arc::new(Rules::new(&groups, &self.home_names)?);
        *lock(&self.rules) = rules;
        self.leases.forget();
        Ok(())
    }
}

/// The response of a specialised script: the time, the tightest limit, and what is left of it.
fn straight_answer(answer: &Value) -> Option<(u64, u64, u64)> {
    let Value::BulkString(bytes) = answer else { return None };
    let bytes: &[u8; 12] = bytes.as_slice().try_into().ok()?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (mono, rest) = bytes.split_at(7);
    let (tightest, left) = rest.split_at(1);
    Some((number(mono), number(tightest), number(left)))
}

fn strange() -> StoreError {
    StoreError::broken(STORE, "an answer of another shape")
}
