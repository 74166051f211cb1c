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
//! The traits are used as trait objects, except `Claims`, which nothing outside this crate uses. Every operation returns a
//! [`StoreFuture`]. `open` chooses the backends of a node.
//!
//! Every operation may be retried, because a lost response is a usual case and not a rare one. A store that cannot be
//! reached returns an error at once; the caller of the operation decides how to go on without it.

mod answers;
mod audit_trail;
mod board;
mod claims;
mod directory;
mod durable;
#[cfg(feature = "embedded")]
pub mod embedded;
mod encoding;
mod error;
mod future;
mod ledger;
pub mod local_fallback;
mod memory;
mod node_ledger;
#[cfg(all(feature = "embedded", feature = "redis"))]
mod open;
mod queue;
mod quotas;
mod receipt;
#[cfg(feature = "redis")]
pub mod redis;
mod sessions;
mod switches;
mod usage;

pub use answers::{Answers, StoredAnswer};
pub use audit_trail::{BrokenAuditTrail, verify as verify_trail};
pub use board::{Board, Fleet, NodeView, ProbeRequest, Probes};
pub use claims::{ClaimDecision, ClaimRequest, Claims};
pub use directory::{AddDecision, CallerRecord, CredentialHash, Directory, KeyContract};
pub use durable::DurableStore;
pub use error::StoreError;
pub use future::StoreFuture;
pub use ledger::{
    DayTotals, EventPage, KeyUsage, LeaseRequest, Ledger, PostSummary, SpendDimension, SpendItem, SpendRow,
    Totals,
};
pub use local_fallback::{
    AdmittedUsage, FallbackReport, FleetQuotas, FleetSize, FleetStores, SharedQuotaStore, SharedQuotas,
    SharedQuotasOptions, SharedQuotasStats, SharedStoreState, StoreStateObserver,
};
pub use memory::{
    MemoryAnswers, MemoryBoard, MemoryClaim, MemoryClaims, MemoryDirectory, MemoryLedger, MemoryProbes,
    MemoryQueue, MemoryQuotas, MemorySessions, MemorySwitches,
};
pub use node_ledger::{
    AdmissionRecord, CorrectionError, Hold, IdempotencyRecord, InvalidRecord, Journal, JournalPosition,
    JournalRecord, LedgerCall, LimitCharge, NoJournal, NodeLedger, NodeLedgerStats, ReserveError,
    UnwrittenHold,
};
#[cfg(all(feature = "embedded", feature = "redis"))]
pub use open::{OpenStoresError, OpenedStores, SharedStoreOptions, StoreOptions, check_shared, open};
pub use queue::RequestQueue;
pub use quotas::{
    AdmissionRequest, AdmitDecision, CallerBudgetRequest, CheckedLimits, Placement, Quotas, Settlement,
};
pub use receipt::QuotaReceipt;
pub use sessions::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
pub use switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchChange, SwitchState, Switches};
pub use usage::{CallId, Certainty, KeyLabels, SpendLabels, UsageEvent};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning, because the state behind it is consistent after every single step, even if a
/// thread has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
