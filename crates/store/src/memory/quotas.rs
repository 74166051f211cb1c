//! Rate limits, idempotency keys and callers' daily budgets in memory.

use super::claims::{ClaimTable, MemoryClaim, hash_name};
use super::fading::Fading;
use crate::books::{CountMark, LimitCharge, MOST_CHARGED};
use crate::claims::ClaimDecision;
use crate::quotas::{AdmitDecision, MOST_LIMITS, MoneyAsk, QuotaAsk, Quotas, Spent};
use crate::{StoreError, lock};
use arrayvec::ArrayVec;
use seawall_core::budget::{Account, DayShortage};
use seawall_core::money::Money;
use seawall_core::quota::{LimitView, QuotaBook, QuotaDecision, QuotaGroup, Reservation, Scope, ScopeError};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::sync::Mutex;
use std::time::Duration;

/// How long a caller's daily spending is kept after its last change: today, and some more for late settlements.
const DAY_LIFE: Duration = Duration::from_secs(48 * 3_600);

/// Quotas in the memory of one process.
///
/// A request without an idempotency key and without money costs no more than the [`QuotaBook`] itself, which is
/// sharded. Requests with either are decided behind one lock.
#[derive(Debug)]
pub struct MemoryQuotas {
    book: QuotaBook,
    named: Mutex<Named>,
}

/// State that only requests with an idempotency key or with money touch.
#[derive(Debug)]
struct Named {
    claims: ClaimTable,
    days: CallerDays,
}

/// What one request has taken. A receipt that is dropped stays charged, and its idempotency key stays claimed until the
/// claim expires.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was granted is to be settled"]
pub struct MemoryReceipt {
    limits: Reservation,
    money: Option<Taken>,
    claim: Option<MemoryClaim>,
}

/// Money taken from a caller's daily budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    day: u64,
    caller: u64,
    worst: Money,
}

/// What callers have spent on a day. A reservation is counted at its worst-case cost from the beginning, so that
/// nothing has to happen when it expires.
#[derive(Debug)]
struct CallerDays(Fading<(u64, u64), Account>);

impl CallerDays {
    fn account(&self, day: u64, caller: u64, now: Timestamp) -> Account {
        self.0.get(&(day, caller), now).copied().unwrap_or_default()
    }

    /// Why the caller's daily budget has no room for this request, if it has none.
    fn shortage(&self, ask: &MoneyAsk, now: Now) -> Option<DayShortage> {
        let day = now.utc.day();
        let account = self.account(day, ask.caller, now.monotonic);
        let (free, unspent) = (account.free(ask.cap), account.unspent(ask.cap));
        let resets = UtcTime::start_of_day(day.saturating_add(1));
        (ask.worst > free).then_some(DayShortage { free, unspent, resets })
    }

    fn take(&mut self, ask: &MoneyAsk, now: Now) -> Taken {
        let taken = Taken { day: now.utc.day(), caller: ask.caller, worst: ask.worst };
        let mut account = self.account(taken.day, taken.caller, now.monotonic);
        account.held = account.held.saturating_add(taken.worst);
        self.set(taken, account, now.monotonic);
        taken
    }

    /// Replaces the worst-case cost with the actual cost. If the day has been forgotten, only the actual cost is added.
    fn settle(&mut self, taken: Taken, spent: Money, now: Timestamp) {
        let mut account = self.account(taken.day, taken.caller, now);
        account.held = account.held.saturating_sub(taken.worst);
        account.posted = account.posted.saturating_add(spent);
        self.set(taken, account, now);
    }

    fn set(&mut self, Taken { day, caller, .. }: Taken, account: Account, now: Timestamp) {
        // Accounts that are back at zero are removed, because caller numbers come from outside and would fill the
        // memory.
        if account == Account::default() {
            self.0.remove(&(day, caller), now);
        } else {
            self.0.insert((day, caller), account, now + DAY_LIFE);
        }
    }
}

impl MemoryQuotas {
    /// Unused limits. The seed spreads callers over the shards of the book.
    pub fn new(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        let named = Named { claims: ClaimTable::new(), days: CallerDays(Fading::new()) };
        Ok(Self { book: QuotaBook::new(groups, seed)?, named: Mutex::new(named) })
    }

    /// The quota book, to look up a group or the name of a limit.
    #[must_use]
    pub const fn book(&self) -> &QuotaBook {
        &self.book
    }

    /// The mark to journal for a grant, so that it survives the process. `lasts` is the longest time for which the
    /// request can be in progress.
    #[must_use]
    pub fn mark(&self, receipt: &MemoryReceipt, lasts: Duration, now: Now) -> CountMark {
        let scope = |scope: Scope| Some((self.book.tag(scope.group)?, scope.key.0));
        let scopes = receipt.limits.scopes().filter_map(scope).take(MOST_CHARGED).collect();
        let charge = LimitCharge { at: now.utc, cost: receipt.limits.cost(), scopes };
        let keep = receipt.claim.as_ref().map(MemoryClaim::keep).unwrap_or_default();
        let name = receipt.claim.as_ref().map(|claim| claim.mark(now.utc + lasts + keep));
        CountMark::new(charge, name, keep)
    }

    /// Restores an idempotency key that a process which has ended had claimed, until the given expiry.
    #[cfg(feature = "embedded")]
    pub(crate) fn restore_name(&self, name: [u8; 32], fingerprint: u64, is_done: bool, dies: Timestamp) {
        lock(&self.named).claims.restore(name, fingerprint, is_done, dies);
    }

    fn reserve_limits(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        let decision = self.book.reserve(ask.scopes, ask.cost, now).map_err(broken)?;
        Ok(match decision {
            QuotaDecision::Granted { reservation, tightest } => {
                let receipt = MemoryReceipt { limits: reservation, money: None, claim: None };
                AdmitDecision::Granted { receipt, tightest }
            }
            QuotaDecision::RetryAfter(refusal) => AdmitDecision::RetryAfter(refusal),
            QuotaDecision::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
        })
    }

    /// Decides over a request with a key or with money, behind one lock, so that no two requests take the same.
    fn reserve_named(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        let name = ask.claim.as_ref().map(|claim| (hash_name(claim.caller, claim.name), claim));
        let mut named = lock(&self.named);
        named.claims.forget(now.monotonic);
        named.days.0.forget(now.monotonic);
        if let Some((name, claim)) = &name {
            match named.claims.look(name, claim.fingerprint, now.monotonic) {
                None | Some(ClaimDecision::Yours(_)) => {}
                Some(ClaimDecision::InProgress) => return Ok(AdmitDecision::InProgress),
                Some(ClaimDecision::Done) => return Ok(AdmitDecision::Done),
                Some(ClaimDecision::OutcomeUnknown) => return Ok(AdmitDecision::OutcomeUnknown),
                Some(ClaimDecision::OtherRequest) => return Ok(AdmitDecision::OtherRequest),
            }
        }
        let decision = self.reserve_limits(ask, now)?;
        let AdmitDecision::Granted { mut receipt, tightest } = decision else { return Ok(decision) };
        if let Some(money) = &ask.money {
            if let Some(shortage) = named.days.shortage(money, now) {
                self.book.refund(receipt.limits, now);
                return Ok(AdmitDecision::DayShort(shortage));
            }
            receipt.money = Some(named.days.take(money, now));
        }
        receipt.claim = name.map(|(name, claim)| named.claims.take(name, claim, now.monotonic));
        Ok(AdmitDecision::Granted { receipt, tightest })
    }
}

impl MemoryQuotas {
    /// [`Quotas::reserve`] without a future: nothing in memory has to be waited for.
    pub fn reserve_now(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        if ask.claim.is_none() && ask.money.is_none() {
            self.reserve_limits(ask, now)
        } else {
            self.reserve_named(ask, now)
        }
    }

    /// [`Quotas::settle`] without a future.
    pub fn settle_now(&self, receipt: MemoryReceipt, spent: Spent, now: Now) {
        let MemoryReceipt { limits, money, claim } = receipt;
        self.book.settle(limits, spent.cost, now);
        if money.is_none() && claim.is_none() {
            return;
        }
        let mut named = lock(&self.named);
        if let Some(taken) = money {
            named.days.settle(taken, spent.money, now.monotonic);
        }
        match claim {
            Some(claim) if spent.done => named.claims.finish(&claim, now.monotonic),
            Some(claim) => named.claims.give_up(&claim, now.monotonic),
            None => {}
        }
    }
}

impl Quotas for MemoryQuotas {
    type Receipt = MemoryReceipt;

    async fn reserve(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        self.reserve_now(ask, now)
    }

    async fn settle(&self, receipt: MemoryReceipt, spent: Spent, now: Now) -> Result<(), StoreError> {
        self.settle_now(receipt, spent, now);
        Ok(())
    }

    async fn view(
        &self,
        _home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError> {
        self.book.view(scopes, now).map_err(broken)
    }

    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        self.book.change(groups, now).map(drop)
    }
}

fn broken(error: ScopeError) -> StoreError {
    StoreError::broken("quota", error)
}
