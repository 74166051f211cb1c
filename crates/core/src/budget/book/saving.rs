//! Saves and restores a book.

use super::{BudgetBook, BudgetSource, LAST_ID};
use crate::budget::account::Account;
use crate::budget::day::{Day, HeldLease};
use crate::budget::entry::{Reservation, ReservationId};
use crate::budget::lease_id::LeaseId;
use crate::budget::limits::BudgetLimits;
use crate::budget::sessions::Sessions;
use crate::budget::snapshot::{BudgetSnapshot, SavedCaller, SavedDay, SavedHolding, SnapshotError};
use crate::budget::uptime::Uptime;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};

impl BudgetBook {
    /// The complete state. Limits are settings and are not part of it.
    #[must_use]
    pub fn snapshot(&self) -> BudgetSnapshot {
        // Charges of a day that is being evicted can no longer be corrected.
        let is_kept =
            |one: &&Reservation| self.days.get(&one.day).is_some_and(|day| day.given_up.contains(&one.id));
        BudgetSnapshot {
            next: self.next,
            uptime: self.uptime.get(),
            next_look: self.next_look,
            session_round: self.sessions.round(),
            days: self.days.iter().map(|(number, day)| saved_day(*number, day)).collect(),
            sessions: self.sessions.saved(),
            open: self.open.values().copied().collect(),
            given_up: self.given_up.values().filter(is_kept).copied().collect(),
        }
    }

    /// Restores a book. Fails if the snapshot is inconsistent.
    ///
    /// In another process, apply the entries written after the snapshot and then [recover](Self::recover):
    /// reservations that are still open were in flight when the first process ended.
    pub fn from_snapshot(
        limits: BudgetLimits,
        source: BudgetSource,
        snapshot: &BudgetSnapshot,
    ) -> Result<Self, SnapshotError> {
        check_numbers(snapshot)?;
        let mut book = Self::from_source(limits, source);
        book.next = snapshot.next;
        book.next_look = snapshot.next_look;
        book.uptime = Uptime::since(snapshot.uptime);
        book.sessions = Sessions::from_saved(&snapshot.sessions, snapshot.session_round, snapshot.uptime)?;
        for saved in &snapshot.days {
            let day = read_day(saved, snapshot, source)?;
            if book.days.insert(saved.day, day).is_some() {
                return Err(SnapshotError::Twice { what: "day", number: saved.day });
            }
        }
        for open in &snapshot.open {
            book.open.insert(open.id, *open);
            book.by_expiry.insert((open.expires, open.id));
            if let Some(day) = book.days.get_mut(&open.day) {
                day.open = day.open.saturating_add(1);
            }
        }
        for late in &snapshot.given_up {
            book.given_up.insert(late.id, *late);
            if let Some(day) = book.days.get_mut(&late.day) {
                day.given_up.insert(late.id);
            }
        }
        book.check_sums(source)?;
        Ok(book)
    }

    /// Checks that every account holds the sum of its open reservations and has posted at least the sum of its expired
    /// ones.
    fn check_sums(&self, source: BudgetSource) -> Result<(), SnapshotError> {
        let mut sums = Sums::default();
        for open in self.open.values() {
            sums.add(open, |sum| &mut sum.held)?;
        }
        for late in self.given_up.values() {
            sums.add(late, |sum| &mut sum.posted)?;
        }
        for (number, day) in &self.days {
            sums.check_day(*number, day, source)?;
        }
        // What is left are accounts that reservations refer to and that are missing. A caller without usage has no
        // account.
        let has_money = |(_, account): &(&(u64, u64), &Account)| **account != Account::default();
        let of_callers = sums.callers.iter().filter(has_money).map(|((day, _), _)| *day);
        let missing = of_callers.chain(sums.tiers.keys().map(|(day, _)| *day)).next();
        match missing {
            Some(day) => Err(SnapshotError::DoesNotAddUp { what: "the day", day }),
            None => self.sessions.check(self.open.values()),
        }
    }
}

fn saved_day(number: u64, day: &Day) -> SavedDay {
    let caller = |(caller, account): (u64, Account)| SavedCaller {
        caller,
        account,
        is_told: day.told.contains(&caller),
    };
    let mut callers: Vec<SavedCaller> = day.callers.iter().map(caller).collect();
    callers.sort_unstable_by_key(|saved| saved.caller);
    let holding = |held: &HeldLease| SavedHolding {
        id: held.id,
        granted: held.granted,
        returned: held.returned,
        account: held.account,
    };
    SavedDay {
        day: number,
        used: day.used,
        tiers: day.tiers,
        overrun: day.overrun,
        callers,
        leases: day.leases.iter().flat_map(BTreeMap::values).map(holding).collect(),
    }
}

/// Checks that every reservation has a unique number that the book has issued.
fn check_numbers(snapshot: &BudgetSnapshot) -> Result<(), SnapshotError> {
    if snapshot.next > LAST_ID {
        return Err(SnapshotError::NextTooLarge(snapshot.next));
    }
    let mut seen: BTreeSet<ReservationId> = BTreeSet::new();
    for Reservation { id, .. } in snapshot.open.iter().chain(&snapshot.given_up) {
        if id.0 >= snapshot.next {
            return Err(SnapshotError::NeverGiven(*id));
        }
        if !seen.insert(*id) {
            return Err(SnapshotError::Twice { what: "reservation", number: id.0 });
        }
    }
    Ok(())
}

fn read_day(saved: &SavedDay, snapshot: &BudgetSnapshot, source: BudgetSource) -> Result<Day, SnapshotError> {
    if saved.used > snapshot.uptime {
        return Err(SnapshotError::UsedLater { what: "day", number: saved.day });
    }
    let mut day = Day { tiers: saved.tiers, overrun: saved.overrun, used: saved.used, ..Day::default() };
    for SavedCaller { caller, account, is_told } in saved.callers.iter().copied() {
        if day.callers.get(caller).is_some() {
            return Err(SnapshotError::Twice { what: "caller", number: caller });
        }
        *day.callers.open(caller) = account;
        if is_told {
            day.told.insert(caller);
        }
    }
    for SavedHolding { id, granted, returned, account } in saved.leases.iter().copied() {
        if id.day != saved.day || source != (BudgetSource::Leases { node: id.node }) {
            return Err(SnapshotError::ForeignLease(id));
        }
        // Ended until the authority renews it.
        let held = HeldLease { id, granted, returned, account, until: Timestamp::ZERO };
        if day.leases[id.tier.index()].insert(id.generation, held).is_some() {
            return Err(SnapshotError::LeaseTwice(id));
        }
    }
    Ok(day)
}

/// Sums over the reservations: the exact held amount and the minimum posted amount per account.
#[derive(Default)]
struct Sums {
    tiers: BTreeMap<(u64, Tier), Account>,
    callers: BTreeMap<(u64, u64), Account>,
    leases: BTreeMap<(u64, Tier, u64), Account>,
}

impl Sums {
    fn add(&mut self, one: &Reservation, part: fn(&mut Account) -> &mut Money) -> Result<(), SnapshotError> {
        let accounts = [
            self.tiers.entry((one.day, one.tier)).or_default(),
            self.callers.entry((one.day, one.caller)).or_default(),
            self.leases.entry((one.day, one.tier, one.generation)).or_default(),
        ];
        for account in accounts {
            let sum = part(account);
            *sum = sum.checked_add(one.worst).ok_or(SnapshotError::TooMuch(one.day))?;
        }
        Ok(())
    }

    /// Compares a day with the expected sums, and removes these.
    fn check_day(&mut self, number: u64, day: &Day, source: BudgetSource) -> Result<(), SnapshotError> {
        let wrong = |what| SnapshotError::DoesNotAddUp { what, day: number };
        for (caller, account) in day.callers.iter() {
            let expected = self.callers.remove(&(number, caller)).unwrap_or_default();
            matches(&account, &expected).then_some(()).ok_or(wrong("a caller"))?;
        }
        for tier in Tier::ALL {
            let account = &day.tiers[tier.index()];
            let expected = self.tiers.remove(&(number, tier)).unwrap_or_default();
            matches(account, &expected).then_some(()).ok_or(wrong("a tier"))?;
            if source == BudgetSource::Caps {
                continue;
            }
            let leases = &day.leases[tier.index()];
            for held in leases.values() {
                let LeaseId { day, tier, generation, .. } = held.id;
                let expected = self.leases.remove(&(day, tier, generation)).unwrap_or_default();
                matches(&held.account, &expected).then_some(()).ok_or(wrong("a lease"))?;
            }
            let of_leases = sum(leases.values().map(|held| held.account));
            (of_leases == *account).then_some(()).ok_or(wrong("a tier's leases"))?;
        }
        let of_callers = sum(day.callers.iter().map(|(_, account)| account));
        let of_tiers = day.all();
        (of_callers == of_tiers).then_some(()).ok_or(wrong("all callers"))
    }
}

fn matches(account: &Account, expected: &Account) -> bool {
    account.held == expected.held && account.posted >= expected.posted
}

/// Sums accounts. A sum may saturate, and then does so on both sides of a comparison.
fn sum(accounts: impl Iterator<Item = Account>) -> Account {
    accounts.fold(Account::default(), |sum, account| Account {
        posted: sum.posted.saturating_add(account.posted),
        held: sum.held.saturating_add(account.held),
    })
}
