//! Stores in the memory of one process: the reference that other stores are tested against.
//!
//! Time is passed in, maps are ordered and nothing is random, so that the same calls in the same order give the same
//! results. Every operation holds one short lock and completes when it is first polled. Expired entries are removed a
//! few at a time, by later calls. Nothing survives the process.

mod answers;
mod board;
mod claims;
mod directory;
mod expiring_map;
mod ledger;
mod queue;
mod quotas;
mod sessions;
mod switches;

pub use answers::MemoryAnswers;
pub use board::{MemoryBoard, MemoryProbes};
pub use claims::{MemoryClaim, MemoryClaims};
pub use directory::MemoryDirectory;
pub use ledger::MemoryLedger;
pub use queue::MemoryQueue;
pub(crate) use quotas::MemoryQuotaReservation;
pub use quotas::MemoryQuotas;
pub use sessions::MemorySessions;
pub use switches::MemorySwitches;
