//! Two sums: what has been spent, and what may still be.

use crate::money::Money;

/// What has been spent of one budget and what is held of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// What calls have cost.
    pub posted: Money,
    /// What calls under way may still cost.
    pub held: Money,
}

impl Account {
    /// Posted and held together.
    #[must_use]
    pub const fn committed(&self) -> Money {
        self.posted.saturating_add(self.held)
    }

    /// What can still be held under `cap`.
    #[must_use]
    pub const fn free(&self, cap: Money) -> Money {
        cap.saturating_sub(self.committed())
    }

    /// What could be held under `cap` if nothing were held.
    #[must_use]
    pub const fn unspent(&self, cap: Money) -> Money {
        cap.saturating_sub(self.posted)
    }

    /// How far more has been spent than `cap`: calls that cost more than their worst case, or a cap that was lowered.
    /// It is paid back by refusing, not by forgetting.
    #[must_use]
    pub const fn debt(&self, cap: Money) -> Money {
        self.posted.saturating_sub(cap)
    }

    pub(super) fn hold(&mut self, amount: Money) {
        self.held = self.held.saturating_add(amount);
    }

    /// What was charged at its worst has cost this after all.
    pub(super) fn correct(&mut self, charged: Money, cost: Money) {
        self.posted = self.posted.saturating_sub(charged).saturating_add(cost);
    }

    pub(super) fn settle(&mut self, held: Money, cost: Money) {
        self.held = self.held.saturating_sub(held);
        self.posted = self.posted.saturating_add(cost);
    }
}

/// What a conversation has used and what is set aside of it, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTokens {
    /// Input that was used.
    pub input: u64,
    /// Output that was used.
    pub output: u64,
    /// Input of calls under way.
    pub input_held: u64,
    /// Output of calls under way.
    pub output_held: u64,
}

impl SessionTokens {
    /// Input that is left of `limit`.
    #[must_use]
    pub const fn free_input(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.input).saturating_sub(self.input_held)
    }

    /// Output that is left of `limit`.
    #[must_use]
    pub const fn free_output(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.output).saturating_sub(self.output_held)
    }
}
