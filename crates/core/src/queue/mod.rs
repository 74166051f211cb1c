//! The order in which waiting requests get a place at a model.
//!
//! There are five classes, the [priorities](Priority): a lower one is served only while no higher one can use the
//! place. Inside a class the sessions take turns, so that who sends a hundred times as much waits a hundred times as
//! long, and nobody else does. The queue holds tickets; what is waiting stays with the caller.
//!
//! **When it acts.** On every call, and lazily: each first brings the queue up to `now`. An entry that has waited for
//! half the time to live moves up by one class, once. One whose own deadline or time to live has come leaves. When the
//! queue is full, a newcomer pushes out the newest entry of the lowest class, if that class is lower than its own.
//! Otherwise it is refused, and told when to come back. And a newcomer whose turn is expected to come too late for its
//! deadline is refused at once, while there is still time to answer it in another way.
//!
//! **What it promises.** Every entry leaves exactly once, by a [`Departure`] that says why: served, expired, pushed out
//! or cancelled. Nobody leaves before its time. There are never more than the capacity. An entry that cannot use the
//! free place is passed over and keeps its turn. Whatever happens costs at most the logarithm of what is inside.
//!
//! **What it will not do.** It wakes nobody: call [`Queue::pop_expired`] when [`Queue::next_deadline`] has come, and
//! answer who comes out. It survives no restart, so nobody may be promised an answer that outlives the process. The
//! expected wait is an estimate: it counts entries, not their cost, and nobody who might arrive later.
//!
//! ```
//! use seawall_core::queue::{EnterDecision, Queue, QueueOptions, QueueRequest, Wants};
//! use seawall_core::time::Timestamp;
//! use seawall_core::vocabulary::{Grade, Priority};
//! use std::time::Duration;
//!
//! let mut queue = Queue::new(QueueOptions::default().check().unwrap());
//! let start = Timestamp::ZERO;
//! let request = |session, wants| QueueRequest {
//!     wants,
//!     ..QueueRequest::new(Priority::Normal, session, start + Duration::from_secs(3))
//! };
//! let EnterDecision::Queued { ticket: strong, .. } = queue.enter(&request(1, Wants::Strong), start) else { panic!() };
//! let EnterDecision::Queued { ticket: either, .. } = queue.enter(&request(2, Wants::Either), start) else { panic!() };
//!
//! assert_eq!(queue.next(Grade::Fast, start).unwrap().ticket, either);
//! assert_eq!(queue.next(Grade::Fast, start), None);
//! let deadline = queue.next_deadline().unwrap();
//! assert_eq!(queue.pop_expired(deadline).unwrap().ticket, strong);
//! ```

mod pace;
mod ring;
mod settings;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod types;

pub use settings::{QueueOptions, QueueSettings};
pub use types::{
    Departure, DepartureReason, EnterDecision, QueueRequest, QueueStats, QueueTicket, RefusalReason, Wants,
};

use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use pace::{Expected, Pace};
use ring::Ring;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Debug)]
struct Entry {
    request: QueueRequest,
    /// The class it waits in, which is above that of the request once it has moved up.
    class: Priority,
    entered: Timestamp,
    expires: Timestamp,
    promotes: Option<Timestamp>,
}

/// A queue. See the [module](self) for what it promises.
#[derive(Clone, Debug)]
pub struct Queue {
    settings: QueueSettings,
    /// The latest moment that the queue has seen.
    as_of: Timestamp,
    next_ticket: u64,
    /// Oldest first, since tickets are numbered as they are given.
    entries: BTreeMap<QueueTicket, Entry>,
    /// Kept by time alone: in the order of serving, a live entry could stand before one that has expired.
    expiries: BTreeSet<(Timestamp, QueueTicket)>,
    promotions: BTreeSet<(Timestamp, QueueTicket)>,
    rings: [Ring; 5],
    paces: [Pace; 2],
    /// Those that have expired and of whom nobody has been told yet.
    expired: VecDeque<Departure>,
    counts: QueueStats,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            as_of: Timestamp::ZERO,
            next_ticket: 0,
            entries: BTreeMap::new(),
            expiries: BTreeSet::new(),
            promotions: BTreeSet::new(),
            rings: std::array::from_fn(|_| Ring::new(settings.quantum)),
            paces: Default::default(),
            expired: VecDeque::new(),
            counts: QueueStats { capacity: settings.capacity, ..QueueStats::default() },
        }
    }

    /// Asks to wait for a place.
    pub fn enter(&mut self, request: &QueueRequest, now: Timestamp) -> EnterDecision {
        let now = self.advance(now);
        let expires = request.deadline.min(now + self.settings.time_to_live);
        let expected_wait = self.expected_wait(request, now);
        if expected_wait.unwrap_or_default() >= expires - now {
            self.counts.refused_late += 1;
            let retry_after = expected_wait.unwrap_or_default();
            return EnterDecision::Refused { reason: RefusalReason::TooLate, retry_after };
        }
        let pushed_out = if self.entries.len() < self.settings.capacity {
            None
        } else {
            let Some(loser) = self.loser_to(request.priority) else {
                self.counts.refused_full += 1;
                let retry_after = self.time_until_room(request.wants, now);
                return EnterDecision::Refused { reason: RefusalReason::Full, retry_after };
            };
            self.counts.pushed_out += 1;
            self.remove(loser, DepartureReason::PushedOut)
        };
        let ticket = self.insert(request, now, expires);
        EnterDecision::Queued { ticket, expected_wait, pushed_out }
    }

    /// Gives a free place of this grade to whose turn it is.
    pub fn next(&mut self, grade: Grade, now: Timestamp) -> Option<Departure> {
        self.next_where(grade, now, |_| true)
    }

    /// Gives a free place of this grade to the first in turn that may have it. A session is asked about by its oldest
    /// entry; one that may not is passed over and keeps its turn.
    pub fn next_where(
        &mut self,
        grade: Grade,
        now: Timestamp,
        mut may: impl FnMut(QueueTicket) -> bool,
    ) -> Option<Departure> {
        let now = self.advance(now);
        let (session, ticket) = self.rings.iter().find_map(|ring| ring.first_where(grade, &mut may))?;
        let (entry, departure) = self.depart(ticket, DepartureReason::Served)?;
        self.rings[entry.class.index()].serve(session, ticket, entry.request.wants, entry.request.cost);
        for wanted in entry.request.wants.grades() {
            let pace = &mut self.paces[wanted.index()];
            if wanted == grade { pace.served(now) } else { pace.left() }
        }
        self.counts.served += 1;
        Some(departure)
    }

    /// The caller has gone. Nothing if the entry has left already.
    pub fn cancel(&mut self, ticket: QueueTicket, now: Timestamp) -> Option<Departure> {
        self.advance(now);
        let departure = self.remove(ticket, DepartureReason::Cancelled)?;
        self.counts.cancelled += 1;
        Some(departure)
    }

    /// The next of those whose time has come. Each wants an answer from somewhere else; call again until there is none.
    pub fn pop_expired(&mut self, now: Timestamp) -> Option<Departure> {
        self.advance(now);
        self.expired.pop_front()
    }

    /// When to call [`pop_expired`](Self::pop_expired) next: somebody expires then, or moves up.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if !self.expired.is_empty() {
            return Some(self.as_of);
        }
        let (expiry, promotion) = (self.expiries.first(), self.promotions.first());
        expiry.into_iter().chain(promotion).map(|(moment, _)| *moment).min()
    }

    /// How long one more request would wait; nothing before anything was seen. Measured by the grade of the places
    /// that were given, so that a grade which gives none is slow however fast the other is.
    #[must_use]
    pub fn expected_wait(&self, request: &QueueRequest, now: Timestamp) -> Option<Duration> {
        let now = now.max(self.as_of);
        let wait = |grade: Grade| {
            let (above, own) = self.rings.split_at(request.priority.index());
            let above: usize = above.iter().map(|ring| ring.usable(grade)).sum();
            let ahead = above + own.first().map_or(0, |ring| ring.ahead(request.session, grade));
            self.paces[grade.index()].wait(ahead as u64, now)
        };
        // Who takes either waits for the sooner. One that nobody has waited for might be at once.
        let mut waits = request.wants.grades().map(wait);
        let first = waits.next()??;
        waits.try_fold(first, |soonest, wait| wait.map(|wait| soonest.min(wait)))?.wait()
    }

    /// What there is to know at a glance.
    #[must_use]
    pub fn stats(&self, now: Timestamp) -> QueueStats {
        let oldest = self.entries.first_key_value();
        QueueStats {
            size: self.entries.len(),
            by_class: self.rings.each_ref().map(Ring::len),
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
        let (session, wants) = (entry.request.session, entry.request.wants);
        self.rings[above + 1].remove(session, ticket, wants);
        self.rings[above].add(session, ticket, wants);
        entry.class = Priority::ALL[above];
        entry.promotes = None;
    }

    /// Who has to make room for a newcomer of this class.
    fn loser_to(&self, newcomer: Priority) -> Option<QueueTicket> {
        let below = self.rings.iter().skip(newcomer.index() + 1);
        below.rev().find_map(Ring::newest)
    }

    /// Until the next place or the next expiry, whichever makes room first.
    fn time_until_room(&self, wants: Wants, now: Timestamp) -> Duration {
        let expiry = self.expiries.first().map(|(moment, _)| *moment - now);
        let place = wants.grades().filter_map(|grade| self.paces[grade.index()].wait(1, now)).min();
        expiry.into_iter().chain(place.and_then(Expected::wait)).min().unwrap_or_default()
    }

    fn insert(&mut self, request: &QueueRequest, now: Timestamp, expires: Timestamp) -> QueueTicket {
        let ticket = QueueTicket(self.next_ticket);
        self.next_ticket += 1;
        let class = request.priority;
        let promotes = (class != Priority::Critical).then(|| now + self.settings.promote_after);
        self.expiries.insert((expires, ticket));
        self.promotions.extend(promotes.map(|moment| (moment, ticket)));
        self.rings[class.index()].add(request.session, ticket, request.wants);
        for grade in request.wants.grades() {
            self.paces[grade.index()].arrived(now);
        }
        self.entries.insert(ticket, Entry { request: *request, class, entered: now, expires, promotes });
        self.counts.entered += 1;
        ticket
    }

    /// Lets somebody go who got no place.
    fn remove(&mut self, ticket: QueueTicket, reason: DepartureReason) -> Option<Departure> {
        let (entry, departure) = self.depart(ticket, reason)?;
        self.rings[entry.class.index()].remove(entry.request.session, ticket, entry.request.wants);
        for grade in entry.request.wants.grades() {
            self.paces[grade.index()].left();
        }
        Some(departure)
    }

    fn depart(&mut self, ticket: QueueTicket, reason: DepartureReason) -> Option<(Entry, Departure)> {
        let entry = self.entries.remove(&ticket)?;
        self.expiries.remove(&(entry.expires, ticket));
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
