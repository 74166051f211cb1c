//! The leases, which the writer keeps in memory.
//!
//! `core`'s lease ledger decides; it is rebuilt from its rows when the directory is opened. A lease that was running then
//! gets a fresh term of its usual length, because its node could not renew it meanwhile.

use super::codec::{RowDecoder, RowEncoder, STORE};
use super::rows::{Batch, Rows, TableKind};
use crate::StoreError;
use seawall_core::budget::{
    BudgetLease, BudgetLimits, LeaseId, LeaseLedger, LeaseSnapshot, LeaseState, SavedLeaseDay,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;

const STATES: [LeaseState; 3] = [LeaseState::Running, LeaseState::WrittenOff, LeaseState::Closed];

/// The leases with the last row written for each, and the number of the next claim.
#[derive(Clone, Debug)]
pub(super) struct StoredLeases {
    pub(super) ledger: LeaseLedger,
    written: BTreeMap<LeaseId, Vec<u8>>,
    next_claim: u64,
}

impl StoredLeases {
    /// Loads the leases.
    pub(super) fn load(
        rows: &mut impl Rows,
        limits: BudgetLimits,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut days: BTreeMap<u64, SavedLeaseDay> = BTreeMap::new();
        let mut written = BTreeMap::new();
        for (key, row) in rows.with_prefix(TableKind::Leases, &[], usize::MAX)? {
            let lease = read_lease(&key, &row)?;
            let day = lease.id.day;
            days.entry(day).or_insert(SavedLeaseDay { day, ..SavedLeaseDay::default() }).leases.push(lease);
            written.insert(lease.id, row);
        }
        let snapshot = LeaseSnapshot { days: days.into_values().collect(), ..LeaseSnapshot::default() };
        let leases = LeaseLedger::from_snapshot(limits, &snapshot, now);
        let leases = leases.map_err(|error| StoreError::failed(STORE, error))?;
        Ok(Self { ledger: leases, written, next_claim: 0 })
    }

    /// Whether these rows are what was last written for the leases.
    pub(super) fn is_written_in(&self, rows: &mut impl Rows) -> Result<bool, StoreError> {
        let stored = rows.with_prefix(TableKind::Leases, &[], usize::MAX)?;
        let written = self.written.iter().map(|(id, row)| (lease_key(*id), row.clone()));
        Ok(stored.into_iter().eq(written))
    }

    /// Writes a lease, if it has changed.
    pub(super) fn save(&mut self, batch: &mut Batch<'_>, id: LeaseId) -> Result<(), StoreError> {
        let Some(lease) = self.ledger.lease(id) else { return Ok(()) };
        let row = lease_row(lease);
        if self.written.get(&id) != Some(&row) {
            batch.put(TableKind::Leases, &lease_key(id), &row)?;
            self.written.insert(id, row);
        }
        Ok(())
    }

    /// Removes the leases that the ledger has evicted.
    pub(super) fn remove_evicted(&mut self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let is_evicted = |id: &&LeaseId| self.ledger.lease(**id).is_none();
        let evicted: Vec<LeaseId> = self.written.keys().filter(is_evicted).copied().collect();
        for id in evicted {
            batch.remove(TableKind::Leases, &lease_key(id))?;
            self.written.remove(&id);
        }
        Ok(())
    }

    /// A number for a claim, unique in this process.
    pub(super) fn claim_number(&mut self) -> u64 {
        self.next_claim = self.next_claim.wrapping_add(1);
        self.next_claim
    }
}

fn lease_key(id: LeaseId) -> Vec<u8> {
    RowEncoder::default().u64(id.day).tier(id.tier).u64(id.node).u64(id.generation).key()
}

fn lease_row(lease: &BudgetLease) -> Vec<u8> {
    let BudgetLease { granted, posted, returned, term, state, .. } = *lease;
    let state = STATES.iter().position(|known| *known == state).unwrap_or(STATES.len());
    RowEncoder::default().money(granted).money(posted).money(returned).duration(term).index(state).row()
}

fn read_lease(key: &[u8], row: &[u8]) -> Result<BudgetLease, StoreError> {
    let mut input = RowDecoder::key("leases", key);
    let day = input.u64()?;
    let tier = input.choice(&Tier::ALL)?;
    let (node, generation) = (input.u64()?, input.u64()?);
    let id = input.end(LeaseId { day, tier, node, generation })?;
    let mut input = RowDecoder::row("leases", row)?;
    let (granted, posted, returned) = (input.money()?, input.money()?, input.money()?);
    let (term, state) = (input.duration()?, input.choice(&STATES)?);
    input.end(BudgetLease { id, granted, posted, returned, term, expires: Timestamp::ZERO, state })
}
