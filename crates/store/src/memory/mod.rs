//! Everything in the memory of one process: the reference that other stores are measured against.

mod day_ledger;

pub use day_ledger::{BudgetSpent, DayBooks, Hold, MemoryLedger};
