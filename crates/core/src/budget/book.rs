//! The books: who has spent what, and what is set aside.

use super::account::{Account, SessionTokens};
use super::entry::{ApplyDecision, Ask, BudgetRefusal, Entry, Reservation, ReservationId, SourceAlarm};
use super::limits::BudgetLimits;
use crate::money::{Money, Usage};
use crate::time::{Now, Timestamp, UtcTime};
use crate::vocabulary::Tier;
use std::collections::btree_map::Entry::Vacant;
use std::collections::{BTreeMap, BTreeSet};

/// Days that are kept: today, yesterday for those who look back, and one more, so that a clock which is set forward by
/// mistake and back again does not make a spent day forgotten.
const DAYS_KEPT: usize = 3;

/// Where the money of a tier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The caps themselves: this book is the only one.
    Caps,
    /// Leases: what other books spend is out of sight, and only what was leased may be spent here.
    Leases,
}

#[derive(Debug, Default)]
struct Day {
    tiers: [Account; 3],
    /// Leased to this book.
    leased: [Money; 3],
    callers: BTreeMap<u64, Account>,
    open: u64,
}

impl Day {
    fn all(&self) -> Account {
        let [prime, standard, guest] = &self.tiers;
        let sum = |part: fn(&Account) -> Money| [prime, standard, guest].into_iter().map(part).sum();
        Account { posted: sum(|tier| tier.posted), held: sum(|tier| tier.held) }
    }
}

/// The books of one process. See the [module](super) for what they promise.
#[derive(Debug)]
pub struct BudgetBook {
    limits: BudgetLimits,
    source: Source,
    days: BTreeMap<u64, Day>,
    sessions: BTreeMap<u64, SessionTokens>,
    open: BTreeMap<ReservationId, Reservation>,
    by_expiry: BTreeSet<(Timestamp, ReservationId)>,
    next: u64,
}

impl BudgetBook {
    /// Empty books that may spend the caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::from_source(limits, Source::Caps)
    }

    /// Empty books that may spend what is leased to them, and nothing yet.
    #[must_use]
    pub fn on_leases(limits: BudgetLimits) -> Self {
        Self::from_source(limits, Source::Leases)
    }

    fn from_source(limits: BudgetLimits, source: Source) -> Self {
        Self {
            limits,
            source,
            days: BTreeMap::new(),
            sessions: BTreeMap::new(),
            open: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            next: 0,
        }
    }

    /// Whether the request fits every limit at once; if so, the entry that reserves it. Nothing changes until the entry
    /// is [applied](Self::apply), and no other may be applied in between.
    pub fn decide(&self, ask: &Ask, now: Now) -> Result<Entry, BudgetRefusal> {
        let day = now.utc.day();
        self.check_request(ask)?;
        self.check_session(ask)?;
        self.check_money(ask, day)?;
        let Ask { caller, tier, session, input, output, worst, expires, .. } = *ask;
        let id = ReservationId(self.next);
        Ok(Entry::Reserved(Reservation { id, day, caller, tier, session, input, output, worst, expires }))
    }

    /// Decides and applies in one.
    pub fn reserve(&mut self, ask: &Ask, now: Now) -> Result<ReservationId, BudgetRefusal> {
        let entry = self.decide(ask, now)?;
        let id = ReservationId(self.next);
        let _ = self.apply(&entry);
        Ok(id)
    }

    /// Makes an entry true. Entries of a journal may be applied again from the start: what is known changes nothing.
    pub fn apply(&mut self, entry: &Entry) -> ApplyDecision {
        match *entry {
            Entry::Reserved(reservation) => self.take(reservation),
            Entry::Posted { id, usage, cost } => self.settle(id, |_| (usage, cost)),
            Entry::Voided(id) => self.settle(id, |_| (Usage::default(), Money::ZERO)),
            Entry::Expired(id) => self.settle(id, |open| {
                (Usage { input: open.input, output: open.output, ..Usage::default() }, open.worst)
            }),
        }
    }

    /// Gives up what has passed its time, charged at its worst: the vendor may have served it. Returns the entries, which
    /// have been applied, and the alarms.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(Entry, ApplyDecision)> {
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

    /// After a crash, with the journal read back: whatever is still open was under way and is charged at its worst; the
    /// rest is free.
    pub fn recover(&mut self) -> Vec<(Entry, ApplyDecision)> {
        self.expire(Timestamp::NEVER)
    }

    /// Other limits from now on. What is posted and held stays.
    pub fn set_limits(&mut self, limits: BudgetLimits) {
        self.limits = limits;
    }

    /// Adds what was leased to this book.
    pub fn lend(&mut self, day: u64, tier: Tier, amount: Money) {
        let leased = &mut self.day_books(day).leased[tier.index()];
        *leased = leased.saturating_add(amount);
    }

    /// Takes back up to `wanted` of what was leased to this book and is neither posted nor held. Returns how much.
    pub fn give_back(&mut self, day: u64, tier: Tier, wanted: Money) -> Money {
        let Some(day) = self.days.get_mut(&day) else { return Money::ZERO };
        let leased = &mut day.leased[tier.index()];
        let back = wanted.min(day.tiers[tier.index()].free(*leased));
        *leased = leased.saturating_sub(back);
        back
    }

    /// What a tier may spend on a day here: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        match self.source {
            Source::Caps => self.limits.tier_cap(day, tier),
            Source::Leases => self.days.get(&day).map_or(Money::ZERO, |day| day.leased[tier.index()]),
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

    /// What one caller has spent on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> Account {
        self.days.get(&day).and_then(|day| day.callers.get(&caller)).copied().unwrap_or_default()
    }

    /// The callers who have spent most on a day, the first of them first.
    #[must_use]
    pub fn top_spenders(&self, day: u64, how_many: usize) -> Vec<(u64, Money)> {
        let Some(day) = self.days.get(&day) else { return Vec::new() };
        let mut all: Vec<_> = day.callers.iter().map(|(caller, account)| (*caller, account.posted)).collect();
        all.sort_unstable_by_key(|(caller, posted)| (std::cmp::Reverse(*posted), *caller));
        all.truncate(how_many);
        all
    }

    /// What a conversation has used.
    #[must_use]
    pub fn session(&self, session: u64) -> SessionTokens {
        self.sessions.get(&session).copied().unwrap_or_default()
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

    fn check_request(&self, ask: &Ask) -> Result<(), BudgetRefusal> {
        let limit = ask.limits.output(None);
        if ask.output > limit {
            return Err(BudgetRefusal::RequestOutput { wanted: ask.output, limit });
        }
        let limit = ask.limits.input(ask.output);
        if ask.input > limit {
            return Err(BudgetRefusal::RequestInput { wanted: ask.input, limit });
        }
        Ok(())
    }

    fn check_session(&self, ask: &Ask) -> Result<(), BudgetRefusal> {
        let Some(session) = ask.session else { return Ok(()) };
        let session = self.session(session);
        let free = session.free_input(self.limits.session_input);
        if ask.input > free {
            return Err(BudgetRefusal::SessionInput { wanted: ask.input, free });
        }
        let free = session.free_output(self.limits.session_output);
        if ask.output > free {
            return Err(BudgetRefusal::SessionOutput { wanted: ask.output, free });
        }
        Ok(())
    }

    fn check_money(&self, ask: &Ask, day: u64) -> Result<(), BudgetRefusal> {
        let (wanted, tier, resets) = (ask.worst, ask.tier, UtcTime::start_of_day(day.saturating_add(1)));
        let free = self.caller(day, ask.caller).free(self.limits.caller_day);
        if wanted > free {
            return Err(BudgetRefusal::CallerDay { wanted, free, resets });
        }
        let free = self.tier(day, tier).free(self.tier_cap(day, tier));
        if wanted > free {
            return Err(BudgetRefusal::TierDay { tier, wanted, free, resets });
        }
        // Who lives on leases does not see what others spend; the leases are within the whole.
        if self.source == Source::Caps {
            let free = self.all(day).free(self.limits.day_cap(day));
            if wanted > free {
                return Err(BudgetRefusal::GlobalDay { wanted, free, resets });
            }
        }
        Ok(())
    }

    fn take(&mut self, reservation: Reservation) -> ApplyDecision {
        let Reservation { id, day, caller, tier, session, input, output, worst, expires } = reservation;
        if id.0 < self.next {
            return ApplyDecision::Known;
        }
        self.next = id.0.saturating_add(1);
        let books = self.day_books(day);
        books.tiers[tier.index()].hold(worst);
        books.callers.entry(caller).or_default().hold(worst);
        books.open += 1;
        if let Some(session) = session {
            let tokens = self.sessions.entry(session).or_default();
            tokens.input_held = tokens.input_held.saturating_add(input);
            tokens.output_held = tokens.output_held.saturating_add(output);
            tokens.day = tokens.day.max(day);
        }
        self.open.insert(id, reservation);
        self.by_expiry.insert((expires, id));
        ApplyDecision::Applied
    }

    /// The books of a day. Opening those of a new day closes those of the oldest.
    fn day_books(&mut self, day: u64) -> &mut Day {
        if let Vacant(new) = self.days.entry(day) {
            new.insert(Day::default());
            self.forget_old_days();
        }
        self.days.entry(day).or_default()
    }

    fn settle(
        &mut self,
        id: ReservationId,
        truth: impl FnOnce(&Reservation) -> (Usage, Money),
    ) -> ApplyDecision {
        let Some(open) = self.open.remove(&id) else { return ApplyDecision::Known };
        self.by_expiry.remove(&(open.expires, id));
        let (usage, cost) = truth(&open);
        if let Some(tokens) = open.session.and_then(|session| self.sessions.get_mut(&session)) {
            tokens.input_held = tokens.input_held.saturating_sub(open.input);
            tokens.output_held = tokens.output_held.saturating_sub(open.output);
            tokens.input = tokens.input.saturating_add(usage.total_input());
            tokens.output = tokens.output.saturating_add(usage.output);
        }
        let cap = self.limits.day_cap(open.day);
        let Some(day) = self.days.get_mut(&open.day) else { return ApplyDecision::Applied };
        day.open = day.open.saturating_sub(1);
        day.tiers[open.tier.index()].settle(open.worst, cost);
        let caller = day.callers.entry(open.caller).or_default();
        let before = caller.posted;
        caller.settle(open.worst, cost);
        let stands_out =
            |spent: Money| self.limits.single_source.is_exceeded_by(spent.as_nanos(), cap.as_nanos());
        if stands_out(caller.posted) && !stands_out(before) {
            return ApplyDecision::SingleSource(SourceAlarm {
                caller: open.caller,
                spent: caller.posted,
                cap,
            });
        }
        ApplyDecision::Applied
    }

    fn forget_old_days(&mut self) {
        let Some((&oldest, _)) = self.days.iter().rev().nth(DAYS_KEPT - 1) else { return };
        self.days.retain(|number, day| *number >= oldest || day.open > 0);
        let is_in_use = |tokens: &SessionTokens| tokens.input_held > 0 || tokens.output_held > 0;
        self.sessions.retain(|_, tokens| tokens.day >= oldest || is_in_use(tokens));
    }
}
