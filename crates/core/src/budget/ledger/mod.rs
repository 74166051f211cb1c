//! The ledger of one process: accounts, open reservations and sessions.

mod checks;
mod corrections;
mod eviction;
mod leases;
mod snapshot;

use super::account::{BudgetAccount, SessionTokens};
use super::day::DayLedger;
use super::entry::{
    ApplyDecision, BudgetEntry, BudgetRefusal, BudgetReservation, ReservationId, ReservationRequest,
    SingleSourceAlarm,
};
use super::limits::BudgetLimits;
use super::sessions::SessionLedger;
use super::uptime::{SWEEP_INTERVAL, Uptime};
use super::window::{BudgetName, CalendarHour, WindowKey};
use super::windows::WindowLedger;
use crate::invariant::enforce;
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
    /// The configured caps: this ledger is the only one.
    Caps,
    /// Leases from the authority. Other nodes' spend is not visible, and only leased money may be spent.
    Leases {
        /// The node that holds the leases; see [`LeaseId`](super::LeaseId).
        node: u64,
    },
}

/// State of a reservation before its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnsettledState {
    Open,
    /// Expired and charged at its maximum cost.
    Expired,
}

/// The ledger of one process. See the [module](super) for its guarantees.
#[derive(Debug)]
pub struct BudgetLedger {
    limits: BudgetLimits,
    source: BudgetSource,
    days: BTreeMap<u64, DayLedger>,
    /// Evicted days that have not been freed completely yet.
    evicting: Vec<DayLedger>,
    sessions: SessionLedger,
    windows: WindowLedger,
    open: BTreeMap<ReservationId, BudgetReservation>,
    by_expiry: BTreeSet<(Timestamp, ReservationId)>,
    expired: BTreeMap<ReservationId, BudgetReservation>,
    next: u64,
    uptime: Uptime,
    /// Uptime at which the next eviction scan is due.
    next_sweep: Duration,
    /// Hash seed of the tables of caller accounts.
    seed: u64,
}

impl BudgetLedger {
    /// An empty ledger that spends the configured caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::from_source(limits, BudgetSource::Caps)
    }

    /// An empty ledger that spends leases granted to this node, of which there are none yet. For the meaning of `node`
    /// see [`LeaseId`](super::LeaseId).
    #[must_use]
    pub fn with_leases(limits: BudgetLimits, node: u64) -> Self {
        Self::from_source(limits, BudgetSource::Leases { node })
    }

    fn from_source(limits: BudgetLimits, source: BudgetSource) -> Self {
        Self {
            limits,
            source,
            days: BTreeMap::new(),
            evicting: Vec::new(),
            sessions: SessionLedger::default(),
            windows: WindowLedger::default(),
            open: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            expired: BTreeMap::new(),
            next: 0,
            uptime: Uptime::default(),
            next_sweep: SWEEP_INTERVAL,
            seed: 0,
        }
    }

    /// Sets a secret hash seed, so that a client cannot choose callers whose accounts collide. The contents stay the
    /// same.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.days.values_mut().for_each(|day| day.callers = day.callers.rehashed(seed));
        self
    }

    /// Checks a request against every limit at once and returns the entry that reserves it. Nothing changes until the
    /// entry is [applied](Self::apply), and no other entry may be applied in between.
    pub fn decide(&self, request: &ReservationRequest, now: Now) -> Result<BudgetEntry, BudgetRefusal> {
        let day = now.utc.day();
        self.check_request(request)?;
        self.check_session(request)?;
        self.check_money(request, now)?;
        enforce(self.check_spend(request, now));
        let ReservationRequest {
            caller, tier, session, input, output, max_cost, expires, ref windows, ..
        } = *request;
        Ok(BudgetEntry::Reserved(BudgetReservation {
            id: ReservationId(self.next),
            day,
            caller,
            tier,
            generation: self.held_lease(day, tier).map_or(0, |lease| lease.id.generation),
            session,
            input,
            output,
            max_cost,
            expires,
            windows: windows.windows(now.utc),
        }))
    }

    /// [Decides](Self::decide) and applies a reservation.
    pub fn reserve(
        &mut self,
        request: &ReservationRequest,
        now: Now,
    ) -> Result<ReservationId, BudgetRefusal> {
        self.advance(now.monotonic);
        let entry = self.decide(request, now)?;
        let id = ReservationId(self.next);
        let _ = self.apply(&entry);
        Ok(id)
    }

    /// Applies an entry. Idempotent: a journal may be replayed from the start.
    pub fn apply(&mut self, entry: &BudgetEntry) -> ApplyDecision {
        match *entry {
            BudgetEntry::Reserved(reservation) => self.hold(reservation),
            BudgetEntry::Posted { id, usage, cost } => self.settle(id, usage, cost),
            BudgetEntry::Voided(id) => self.settle(id, Usage::default(), Money::ZERO),
            BudgetEntry::Expired(id) => self.expire_reservation(id),
            BudgetEntry::Corrected { id, correction } => self.correct(id, &correction),
            BudgetEntry::Leased { lease, granted, returned } => self.change_lease(lease, |held| {
                held.granted = held.granted.max(granted);
                held.returned = held.returned.max(returned);
            }),
            BudgetEntry::Returned { lease, total } => {
                self.change_lease(lease, |held| held.returned = held.returned.max(total))
            }
        }
    }

    /// Expires overdue reservations and charges their maximum cost, because the vendor may have served the call. Call it
    /// about once a second; it also advances the ledger's uptime. Returns the entries, already applied, and the alarms.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(BudgetEntry, ApplyDecision)> {
        self.advance(now);
        self.expire_until(now)
    }

    /// Finishes recovery after the journal has been replayed: reservations that are still open were in flight during
    /// the crash and are charged at their maximum cost. Leases are restored and may be spent once they have been
    /// renewed.
    pub fn recover(&mut self) -> Vec<(BudgetEntry, ApplyDecision)> {
        self.expire_until(Timestamp::NEVER)
    }

    fn expire_until(&mut self, now: Timestamp) -> Vec<(BudgetEntry, ApplyDecision)> {
        let mut expired = Vec::new();
        while let Some(&(at, id)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            let entry = BudgetEntry::Expired(id);
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

    /// A tier's spending limit on a day in this ledger: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        match self.source {
            BudgetSource::Caps => self.limits.tier_cap(day, tier),
            BudgetSource::Leases { .. } => self.days.get(&day).map_or(Money::ZERO, |day| day.leased(tier)),
        }
    }

    /// A tier's account on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> BudgetAccount {
        self.days.get(&day).map(|day| day.tiers[tier.index()]).unwrap_or_default()
    }

    /// The global account on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> BudgetAccount {
        self.days.get(&day).map(DayLedger::all).unwrap_or_default()
    }

    /// Cost of a tier's calls above their reservations on a day. It is included in the posted amount; without it,
    /// posted plus held never exceeds the cap.
    #[must_use]
    pub fn overrun(&self, day: u64, tier: Tier) -> Money {
        self.days.get(&day).map_or(Money::ZERO, |day| day.overrun[tier.index()])
    }

    /// One caller's account on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> BudgetAccount {
        self.days.get(&day).and_then(|day| day.callers.get(caller)).unwrap_or_default()
    }

    /// The callers with the highest spend on a day, in descending order.
    #[must_use]
    pub fn top_spenders(&self, day: u64, how_many: usize) -> Vec<(u64, Money)> {
        let Some(day) = self.days.get(&day) else { return Vec::new() };
        let posted = |(caller, account): (u64, BudgetAccount)| (caller, account.posted);
        let mut all: Vec<_> = day.callers.iter().map(posted).collect();
        all.sort_unstable_by_key(|(caller, posted)| (std::cmp::Reverse(*posted), *caller));
        all.truncate(how_many);
        all
    }

    /// The account of a budget's window that contains this hour. `id` is the number of its owner: the caller of a key, the
    /// number of a team, the index of a tier.
    #[must_use]
    pub fn window(&self, name: BudgetName, id: u64, hour: CalendarHour) -> BudgetAccount {
        self.windows.get(&WindowKey { name, id, end: name.period.window(hour).end })
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

    fn hold(&mut self, reservation: BudgetReservation) -> ApplyDecision {
        let BudgetReservation { id, day, max_cost, expires, .. } = reservation;
        if id.0 < self.next || id.0 >= LAST_ID {
            return ApplyDecision::Unchanged;
        }
        self.next = id.0.saturating_add(1);
        let node = self.node();
        let ledger_day = self.day_ledger(day);
        ledger_day.change(&reservation, node, |account| account.hold(max_cost));
        ledger_day.open = ledger_day.open.saturating_add(1);
        self.sessions.hold(&reservation, self.uptime);
        self.windows.hold(&reservation, self.uptime);
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

    fn day_ledger(&mut self, day: u64) -> &mut DayLedger {
        let seed = self.seed;
        let ledger_day = self.days.entry(day).or_insert_with(|| DayLedger::seeded(seed));
        ledger_day.used = self.uptime.get();
        ledger_day
    }

    /// Settles a reservation, including one that has expired before.
    fn settle(&mut self, id: ReservationId, usage: Usage, cost: Money) -> ApplyDecision {
        if let Some(open) = self.close(id) {
            return self.charge(&open, UnsettledState::Open, usage, cost);
        }
        let Some(expired_reservation) = self.expired.remove(&id) else { return ApplyDecision::Unchanged };
        // If its day has been evicted, the accounts that it was charged to are gone.
        let is_retained =
            self.days.get_mut(&expired_reservation.day).is_some_and(|day| day.expired.remove(&id));
        if is_retained {
            self.charge(&expired_reservation, UnsettledState::Expired, usage, cost)
        } else {
            ApplyDecision::Unchanged
        }
    }

    fn expire_reservation(&mut self, id: ReservationId) -> ApplyDecision {
        let Some(open) = self.close(id) else { return ApplyDecision::Unchanged };
        self.expired.insert(id, open);
        self.day_ledger(open.day).expired.insert(id);
        let usage = Usage { input: open.input, output: open.output, ..Usage::default() };
        self.charge(&open, UnsettledState::Open, usage, open.max_cost)
    }

    fn close(&mut self, id: ReservationId) -> Option<BudgetReservation> {
        let open = self.open.remove(&id)?;
        self.by_expiry.remove(&(open.expires, id));
        let day = self.day_ledger(open.day);
        day.open = day.open.saturating_sub(1);
        Some(open)
    }

    fn charge(
        &mut self,
        of: &BudgetReservation,
        stood: UnsettledState,
        usage: Usage,
        cost: Money,
    ) -> ApplyDecision {
        match stood {
            UnsettledState::Open => {
                self.sessions.settle(of, usage, self.uptime);
                self.windows.settle(of, cost, self.uptime);
            }
            UnsettledState::Expired => {
                self.sessions.correct(of, usage, self.uptime);
                self.windows.correct(of, cost, self.uptime);
            }
        }
        let (cap, share, node) = (self.limits.day_cap(of.day), self.limits.single_source_alarm, self.node());
        let day = self.day_ledger(of.day);
        // A saturated sum has lost an unknown amount, so that nothing is credited back to it.
        let can_be_counted = day.all().posted < Money::MAX;
        let account = *day.change(of, node, |account| match stood {
            UnsettledState::Open => account.settle(of.max_cost, cost),
            UnsettledState::Expired if can_be_counted => account.correct(of.max_cost, cost),
            UnsettledState::Expired => {}
        });
        if stood == UnsettledState::Open || can_be_counted {
            day.note_overrun(of.tier, of.max_cost, cost);
        }
        let spent = account.posted;
        if share.is_exceeded_by(spent.as_nanos(), cap.as_nanos()) && day.alarmed.insert(of.caller) {
            return ApplyDecision::SingleSource(SingleSourceAlarm { caller: of.caller, spent, cap });
        }
        // Caller ids come from outside: accounts without any usage are removed, so that made-up ids cannot fill the
        // memory.
        if account == BudgetAccount::default() && !day.alarmed.contains(&of.caller) {
            day.callers.remove(of.caller);
        }
        ApplyDecision::Applied
    }
}
