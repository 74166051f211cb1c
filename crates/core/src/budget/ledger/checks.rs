//! Checks a request against every limit, from the narrowest to the widest.

use super::{BudgetLedger, BudgetSource};
use crate::budget::account::BudgetAccount;
use crate::budget::entry::{BudgetRefusal, ReservationRequest};
use crate::budget::window::{BudgetName, WindowCaps};
use crate::invariant::{Violation, spend_within_cap};
use crate::money::Money;
use crate::time::{Now, UtcTime};
use crate::vocabulary::Tier;

impl BudgetLedger {
    pub(super) fn check_request(&self, request: &ReservationRequest) -> Result<(), BudgetRefusal> {
        let limit = request.limits.output(None);
        if request.output > limit {
            return Err(BudgetRefusal::RequestOutput { wanted: request.output, limit });
        }
        let limit = request.limits.input(request.output);
        if request.input > limit {
            return Err(BudgetRefusal::RequestInput { wanted: request.input, limit });
        }
        Ok(())
    }

    pub(super) fn check_session(&self, request: &ReservationRequest) -> Result<(), BudgetRefusal> {
        let Some(session) = request.session else { return Ok(()) };
        let session = self.session(session);
        let available = session.free_input(self.limits.session_input);
        if request.input > available {
            return Err(BudgetRefusal::SessionInput { wanted: request.input, available });
        }
        let available = session.free_output(self.limits.session_output);
        if request.output > available {
            return Err(BudgetRefusal::SessionOutput { wanted: request.output, available });
        }
        Ok(())
    }

    pub(super) fn check_money(&self, request: &ReservationRequest, now: Now) -> Result<(), BudgetRefusal> {
        self.check_day(request, now).map_err(|refusal| {
            let wanted = request.max_cost;
            // A tier's cap never exceeds the global cap.
            let max = self.limits.caller_day.min(self.limits.tier_cap(now.utc.day(), request.tier));
            // With a cap of zero, a smaller request would not fit either.
            if wanted > max && max > Money::ZERO {
                BudgetRefusal::ExceedsDailyBudget { wanted, max }
            } else {
                refusal
            }
        })
    }

    /// Whether the accounts would stay within their caps with this reservation, whatever the checks before have
    /// decided.
    pub(in crate::budget) fn check_spend(
        &self,
        request: &ReservationRequest,
        now: Now,
    ) -> Result<(), Violation> {
        let day = now.utc.day();
        // A request that costs nothing fits even if the cap was lowered below what is spent.
        if request.max_cost == Money::ZERO {
            return Ok(());
        }
        let within = |mut account: BudgetAccount, cap: Money| {
            account.hold(request.max_cost);
            spend_within_cap(account.posted, account.held, Money::ZERO, cap)
        };
        within(self.caller(day, request.caller), self.limits.caller_day)?;
        for (_, cap, account) in self.windows_of(request, now) {
            within(account, cap)?;
        }
        // The cap of a tier on leases is what it was leased, which `held_lease` bounds.
        if self.source == BudgetSource::Caps {
            within(self.tier(day, request.tier), self.limits.tier_cap(day, request.tier))?;
            within(self.all(day), self.limits.day_cap(day))?;
        }
        Ok(())
    }

    /// The largest amount that a request of this caller could reserve now, over all its budgets.
    #[must_use]
    pub fn available(&self, caller: u64, tier: Tier, windows: &WindowCaps, now: Now) -> Money {
        let day = now.utc.day();
        let available = free_and_unspent(&self.caller(day, caller), self.limits.caller_day)
            .0
            .min(self.tier_free_and_unspent(tier, now).0);
        let in_windows = self.window_accounts(caller, tier, windows, now);
        let available =
            in_windows.fold(available, |least, (_, cap, account)| least.min(account.available(cap)));
        match self.source {
            BudgetSource::Caps => available.min(free_and_unspent(&self.all(day), self.limits.day_cap(day)).0),
            // Leases are granted within the global cap.
            BudgetSource::Leases { .. } => available,
        }
    }

    fn check_day(&self, request: &ReservationRequest, now: Now) -> Result<(), BudgetRefusal> {
        let day = now.utc.day();
        let (wanted, tier, resets) =
            (request.max_cost, request.tier, UtcTime::start_of_day(day.saturating_add(1)));
        let (available, unspent) =
            free_and_unspent(&self.caller(day, request.caller), self.limits.caller_day);
        let mut refusal = (wanted > available)
            .then_some((unspent, BudgetRefusal::CallerDay { wanted, available, unspent, resets }));
        let (available, unspent) = self.tier_free_and_unspent(tier, now);
        if wanted > available && refusal.is_none_or(|(lowest, _)| unspent < lowest) {
            refusal = Some((unspent, BudgetRefusal::TierDay { tier, wanted, available, unspent, resets }));
        }
        // A ledger on leases cannot see the spend of other nodes; leases are granted within the global cap.
        if self.source == BudgetSource::Caps {
            let (available, unspent) = free_and_unspent(&self.all(day), self.limits.day_cap(day));
            if wanted > available && refusal.is_none_or(|(lowest, _)| unspent < lowest) {
                refusal = Some((unspent, BudgetRefusal::GlobalDay { wanted, available, unspent, resets }));
            }
        }
        for (name, cap, account) in self.windows_of(request, now) {
            let (available, unspent) = free_and_unspent(&account, cap);
            if wanted > available && refusal.is_none_or(|(lowest, _)| unspent < lowest) {
                let offset = request.windows.offset;
                let resets = offset.start(name.period.window(offset.hour(now.utc)).end);
                let window = BudgetRefusal::Window { name, cap, wanted, available, unspent, resets };
                refusal = Some((unspent, window));
            }
        }
        refusal.map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// The budgets by calendar window that apply to a request, each with its cap and its account.
    fn windows_of(
        &self,
        request: &ReservationRequest,
        now: Now,
    ) -> impl Iterator<Item = (BudgetName, Money, BudgetAccount)> {
        let ReservationRequest { caller, tier, windows, .. } = request;
        self.window_accounts(*caller, *tier, windows, now)
    }

    /// The same for a caller.
    fn window_accounts(
        &self,
        caller: u64,
        tier: Tier,
        caps: &WindowCaps,
        now: Now,
    ) -> impl Iterator<Item = (BudgetName, Money, BudgetAccount)> {
        let keys = caps.windows(now.utc).keys(caller, tier);
        keys.zip(caps.iter()).map(|(key, (name, cap))| (name, cap, self.windows.get(&key)))
    }

    /// What a tier has left: now, and once all holds are released. The authority may raise a lease up to the tier's
    /// cap, so that money beyond the lease counts as held elsewhere and not as spent.
    fn tier_free_and_unspent(&self, tier: Tier, now: Now) -> (Money, Money) {
        let day = now.utc.day();
        let account = self.tier(day, tier);
        let Some(held) = self.held_lease(day, tier) else {
            return free_and_unspent(&account, self.tier_cap(day, tier));
        };
        // After its end, the authority may have lent the remainder to another node.
        let available = if now.monotonic < held.until { held.available() } else { Money::ZERO };
        (available, account.unspent(self.limits.tier_cap(day, tier)))
    }
}

/// What an account can reserve now, and once all holds are released.
const fn free_and_unspent(account: &BudgetAccount, cap: Money) -> (Money, Money) {
    (account.available(cap), account.unspent(cap))
}
