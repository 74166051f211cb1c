//! A token bucket with a FIFO queue, for callers that prefer waiting to being rejected.
//!
//! A background job that calls a cloud API limited to ten calls per second would rather wait for its turn than fail.
//! The bucket refills at that rate up to its capacity. A caller that finds enough units takes them at once. Otherwise
//! it gets a [`Ticket`] and the exact time of its turn, given all waiters ahead, and polls the ticket then.
//!
//! **When it acts.** On every call, lazily: each call first advances the bucket to `now`. A late call has the same
//! result as a continuous refill, because units go to the waiters before the rest is capped at the capacity.
//!
//! **What it guarantees.** The balance is always between zero and the capacity: no debt. The queue is strictly first
//! come, first served, and no newcomer overtakes it. The time given to a waiter is never postponed; when a waiter ahead
//! cancels or units are refunded, it moves up, and [`WaitingBucket::poll`] returns the new time. So the caller's
//! deadline is checked once, on arrival: a caller that could not be served in time is refused there and takes nothing.
//! A timestamp from the past (two threads racing for the lock) adds no units and costs none.
//!
//! **What it does not do.** It wakes no task and drops no waiter: the owner of a ticket must poll or cancel it. It does
//! not pace callers that return late: units reserved for them stay theirs, so waiters that all oversleep may all
//! proceed at once. It does not know which bucket a [`Grant`] came from; refund it to the bucket that issued it.
//!
//! ```
//! use seawall_core::time::Timestamp;
//! use seawall_core::waiting::{WaitingAcquireDecision, WaitingPollDecision, WaitingBucket, WaitingSettings};
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut bucket = WaitingBucket::new(WaitingSettings::recovery_api(), start);
//! let give_up_at = start + Duration::from_secs(30);
//! assert!(matches!(bucket.acquire(start, 20, give_up_at), WaitingAcquireDecision::Granted(_)));
//!
//! let WaitingAcquireDecision::Wait { ticket, until } = bucket.acquire(start, 1, give_up_at) else { panic!() };
//! assert_eq!(until, start + Duration::from_millis(100));
//! assert!(matches!(bucket.poll(ticket, until), WaitingPollDecision::Ready(grant) if grant.units() == 1));
//! ```

mod keyed;
mod settings;
#[cfg(test)]
mod tests;

pub use keyed::{BucketConflict, WaitingBuckets};
pub use settings::WaitingSettings;

use crate::time::{Timestamp, nanos};
use std::collections::{BTreeMap, VecDeque};

/// Units that were taken. Not `Clone`, so that they can be refunded at most once; dropping it spends them.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the units are spent; give them back with `refund` if the call was not made"]
pub struct Grant {
    units: u64,
}

impl Grant {
    /// The number of units.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }
}

/// A position in the queue of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The decision on a request for units.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant holds units and a ticket holds a position in the queue"]
pub enum WaitingAcquireDecision {
    /// The units were taken; proceed.
    Granted(Grant),
    /// Poll the ticket at `until`, or cancel it before.
    Wait {
        /// The position in the queue.
        ticket: Ticket,
        /// The latest time of the turn.
        until: Timestamp,
    },
    /// The turn would come after `give_up_at`. Nothing was taken.
    Refused {
        /// When the turn would have come; [`Timestamp::NEVER`] if the clock does not reach that far.
        would_wait_until: Timestamp,
    },
    /// The request exceeds the capacity, so waiting does not help.
    TooLarge,
}

/// The decision on polling a ticket.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant holds units"]
pub enum WaitingPollDecision {
    /// The units were taken and the ticket is used up; proceed.
    Ready(Grant),
    /// Not yet; poll again at `until`.
    Wait {
        /// The latest time of the turn.
        until: Timestamp,
    },
    /// The ticket was already used or cancelled. Tickets are numbered per bucket and valid only in the bucket that
    /// issued them.
    Unknown,
}

#[derive(Debug)]
struct BucketWaiter {
    ticket: Ticket,
    units: u64,
    weight: u64,
}

/// The bucket and its queue. The [module](self) documents its guarantees.
#[derive(Debug)]
pub struct WaitingBucket {
    settings: WaitingSettings,
    /// The latest time passed to the bucket.
    as_of: Timestamp,
    /// The units in the bucket, expressed as the nanoseconds they took to refill: refilling is an exact addition. Below
    /// the first waiter's weight whenever a request is queued.
    balance: u64,
    queue: VecDeque<BucketWaiter>,
    /// The total weight of the queue.
    queued: u64,
    /// Units reserved for waiters whose turn has come and that have not polled yet.
    reserved: BTreeMap<Ticket, u64>,
    next_ticket: u64,
    consumed: u64,
}

impl WaitingBucket {
    /// Creates a full bucket with an empty queue.
    #[must_use]
    pub fn new(settings: WaitingSettings, now: Timestamp) -> Self {
        Self {
            settings,
            as_of: now,
            balance: settings.full(),
            queue: VecDeque::new(),
            queued: 0,
            reserved: BTreeMap::new(),
            next_ticket: 0,
            consumed: 0,
        }
    }

    /// Requests `units`, willing to wait until `give_up_at`.
    ///
    /// If the units are available and the queue is empty, they are granted at once, whatever `give_up_at` is. A request
    /// for zero units is granted at once too: it takes nothing, so it overtakes no waiter.
    pub fn acquire(&mut self, now: Timestamp, units: u64, give_up_at: Timestamp) -> WaitingAcquireDecision {
        self.advance(now);
        let Some(weight) = self.settings.weight(units) else {
            return WaitingAcquireDecision::TooLarge;
        };
        if weight == 0 || (self.queue.is_empty() && weight <= self.balance) {
            self.balance -= weight;
            self.consumed = self.consumed.saturating_add(units);
            return WaitingAcquireDecision::Granted(Grant { units });
        }
        let Some(queued) = self.queued.checked_add(weight) else {
            return WaitingAcquireDecision::Refused { would_wait_until: Timestamp::NEVER };
        };
        let until = self.turn_of(queued);
        // A saturated sum also ends at NEVER, so a turn at NEVER cannot be promised, not even to a caller that waits
        // forever.
        if until > give_up_at || until == Timestamp::NEVER {
            return WaitingAcquireDecision::Refused { would_wait_until: until };
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queued = queued;
        self.queue.push_back(BucketWaiter { ticket, units, weight });
        WaitingAcquireDecision::Wait { ticket, until }
    }

    /// Requests `units` without waiting: granted, refused or too large.
    pub fn try_acquire(&mut self, now: Timestamp, units: u64) -> WaitingAcquireDecision {
        // A request that has to wait would wait beyond `now`, so giving up at `now` means not waiting.
        self.acquire(now, units, now)
    }

    /// Whether the turn of `ticket` has come. A grant is returned once.
    pub fn poll(&mut self, ticket: Ticket, now: Timestamp) -> WaitingPollDecision {
        self.advance(now);
        if let Some(units) = self.reserved.remove(&ticket) {
            return WaitingPollDecision::Ready(Grant { units });
        }
        let mut weight_up_to_here = 0_u64;
        for waiter in &self.queue {
            weight_up_to_here = weight_up_to_here.saturating_add(waiter.weight);
            if waiter.ticket == ticket {
                return WaitingPollDecision::Wait { until: self.turn_of(weight_up_to_here) };
            }
        }
        WaitingPollDecision::Unknown
    }

    /// Leaves the queue. Nothing is consumed, reserved units are returned, and later waiters move up. Returns whether
    /// the ticket was still valid.
    pub fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        self.advance(now);
        if let Some(units) = self.reserved.remove(&ticket) {
            self.return_units(units);
            return true;
        }
        let position = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        let Some(leaver) = position.and_then(|position| self.queue.remove(position)) else {
            return false;
        };
        self.queued -= leaver.weight;
        // The units may have been accumulating for a large request in front; a later waiter may need fewer.
        self.add_weight(0);
        true
    }

    /// Returns the units of a call that was not made. They go to the queue first; what exceeds the capacity is lost.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taking the grant away is what prevents a second refund"
    )]
    pub fn refund(&mut self, grant: Grant, now: Timestamp) {
        self.advance(now);
        self.return_units(grant.units);
    }

    /// The units a new caller could take at `now`: zero while the queue would not be empty.
    #[must_use]
    pub fn available(&self, now: Timestamp) -> u64 {
        let balance = self.balance.saturating_add(nanos(now - self.as_of));
        self.settings.whole_units(balance.saturating_sub(self.queued).min(self.settings.full()))
    }

    /// The units granted so far, less refunds. Units reserved for a waiter count as granted.
    #[must_use]
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The settings of the bucket.
    #[must_use]
    pub const fn settings(&self) -> WaitingSettings {
        self.settings
    }

    fn advance(&mut self, now: Timestamp) {
        self.add_weight(nanos(now - self.as_of));
        self.as_of = self.as_of.max(now);
    }

    fn return_units(&mut self, units: u64) {
        self.consumed = self.consumed.saturating_sub(units);
        self.add_weight(self.settings.weight(units).unwrap_or(self.settings.full()));
    }

    /// Adds `weight`, serves the queue in order, and only then caps the rest at the capacity.
    ///
    /// This is equivalent to serving each waiter at its own time: no request exceeds the capacity, so the bucket cannot
    /// overflow before the queue is empty.
    fn add_weight(&mut self, weight: u64) {
        let mut balance = self.balance.saturating_add(weight);
        while let Some(served) = self.queue.pop_front_if(|first| first.weight <= balance) {
            balance -= served.weight;
            self.queued -= served.weight;
            self.consumed = self.consumed.saturating_add(served.units);
            self.reserved.insert(served.ticket, served.units);
        }
        self.balance = balance.min(self.settings.full());
    }

    /// When a queue of weight `queued` will have been served.
    fn turn_of(&self, queued: u64) -> Timestamp {
        let missing = queued.saturating_sub(self.balance);
        Timestamp::from_nanos(self.as_of.as_nanos().saturating_add(missing))
    }
}
