//! The books: who has spent what, and what is set aside.

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

/// The number that no reservation reaches.
const LAST_ID: u64 = 1 << 63;

/// Where the money of a tier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetSource {
    /// The caps themselves: this book is the only one.
    Caps,
    /// Leases: what other books spend is out of sight, and only what was leased may be spent here.
    Leases {
        /// Whose they are; see [`LeaseId`](super::LeaseId).
        node: u64,
    },
}

/// How a reservation stood before what is said of it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stood {
    Open,
    /// Charged at its worst.
    GivenUp,
}

/// The books of one process. See the [module](super) for what they promise.
#[derive(Debug)]
pub struct BudgetBook {
    limits: BudgetLimits,
    source: BudgetSource,
    days: BTreeMap<u64, Day>,
    /// Days that are forgotten, as far as they have not been taken apart yet.
    leaving: Vec<Day>,
    sessions: Sessions,
    open: BTreeMap<ReservationId, Reservation>,
    by_expiry: BTreeSet<(Timestamp, ReservationId)>,
    given_up: BTreeMap<ReservationId, Reservation>,
    next: u64,
    uptime: Uptime,
    /// When to look for what can be forgotten.
    next_look: Duration,
    /// What callers' accounts are laid out by.
    seed: u64,
}

impl BudgetBook {
    /// Empty books that may spend the caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::from_source(limits, BudgetSource::Caps)
    }

    /// Empty books that may spend what is leased to this node, and nothing yet. For what `node` means see
    /// [`LeaseId`](super::LeaseId).
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

    /// Lays callers' accounts out by a number that nobody outside knows, so that nobody can choose callers whose accounts
    /// are in each other's way. What the books say stays the same.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.days.values_mut().for_each(|day| day.callers = day.callers.laid_out_by(seed));
        self
    }

    /// Whether the request fits every limit at once; if so, the entry that reserves it. Nothing changes until the entry
    /// is [applied](Self::apply), and no other may be applied in between.
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

    /// Decides and applies in one.
    pub fn reserve(&mut self, ask: &Ask, now: Now) -> Result<ReservationId, BudgetRefusal> {
        self.pass(now.monotonic);
        let entry = self.decide(ask, now)?;
        let id = ReservationId(self.next);
        let _ = self.apply(&entry);
        Ok(id)
    }

    /// Makes an entry true. Entries of a journal may be applied again from the start: what is known changes nothing.
    pub fn apply(&mut self, entry: &Entry) -> ApplyDecision {
        match *entry {
            Entry::Reserved(reservation) => self.take(reservation),
            Entry::Posted { id, usage, cost } => self.settle(id, usage, cost),
            Entry::Voided(id) => self.settle(id, Usage::default(), Money::ZERO),
            Entry::Expired(id) => self.give_up(id),
            Entry::Corrected(correction) => self.correct(&correction),
            Entry::Leased { lease, granted, returned } => self.change_lease(lease, |held| {
                held.granted = held.granted.max(granted);
                held.returned = held.returned.max(returned);
            }),
            Entry::Returned { lease, total } => {
                self.change_lease(lease, |held| held.returned = held.returned.max(total))
            }
        }
    }

    /// Gives up what has passed its time, charged at its worst: the vendor may have served it. To be called every second
    /// or so; it is also how a book learns how much time has passed. Returns the entries, which have been applied, and the
    /// alarms.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(Entry, ApplyDecision)> {
        self.pass(now);
        self.give_up_until(now)
    }

    /// After a crash, with the journal read back: whatever is still open was under way and is charged at its worst; the
    /// rest is free. What was leased is there again and may be spent when the lease has been renewed.
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

    /// Other limits from now on. What is posted and held stays.
    pub fn set_limits(&mut self, limits: BudgetLimits) {
        self.limits = limits;
    }

    /// The limits that hold.
    #[must_use]
    pub const fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    /// What a tier may spend on a day here: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        match self.source {
            BudgetSource::Caps => self.limits.tier_cap(day, tier),
            BudgetSource::Leases { .. } => self.days.get(&day).map_or(Money::ZERO, |day| day.leased(tier)),
        }
    }

    /// What a tier has spent on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> Account {
        self.days.get(&day).map(|day| day.tiers[tier.index()]).unwrap_or_default()
    }

    /// What all have spent on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> Account {
        self.days.get(&day).map(Day::all).unwrap_or_default()
    }

    /// What calls of a tier have cost on a day beyond what was reserved for them. It is part of what is posted: without it,
    /// posted and held together never pass the cap.
    #[must_use]
    pub fn overrun(&self, day: u64, tier: Tier) -> Money {
        self.days.get(&day).map_or(Money::ZERO, |day| day.overrun[tier.index()])
    }

    /// What one caller has spent on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> Account {
        self.days.get(&day).and_then(|day| day.callers.get(caller)).unwrap_or_default()
    }

    /// The callers who have spent most on a day, the first of them first.
    #[must_use]
    pub fn top_spenders(&self, day: u64, how_many: usize) -> Vec<(u64, Money)> {
        let Some(day) = self.days.get(&day) else { return Vec::new() };
        let posted = |(caller, account): (u64, Account)| (caller, account.posted);
        let mut all: Vec<_> = day.callers.iter().map(posted).collect();
        all.sort_unstable_by_key(|(caller, posted)| (std::cmp::Reverse(*posted), *caller));
        all.truncate(how_many);
        all
    }

    /// What a conversation has used.
    #[must_use]
    pub fn session(&self, session: u64) -> SessionTokens {
        self.sessions.get(session)
    }

    /// How many reservations are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// When the next reservation is given up.
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

    /// The truth about a reservation, which may have been given up before.
    fn settle(&mut self, id: ReservationId, usage: Usage, cost: Money) -> ApplyDecision {
        if let Some(open) = self.close(id) {
            return self.charge(&open, Stood::Open, usage, cost);
        }
        let Some(late) = self.given_up.remove(&id) else { return ApplyDecision::Known };
        // If its day has been forgotten, the books that it was charged to are gone.
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
        // What has passed all counting has lost something, and nobody knows how much: nothing is given back of it.
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
        // Names come from outside. Who used nothing leaves nothing behind.
        if account == Account::default() && !day.told.contains(&of.caller) {
            day.callers.remove(of.caller);
        }
        ApplyDecision::Applied
    }
}
