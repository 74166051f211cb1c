//! The accounts of budgets by calendar window.
//!
//! An account exists from its first reservation until its window is over and it has not been used for the retention
//! period. Both conditions are needed: a month may pass without a call, and a wall clock that is set forward for a while
//! must not make a spent budget new.

use super::account::BudgetAccount;
use super::entry::{BudgetReservation, Correction};
use super::snapshot::{SavedWindow, SavedWindows, SnapshotError};
use super::uptime::{SWEEP_BATCH, Uptime};
use super::window::{BudgetName, BudgetOwner, BudgetPeriod, CalendarHour, WindowKey};
use crate::money::Money;
use std::collections::BTreeMap;
use std::time::Duration;

/// Windows that ended less than this many hours ago are kept for reports and late settlements.
const HOURS_KEPT: u32 = 48;

#[derive(Clone, Copy, Debug, Default)]
struct WindowUsage {
    account: BudgetAccount,
    used: Duration,
}

/// All accounts. Eviction scans them incrementally, a few per call.
#[derive(Debug, Default)]
pub(super) struct WindowLedger {
    all: BTreeMap<WindowKey, WindowUsage>,
    /// The hour of the last reservation.
    hour: CalendarHour,
    /// Where the current eviction scan continues, if one is in progress.
    next: Option<WindowKey>,
}

impl WindowLedger {
    pub(super) fn get(&self, key: &WindowKey) -> BudgetAccount {
        self.all.get(key).map(|usage| usage.account).unwrap_or_default()
    }

    pub(super) fn hold(&mut self, reservation: &BudgetReservation, uptime: Uptime) {
        let BudgetReservation { windows, caller, tier, max_cost, .. } = *reservation;
        if windows.is_empty() {
            return;
        }
        self.hour = windows.hour();
        // A call that costs nothing needs no account.
        if max_cost == Money::ZERO {
            return;
        }
        for key in windows.keys(caller, tier) {
            let usage = self.all.entry(key).or_default();
            usage.used = uptime.get();
            usage.account.hold(max_cost);
        }
    }

    /// Replaces the hold by the cost.
    pub(super) fn settle(&mut self, reservation: &BudgetReservation, cost: Money, uptime: Uptime) {
        let max_cost = reservation.max_cost;
        for key in reservation.windows.keys(reservation.caller, reservation.tier) {
            let usage = self.all.entry(key).or_default();
            usage.used = uptime.get();
            usage.account.settle(max_cost, cost);
            // Accounts without any usage are removed, so that calls without cost cannot fill the memory.
            if usage.account == BudgetAccount::default() {
                self.all.remove(&key);
            }
        }
    }

    /// Replaces the maximum charge of an expired reservation by its cost.
    pub(super) fn correct(&mut self, reservation: &BudgetReservation, cost: Money, uptime: Uptime) {
        for key in reservation.windows.keys(reservation.caller, reservation.tier) {
            self.all.entry(key).or_default();
            self.replace(&key, reservation.max_cost, cost, uptime);
        }
    }

    /// Applies an operator's correction to the accounts of the key and the tier whose windows contain this day. Hours are
    /// left out, because a correction names a day; so are teams, because it names none.
    pub(super) fn correct_day(&mut self, correction: &Correction, uptime: Uptime) {
        let Correction { day, caller, tier, charged, cost } = *correction;
        let noon = CalendarHour(u32::try_from(day.saturating_mul(24).saturating_add(12)).unwrap_or(u32::MAX));
        for period in BudgetPeriod::ALL.into_iter().filter(|period| *period != BudgetPeriod::Hour) {
            for (owner, id) in [(BudgetOwner::Key, caller), (BudgetOwner::Tier, tier.index() as u64)] {
                let key = WindowKey { name: BudgetName { owner, period }, id, end: period.window(noon).end };
                self.replace(&key, charged, cost, uptime);
            }
        }
    }

    /// Replaces a posted amount, if the account exists.
    fn replace(&mut self, key: &WindowKey, charged: Money, cost: Money, uptime: Uptime) {
        let Some(usage) = self.all.get_mut(key) else { return };
        usage.used = uptime.get();
        // A saturated sum has lost an unknown amount, so that nothing is credited back to it.
        if usage.account.posted < Money::MAX {
            usage.account.correct(charged, cost);
        }
        if usage.account == BudgetAccount::default() {
            self.all.remove(key);
        }
    }

    /// Starts an eviction scan unless one is in progress.
    pub(super) fn begin_sweep(&mut self) {
        self.next.get_or_insert(WindowKey::LOWEST);
    }

    /// Continues the scan over a few accounts and evicts those that are over, idle and hold nothing.
    pub(super) fn sweep(&mut self, uptime: Uptime) {
        let Some(from) = self.next.take() else { return };
        let mut evicted = Vec::new();
        for (place, (key, usage)) in self.all.range(from..).enumerate() {
            if place == SWEEP_BATCH {
                self.next = Some(*key);
                break;
            }
            let is_over = key.end.0.saturating_add(HOURS_KEPT) <= self.hour.0;
            if is_over && usage.account.held == Money::ZERO && uptime.is_past_retention(usage.used) {
                evicted.push(*key);
            }
        }
        for key in evicted {
            self.all.remove(&key);
        }
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn saved(&self) -> SavedWindows {
        let saved = |(key, usage): (&WindowKey, &WindowUsage)| SavedWindow {
            key: *key,
            used: usage.used,
            account: usage.account,
        };
        SavedWindows { hour: self.hour, sweep: self.next, all: self.all.iter().map(saved).collect() }
    }

    pub(super) fn from_saved(saved: &SavedWindows, uptime: Duration) -> Result<Self, SnapshotError> {
        let SavedWindows { hour, sweep, all: windows } = saved;
        let mut all = BTreeMap::new();
        for SavedWindow { key, used, account } in windows.iter().copied() {
            if used > uptime {
                return Err(SnapshotError::UsedAfterSnapshot { what: "budget window", number: key.id });
            }
            if all.insert(key, WindowUsage { account, used }).is_some() {
                return Err(SnapshotError::Duplicate { what: "budget window", number: key.id });
            }
        }
        Ok(Self { all, hour: *hour, next: *sweep })
    }

    /// Checks that every account holds exactly the sum of its open reservations.
    pub(super) fn check<'a>(
        &self,
        open: impl Iterator<Item = &'a BudgetReservation>,
    ) -> Result<(), SnapshotError> {
        let mut held: BTreeMap<WindowKey, Money> = BTreeMap::new();
        for one in open.filter(|one| one.max_cost > Money::ZERO) {
            for key in one.windows.keys(one.caller, one.tier) {
                let sum = held.entry(key).or_default();
                *sum = sum.checked_add(one.max_cost).ok_or(SnapshotError::Overflow(one.day))?;
            }
        }
        let held_accounts = self.all.iter().filter(|(_, usage)| usage.account.held > Money::ZERO);
        let matches = held_accounts.clone().count() == held.len()
            && held_accounts.into_iter().all(|(key, usage)| held.get(key) == Some(&usage.account.held));
        if matches { Ok(()) } else { Err(SnapshotError::WindowMismatch) }
    }
}
