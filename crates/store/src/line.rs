//! The line of those that wait for a model, as the nodes' own business.
//!
//! A line lives in one process: who waits holds a connection that no other node has.

use seawall_core::queue::{Departure, EnterDecision, QueueRequest, QueueStats, QueueTicket};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;

/// Those that wait for a model.
pub trait Line: Send + Sync {
    /// Wants to wait.
    fn enter(&self, request: &QueueRequest, now: Timestamp) -> EnterDecision;

    /// Who gets a place at a model of this grade.
    fn next(&self, grade: Grade, now: Timestamp) -> Option<Departure>;

    /// Does not want to wait any longer.
    fn cancel(&self, ticket: QueueTicket, now: Timestamp) -> Option<Departure>;

    /// Who has waited too long; to be asked until nobody has.
    fn pop_expired(&self, now: Timestamp) -> Option<Departure>;

    /// When to ask for those next.
    fn next_deadline(&self) -> Option<Timestamp>;

    /// The line at a glance.
    fn stats(&self, now: Timestamp) -> QueueStats;
}
