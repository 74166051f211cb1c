//! Corrections of posted amounts by operators.

use super::{BudgetLedger, BudgetSource, LAST_ID};
use crate::budget::account::BudgetAccount;
use crate::budget::entry::{
    ApplyDecision, BudgetEntry, BudgetReservation, Correction, CorrectionRefusal, ReservationId,
};
use crate::budget::window::BudgetWindows;
use crate::money::Money;
use crate::time::Timestamp;

impl BudgetLedger {
    /// Checks that a posted amount can be replaced, and returns the entry that does it. Nothing changes until the
    /// entry is [applied](Self::apply), and no other entry may be applied in between.
    pub fn decide_correction(&self, correction: &Correction) -> Result<BudgetEntry, CorrectionRefusal> {
        let Correction { day, caller, tier, charged, .. } = *correction;
        if self.source != BudgetSource::Caps {
            return Err(CorrectionRefusal::OnLeases);
        }
        // Maximum charges of expired reservations are corrected by their own settlement, and must not be corrected
        // twice.
        let guessed = |is_of: &dyn Fn(&BudgetReservation) -> bool| -> Money {
            self.expired.values().filter(|one| one.day == day && is_of(one)).map(|one| one.max_cost).sum()
        };
        let of_caller = self
            .caller(day, caller)
            .posted
            .saturating_sub(guessed(&|one: &BudgetReservation| one.caller == caller));
        let of_tier =
            self.tier(day, tier).posted.saturating_sub(guessed(&|one: &BudgetReservation| one.tier == tier));
        if charged > of_caller || charged > of_tier {
            return Err(CorrectionRefusal::NotPosted { charged, caller: of_caller, tier: of_tier });
        }
        Ok(BudgetEntry::Corrected { id: ReservationId(self.next), correction: *correction })
    }

    pub(super) fn correct(&mut self, id: ReservationId, correction: &Correction) -> ApplyDecision {
        let Correction { day, caller, tier, charged, cost } = *correction;
        if id.0 < self.next || id.0 >= LAST_ID {
            return ApplyDecision::Unchanged;
        }
        self.next = id.0.saturating_add(1);
        if !self.days.contains_key(&day) {
            return ApplyDecision::Unchanged;
        }
        let (max_cost, expires, node) = (Money::ZERO, Timestamp::NEVER, self.node());
        let (generation, session, input, output) = (0, None, 0, 0);
        let whose = BudgetReservation {
            id,
            day,
            caller,
            tier,
            generation,
            session,
            input,
            output,
            max_cost,
            expires,
            windows: BudgetWindows::NONE,
        };
        self.windows.correct_day(correction, self.uptime);
        let ledger_day = self.day_ledger(day);
        let account = *ledger_day.change(&whose, node, |account| account.correct(charged, cost));
        // A reduction comes out of the overrun first; an increase adds to the overrun.
        let overrun = &mut ledger_day.overrun[tier.index()];
        *overrun =
            overrun.saturating_sub(charged.saturating_sub(cost)).saturating_add(cost.saturating_sub(charged));
        if account == BudgetAccount::default() && !ledger_day.alarmed.contains(&caller) {
            ledger_day.callers.remove(caller);
        }
        ApplyDecision::Applied
    }
}
