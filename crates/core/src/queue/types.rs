//! The types of requests to a queue and of its decisions.

use super::QueueOwner;
use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use std::time::Duration;

/// Identifies an entry. Tickets are numbered per queue and valid only in the queue that issued them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueTicket(pub(super) u64);

/// The grades of model that can answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedGrades {
    /// A fast model only.
    Fast,
    /// A strong model only.
    Strong,
    /// Whichever grade is free first.
    Either,
}

impl AcceptedGrades {
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Accepts this grade only.
    #[must_use]
    pub const fn only(grade: Grade) -> Self {
        match grade {
            Grade::Fast => Self::Fast,
            Grade::Strong => Self::Strong,
        }
    }

    /// Whether a slot of this grade is acceptable.
    #[must_use]
    pub fn accepts(self, grade: Grade) -> bool {
        self == Self::Either || self == Self::only(grade)
    }

    pub(super) fn grades(self) -> impl Iterator<Item = Grade> {
        Grade::ALL.into_iter().filter(move |grade| self.accepts(*grade))
    }
}

/// A request to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// The priority class.
    pub priority: Priority,
    /// The session, which is the unit of fair queueing.
    pub session: u64,
    /// The party whose share of the queue it counts against.
    pub owner: QueueOwner,
    /// The grades of slot it can use.
    pub grades: AcceptedGrades,
    /// What it costs of its session's turns: one, or the tokens it is expected to use. Zero counts as one.
    pub cost: u64,
    /// The latest time at which it must leave the queue to be answered in another way.
    pub deadline: Timestamp,
}

impl QueueRequest {
    /// A request with a cost of one that accepts either grade and whose session is its owner.
    #[must_use]
    pub const fn new(priority: Priority, session: u64, deadline: Timestamp) -> Self {
        let owner = QueueOwner::Caller(session);
        Self { priority, session, owner, grades: AcceptedGrades::Either, cost: 1, deadline }
    }
}

/// Why a request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRefusal {
    /// Its turn is expected after its deadline or its time to live.
    TooLate,
    /// The queue is full, and there is no entry of a lower class and none of a caller above its share.
    Full,
}

/// The decision on a request to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the ticket must be served or cancelled, and an evicted request must be answered"]
pub enum EnterDecision {
    /// The request waits.
    Queued {
        /// The ticket of the entry.
        ticket: QueueTicket,
        /// The expected wait; `None` before anything was measured.
        expected_wait: Option<Duration>,
        /// The entry that was evicted, which now has to be answered in another way.
        evicted: Option<Departure>,
    },
    /// The request does not wait, and nothing has changed.
    Refused {
        /// Why the request was refused.
        reason: QueueRefusal,
        /// The expected wait; for a full queue, the time until there may be room.
        retry_after: Duration,
    },
}

/// Why an entry left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureReason {
    /// It got a slot.
    Served,
    /// Its deadline or its time to live passed.
    Expired,
    /// It was evicted by a request of a higher class, or of a caller with less of the queue.
    Evicted,
    /// Its caller disconnected.
    Cancelled,
}

/// An entry that left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that has left the queue must be answered"]
pub struct Departure {
    /// The ticket of the entry.
    pub ticket: QueueTicket,
    /// Why it left.
    pub reason: DepartureReason,
    /// The session of the entry.
    pub session: u64,
    /// The priority it arrived with.
    pub priority: Priority,
    /// The class it left from: one above its priority if it was promoted.
    pub class: Priority,
    /// How long it waited.
    pub waited: Duration,
}

/// A snapshot of a queue. Counters run since the queue was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Entries waiting now.
    pub size: usize,
    /// The maximum number of waiting entries.
    pub capacity: usize,
    /// Entries waiting in each class, by its index.
    pub by_class: [usize; 5],
    /// How long the oldest entry has waited.
    pub oldest_wait: Duration,
    /// Requests admitted to the queue.
    pub entered: u64,
    /// Entries that got a slot.
    pub served: u64,
    /// Entries that expired.
    pub expired: u64,
    /// Entries evicted by a higher class, or by a caller with less of the queue.
    pub evicted: u64,
    /// Entries whose caller disconnected.
    pub cancelled: u64,
    /// Requests refused because the queue was full.
    pub rejected_full: u64,
    /// Requests refused because their turn would have come too late.
    pub rejected_late: u64,
}

impl QueueStats {
    /// The share of the capacity in use, in percent.
    #[must_use]
    pub fn utilisation_percent(&self) -> f64 {
        self.size as f64 * 100.0 / self.capacity.max(1) as f64
    }
}
