//! Posts the calls of the journal to the ledger.
//!
//! Calls are collected into blocks and totals in memory. The stored totals are read when all calls have been collected,
//! and only then is anything written, so that a failed read has changed nothing.
//!
//! **What it does not do.** It does not check whether a call came through the journal before: each segment is applied
//! once, because the same transaction records from where on the journal has to be replayed.

use super::blocks::Blocks;
use super::ledger::call_key;
use super::rows::{Batch, Rows, TableKind};
use super::totals::PendingTotals;
use crate::StoreError;
use crate::usage::UsageEvent;

/// Calls of the journal that are being posted to the ledger.
#[derive(Debug)]
pub(super) struct LedgerImport {
    blocks: Blocks,
    totals: PendingTotals,
    /// Whether calls were also posted by id; if so, each call is looked up.
    has_posted_calls: bool,
}

impl LedgerImport {
    /// Collects the calls of the journal before this segment.
    pub(super) fn new(rows: &mut impl Rows, next: u64) -> Result<Self, StoreError> {
        let has_posted_calls = !rows.with_prefix(TableKind::Calls, &[], 1)?.is_empty();
        Ok(Self { blocks: Blocks::new(next), totals: PendingTotals::default(), has_posted_calls })
    }

    /// Collects these calls and clears the list. Nothing is written yet.
    pub(super) fn add(
        &mut self,
        rows: &mut impl Rows,
        events: &mut Vec<UsageEvent>,
    ) -> Result<(), StoreError> {
        if self.has_posted_calls {
            let mut new = Vec::with_capacity(events.len());
            for event in events.drain(..) {
                if rows.get(TableKind::Calls, &call_key(event.id))?.is_none() {
                    new.push(event);
                }
            }
            *events = new;
        }
        for event in &*events {
            self.totals.add(event);
        }
        self.blocks.add(events);
        events.clear();
        Ok(())
    }

    /// Writes what was collected.
    pub(super) fn write(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let totals = self.totals.merge_stored(batch)?;
        for (key, row) in self.blocks.into_rows() {
            batch.put(TableKind::Blocks, &key, &row)?;
        }
        totals.write(batch)
    }
}
