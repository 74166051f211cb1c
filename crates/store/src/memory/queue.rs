//! The wait queue of one process.

use crate::lock;
use crate::queue::RequestQueue;
use seawall_core::queue::{
    Departure, EnterDecision, QueueRequest, QueueSettings, QueueStats, QueueTicket, WaitQueue,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use std::sync::Mutex;

/// A [`WaitQueue`] that many threads share.
#[derive(Debug)]
pub struct MemoryQueue(Mutex<WaitQueue>);

impl MemoryQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self(Mutex::new(WaitQueue::new(settings)))
    }
}

impl RequestQueue for MemoryQueue {
    fn enter(&self, request: &QueueRequest, now: Timestamp) -> EnterDecision {
        lock(&self.0).enter(request, now)
    }

    fn next(&self, grade: Grade, now: Timestamp) -> Option<Departure> {
        lock(&self.0).next(grade, now)
    }

    fn cancel(&self, ticket: QueueTicket, now: Timestamp) -> Option<Departure> {
        lock(&self.0).cancel(ticket, now)
    }

    fn pop_expired(&self, now: Timestamp) -> Option<Departure> {
        lock(&self.0).pop_expired(now)
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        lock(&self.0).next_deadline()
    }

    fn stats(&self, now: Timestamp) -> QueueStats {
        lock(&self.0).stats(now)
    }
}
