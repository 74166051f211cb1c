//! Calls from the journal on their way into the ledger.
//!
//! They are put into blocks and added to the sums in memory. What the sums were before is read when all calls are there, and
//! only then is anything written, so that what cannot be read has changed nothing.
//!
//! **What it will not do.** It does not ask whether a call came through the journal before: what the journal says is taken in
//! once, because the same transaction says from where on it is to be read.

use super::blocks::Blocks;
use super::ledger::call_key;
use super::rows::{Batch, Kind, Rows};
use super::sums::Sums;
use crate::StoreError;
use crate::usage::UsageEvent;

/// Calls from the journal on their way into the ledger.
#[derive(Debug)]
pub(super) struct Intake {
    blocks: Blocks,
    sums: Sums,
    /// Whether calls were posted by their names; then each is looked for.
    has_posts: bool,
}

impl Intake {
    /// For the calls of the journal up to this segment.
    pub(super) fn new(rows: &mut impl Rows, next: u64) -> Result<Self, StoreError> {
        let has_posts = !rows.beginning(Kind::Calls, &[], 1)?.is_empty();
        Ok(Self { blocks: Blocks::new(next), sums: Sums::default(), has_posts })
    }

    /// Takes these calls, and leaves none behind. Nothing is written yet.
    pub(super) fn add(
        &mut self,
        rows: &mut impl Rows,
        events: &mut Vec<UsageEvent>,
    ) -> Result<(), StoreError> {
        if self.has_posts {
            let mut new = Vec::with_capacity(events.len());
            for event in events.drain(..) {
                if rows.get(Kind::Calls, &call_key(event.id))?.is_none() {
                    new.push(event);
                }
            }
            *events = new;
        }
        for event in &*events {
            self.sums.add(event);
        }
        self.blocks.add(events);
        events.clear();
        Ok(())
    }

    /// Writes what has come together.
    pub(super) fn write(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let sums = self.sums.on_top_of(batch)?;
        for (key, row) in self.blocks.into_rows() {
            batch.put(Kind::Blocks, &key, &row)?;
        }
        sums.write(batch)
    }
}
