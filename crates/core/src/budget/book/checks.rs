//! Checks a request against every limit, from the narrowest to the widest.

use super::{BudgetBook, BudgetSource};
use crate::budget::account::Account;
use crate::budget::entry::{Ask, BudgetRefusal};
use crate::money::Money;
use crate::time::{Now, UtcTime};
use crate::vocabulary::Tier;

impl BudgetBook {
    pub(super) fn check_request(&self, ask: &Ask) -> Result<(), BudgetRefusal> {
        let limit = ask.limits.output(None);
        if ask.output > limit {
            return Err(BudgetRefusal::RequestOutput { wanted: ask.output, limit });
        }
        let limit = ask.limits.input(ask.output);
        if ask.input > limit {
            return Err(BudgetRefusal::RequestInput { wanted: ask.input, limit });
        }
        Ok(())
    }

    pub(super) fn check_session(&self, ask: &Ask) -> Result<(), BudgetRefusal> {
        let Some(session) = ask.session else { return Ok(()) };
        let session = self.session(session);
        let free = session.free_input(self.limits.session_input);
        if ask.input > free {
            return Err(BudgetRefusal::SessionInput { wanted: ask.input, free });
        }
        let free = session.free_output(self.limits.session_output);
        if ask.output > free {
            return Err(BudgetRefusal::SessionOutput { wanted: ask.output, free });
        }
        Ok(())
    }

    pub(super) fn check_money(&self, ask: &Ask, now: Now) -> Result<(), BudgetRefusal> {
        self.check_day(ask, now).map_err(|refusal| {
            let wanted = ask.worst;
            // A tier's cap never exceeds the global cap.
            let most = self.limits.caller_day.min(self.limits.tier_cap(now.utc.day(), ask.tier));
            // With a cap of zero, a smaller request would not fit either.
            if wanted > most && most > Money::ZERO {
                BudgetRefusal::MoreThanADay { wanted, most }
            } else {
                refusal
            }
        })
    }

    /// The largest amount that a request of this caller could reserve now, over all its budgets.
    #[must_use]
    pub fn free(&self, caller: u64, tier: Tier, now: Now) -> Money {
        let day = now.utc.day();
        let free =
            left(&self.caller(day, caller), self.limits.caller_day).0.min(self.left_of_tier(tier, now).0);
        match self.source {
            BudgetSource::Caps => free.min(left(&self.all(day), self.limits.day_cap(day)).0),
            // Leases are granted within the global cap.
            BudgetSource::Leases { .. } => free,
        }
    }

    fn check_day(&self, ask: &Ask, now: Now) -> Result<(), BudgetRefusal> {
        let day = now.utc.day();
        let (wanted, tier, resets) = (ask.worst, ask.tier, UtcTime::start_of_day(day.saturating_add(1)));
        let (free, unspent) = left(&self.caller(day, ask.caller), self.limits.caller_day);
        let mut refusal =
            (wanted > free).then_some((unspent, BudgetRefusal::CallerDay { wanted, free, unspent, resets }));
        let (free, unspent) = self.left_of_tier(tier, now);
        if wanted > free && refusal.is_none_or(|(least, _)| unspent < least) {
            refusal = Some((unspent, BudgetRefusal::TierDay { tier, wanted, free, unspent, resets }));
        }
        // A book on leases cannot see the spend of other nodes; leases are granted within the global cap.
        if self.source == BudgetSource::Caps {
            let (free, unspent) = left(&self.all(day), self.limits.day_cap(day));
            if wanted > free && refusal.is_none_or(|(least, _)| unspent < least) {
                refusal = Some((unspent, BudgetRefusal::GlobalDay { wanted, free, unspent, resets }));
            }
        }
        refusal.map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// What a tier has left: now, and once all holds are released. The authority may raise a lease up to the tier's
    /// cap, so that money beyond the lease counts as held elsewhere and not as spent.
    fn left_of_tier(&self, tier: Tier, now: Now) -> (Money, Money) {
        let day = now.utc.day();
        let account = self.tier(day, tier);
        let Some(held) = self.held_lease(day, tier) else {
            return left(&account, self.tier_cap(day, tier));
        };
        // After its end, the authority may have lent the remainder to another node.
        let free = if now.monotonic < held.until { held.free() } else { Money::ZERO };
        (free, account.unspent(self.limits.tier_cap(day, tier)))
    }
}

/// What an account can reserve now, and once all holds are released.
const fn left(account: &Account, cap: Money) -> (Money, Money) {
    (account.free(cap), account.unspent(cap))
}
