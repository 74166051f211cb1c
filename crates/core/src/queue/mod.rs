//! The admission queue: the order in which waiting requests get a concurrency slot at a model.
//!
//! There are five strict [priority](Priority) classes: a lower class is served only while no higher one can use the
//! slot. Within a class the sessions are served by fair queueing (deficit round robin), so a session that sends a
//! hundred times as much waits a hundred times as long and delays no other. The queue holds tickets; the requests
//! themselves stay with the caller.
//!
//! **When it acts.** On every call, lazily: each call first advances the queue to `now`. An entry that has waited for
//! half of the time to live is promoted by one class, once. An entry expires at its own deadline or its time to live,
//! whichever is earlier. When the queue is full, a new request evicts the newest entry of the lowest class, if that
//! class is lower than its own. If there is none, it evicts the latest entry of the caller that holds most of the
//! queue, provided that its own caller holds less and the entry did not arrive with a higher priority
//! ([`QueueShares`]): one caller cannot fill the queue for all others. Otherwise the request is refused with a
//! retry-after time. A request whose turn is expected after its deadline is refused at once, while there is still time
//! to answer it in another way.
//!
//! **What it guarantees.** Every entry leaves exactly once, by a [`Departure`] with a reason: served, expired, evicted
//! or cancelled. No entry expires early. The queue never exceeds its capacity. An entry that cannot use the free slot
//! is skipped and keeps its turn. Every operation takes at most logarithmic time in the number of entries.
//!
//! **What it does not do.** It has no timer: call [`WaitQueue::pop_expired`] when
//! [`WaitQueue::next_deadline`] has come, and answer the requests that come out. It does not survive
//! a restart, so no caller may be promised an answer that outlives the process. The expected wait is an estimate: it
//! counts entries, not their cost, and no later arrivals.
//!
//! ```
//! use seawall_core::queue::{EnterDecision, WaitQueue, QueueOptions, QueueRequest, AcceptedGrades};
//! use seawall_core::time::Timestamp;
//! use seawall_core::vocabulary::{Grade, Priority};
//! use std::time::Duration;
//!
//! let mut queue = WaitQueue::new(QueueOptions::default().check().unwrap());
//! let start = Timestamp::ZERO;
//! let request = |session, grades| QueueRequest {
//!     grades,
//!     ..QueueRequest::new(Priority::Normal, session, start + Duration::from_secs(3))
//! };
//! let EnterDecision::Queued { ticket: strong, .. } = queue.enter(&request(1, AcceptedGrades::Strong), start) else {
//!     panic!()
//! };
//! let EnterDecision::Queued { ticket: either, .. } = queue.enter(&request(2, AcceptedGrades::Either), start) else {
//!     panic!()
//! };
//!
//! assert_eq!(queue.next(Grade::Fast, start).unwrap().ticket, either);
//! assert_eq!(queue.next(Grade::Fast, start), None);
//! let deadline = queue.next_deadline().unwrap();
//! assert_eq!(queue.pop_expired(deadline).unwrap().ticket, strong);
//! ```

mod fair_queue;
mod interval;
mod settings;
mod shares;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod types;

pub use settings::{QueueOptions, QueueSettings};
pub use shares::{QueueOwner, QueueShares};
pub use types::{
    AcceptedGrades, Departure, DepartureReason, EnterDecision, QueueRefusal, QueueRequest, QueueStats,
    QueueTicket,
};

use crate::invariant::{Violation, enforce, every_entry_accounted_for, units_within_capacity};
use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use fair_queue::FairQueue;
use interval::{ExpectedWait, SlotInterval};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Debug)]
struct QueueEntry {
    request: QueueRequest,
    /// The class it waits in: one above the request's priority once it has been promoted.
    class: Priority,
    entered: Timestamp,
    expires: Timestamp,
    promotes: Option<Timestamp>,
}

/// An admission queue. The [module](self) documents its guarantees.
#[derive(Clone, Debug)]
pub struct WaitQueue {
    settings: QueueSettings,
    /// The latest time passed to the queue.
    as_of: Timestamp,
    next_ticket: u64,
    /// Oldest first, since tickets are numbered in order of arrival.
    entries: BTreeMap<QueueTicket, QueueEntry>,
    /// Ordered by time alone: in serving order, a live entry could stand before an expired one.
    expiries: BTreeSet<(Timestamp, QueueTicket)>,
    promotions: BTreeSet<(Timestamp, QueueTicket)>,
    rings: [FairQueue; 5],
    /// By original priority: promotion does not protect an entry from eviction by requests of its own priority.
    shares: [QueueShares<QueueTicket>; 5],
    intervals: [SlotInterval; 2],
    /// Expired entries that `pop_expired` has not returned yet.
    expired: VecDeque<Departure>,
    counts: QueueStats,
}

impl WaitQueue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            as_of: Timestamp::ZERO,
            next_ticket: 0,
            entries: BTreeMap::new(),
            expiries: BTreeSet::new(),
            promotions: BTreeSet::new(),
            rings: std::array::from_fn(|_| FairQueue::new(settings.quantum)),
            shares: Default::default(),
            intervals: Default::default(),
            expired: VecDeque::new(),
            counts: QueueStats { capacity: settings.capacity, ..QueueStats::default() },
        }
    }

    /// Requests to wait for a slot.
    pub fn enter(&mut self, request: &QueueRequest, now: Timestamp) -> EnterDecision {
        let now = self.advance(now);
        let expires = request.deadline.min(now + self.settings.ttl);
        let expected_wait = self.expected_wait(request, now);
        if expected_wait.unwrap_or_default() >= expires - now {
            self.counts.rejected_late += 1;
            let retry_after = expected_wait.unwrap_or_default();
            return EnterDecision::Refused { reason: QueueRefusal::TooLate, retry_after };
        }
        let evicted = if self.entries.len() < self.settings.capacity {
            None
        } else {
            let Some(loser) = self.eviction_candidate(request) else {
                self.counts.rejected_full += 1;
                let retry_after = self.time_until_room(request.grades, now);
                return EnterDecision::Refused { reason: QueueRefusal::Full, retry_after };
            };
            self.counts.evicted += 1;
            self.remove(loser, DepartureReason::Evicted)
        };
        let ticket = self.insert(request, now, expires);
        enforce(self.check_counts());
        EnterDecision::Queued { ticket, expected_wait, evicted }
    }

    /// Assigns a free slot of this grade to the next entry in turn.
    pub fn next(&mut self, grade: Grade, now: Timestamp) -> Option<Departure> {
        self.next_where(grade, now, |_| true)
    }

    /// Assigns a free slot of this grade to the first entry in turn for which `may` returns true. A session is
    /// represented by its oldest entry; a session that is turned down is skipped and keeps its turn.
    pub fn next_where(
        &mut self,
        grade: Grade,
        now: Timestamp,
        mut may: impl FnMut(QueueTicket) -> bool,
    ) -> Option<Departure> {
        let now = self.advance(now);
        let (session, ticket) = self.rings.iter().find_map(|ring| ring.first_where(grade, &mut may))?;
        let (entry, departure) = self.depart(ticket, DepartureReason::Served)?;
        self.rings[entry.class.index()].serve(session, ticket, entry.request.grades, entry.request.cost);
        for accepted in entry.request.grades.grades() {
            let pace = &mut self.intervals[accepted.index()];
            if accepted == grade { pace.served(now) } else { pace.left() }
        }
        self.counts.served += 1;
        enforce(self.check_counts());
        Some(departure)
    }

    /// Removes an entry whose caller disconnected. `None` if the entry has already left.
    pub fn cancel(&mut self, ticket: QueueTicket, now: Timestamp) -> Option<Departure> {
        self.advance(now);
        let departure = self.remove(ticket, DepartureReason::Cancelled)?;
        self.counts.cancelled += 1;
        enforce(self.check_counts());
        Some(departure)
    }

    /// The next expired entry. Each has to be answered in another way; call again until there is none.
    pub fn pop_expired(&mut self, now: Timestamp) -> Option<Departure> {
        self.advance(now);
        self.expired.pop_front()
    }

    /// When to call [`pop_expired`](Self::pop_expired) next: the next expiry or promotion.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if !self.expired.is_empty() {
            return Some(self.as_of);
        }
        let (expiry, promotion) = (self.expiries.first(), self.promotions.first());
        expiry.into_iter().chain(promotion).map(|(moment, _)| *moment).min()
    }

    /// The expected wait of one more request; `None` before anything was measured. Measured per grade by the slots
    /// assigned, so a grade that frees none is slow however fast the other is.
    #[must_use]
    pub fn expected_wait(&self, request: &QueueRequest, now: Timestamp) -> Option<Duration> {
        let now = now.max(self.as_of);
        let wait = |grade: Grade| {
            let (above, own) = self.rings.split_at(request.priority.index());
            let above: usize = above.iter().map(|ring| ring.usable(grade)).sum();
            let ahead = above + own.first().map_or(0, |ring| ring.ahead(request.session, grade));
            self.intervals[grade.index()].wait(ahead as u64, now)
        };
        // A request that accepts either grade waits for the sooner one. A grade without any measurement could have a
        // slot at once.
        let mut waits = request.grades.grades().map(wait);
        let first = waits.next()??;
        waits.try_fold(first, |soonest, wait| wait.map(|wait| soonest.min(wait)))?.wait()
    }

    /// A snapshot of the queue and its counters.
    #[must_use]
    pub fn stats(&self, now: Timestamp) -> QueueStats {
        let oldest = self.entries.first_key_value();
        QueueStats {
            size: self.entries.len(),
            by_class: self.rings.each_ref().map(FairQueue::len),
            oldest_wait: oldest.map_or(Duration::ZERO, |(_, entry)| now.max(self.as_of) - entry.entered),
            ..self.counts
        }
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.as_of = self.as_of.max(now);
        while let Some((moment, ticket)) = self.expiries.first().copied()
            && moment <= self.as_of
        {
            self.expiries.remove(&(moment, ticket));
            self.counts.expired += 1;
            let departure = self.remove(ticket, DepartureReason::Expired);
            self.expired.extend(departure);
        }
        while let Some((moment, ticket)) = self.promotions.first().copied()
            && moment <= self.as_of
        {
            self.promotions.remove(&(moment, ticket));
            self.promote(ticket);
        }
        self.as_of
    }

    fn promote(&mut self, ticket: QueueTicket) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        let Some(above) = entry.class.index().checked_sub(1) else { return };
        let (session, grades) = (entry.request.session, entry.request.grades);
        self.rings[above + 1].remove(session, ticket, grades);
        self.rings[above].add(session, ticket, grades);
        entry.class = Priority::ALL[above];
        entry.promotes = None;
    }

    /// The entry to evict for a new request: one of a lower class, or of a caller that holds more than its share.
    fn eviction_candidate(&self, newcomer: &QueueRequest) -> Option<QueueTicket> {
        let below = self.rings.iter().skip(newcomer.priority.index() + 1);
        let not_above = self.shares.iter().skip(newcomer.priority.index());
        let by_class = below.rev().find_map(FairQueue::newest);
        let by_share = || not_above.rev().find_map(|shares| shares.eviction_candidate(newcomer.owner));
        by_class.or_else(|| by_share().map(|(_, ticket)| ticket))
    }

    /// The time until the next slot or the next expiry, whichever makes room first.
    #[must_use]
    pub fn time_until_room(&self, grades: AcceptedGrades, now: Timestamp) -> Duration {
        let expiry = self.expiries.first().map(|(moment, _)| *moment - now);
        let next_slot = grades.grades().filter_map(|grade| self.intervals[grade.index()].wait(1, now)).min();
        expiry.into_iter().chain(next_slot.and_then(ExpectedWait::wait)).min().unwrap_or_default()
    }

    fn insert(&mut self, request: &QueueRequest, now: Timestamp, expires: Timestamp) -> QueueTicket {
        let ticket = QueueTicket(self.next_ticket);
        self.next_ticket += 1;
        let class = request.priority;
        let promotes = (class != Priority::Critical).then(|| now + self.settings.promote_after);
        self.expiries.insert((expires, ticket));
        self.promotions.extend(promotes.map(|moment| (moment, ticket)));
        self.rings[class.index()].add(request.session, ticket, request.grades);
        self.shares[class.index()].add(request.owner, ticket);
        for grade in request.grades.grades() {
            self.intervals[grade.index()].arrived(now);
        }
        self.entries.insert(ticket, QueueEntry { request: *request, class, entered: now, expires, promotes });
        self.counts.entered += 1;
        ticket
    }

    /// The invariants of the queue between two operations.
    fn check_counts(&self) -> Result<(), Violation> {
        let (size, counts) = (self.entries.len() as u64, &self.counts);
        units_within_capacity(size, self.settings.capacity as u64)?;
        let left = [counts.served, counts.expired, counts.evicted, counts.cancelled];
        every_entry_accounted_for(counts.entered, &left, size)
    }

    /// Removes an entry that was not served.
    fn remove(&mut self, ticket: QueueTicket, reason: DepartureReason) -> Option<Departure> {
        let (entry, departure) = self.depart(ticket, reason)?;
        self.rings[entry.class.index()].remove(entry.request.session, ticket, entry.request.grades);
        for grade in entry.request.grades.grades() {
            self.intervals[grade.index()].left();
        }
        Some(departure)
    }

    fn depart(&mut self, ticket: QueueTicket, reason: DepartureReason) -> Option<(QueueEntry, Departure)> {
        let entry = self.entries.remove(&ticket)?;
        self.expiries.remove(&(entry.expires, ticket));
        self.shares[entry.request.priority.index()].remove(entry.request.owner, ticket);
        if let Some(moment) = entry.promotes {
            self.promotions.remove(&(moment, ticket));
        }
        let departure = Departure {
            ticket,
            reason,
            session: entry.request.session,
            priority: entry.request.priority,
            class: entry.class,
            waited: self.as_of - entry.entered,
        };
        Some((entry, departure))
    }
}
