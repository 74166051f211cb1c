//! A bucket whose callers may stand in line.
//!
//! Some callers would rather wait for their turn than be turned away: a background job that calls a cloud API
//! which allows ten calls a second, say. The bucket fills at that rate up to its capacity. Who finds enough
//! units takes them; who does not is told the exact moment at which its turn comes, given everyone ahead, and
//! comes back then with its [`Ticket`].
//!
//! **When it acts.** On every ask, and lazily: each call first brings the bucket up to `now`. A late look
//! finds what a continuous one would have found, because units go to those who stand in line before the rest
//! is cut to the capacity.
//!
//! **What it promises.** The units are always between nothing and the capacity: no debt. The line is strictly
//! first come, first served, and nobody new overtakes it. The moment a waiter was told never moves back; when
//! somebody ahead leaves or gives units back, it moves up, and [`WaitingBucket::poll`] tells the new one. So
//! the caller's limit is looked at once, on arrival: one who could not be served in time is refused there and
//! takes nothing. A moment from the past (two threads racing to the lock) adds no units and costs none.
//!
//! **What it will not do.** It wakes nobody and forgets nobody: who holds a ticket must poll it or cancel it.
//! It does not spread callers who come back late: units set aside for them stay theirs, so waiters that all
//! oversleep may all go at once. It does not know which bucket a [`Grant`] came from; give it back to the
//! bucket that gave it.
//!
//! ```
//! use seawall_core::time::Timestamp;
//! use seawall_core::waiting::{AcquireDecision, PollDecision, WaitingBucket, WaitingSettings};
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut bucket = WaitingBucket::new(WaitingSettings::recovery_api(), start);
//! let give_up_at = start + Duration::from_secs(30);
//! assert!(matches!(bucket.acquire(start, 20, give_up_at), AcquireDecision::Granted(_)));
//!
//! let AcquireDecision::Wait { ticket, until } = bucket.acquire(start, 1, give_up_at) else { panic!() };
//! assert_eq!(until, start + Duration::from_millis(100));
//! assert!(matches!(bucket.poll(ticket, until), PollDecision::Ready(grant) if grant.units() == 1));
//! ```

mod keyed;
mod settings;
#[cfg(test)]
mod tests;

pub use keyed::{Conflict, WaitingBuckets};
pub use settings::WaitingSettings;

use crate::time::{Timestamp, nanos};
use std::collections::{BTreeMap, VecDeque};

/// Units that were taken. Not to be copied, so they can be given back at most once; dropping it spends them.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the units are spent; give them back with `refund` if the call was not made"]
pub struct Grant {
    units: u64,
}

impl Grant {
    /// How many units.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }
}

/// A place in the line of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The answer to an ask for units.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant holds units and a ticket holds a place in the line"]
pub enum AcquireDecision {
    /// Go on: the units are yours.
    Granted(Grant),
    /// Come back at `until` and poll the ticket, or cancel it before.
    Wait {
        /// The place in the line.
        ticket: Ticket,
        /// When its turn comes, at the latest.
        until: Timestamp,
    },
    /// The turn would come after the moment the caller gives up. Nothing was taken.
    Refused {
        /// When the turn would have come; [`Timestamp::NEVER`] if the clock does not reach that far.
        would_wait_until: Timestamp,
    },
    /// More than the bucket ever holds. No wait helps.
    TooLarge,
}

/// The answer to a waiter who asks whether its turn has come.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant holds units"]
pub enum PollDecision {
    /// Go on: the units are yours, and the ticket is used up.
    Ready(Grant),
    /// Not yet; come back at `until`.
    Wait {
        /// When the turn comes, at the latest.
        until: Timestamp,
    },
    /// The ticket was used or cancelled before. Tickets are numbered per bucket: show one only where it was given.
    Unknown,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    units: u64,
    weight: u64,
}

/// The bucket and its line. See the [module](self) for what it promises.
#[derive(Debug)]
pub struct WaitingBucket {
    settings: WaitingSettings,
    /// The latest moment the bucket has seen.
    as_of: Timestamp,
    /// What is in the bucket, as the nanoseconds it took to drip in: refilling is an exact addition.
    /// Below the first waiter's weight whenever somebody stands in line.
    balance: u64,
    line: VecDeque<Waiter>,
    /// The weight of the whole line.
    queued: u64,
    /// Units set aside for waiters whose turn came and who have not come back yet.
    set_aside: BTreeMap<Ticket, u64>,
    next_ticket: u64,
    consumed: u64,
}

impl WaitingBucket {
    /// A full bucket, with nobody in line.
    #[must_use]
    pub fn new(settings: WaitingSettings, now: Timestamp) -> Self {
        Self {
            settings,
            as_of: now,
            balance: settings.full(),
            line: VecDeque::new(),
            queued: 0,
            set_aside: BTreeMap::new(),
            next_ticket: 0,
            consumed: 0,
        }
    }

    /// Asks for `units`, ready to wait until `give_up_at`.
    ///
    /// Where the units are there and nobody stands in line they are granted at once, whatever the limit.
    /// Asking for nothing is granted at once too: it takes nothing, so it overtakes nobody.
    pub fn acquire(&mut self, now: Timestamp, units: u64, give_up_at: Timestamp) -> AcquireDecision {
        self.advance(now);
        let Some(weight) = self.settings.weight(units) else {
            return AcquireDecision::TooLarge;
        };
        if weight == 0 || (self.line.is_empty() && weight <= self.balance) {
            self.balance -= weight;
            self.consumed = self.consumed.saturating_add(units);
            return AcquireDecision::Granted(Grant { units });
        }
        let Some(queued) = self.queued.checked_add(weight) else {
            return AcquireDecision::Refused { would_wait_until: Timestamp::NEVER };
        };
        let until = self.turn_of(queued);
        // A saturated sum also ends at NEVER, so a turn at NEVER is no promise even to who waits for ever.
        if until > give_up_at || until == Timestamp::NEVER {
            return AcquireDecision::Refused { would_wait_until: until };
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queued = queued;
        self.line.push_back(Waiter { ticket, units, weight });
        AcquireDecision::Wait { ticket, until }
    }

    /// Asks for `units` and does not wait: granted, refused or too large.
    pub fn try_acquire(&mut self, now: Timestamp, units: u64) -> AcquireDecision {
        // Whoever has to wait would wait beyond `now`, so giving up at `now` is never to wait.
        self.acquire(now, units, now)
    }

    /// Asks whether the turn of `ticket` has come. A grant is handed out once.
    pub fn poll(&mut self, ticket: Ticket, now: Timestamp) -> PollDecision {
        self.advance(now);
        if let Some(units) = self.set_aside.remove(&ticket) {
            return PollDecision::Ready(Grant { units });
        }
        let mut weight_up_to_here = 0_u64;
        for waiter in &self.line {
            weight_up_to_here = weight_up_to_here.saturating_add(waiter.weight);
            if waiter.ticket == ticket {
                return PollDecision::Wait { until: self.turn_of(weight_up_to_here) };
            }
        }
        PollDecision::Unknown
    }

    /// Leaves the line. Nothing is consumed, units already set aside go back, and those behind move up.
    /// Says whether the ticket was still good.
    pub fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        self.advance(now);
        if let Some(units) = self.set_aside.remove(&ticket) {
            self.give_back(units);
            return true;
        }
        let place = self.line.iter().position(|waiter| waiter.ticket == ticket);
        let Some(leaver) = place.and_then(|place| self.line.remove(place)) else {
            return false;
        };
        self.queued -= leaver.weight;
        // The units may have been waiting for a large ask in front; somebody behind may need fewer.
        self.pour(0);
        true
    }

    /// Takes units back, for a call that was not made. They go to the line first; what the bucket cannot
    /// hold is lost.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taking the grant away is what prevents a second refund"
    )]
    pub fn refund(&mut self, grant: Grant, now: Timestamp) {
        self.advance(now);
        self.give_back(grant.units);
    }

    /// The units somebody new could take at `now`: none while others would still stand in line.
    #[must_use]
    pub fn available(&self, now: Timestamp) -> u64 {
        let balance = self.balance.saturating_add(nanos(now - self.as_of));
        self.settings.whole_units(balance.saturating_sub(self.queued).min(self.settings.full()))
    }

    /// The units granted so far, less those given back. Units set aside for a waiter are granted.
    #[must_use]
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// What the bucket was built from.
    #[must_use]
    pub const fn settings(&self) -> WaitingSettings {
        self.settings
    }

    fn advance(&mut self, now: Timestamp) {
        self.pour(nanos(now - self.as_of));
        self.as_of = self.as_of.max(now);
    }

    fn give_back(&mut self, units: u64) {
        self.consumed = self.consumed.saturating_sub(units);
        self.pour(self.settings.weight(units).unwrap_or(self.settings.full()));
    }

    /// Adds `weight`, serves the line in its order, and only then cuts what is left to the capacity.
    ///
    /// That is the same as serving each waiter at its own moment: nobody waits for more than the capacity, so
    /// the bucket cannot run over before the line is empty.
    fn pour(&mut self, weight: u64) {
        let mut balance = self.balance.saturating_add(weight);
        while let Some(served) = self.line.pop_front_if(|first| first.weight <= balance) {
            balance -= served.weight;
            self.queued -= served.weight;
            self.consumed = self.consumed.saturating_add(served.units);
            self.set_aside.insert(served.ticket, served.units);
        }
        self.balance = balance.min(self.settings.full());
    }

    /// When a line that weighs `queued` will have been served.
    fn turn_of(&self, queued: u64) -> Timestamp {
        let missing = queued.saturating_sub(self.balance);
        Timestamp::from_nanos(self.as_of.as_nanos().saturating_add(missing))
    }
}
