//! Whether a request fits, from the narrowest limit to the widest.

use super::{BudgetBook, BudgetSource};
use crate::budget::account::Account;
use crate::budget::entry::{Ask, BudgetRefusal};
use crate::money::Money;
use crate::time::{Now, UtcTime};

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
            // A tier never has more than all together.
            let most = self.limits.caller_day.min(self.limits.tier_cap(now.utc.day(), ask.tier));
            // Who may spend nothing at all is not helped by asking for less.
            if wanted > most && most > Money::ZERO {
                BudgetRefusal::MoreThanADay { wanted, most }
            } else {
                refusal
            }
        })
    }

    fn check_day(&self, ask: &Ask, now: Now) -> Result<(), BudgetRefusal> {
        let day = now.utc.day();
        let (wanted, tier, resets) = (ask.worst, ask.tier, UtcTime::start_of_day(day.saturating_add(1)));
        let (free, unspent) = left(&self.caller(day, ask.caller), self.limits.caller_day);
        let mut refusal =
            (wanted > free).then_some((unspent, BudgetRefusal::CallerDay { wanted, free, unspent, resets }));
        let (free, unspent) = self.left_of_tier(ask, now);
        if wanted > free && refusal.is_none_or(|(least, _)| unspent < least) {
            refusal = Some((unspent, BudgetRefusal::TierDay { tier, wanted, free, unspent, resets }));
        }
        // Who lives on leases does not see what others spend; the leases are within the whole.
        if self.source == BudgetSource::Caps {
            let (free, unspent) = left(&self.all(day), self.limits.day_cap(day));
            if wanted > free && refusal.is_none_or(|(least, _)| unspent < least) {
                refusal = Some((unspent, BudgetRefusal::GlobalDay { wanted, free, unspent, resets }));
            }
        }
        refusal.map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// What a tier has left, now and if nothing were held. Of a lease that does not suffice the authority may give more, as
    /// far as the tier's cap goes: that is held, not spent.
    fn left_of_tier(&self, ask: &Ask, now: Now) -> (Money, Money) {
        let (day, tier) = (now.utc.day(), ask.tier);
        let account = self.tier(day, tier);
        let Some(held) = self.held_lease(day, tier) else {
            return left(&account, self.tier_cap(day, tier));
        };
        // After its end, the authority may have given it to somebody else.
        let free = if now.monotonic < held.until { held.free() } else { Money::ZERO };
        (free, account.unspent(self.limits.tier_cap(day, tier)))
    }
}

/// What can be held of an account now, and if nothing were held.
const fn left(account: &Account, cap: Money) -> (Money, Money) {
    (account.free(cap), account.unspent(cap))
}
