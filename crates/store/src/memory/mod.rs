//! Everything in the memory of one process: the reference that other stores are measured against.
//!
//! Time is what callers say it is, maps are ordered and nothing is drawn, so that the same calls in the same order have the
//! same answers. Every call does its work behind one short lock and has its answer when it is first polled. What dies is
//! cleared away a few at a time, by the calls that come later. Nothing here survives the process.

mod answers;
mod board;
mod claims;
mod day_ledger;
mod directory;
mod fading;
mod ledger;
mod line;
mod quotas;
mod sessions;
mod switches;

pub use answers::MemoryAnswers;
pub use board::{MemoryBoard, MemoryProbes};
pub use claims::{MemoryClaim, MemoryClaims};
pub use day_ledger::{BudgetSpent, DayBooks, DayLedger, Hold};
pub use directory::MemoryDirectory;
pub use ledger::MemoryLedger;
pub use line::MemoryLine;
pub use quotas::{MemoryQuotas, MemoryReceipt};
pub use sessions::MemorySessions;
pub use switches::MemorySwitches;
