//! Keeps what Seawall must remember between requests.
//!
//! Operations are shaped like what is meant (`reserve`, `post`, `claim`), not like a map: a backend that is shared by
//! a fleet can then do each in one step. What is here lives in the memory of one process and is the reference that
//! other backends are measured against. Quotas in memory are [`seawall_core::quota::QuotaBook`] itself.

mod claim;
mod ledger;

pub use claim::{Claim, ClaimDecision, ClaimKey, MemoryClaims};
pub use ledger::{BudgetSpent, DayBooks, Hold, MemoryLedger};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, and goes on with what a panicking thread left behind: the books are whole between two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
