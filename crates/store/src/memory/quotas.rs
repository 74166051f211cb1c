//! Rate limits, idempotency keys and callers' daily budgets in memory.

use super::claims::{ClaimTable, MemoryClaim, hash_key};
use super::expiring_map::ExpiringMap;
use crate::claims::ClaimDecision;
use crate::node_ledger::{AdmissionRecord, LimitCharge};
use crate::quotas::{
    AdmissionRequest, AdmitDecision, CallerBudgetRequest, CheckedLimits, Quotas, Settlement,
};
use crate::receipt::QuotaReceipt;
use crate::{StoreError, StoreFuture, lock};
use seawall_core::budget::{BudgetAccount, DayShortage};
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, LimitView, QuotaDecision, QuotaGroup, QuotaReservation, QuotaScope,
    RateLimiter, ScopeError,
};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::sync::Mutex;
use std::time::Duration;

/// The name of this store in errors.
const STORE: &str = "quota";
/// How long a caller's daily spending is kept after its last change: today, and some more for late settlements.
const DAY_TTL: Duration = Duration::from_secs(48 * 3_600);

/// Quotas in the memory of one process.
///
/// A request without an idempotency key and without money costs no more than the [`RateLimiter`] itself, which is
/// sharded. Requests with either are decided behind one lock.
#[derive(Debug)]
pub struct MemoryQuotas {
    limiter: RateLimiter,
    keyed: Mutex<KeyedState>,
}

/// State that only requests with an idempotency key or with money touch.
#[derive(Debug)]
struct KeyedState {
    claims: ClaimTable,
    days: CallerDays,
}

/// What one request has taken. A reservation that is dropped stays charged, and its idempotency key stays claimed until the
/// claim expires.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant must be settled"]
pub(crate) struct MemoryQuotaReservation {
    limits: QuotaReservation,
    money: Option<BudgetHold>,
    claim: Option<MemoryClaim>,
}

/// Money taken from a caller's daily budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BudgetHold {
    day: u64,
    caller: u64,
    max_cost: Money,
}

/// What callers have spent on a day. A reservation is counted at its maximum cost from the beginning, so that
/// nothing has to happen when it expires.
#[derive(Debug)]
struct CallerDays(ExpiringMap<(u64, u64), BudgetAccount>);

impl CallerDays {
    fn account(&self, day: u64, caller: u64, now: Timestamp) -> BudgetAccount {
        self.0.get(&(day, caller), now).copied().unwrap_or_default()
    }

    /// Why the caller's daily budget has no room for this request, if it has none.
    fn shortage(&self, request: &CallerBudgetRequest, now: Now) -> Option<DayShortage> {
        let day = now.utc.day();
        let account = self.account(day, request.caller, now.monotonic);
        let (available, unspent) = (account.available(request.cap), account.unspent(request.cap));
        let resets = UtcTime::start_of_day(day.saturating_add(1));
        (request.max_cost > available).then_some(DayShortage { available, unspent, resets, window: None })
    }

    fn take(&mut self, request: &CallerBudgetRequest, now: Now) -> BudgetHold {
        let hold = BudgetHold { day: now.utc.day(), caller: request.caller, max_cost: request.max_cost };
        let mut account = self.account(hold.day, hold.caller, now.monotonic);
        account.held = account.held.saturating_add(hold.max_cost);
        self.set(hold, account, now.monotonic);
        hold
    }

    /// Replaces the maximum cost with the actual cost. If the day has been forgotten, only the actual cost is added.
    fn settle(&mut self, hold: BudgetHold, spent: Money, now: Timestamp) {
        let mut account = self.account(hold.day, hold.caller, now);
        account.held = account.held.saturating_sub(hold.max_cost);
        account.posted = account.posted.saturating_add(spent);
        self.set(hold, account, now);
    }

    fn set(&mut self, BudgetHold { day, caller, .. }: BudgetHold, account: BudgetAccount, now: Timestamp) {
        // Accounts that are back at zero are removed, because caller numbers come from outside and would fill the
        // memory.
        if account == BudgetAccount::default() {
            self.0.remove(&(day, caller), now);
        } else {
            self.0.insert((day, caller), account, now + DAY_TTL);
        }
    }
}

impl MemoryQuotas {
    /// Unused limits. The seed spreads callers over the shards of the rate limiter.
    pub fn new(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        let keyed = KeyedState { claims: ClaimTable::new(), days: CallerDays(ExpiringMap::new()) };
        Ok(Self { limiter: RateLimiter::new(groups, seed)?, keyed: Mutex::new(keyed) })
    }

    /// The rate limiter, to look up a group or the name of a limit.
    #[must_use]
    pub const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// The record to journal for a grant, so that it survives the process. `timeout` is the longest time for which the
    /// request can be in progress.
    #[must_use]
    pub(crate) fn record_of(
        &self,
        reservation: &MemoryQuotaReservation,
        timeout: Duration,
        now: Now,
    ) -> AdmissionRecord {
        let scope = |scope: QuotaScope| Some((self.limiter.tag(scope.group)?, scope.key.0));
        let scopes = reservation.limits.scopes().filter_map(scope).collect();
        let charge = LimitCharge { at: now.utc, cost: reservation.limits.cost(), scopes };
        let retention = reservation.claim.as_ref().map(MemoryClaim::retention).unwrap_or_default();
        let key_hash =
            reservation.claim.as_ref().map(|claim| claim.idempotency_record(now.utc + timeout + retention));
        AdmissionRecord::new(charge, key_hash, retention)
    }

    /// Restores an idempotency key that a process which has ended had claimed, until the given expiry.
    #[cfg(feature = "embedded")]
    pub(crate) fn restore_key(
        &self,
        key_hash: [u8; 32],
        fingerprint: u64,
        is_done: bool,
        expires: Timestamp,
    ) {
        lock(&self.keyed).claims.restore(key_hash, fingerprint, is_done, expires);
    }

    fn reserve_limits(
        &self,
        request: &AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryQuotaReservation>, StoreError> {
        let decision = self.limiter.reserve(request.scopes, request.units, now).map_err(broken)?;
        Ok(match decision {
            QuotaDecision::Granted { reservation, tightest } => {
                let reservation = MemoryQuotaReservation { limits: reservation, money: None, claim: None };
                AdmitDecision::Granted { reservation, tightest }
            }
            QuotaDecision::RetryAfter(refusal) => AdmitDecision::RateLimited(refusal),
            QuotaDecision::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
        })
    }

    /// Decides over a request with a key or with money, behind one lock, so that no two requests take the same.
    fn reserve_keyed(
        &self,
        request: &AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryQuotaReservation>, StoreError> {
        let key_hash = request.claim.as_ref().map(|claim| (hash_key(claim.caller, claim.key), claim));
        let mut keyed = lock(&self.keyed);
        keyed.claims.evict_expired(now.monotonic);
        keyed.days.0.evict_expired(now.monotonic);
        if let Some((key_hash, claim)) = &key_hash {
            match keyed.claims.lookup(key_hash, claim.fingerprint, now.monotonic) {
                None | Some(ClaimDecision::Granted(_)) => {}
                Some(ClaimDecision::InProgress) => return Ok(AdmitDecision::InProgress),
                Some(ClaimDecision::Completed) => return Ok(AdmitDecision::Completed),
                Some(ClaimDecision::OutcomeUnknown) => return Ok(AdmitDecision::OutcomeUnknown),
                Some(ClaimDecision::KeyReused) => return Ok(AdmitDecision::KeyReused),
            }
        }
        let decision = self.reserve_limits(request, now)?;
        let AdmitDecision::Granted { mut reservation, tightest } = decision else { return Ok(decision) };
        if let Some(money) = &request.money {
            if let Some(shortage) = keyed.days.shortage(money, now) {
                self.limiter.refund(reservation.limits, now);
                return Ok(AdmitDecision::InsufficientBudget(shortage));
            }
            reservation.money = Some(keyed.days.take(money, now));
        }
        reservation.claim =
            key_hash.map(|(key_hash, claim)| keyed.claims.insert(key_hash, claim, now.monotonic));
        Ok(AdmitDecision::Granted { reservation, tightest })
    }
}

impl MemoryQuotas {
    /// [`Quotas::reserve`] without a future: nothing in memory has to be waited for.
    pub(crate) fn reserve_sync(
        &self,
        request: &AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryQuotaReservation>, StoreError> {
        if request.claim.is_none() && request.money.is_none() {
            self.reserve_limits(request, now)
        } else {
            self.reserve_keyed(request, now)
        }
    }

    /// [`Quotas::settle`] without a future.
    pub(crate) fn settle_sync(&self, reservation: MemoryQuotaReservation, spent: Settlement, now: Now) {
        let MemoryQuotaReservation { limits, money, claim } = reservation;
        self.limiter.settle(limits, spent.units, now);
        if money.is_none() && claim.is_none() {
            return;
        }
        let mut keyed = lock(&self.keyed);
        if let Some(hold) = money {
            keyed.days.settle(hold, spent.cost, now.monotonic);
        }
        match claim {
            Some(claim) if spent.answered => keyed.claims.finish(&claim, now.monotonic),
            Some(claim) => keyed.claims.release(&claim, now.monotonic),
            None => {}
        }
    }
}

impl Quotas for MemoryQuotas {
    fn reserve<'a>(&'a self, request: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::run(|| Ok(self.reserve_sync(request, now)?.map(QuotaReceipt::new)))
    }

    fn settle(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::run(|| {
            self.settle_sync(receipt.into_content(STORE)?, spent, now);
            Ok(())
        })
    }

    fn view<'a>(
        &'a self,
        _partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::run(|| self.limiter.view(scopes, now).map_err(broken))
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        self.limiter.check_limits(&groups)?;
        Ok(CheckedLimits::new(groups))
    }

    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        self.limiter.replace_limits(limits.into_groups(), now)
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        self.limiter.group(name)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        self.limiter.quota(limit).map(|quota| quota.name().into())
    }

    fn admission_record(
        &self,
        receipt: &QuotaReceipt,
        timeout: Duration,
        now: Now,
    ) -> Option<AdmissionRecord> {
        Some(self.record_of(receipt.content()?, timeout, now))
    }

    fn sweep(&self, part: usize, now: Now) {
        self.limiter.sweep(part, now);
    }
}

fn broken(error: ScopeError) -> StoreError {
    StoreError::failed(STORE, error)
}
