//! What goes into a queue and what comes out.

use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use std::time::Duration;

/// The place of an entry in one queue. Tickets are numbered per queue: show one only where it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueTicket(pub(super) u64);

/// Which models can answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A fast one only.
    Fast,
    /// A strong one only.
    Strong,
    /// Whichever is free first.
    Either,
}

impl Wants {
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Nothing but this grade.
    #[must_use]
    pub const fn only(grade: Grade) -> Self {
        match grade {
            Grade::Fast => Self::Fast,
            Grade::Strong => Self::Strong,
        }
    }

    /// Whether a place of this grade will do.
    #[must_use]
    pub fn takes(self, grade: Grade) -> bool {
        self == Self::Either || self == Self::only(grade)
    }

    pub(super) fn grades(self) -> impl Iterator<Item = Grade> {
        Grade::ALL.into_iter().filter(move |grade| self.takes(*grade))
    }
}

/// What somebody who wants to wait says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// Its class.
    pub priority: Priority,
    /// Who shares one turn.
    pub session: u64,
    /// Which place it can use.
    pub wants: Wants,
    /// What it takes of its session's turns: one, or the tokens it is expected to use. Nothing counts as one.
    pub cost: u64,
    /// When it must be answered in another way, at the latest.
    pub deadline: Timestamp,
}

impl QueueRequest {
    /// A request that costs one and takes either grade.
    #[must_use]
    pub const fn new(priority: Priority, session: u64, deadline: Timestamp) -> Self {
        Self { priority, session, wants: Wants::Either, cost: 1, deadline }
    }
}

/// Why somebody may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// Its turn is expected to come after its deadline or its time to live.
    TooLate,
    /// The queue is full, and nobody in it is of a lower class.
    Full,
}

/// The answer to a request to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a ticket holds a place, and who was pushed out wants an answer"]
pub enum EnterDecision {
    /// It waits.
    Queued {
        /// Its place.
        ticket: QueueTicket,
        /// How long that is expected to take; nothing before anything was measured.
        expected_wait: Option<Duration>,
        /// Who had to make room, and now wants an answer from somewhere else.
        pushed_out: Option<Departure>,
    },
    /// It does not wait, and nothing has changed.
    Refused {
        /// Why.
        reason: RefusalReason,
        /// The expected wait, or for a full queue the time until there might be room.
        retry_after: Duration,
    },
}

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureReason {
    /// It got a place.
    Served,
    /// Its deadline or time to live came first.
    Expired,
    /// Somebody of a higher class took its room.
    PushedOut,
    /// Its caller went away.
    Cancelled,
}

/// The end of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "who left wants an answer"]
pub struct Departure {
    /// Whose.
    pub ticket: QueueTicket,
    /// Why.
    pub reason: DepartureReason,
    /// Its session.
    pub session: u64,
    /// The class it came with.
    pub priority: Priority,
    /// The class it left from: one above, if it had waited for long.
    pub class: Priority,
    /// How long it was inside.
    pub waited: Duration,
}

/// A queue at a glance. What is counted is counted since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// How many wait.
    pub size: usize,
    /// How many may.
    pub capacity: usize,
    /// How many wait in each class, by its index.
    pub by_class: [usize; 5],
    /// How long the oldest of all has waited.
    pub oldest_wait: Duration,
    /// Were let in.
    pub entered: u64,
    /// Got a place.
    pub served: u64,
    /// Left because their time had come.
    pub expired: u64,
    /// Made room for a higher class.
    pub pushed_out: u64,
    /// Went away.
    pub cancelled: u64,
    /// Were refused because the queue was full.
    pub refused_full: u64,
    /// Were refused because their turn would have come too late.
    pub refused_late: u64,
}

impl QueueStats {
    /// The share of the capacity that is taken, in percent.
    #[must_use]
    pub fn utilisation_percent(&self) -> f64 {
        self.size as f64 * 100.0 / self.capacity.max(1) as f64
    }
}
