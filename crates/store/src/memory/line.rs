//! The wait queue of one process.

use crate::line::Line;
use crate::lock;
use seawall_core::queue::{
    Departure, EnterDecision, Queue, QueueRequest, QueueSettings, QueueStats, QueueTicket,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use std::sync::Mutex;

/// A [`Queue`] that many threads share.
#[derive(Debug)]
pub struct MemoryLine(Mutex<Queue>);

impl MemoryLine {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self(Mutex::new(Queue::new(settings)))
    }
}

impl Line for MemoryLine {
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
