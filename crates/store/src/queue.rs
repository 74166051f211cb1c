//! The queue of requests that wait for a model.
//!
//! A queue belongs to one process, because a waiting request holds a connection that no other node has.

use seawall_core::queue::{Departure, EnterDecision, QueueRequest, QueueStats, QueueTicket};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;

/// The queue of requests that wait for a model.
pub trait RequestQueue: Send + Sync {
    /// Enqueues a request, unless the queue refuses it.
    fn enter(&self, request: &QueueRequest, now: Timestamp) -> EnterDecision;

    /// Dequeues the request that gets the next concurrency slot at a model of this grade.
    fn next(&self, grade: Grade, now: Timestamp) -> Option<Departure>;

    /// Removes a request whose caller has disconnected or cancelled.
    fn cancel(&self, ticket: QueueTicket, now: Timestamp) -> Option<Departure>;

    /// Removes one request that has waited too long. Call it repeatedly until it returns `None`.
    fn pop_expired(&self, now: Timestamp) -> Option<Departure>;

    /// When [`pop_expired`](Self::pop_expired) should be called next.
    fn next_deadline(&self) -> Option<Timestamp>;

    /// A snapshot of the queue's statistics.
    fn stats(&self, now: Timestamp) -> QueueStats;
}
