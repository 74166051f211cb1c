//! What was admitted without the store and still has to be reported to it.

use super::report::{Admitted, AwayReport, MOST_SCOPES};
use arrayvec::ArrayVec;
use seawall_core::breaker::NodeId;
use seawall_core::money::Money;
use seawall_core::quota::{Cost, Scope};
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most homes that are remembered. Beyond that, the node goes on deciding by its share when the store is back.
pub(super) const MOST_HOMES: usize = 8_192;
/// The most time stamps that are kept for one home. Beyond that, earlier admissions are merged into later ones, which
/// is on the careful side.
const MOST_TIMES: usize = 32;
/// Admissions within this time of each other are merged and count at the later time.
const TOGETHER: Duration = Duration::from_secs(1);

/// The position of a request's admission among the outstanding reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingId {
    home: u64,
    serial: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    serial: u64,
    scopes: ArrayVec<Scope, MOST_SCOPES>,
    cost: Cost,
    money: Option<(u64, Money)>,
    first: Timestamp,
    last: Timestamp,
}

/// The outstanding reports.
#[derive(Debug, Default)]
pub(super) struct Pending {
    homes: BTreeMap<u64, Vec<Entry>>,
    next: u64,
    sequence: u64,
    /// Whether something was admitted that could not be remembered.
    overflowed: bool,
}

/// What one request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    pub(super) home: u64,
    pub(super) scopes: &'a [Scope],
    pub(super) cost: Cost,
    pub(super) money: Option<(u64, Money)>,
}

impl Pending {
    pub(super) fn add(&mut self, taken: &Taken<'_>, now: Timestamp) -> Option<PendingId> {
        let home = taken.home;
        if !self.homes.contains_key(&home) && self.homes.len() >= MOST_HOMES {
            self.overflowed = true;
            return None;
        }
        let entries = self.homes.entry(home).or_default();
        let is_full = entries.len() >= MOST_TIMES;
        let caller = taken.money.map(|(caller, _)| caller);
        let same = entries.iter_mut().rev().find(|entry| {
            let is_near = is_full || now - entry.first < TOGETHER;
            is_near
                && entry.scopes.as_slice() == taken.scopes
                && entry.money.map(|(caller, _)| caller) == caller
        });
        if let Some(entry) = same {
            entry.cost = plus(entry.cost, taken.cost);
            entry.money = entry
                .money
                .zip(taken.money)
                .map(|((_, sum), (caller, more))| (caller, sum.saturating_add(more)));
            entry.last = entry.last.max(now);
            return Some(PendingId { home, serial: entry.serial });
        }
        if entries.len() >= 2 * MOST_TIMES {
            self.overflowed = true;
            return None;
        }
        let mut scopes = ArrayVec::new();
        for scope in taken.scopes {
            if scopes.try_push(*scope).is_err() {
                self.overflowed = true;
                return None;
            }
        }
        let serial = self.next;
        self.next += 1;
        let entry = Entry { serial, scopes, cost: taken.cost, money: taken.money, first: now, last: now };
        entries.push(entry);
        Some(PendingId { home, serial })
    }

    /// Replaces the reserved amounts with the actual ones. Returns false if they have been reported already.
    pub(super) fn correct(&mut self, id: PendingId, reserved: (Cost, Money), actual: (Cost, Money)) -> bool {
        let entries = self.homes.get_mut(&id.home);
        let Some(entry) = entries.and_then(|all| all.iter_mut().find(|entry| entry.serial == id.serial))
        else {
            return false;
        };
        entry.cost = plus(minus(entry.cost, reserved.0), actual.0);
        if let Some((_, money)) = &mut entry.money {
            *money = money.saturating_sub(reserved.1).saturating_add(actual.1);
        }
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    pub(super) fn homes(&self) -> usize {
        self.homes.len()
    }

    /// Whether an admission was forgotten. Reading it resets it, so that it is handled once per recovery.
    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Removes and returns the next report. What is admitted from now on belongs to a later one.
    pub(super) fn take_report(&mut self, node: NodeId, life: u64, now: Timestamp) -> Option<AwayReport> {
        let (home, entries) = self.homes.pop_first()?;
        self.sequence += 1;
        let admitted = entries.into_iter().map(|entry| Admitted {
            scopes: entry.scopes,
            cost: entry.cost,
            money: entry.money,
            ago: now - entry.last,
        });
        Some(AwayReport { node, life, sequence: self.sequence, home, admitted: admitted.collect() })
    }
}

fn plus(a: Cost, b: Cost) -> Cost {
    Cost { requests: a.requests.saturating_add(b.requests), tokens: a.tokens.saturating_add(b.tokens) }
}

fn minus(a: Cost, b: Cost) -> Cost {
    Cost { requests: a.requests.saturating_sub(b.requests), tokens: a.tokens.saturating_sub(b.tokens) }
}
