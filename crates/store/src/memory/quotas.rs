//! Limits, claims and callers' money of the day in memory.

use super::claims::{ClaimTable, MemoryClaim, hash_name};
use super::fading::Fading;
use crate::books::{Charge, CountMark, MOST_CHARGED};
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

/// What a caller has spent on a day is remembered for so long after it last changed: today, and some more for what is
/// settled late.
const DAY_LIFE: Duration = Duration::from_secs(48 * 3_600);

/// Quotas in the memory of one process.
///
/// What asks for neither a name nor money costs what the [`QuotaBook`] costs. What does is decided behind one lock.
#[derive(Debug)]
pub struct MemoryQuotas {
    book: QuotaBook,
    named: Mutex<Named>,
}

/// What only some requests touch.
#[derive(Debug)]
struct Named {
    claims: ClaimTable,
    days: CallerDays,
}

/// What was taken by one request. Dropped, it stays charged, and its name stays claimed for as long as that lasts.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was granted is to be settled"]
pub struct MemoryReceipt {
    limits: Reservation,
    money: Option<Taken>,
    claim: Option<MemoryClaim>,
}

/// Money that was taken of a caller's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    day: u64,
    caller: u64,
    worst: Money,
}

/// What callers have spent and may still spend on a day. Both count the same until the truth is known, so that nothing needs
/// to happen when a request has passed its time: it is charged at its worst from the beginning.
#[derive(Debug)]
struct CallerDays(Fading<(u64, u64), Account>);

impl CallerDays {
    fn account(&self, day: u64, caller: u64, now: Timestamp) -> Account {
        self.0.get(&(day, caller), now).copied().unwrap_or_default()
    }

    /// Why the day has no room for this, if it has none.
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

    /// Puts the truth in the place of the worst. Of a day that is forgotten nothing is left to correct, but what was
    /// spent has been spent.
    fn settle(&mut self, taken: Taken, spent: Money, now: Timestamp) {
        let mut account = self.account(taken.day, taken.caller, now);
        account.held = account.held.saturating_sub(taken.worst);
        account.posted = account.posted.saturating_add(spent);
        self.set(taken, account, now);
    }

    fn set(&mut self, Taken { day, caller, .. }: Taken, account: Account, now: Timestamp) {
        // Names come from outside. Who spent nothing leaves nothing behind.
        if account == Account::default() {
            self.0.remove(&(day, caller), now);
        } else {
            self.0.insert((day, caller), account, now + DAY_LIFE);
        }
    }
}

impl MemoryQuotas {
    /// Nothing is used. The seed spreads callers over the book's shards.
    pub fn new(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        let named = Named { claims: ClaimTable::new(), days: CallerDays(Fading::new()) };
        Ok(Self { book: QuotaBook::new(groups, seed)?, named: Mutex::new(named) })
    }

    /// The book, to look up a group or the name of a limit.
    #[must_use]
    pub const fn book(&self) -> &QuotaBook {
        &self.book
    }

    /// What is to be written down of a grant, so that it outlives the process. Nobody can be at work on the request for
    /// longer than it lasts.
    #[must_use]
    pub fn mark(&self, receipt: &MemoryReceipt, lasts: Duration, now: Now) -> CountMark {
        let scope = |scope: Scope| Some((self.book.tag(scope.group)?, scope.key.0));
        let scopes = receipt.limits.scopes().filter_map(scope).take(MOST_CHARGED).collect();
        let charge = Charge { at: now.utc, cost: receipt.limits.cost(), scopes };
        let keep = receipt.claim.as_ref().map(MemoryClaim::keep).unwrap_or_default();
        let name = receipt.claim.as_ref().map(|claim| claim.mark(now.utc + lasts + keep));
        CountMark::new(charge, name, keep)
    }

    /// Remembers a name of a process that has ended, until this moment.
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

    /// With a name or money: all of it behind one lock, so that no two requests take the same.
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
    /// [`Quotas::reserve`] at once: nothing in memory is waited for.
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

    /// [`Quotas::settle`] at once.
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
