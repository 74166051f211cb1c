//! Corrections of posted amounts by operators.

use super::{BudgetBook, BudgetSource, LAST_ID};
use crate::budget::account::Account;
use crate::budget::entry::{ApplyDecision, Correction, CorrectionRefusal, Entry, Reservation, ReservationId};
use crate::money::Money;
use crate::time::Timestamp;

impl BudgetBook {
    /// Checks that a posted amount can be replaced, and returns the entry that does it. Nothing changes until the
    /// entry is [applied](Self::apply), and no other entry may be applied in between.
    pub fn decide_correction(&self, correction: &Correction) -> Result<Entry, CorrectionRefusal> {
        let Correction { day, caller, tier, charged, .. } = *correction;
        if self.source != BudgetSource::Caps {
            return Err(CorrectionRefusal::OnLeases);
        }
        // Worst-case charges of expired reservations are corrected by their own settlement, and must not be corrected
        // twice.
        let guessed = |is_of: &dyn Fn(&Reservation) -> bool| -> Money {
            self.given_up.values().filter(|one| one.day == day && is_of(one)).map(|one| one.worst).sum()
        };
        let of_caller = self
            .caller(day, caller)
            .posted
            .saturating_sub(guessed(&|one: &Reservation| one.caller == caller));
        let of_tier =
            self.tier(day, tier).posted.saturating_sub(guessed(&|one: &Reservation| one.tier == tier));
        if charged > of_caller || charged > of_tier {
            return Err(CorrectionRefusal::NotPosted { charged, caller: of_caller, tier: of_tier });
        }
        Ok(Entry::Corrected { id: ReservationId(self.next), correction: *correction })
    }

    pub(super) fn correct(&mut self, id: ReservationId, correction: &Correction) -> ApplyDecision {
        let Correction { day, caller, tier, charged, cost } = *correction;
        if id.0 < self.next || id.0 >= LAST_ID {
            return ApplyDecision::Known;
        }
        self.next = id.0.saturating_add(1);
        if !self.days.contains_key(&day) {
            return ApplyDecision::Known;
        }
        let (worst, expires, node) = (Money::ZERO, Timestamp::NEVER, self.node());
        let (generation, session, input, output) = (0, None, 0, 0);
        let whose = Reservation { id, day, caller, tier, generation, session, input, output, worst, expires };
        let books = self.day_books(day);
        let account = *books.change(&whose, node, |account| account.correct(charged, cost));
        // A reduction comes out of the overrun first; an increase adds to the overrun.
        let overrun = &mut books.overrun[tier.index()];
        *overrun =
            overrun.saturating_sub(charged.saturating_sub(cost)).saturating_add(cost.saturating_sub(charged));
        if account == Account::default() && !books.told.contains(&caller) {
            books.callers.remove(caller);
        }
        ApplyDecision::Applied
    }
}
