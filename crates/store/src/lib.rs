//! Stores the state that Seawall must keep between requests.
//!
//! Operations are shaped like the intent (`reserve`, `post`, `claim`), not like a key-value map, so that a backend
//! shared by a fleet can carry out each one atomically. `core` takes the decision; a store applies the decision and its
//! effect in one step.
//!
//! | trait | what it stores |
//! | --- | --- |
//! | [`Quotas`] | rate limits, idempotency keys and callers' daily budgets, in one decision |
//! | [`Ledger`] | leases, calls and their cost: the authority over money |
//! | [`Sessions`] | the turns of conversations, and their tokens |
//! | [`Answers`] | the answer cache |
//! | [`Directory`] | the known callers and what they are entitled to |
//! | [`Switches`] | the state of the switches, and the audit trail |
//! | [`Board`] | the published state of every node |
//! | [`Probes`] | leases of half-open probes |
//! | [`Claims`] | idempotency keys |
//! | [`RequestQueue`] | the queue of requests that wait for a model |
//!
//! Every operation may be retried, because a lost response is a usual case and not a rare one. A store that cannot be
//! reached returns an error at once; the caller of the operation decides how to go on without it.

mod answers;
mod audit_trail;
mod board;
mod claims;
mod directory;
#[cfg(feature = "embedded")]
pub mod embedded;
mod encoding;
mod error;
mod ledger;
pub mod local_fallback;
mod memory;
mod node_ledger;
mod queue;
mod quotas;
#[cfg(feature = "redis")]
pub mod redis;
mod sessions;
mod switches;
mod usage;

pub use answers::{Answers, StoredAnswer};
pub use audit_trail::{BrokenAuditTrail, verify as verify_trail};
pub use board::{Board, Fleet, NodeView, ProbeRequest, Probes};
pub use claims::{ClaimDecision, ClaimRequest, Claims};
pub use directory::{AddDecision, CallerRecord, CredentialHash, Directory};
pub use error::StoreError;
pub use ledger::{DayTotals, EventPage, LeaseRequest, Ledger, PostSummary, Totals};
pub use local_fallback::{
    AdmittedUsage, FallbackReport, FleetSize, SharedQuotaReservation, SharedQuotaStore, SharedQuotas,
    SharedQuotasOptions, SharedQuotasStats, SharedStoreState, StoreStateObserver,
};
pub use memory::{
    MemoryAnswers, MemoryBoard, MemoryClaim, MemoryClaims, MemoryDirectory, MemoryLedger, MemoryProbes,
    MemoryQueue, MemoryQuotaReservation, MemoryQuotas, MemorySessions, MemorySwitches,
};
pub use node_ledger::{
    AdmissionRecord, CorrectionError, Hold, IdempotencyRecord, InvalidRecord, Journal, JournalPosition,
    JournalRecord, LedgerCall, LimitCharge, NoJournal, NodeLedger, NodeLedgerStats, ReserveError,
    UnwrittenHold,
};
pub use queue::RequestQueue;
pub use quotas::{AdmissionRequest, AdmitDecision, CallerBudgetRequest, Quotas, Settlement};
pub use sessions::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
pub use switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchChange, SwitchState, Switches};
pub use usage::{CallId, Certainty, UsageEvent};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning, because the state behind it is consistent after every single step, even if a
/// thread has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
