//! Saves and restores a ledger.

use super::{BudgetLedger, BudgetSource, LAST_ID};
use crate::budget::account::BudgetAccount;
use crate::budget::day::{DayLedger, HeldLease};
use crate::budget::entry::{BudgetReservation, ReservationId};
use crate::budget::lease_id::LeaseId;
use crate::budget::limits::BudgetLimits;
use crate::budget::sessions::SessionLedger;
use crate::budget::snapshot::{BudgetSnapshot, SavedCaller, SavedDay, SavedHeldLease, SnapshotError};
use crate::budget::uptime::Uptime;
use crate::budget::windows::WindowLedger;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};

impl BudgetLedger {
    /// The complete state. Limits are settings and are not part of it.
    #[must_use]
    pub fn snapshot(&self) -> BudgetSnapshot {
        // Charges of a day that is being evicted can no longer be corrected.
        let is_retained = |reservation: &&BudgetReservation| {
            self.days.get(&reservation.day).is_some_and(|day| day.expired.contains(&reservation.id))
        };
        BudgetSnapshot {
            next: self.next,
            uptime: self.uptime.get(),
            next_sweep: self.next_sweep,
            session_sweep: self.sessions.sweep_position(),
            days: self.days.iter().map(|(number, day)| saved_day(*number, day)).collect(),
            sessions: self.sessions.saved(),
            windows: self.windows.saved(),
            open: self.open.values().copied().collect(),
            expired: self.expired.values().filter(is_retained).copied().collect(),
        }
    }

    /// Restores a ledger. Fails if the snapshot is inconsistent.
    ///
    /// In another process, apply the entries written after the snapshot and then [recover](Self::recover):
    /// reservations that are still open were in flight when the first process ended.
    pub fn from_snapshot(
        limits: BudgetLimits,
        source: BudgetSource,
        snapshot: &BudgetSnapshot,
    ) -> Result<Self, SnapshotError> {
        check_numbers(snapshot)?;
        let mut ledger = Self::from_source(limits, source);
        ledger.next = snapshot.next;
        ledger.next_sweep = snapshot.next_sweep;
        ledger.uptime = Uptime::since(snapshot.uptime);
        ledger.sessions =
            SessionLedger::from_saved(&snapshot.sessions, snapshot.session_sweep, snapshot.uptime)?;
        ledger.windows = WindowLedger::from_saved(&snapshot.windows, snapshot.uptime)?;
        for saved in &snapshot.days {
            let day = read_day(saved, snapshot, source)?;
            if ledger.days.insert(saved.day, day).is_some() {
                return Err(SnapshotError::Duplicate { what: "day", number: saved.day });
            }
        }
        for open in &snapshot.open {
            ledger.open.insert(open.id, *open);
            ledger.by_expiry.insert((open.expires, open.id));
            if let Some(day) = ledger.days.get_mut(&open.day) {
                day.open = day.open.saturating_add(1);
            }
        }
        for expired in &snapshot.expired {
            ledger.expired.insert(expired.id, *expired);
            if let Some(day) = ledger.days.get_mut(&expired.day) {
                day.expired.insert(expired.id);
            }
        }
        ledger.check_sums(source)?;
        Ok(ledger)
    }

    /// Checks that every account holds the sum of its open reservations and has posted at least the sum of its expired
    /// ones.
    fn check_sums(&self, source: BudgetSource) -> Result<(), SnapshotError> {
        let mut sums = ExpectedSums::default();
        for open in self.open.values() {
            sums.add(open, |sum| &mut sum.held)?;
        }
        for expired in self.expired.values() {
            sums.add(expired, |sum| &mut sum.posted)?;
        }
        for (number, day) in &self.days {
            sums.check_day(*number, day, source)?;
        }
        // What is left are accounts that reservations refer to and that are missing. A caller without usage has no
        // account.
        let has_money = |(_, account): &(&(u64, u64), &BudgetAccount)| **account != BudgetAccount::default();
        let caller_days = sums.callers.iter().filter(has_money).map(|((day, _), _)| *day);
        let missing = caller_days.chain(sums.tiers.keys().map(|(day, _)| *day)).next();
        match missing {
            Some(day) => Err(SnapshotError::AccountMismatch { what: "the day", day }),
            None => {
                self.sessions.check(self.open.values())?;
                self.windows.check(self.open.values())
            }
        }
    }
}

fn saved_day(number: u64, day: &DayLedger) -> SavedDay {
    let caller = |(caller, account): (u64, BudgetAccount)| SavedCaller {
        caller,
        account,
        alarm_raised: day.alarmed.contains(&caller),
    };
    let mut callers: Vec<SavedCaller> = day.callers.iter().map(caller).collect();
    callers.sort_unstable_by_key(|saved| saved.caller);
    let saved_lease = |held: &HeldLease| SavedHeldLease {
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
        leases: day.leases.iter().flat_map(BTreeMap::values).map(saved_lease).collect(),
    }
}

/// Checks that every reservation has a unique number that the ledger has issued.
fn check_numbers(snapshot: &BudgetSnapshot) -> Result<(), SnapshotError> {
    if snapshot.next > LAST_ID {
        return Err(SnapshotError::NextTooLarge(snapshot.next));
    }
    let mut seen: BTreeSet<ReservationId> = BTreeSet::new();
    for BudgetReservation { id, .. } in snapshot.open.iter().chain(&snapshot.expired) {
        if id.0 >= snapshot.next {
            return Err(SnapshotError::UnissuedReservation(*id));
        }
        if !seen.insert(*id) {
            return Err(SnapshotError::Duplicate { what: "reservation", number: id.0 });
        }
    }
    Ok(())
}

fn read_day(
    saved: &SavedDay,
    snapshot: &BudgetSnapshot,
    source: BudgetSource,
) -> Result<DayLedger, SnapshotError> {
    if saved.used > snapshot.uptime {
        return Err(SnapshotError::UsedAfterSnapshot { what: "day", number: saved.day });
    }
    let mut day =
        DayLedger { tiers: saved.tiers, overrun: saved.overrun, used: saved.used, ..DayLedger::default() };
    for SavedCaller { caller, account, alarm_raised } in saved.callers.iter().copied() {
        if day.callers.get(caller).is_some() {
            return Err(SnapshotError::Duplicate { what: "caller", number: caller });
        }
        *day.callers.open(caller) = account;
        if alarm_raised {
            day.alarmed.insert(caller);
        }
    }
    for SavedHeldLease { id, granted, returned, account } in saved.leases.iter().copied() {
        if id.day != saved.day || source != (BudgetSource::Leases { node: id.node }) {
            return Err(SnapshotError::ForeignLease(id));
        }
        // Ended until the authority renews it.
        let held = HeldLease { id, granted, returned, account, until: Timestamp::ZERO };
        if day.leases[id.tier.index()].insert(id.generation, held).is_some() {
            return Err(SnapshotError::DuplicateLease(id));
        }
    }
    Ok(day)
}

/// Sums over the reservations: the exact held amount and the minimum posted amount per account.
#[derive(Default)]
struct ExpectedSums {
    tiers: BTreeMap<(u64, Tier), BudgetAccount>,
    callers: BTreeMap<(u64, u64), BudgetAccount>,
    leases: BTreeMap<(u64, Tier, u64), BudgetAccount>,
}

impl ExpectedSums {
    fn add(
        &mut self,
        one: &BudgetReservation,
        part: fn(&mut BudgetAccount) -> &mut Money,
    ) -> Result<(), SnapshotError> {
        let accounts = [
            self.tiers.entry((one.day, one.tier)).or_default(),
            self.callers.entry((one.day, one.caller)).or_default(),
            self.leases.entry((one.day, one.tier, one.generation)).or_default(),
        ];
        for account in accounts {
            let sum = part(account);
            *sum = sum.checked_add(one.max_cost).ok_or(SnapshotError::Overflow(one.day))?;
        }
        Ok(())
    }

    /// Compares a day with the expected sums, and removes these.
    fn check_day(&mut self, number: u64, day: &DayLedger, source: BudgetSource) -> Result<(), SnapshotError> {
        let mismatch = |what| SnapshotError::AccountMismatch { what, day: number };
        for (caller, account) in day.callers.iter() {
            let expected = self.callers.remove(&(number, caller)).unwrap_or_default();
            matches(&account, &expected).then_some(()).ok_or(mismatch("a caller"))?;
        }
        for tier in Tier::ALL {
            let account = &day.tiers[tier.index()];
            let expected = self.tiers.remove(&(number, tier)).unwrap_or_default();
            matches(account, &expected).then_some(()).ok_or(mismatch("a tier"))?;
            if source == BudgetSource::Caps {
                continue;
            }
            let leases = &day.leases[tier.index()];
            for held in leases.values() {
                let LeaseId { day, tier, generation, .. } = held.id;
                let expected = self.leases.remove(&(day, tier, generation)).unwrap_or_default();
                matches(&held.account, &expected).then_some(()).ok_or(mismatch("a lease"))?;
            }
            let lease_sum = sum(leases.values().map(|held| held.account));
            (lease_sum == *account).then_some(()).ok_or(mismatch("a tier's leases"))?;
        }
        let caller_sum = sum(day.callers.iter().map(|(_, account)| account));
        let tier_sum = day.all();
        (caller_sum == tier_sum).then_some(()).ok_or(mismatch("all callers"))
    }
}

fn matches(account: &BudgetAccount, expected: &BudgetAccount) -> bool {
    account.held == expected.held && account.posted >= expected.posted
}

/// Sums accounts. A sum may saturate, and then does so on both sides of a comparison.
fn sum(accounts: impl Iterator<Item = BudgetAccount>) -> BudgetAccount {
    accounts.fold(BudgetAccount::default(), |sum, account| BudgetAccount {
        posted: sum.posted.saturating_add(account.posted),
        held: sum.held.saturating_add(account.held),
    })
}
