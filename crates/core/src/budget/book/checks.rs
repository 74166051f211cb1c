//! Whether a request fits, from the narrowest limit to the widest.

use super::{BudgetBook, BudgetSource};
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
        let free = self.caller(day, ask.caller).free(self.limits.caller_day);
        if wanted > free {
            return Err(BudgetRefusal::CallerDay { wanted, free, resets });
        }
        let free = match self.held_lease(day, tier) {
            None => self.tier(day, tier).free(self.tier_cap(day, tier)),
            Some(held) if now.monotonic < held.until => held.free(),
            // The authority may have given it to somebody else by now.
            Some(_) => Money::ZERO,
        };
        if wanted > free {
            return Err(BudgetRefusal::TierDay { tier, wanted, free, resets });
        }
        // Who lives on leases does not see what others spend; the leases are within the whole.
        if self.source == BudgetSource::Caps {
            let free = self.all(day).free(self.limits.day_cap(day));
            if wanted > free {
                return Err(BudgetRefusal::GlobalDay { wanted, free, resets });
            }
        }
        Ok(())
    }
}
