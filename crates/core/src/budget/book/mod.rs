//! The ledger of one process: accounts, open reservations and sessions.

mod checks;
mod corrections;
mod forgetting;
mod leases;
mod saving;

use super::account::{Account, SessionTokens};
use super::day::Day;
use super::entry::{ApplyDecision, Ask, BudgetRefusal, Entry, Reservation, ReservationId, SourceAlarm};
use super::limits::BudgetLimits;
use super::sessions::Sessions;
use super::uptime::{LOOK_EVERY, Uptime};
use crate::money::{Money, Usage};
use crate::time::{Now, Timestamp};
use crate::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Upper bound (exclusive) of reservation numbers.
const LAST_ID: u64 = 1 << 63;

/// Where a tier's budget comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetSource {
    /// The configured caps: this book is the only one.
    Caps,
    /// Leases from the authority. Other nodes' spend is not visible, and only leased money may be spent.
    Leases {
        /// The node that holds the leases; see [`LeaseId`](super::LeaseId).
        node: u64,
    },
}

/// State of a reservation before its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stood {
    Open,
    /// Expired and charged at its worst case.
    GivenUp,
}

/// The ledger of one process. See the [module](super) for its guarantees.
#[derive(Debug)]
pub struct BudgetBook {
    limits: BudgetLimits,
    source: BudgetSource,
    days: BTreeMap<u64, Day>,
    /// Evicted days that have not been freed completely yet.
    leaving: Vec<Day>,
    sessions: Sessions,
    open: BTreeMap<ReservationId, Reservation>,
    by_expiry: BTreeSet<(Timestamp, ReservationId)>,
    given_up: BTreeMap<ReservationId, Reservation>,
    next: u64,
    uptime: Uptime,
    /// Uptime at which the next eviction scan is due.
    next_look: Duration,
    /// Hash seed of the tables of caller accounts.
    seed: u64,
}

impl BudgetBook {
    /// An empty book that spends the configured caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::from_source(limits, BudgetSource::Caps)
    }

    /// An empty book that spends leases granted to this node, of which there are none yet. For the meaning of `node`
    /// see [`LeaseId`](super::LeaseId).
    #[must_use]
    pub fn on_leases(limits: BudgetLimits, node: u64) -> Self {
        Self::from_source(limits, BudgetSource::Leases { node })
    }

    fn from_source(limits: BudgetLimits, source: BudgetSource) -> Self {
        Self {
            limits,
            source,
            days: BTreeMap::new(),
            leaving: Vec::new(),
            sessions: Sessions::default(),
            open: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            given_up: BTreeMap::new(),
            next: 0,
            uptime: Uptime::default(),
            next_look: LOOK_EVERY,
            seed: 0,
        }
    }

    /// Sets a secret hash seed, so that a client cannot choose callers whose accounts collide. The contents stay the
    /// same.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.days.values_mut().for_each(|day| day.callers = day.callers.laid_out_by(seed));
        self
    }

    /// Checks a request against every limit at once and returns the entry that reserves it. Nothing changes until the
    /// entry is [applied](Self::apply), and no other entry may be applied in between.
    pub fn decide(&self, ask: &Ask, now: Now) -> Result<Entry, BudgetRefusal> {
        let day = now.utc.day();
        self.check_request(ask)?;
        self.check_session(ask)?;
        self.check_money(ask, now)?;
        let Ask { caller, tier, session, input, output, worst, expires, .. } = *ask;
        Ok(Entry::Reserved(Reservation {
            id: ReservationId(self.next),
            day,
            caller,
            tier,
            generation: self.held_lease(day, tier).map_or(0, |lease| lease.id.generation),
            session,
            input,
            output,
            worst,
            expires,
        }))
    }

    /// [Decides](Self::decide) and applies a reservation.
    pub fn reserve(&mut self, ask: &Ask, now: Now) -> Result<ReservationId, BudgetRefusal> {
        self.pass(now.monotonic);
        let entry = self.decide(ask, now)?;
        let id = ReservationId(self.next);
        let _ = self.apply(&entry);
        Ok(id)
    }

    /// Applies an entry. Idempotent: a journal may be replayed from the start.
    pub fn apply(&mut self, entry: &Entry) -> ApplyDecision {
        match *entry {
            Entry::Reserved(reservation) => self.take(reservation),
            Entry::Posted { id, usage, cost } => self.settle(id, usage, cost),
            Entry::Voided(id) => self.settle(id, Usage::default(), Money::ZERO),
            Entry::Expired(id) => self.give_up(id),
            Entry::Corrected { id, correction } => self.correct(id, &correction),
            Entry::Leased { lease, granted, returned } => self.change_lease(lease, |held| {
                held.granted = held.granted.max(granted);
                held.returned = held.returned.max(returned);
            }),
            Entry::Returned { lease, total } => {
                self.change_lease(lease, |held| held.returned = held.returned.max(total))
            }
        }
    }

    /// Expires overdue reservations and charges their worst case, because the vendor may have served the call. Call it
    /// about once a second; it also advances the book's uptime. Returns the entries, already applied, and the alarms.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(Entry, ApplyDecision)> {
        self.pass(now);
        self.give_up_until(now)
    }

    /// Finishes recovery after the journal has been replayed: reservations that are still open were in flight during
    /// the crash and are charged at their worst case. Leases are restored and may be spent once they have been
    /// renewed.
    pub fn recover(&mut self) -> Vec<(Entry, ApplyDecision)> {
        self.give_up_until(Timestamp::NEVER)
    }

    fn give_up_until(&mut self, now: Timestamp) -> Vec<(Entry, ApplyDecision)> {
        let mut expired = Vec::new();
        while let Some(&(at, id)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            let entry = Entry::Expired(id);
            expired.push((entry, self.apply(&entry)));
        }
        expired
    }

    /// Replaces the limits. Posted and held amounts stay.
    pub fn set_limits(&mut self, limits: BudgetLimits) {
        self.limits = limits;
    }

    /// The limits in force.
    #[must_use]
    pub const fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    /// A tier's spending limit on a day in this book: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        match self.source {
            BudgetSource::Caps => self.limits.tier_cap(day, tier),
            BudgetSource::Leases { .. } => self.days.get(&day).map_or(Money::ZERO, |day| day.leased(tier)),
        }
    }

    /// A tier's account on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> Account {
        self.days.get(&day).map(|day| day.tiers[tier.index()]).unwrap_or_default()
    }

    /// The global account on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> Account {
        self.days.get(&day).map(Day::all).unwrap_or_default()
    }

    /// Cost of a tier's calls above their reservations on a day. It is included in the posted amount; without it,
    /// posted plus held never exceeds the cap.
    #[must_use]
    pub fn overrun(&self, day: u64, tier: Tier) -> Money {
        self.days.get(&day).map_or(Money::ZERO, |day| day.overrun[tier.index()])
    }

    /// One caller's account on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> Account {
        self.days.get(&day).and_then(|day| day.callers.get(caller)).unwrap_or_default()
    }

    /// The callers with the highest spend on a day, in descending order.
    #[must_use]
    pub fn top_spenders(&self, day: u64, how_many: usize) -> Vec<(u64, Money)> {
        let Some(day) = self.days.get(&day) else { return Vec::new() };
        let posted = |(caller, account): (u64, Account)| (caller, account.posted);
        let mut all: Vec<_> = day.callers.iter().map(posted).collect();
        all.sort_unstable_by_key(|(caller, posted)| (std::cmp::Reverse(*posted), *caller));
        all.truncate(how_many);
        all
    }

    /// Token usage of a session.
    #[must_use]
    pub fn session(&self, session: u64) -> SessionTokens {
        self.sessions.get(session)
    }

    /// Number of open reservations.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// When the next reservation expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    fn take(&mut self, reservation: Reservation) -> ApplyDecision {
        let Reservation { id, day, worst, expires, .. } = reservation;
        if id.0 < self.next || id.0 >= LAST_ID {
            return ApplyDecision::Known;
        }
        self.next = id.0.saturating_add(1);
        let node = self.node();
        let books = self.day_books(day);
        books.change(&reservation, node, |account| account.hold(worst));
        books.open = books.open.saturating_add(1);
        self.sessions.hold(&reservation, self.uptime);
        self.open.insert(id, reservation);
        self.by_expiry.insert((expires, id));
        ApplyDecision::Applied
    }

    const fn node(&self) -> Option<u64> {
        match self.source {
            BudgetSource::Caps => None,
            BudgetSource::Leases { node } => Some(node),
        }
    }

    fn day_books(&mut self, day: u64) -> &mut Day {
        let seed = self.seed;
        let books = self.days.entry(day).or_insert_with(|| Day::seeded(seed));
        books.used = self.uptime.get();
        books
    }

    /// Settles a reservation, including one that has expired before.
    fn settle(&mut self, id: ReservationId, usage: Usage, cost: Money) -> ApplyDecision {
        if let Some(open) = self.close(id) {
            return self.charge(&open, Stood::Open, usage, cost);
        }
        let Some(late) = self.given_up.remove(&id) else { return ApplyDecision::Known };
        // If its day has been evicted, the accounts that it was charged to are gone.
        let is_kept = self.days.get_mut(&late.day).is_some_and(|day| day.given_up.remove(&id));
        if is_kept { self.charge(&late, Stood::GivenUp, usage, cost) } else { ApplyDecision::Known }
    }

    fn give_up(&mut self, id: ReservationId) -> ApplyDecision {
        let Some(open) = self.close(id) else { return ApplyDecision::Known };
        self.given_up.insert(id, open);
        self.day_books(open.day).given_up.insert(id);
        let usage = Usage { input: open.input, output: open.output, ..Usage::default() };
        self.charge(&open, Stood::Open, usage, open.worst)
    }

    fn close(&mut self, id: ReservationId) -> Option<Reservation> {
        let open = self.open.remove(&id)?;
        self.by_expiry.remove(&(open.expires, id));
        let day = self.day_books(open.day);
        day.open = day.open.saturating_sub(1);
        Some(open)
    }

    fn charge(&mut self, of: &Reservation, stood: Stood, usage: Usage, cost: Money) -> ApplyDecision {
        match stood {
            Stood::Open => self.sessions.settle(of, usage, self.uptime),
            Stood::GivenUp => self.sessions.correct(of, usage, self.uptime),
        }
        let (cap, share, node) = (self.limits.day_cap(of.day), self.limits.single_source, self.node());
        let day = self.day_books(of.day);
        // A saturated sum has lost an unknown amount, so that nothing is credited back to it.
        let can_be_counted = day.all().posted < Money::MAX;
        let account = *day.change(of, node, |account| match stood {
            Stood::Open => account.settle(of.worst, cost),
            Stood::GivenUp if can_be_counted => account.correct(of.worst, cost),
            Stood::GivenUp => {}
        });
        if stood == Stood::Open || can_be_counted {
            day.note_overrun(of.tier, of.worst, cost);
        }
        let spent = account.posted;
        if share.is_exceeded_by(spent.as_nanos(), cap.as_nanos()) && day.told.insert(of.caller) {
            return ApplyDecision::SingleSource(SourceAlarm { caller: of.caller, spent, cap });
        }
        // Caller ids come from outside: accounts without any usage are removed, so that made-up ids cannot fill the
        // memory.
        if account == Account::default() && !day.told.contains(&of.caller) {
            day.callers.remove(of.caller);
        }
        ApplyDecision::Applied
    }
}
