//! Running sums of one budget (posted and held) and of one session's tokens.

use crate::money::Money;

/// The ledger account of one budget: what is posted and what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetAccount {
    /// Cost of calls that have ended.
    pub posted: Money,
    /// Maximum cost of calls in flight.
    pub held: Money,
}

impl BudgetAccount {
    /// Posted plus held: what counts against the cap.
    #[must_use]
    pub const fn committed(&self) -> Money {
        self.posted.saturating_add(self.held)
    }

    /// What can still be reserved under `cap`.
    #[must_use]
    pub const fn available(&self, cap: Money) -> Money {
        cap.saturating_sub(self.committed())
    }

    /// What could be reserved under `cap` once all holds are released.
    #[must_use]
    pub const fn unspent(&self, cap: Money) -> Money {
        cap.saturating_sub(self.posted)
    }

    /// Spend above `cap`, from calls that cost more than their maximum cost or from a cap that was lowered. Debt is
    /// never written off: the account refuses until its day is over.
    #[must_use]
    pub const fn debt(&self, cap: Money) -> Money {
        self.posted.saturating_sub(cap)
    }

    pub(super) fn hold(&mut self, amount: Money) {
        self.held = self.held.saturating_add(amount);
    }

    /// Replaces a maximum charge by the actual cost.
    pub(super) fn correct(&mut self, charged: Money, cost: Money) {
        self.posted = self.posted.saturating_sub(charged).saturating_add(cost);
    }

    pub(super) fn settle(&mut self, held: Money, cost: Money) {
        self.held = self.held.saturating_sub(held);
        self.posted = self.posted.saturating_add(cost);
    }
}

/// Tokens that a session has used and tokens that its calls in flight hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTokens {
    /// Input tokens used.
    pub input: u64,
    /// Output tokens used.
    pub output: u64,
    /// Input tokens reserved by calls in flight.
    pub input_held: u64,
    /// Output tokens reserved by calls in flight.
    pub output_held: u64,
}

impl SessionTokens {
    /// Input tokens left under `limit`.
    #[must_use]
    pub const fn free_input(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.input).saturating_sub(self.input_held)
    }

    /// Output tokens left under `limit`.
    #[must_use]
    pub const fn free_output(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.output).saturating_sub(self.output_held)
    }
}
