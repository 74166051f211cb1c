//! The leases, which the writer keeps in memory.
//!
//! `core`'s lease book decides; it is rebuilt from its rows when the directory is opened. A lease that was running then
//! gets a fresh term of its usual length, because its node could not renew it meanwhile.

use super::codec::{Input, Output, STORE};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use seawall_core::budget::{
    BudgetLimits, Lease, LeaseBook, LeaseId, LeaseSnapshot, LeaseState, SavedLentDay,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;

const STATES: [LeaseState; 3] = [LeaseState::Running, LeaseState::WrittenOff, LeaseState::Closed];

/// The leases with the last row written for each, and the number of the next claim.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    pub(super) leases: LeaseBook,
    written: BTreeMap<LeaseId, Vec<u8>>,
    next_claim: u64,
}

impl Shelf {
    /// Loads the leases.
    pub(super) fn load(
        rows: &mut impl Rows,
        limits: BudgetLimits,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut days: BTreeMap<u64, SavedLentDay> = BTreeMap::new();
        let mut written = BTreeMap::new();
        for (key, row) in rows.beginning(Kind::Leases, &[], usize::MAX)? {
            let lease = read_lease(&key, &row)?;
            let day = lease.id.day;
            days.entry(day).or_insert(SavedLentDay { day, ..SavedLentDay::default() }).leases.push(lease);
            written.insert(lease.id, row);
        }
        let snapshot = LeaseSnapshot { days: days.into_values().collect(), ..LeaseSnapshot::default() };
        let leases = LeaseBook::from_snapshot(limits, &snapshot, now);
        let leases = leases.map_err(|error| StoreError::broken(STORE, error))?;
        Ok(Self { leases, written, next_claim: 0 })
    }

    /// Whether these rows are what was last written for the leases.
    pub(super) fn is_written_in(&self, rows: &mut impl Rows) -> Result<bool, StoreError> {
        let kept = rows.beginning(Kind::Leases, &[], usize::MAX)?;
        let written = self.written.iter().map(|(id, row)| (lease_key(*id), row.clone()));
        Ok(kept.into_iter().eq(written))
    }

    /// Writes a lease, if it has changed.
    pub(super) fn keep(&mut self, batch: &mut Batch<'_>, id: LeaseId) -> Result<(), StoreError> {
        let Some(lease) = self.leases.lease(id) else { return Ok(()) };
        let row = lease_row(lease);
        if self.written.get(&id) != Some(&row) {
            batch.put(Kind::Leases, &lease_key(id), &row)?;
            self.written.insert(id, row);
        }
        Ok(())
    }

    /// Removes the leases that the book has forgotten.
    pub(super) fn forget(&mut self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let is_gone = |id: &&LeaseId| self.leases.lease(**id).is_none();
        let gone: Vec<LeaseId> = self.written.keys().filter(is_gone).copied().collect();
        for id in gone {
            batch.remove(Kind::Leases, &lease_key(id))?;
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
    Output::default().number(id.day).tier(id.tier).number(id.node).number(id.generation).key()
}

fn lease_row(lease: &Lease) -> Vec<u8> {
    let Lease { granted, posted, returned, lasts, state, .. } = *lease;
    let state = STATES.iter().position(|known| *known == state).unwrap_or(STATES.len());
    Output::default().money(granted).money(posted).money(returned).duration(lasts).place(state).row()
}

fn read_lease(key: &[u8], row: &[u8]) -> Result<Lease, StoreError> {
    let mut input = Input::key("leases", key);
    let day = input.number()?;
    let tier = input.word(&Tier::ALL)?;
    let (node, generation) = (input.number()?, input.number()?);
    let id = input.end(LeaseId { day, tier, node, generation })?;
    let mut input = Input::row("leases", row)?;
    let (granted, posted, returned) = (input.money()?, input.money()?, input.money()?);
    let (lasts, state) = (input.duration()?, input.word(&STATES)?);
    input.end(Lease { id, granted, posted, returned, lasts, expires: Timestamp::ZERO, state })
}
