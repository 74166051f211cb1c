//! What was admitted without the store and still has to be reported to it.

use super::report::{AdmittedUsage, FallbackReport};
use seawall_core::breaker::NodeId;
use seawall_core::money::Money;
use seawall_core::quota::{QuotaScope, QuotaUnits, ScopeList};
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of partitions that are remembered. Beyond that, the node goes on deciding by its share when the store is back.
pub(super) const MAX_PARTITIONS: usize = 8_192;
/// The most time stamps that are kept for one partition. Beyond that, earlier admissions are merged into later ones, which
/// is on the careful side.
const MAX_ENTRIES: usize = 32;
/// Admissions within this time of each other are merged and count at the later time.
const MERGE_WITHIN: Duration = Duration::from_secs(1);

/// The position of a request's admission among the outstanding reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingId {
    partition: u64,
    serial: u64,
}

#[derive(Clone, Debug)]
struct PendingEntry {
    serial: u64,
    scopes: ScopeList,
    cost: QuotaUnits,
    money: Option<(u64, Money)>,
    first: Timestamp,
    last: Timestamp,
}

/// The outstanding reports.
#[derive(Debug, Default)]
pub(super) struct Pending {
    partitions: BTreeMap<u64, Vec<PendingEntry>>,
    next: u64,
    sequence: u64,
    /// Whether something was admitted that could not be remembered.
    overflowed: bool,
}

/// What one request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionCharge<'a> {
    pub(super) partition: u64,
    pub(super) scopes: &'a [QuotaScope],
    pub(super) cost: QuotaUnits,
    pub(super) money: Option<(u64, Money)>,
}

impl Pending {
    pub(super) fn add(&mut self, charge: &AdmissionCharge<'_>, now: Timestamp) -> Option<PendingId> {
        let partition = charge.partition;
        if !self.partitions.contains_key(&partition) && self.partitions.len() >= MAX_PARTITIONS {
            self.overflowed = true;
            return None;
        }
        let entries = self.partitions.entry(partition).or_default();
        let is_full = entries.len() >= MAX_ENTRIES;
        let caller = charge.money.map(|(caller, _)| caller);
        let same = entries.iter_mut().rev().find(|entry| {
            let is_near = is_full || now - entry.first < MERGE_WITHIN;
            is_near
                && entry.scopes.as_slice() == charge.scopes
                && entry.money.map(|(caller, _)| caller) == caller
        });
        if let Some(entry) = same {
            entry.cost = plus(entry.cost, charge.cost);
            entry.money = entry
                .money
                .zip(charge.money)
                .map(|((_, sum), (caller, more))| (caller, sum.saturating_add(more)));
            entry.last = entry.last.max(now);
            return Some(PendingId { partition, serial: entry.serial });
        }
        if entries.len() >= 2 * MAX_ENTRIES {
            self.overflowed = true;
            return None;
        }
        let serial = self.next;
        self.next += 1;
        entries.push(PendingEntry {
            serial,
            scopes: charge.scopes.into(),
            cost: charge.cost,
            money: charge.money,
            first: now,
            last: now,
        });
        Some(PendingId { partition, serial })
    }

    /// Replaces the reserved amounts with the actual ones. Returns false if they have been reported already.
    pub(super) fn correct(
        &mut self,
        id: PendingId,
        reserved: (QuotaUnits, Money),
        actual: (QuotaUnits, Money),
    ) -> bool {
        let entries = self.partitions.get_mut(&id.partition);
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
        self.partitions.is_empty()
    }

    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Whether an admission was forgotten. Reading it resets it, so that it is handled once per recovery.
    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Removes and returns the next report. What is admitted from now on belongs to a later one.
    pub(super) fn take_report(
        &mut self,
        node: NodeId,
        incarnation: u64,
        now: Timestamp,
    ) -> Option<FallbackReport> {
        let (partition, entries) = self.partitions.pop_first()?;
        self.sequence += 1;
        let admitted = entries.into_iter().map(|entry| AdmittedUsage {
            scopes: entry.scopes,
            cost: entry.cost,
            money: entry.money,
            age: now - entry.last,
        });
        Some(FallbackReport {
            node,
            incarnation,
            sequence: self.sequence,
            partition,
            admitted: admitted.collect(),
        })
    }
}

fn plus(a: QuotaUnits, b: QuotaUnits) -> QuotaUnits {
    QuotaUnits { requests: a.requests.saturating_add(b.requests), tokens: a.tokens.saturating_add(b.tokens) }
}

fn minus(a: QuotaUnits, b: QuotaUnits) -> QuotaUnits {
    QuotaUnits { requests: a.requests.saturating_sub(b.requests), tokens: a.tokens.saturating_sub(b.tokens) }
}
