//! Keeps what Seawall must remember between requests.
//!
//! Operations are shaped like what is meant (`reserve`, `post`, `claim`), not like a map: a backend that is shared by
//! a fleet can then do each in one step. `core` decides; a store makes the decision and its effect one.
//!
//! | trait | what it keeps |
//! | --- | --- |
//! | [`Quotas`] | limits, names of requests and callers' money of the day, in one decision |
//! | [`Ledger`] | leases, calls and what they cost: the authority over money |
//! | [`Sessions`] | the turns of conversations, and their tokens |
//! | [`Answers`] | answers that may be given again |
//! | [`Directory`] | who may ask, and what they are entitled to |
//! | [`Switches`] | what operators have switched, and the trail of it |
//! | [`Board`] | how every node stands |
//! | [`Probes`] | which node may probe a target |
//! | [`Claims`] | who is at work on a request |
//! | [`Line`] | who waits for a model |
//!
//! Every operation may be tried again: an answer that was lost on the way is the usual case, not the rare one. A store that
//! is away says so at once; what to do without it is for whoever asked.

mod answers;
pub mod away;
mod board;
mod books;
mod claims;
mod directory;
#[cfg(feature = "embedded")]
pub mod embedded;
mod encoding;
mod error;
mod ledger;
mod line;
mod memory;
mod quotas;
#[cfg(feature = "redis")]
pub mod redis;
mod sessions;
mod switches;
mod trail;
mod usage;

pub use answers::{Answers, StoredAnswer};
pub use away::{
    Admitted, AwayCounts, AwayObserver, AwayOptions, AwayReport, FleetSize, SharedQuotas, SharedReceipt,
    SharedStore, Standing,
};
pub use board::{Board, Fleet, NodeView, ProbeAsk, Probes};
pub use books::{
    Attempt, Books, BooksStats, Charge, CorrectError, CountMark, Hold, Journal, JournalRecord, NameMark,
    NoJournal, NoRecord, Noted, ReserveError, Unwritten,
};
pub use claims::{ClaimAsk, ClaimDecision, Claims};
pub use directory::{AddDecision, CallerRecord, CredentialHash, Directory};
pub use error::StoreError;
pub use ledger::{DayTotals, EventPage, LeaseAsk, Ledger, Posted, Totals};
pub use line::Line;
pub use memory::{
    MemoryAnswers, MemoryBoard, MemoryClaim, MemoryClaims, MemoryDirectory, MemoryLedger, MemoryLine,
    MemoryProbes, MemoryQuotas, MemoryReceipt, MemorySessions, MemorySwitches,
};
pub use quotas::{AdmitDecision, MOST_LIMITS, MoneyAsk, QuotaAsk, Quotas, Spent};
pub use sessions::{MOST_TURNS, SESSION_LIFE, SessionKey, SessionUse, Sessions, StoredTurn};
pub use switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchChange, SwitchState, Switches};
pub use trail::{BrokenTrail, verify as verify_trail};
pub use usage::{CallId, Certainty, UsageEvent};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, and goes on with what a panicking thread left behind: the books are whole between two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
