//! The operator's switches in memory.

use crate::switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchState, Switches};
use crate::{StoreError, lock};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The most audit records that are kept, so that repeated refused orders cannot fill the memory.
const MOST_RECORDS: usize = 16_384;

/// Switches in the memory of one process, with the last records of the audit trail.
#[derive(Debug, Default)]
pub struct MemorySwitches(Mutex<Switched>);

#[derive(Debug, Default)]
struct Switched {
    state: SwitchState,
    trail: VecDeque<AuditRecord>,
}

impl MemorySwitches {
    /// All switches on and all protections enforced.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Switches for MemorySwitches {
    async fn read(&self) -> Result<SwitchState, StoreError> {
        Ok(lock(&self.0).state)
    }

    async fn order(&self, order: &ChangeOrder, seen: u64) -> Result<ChangeDecision, StoreError> {
        let mut switched = lock(&self.0);
        if !order.refused && seen != switched.state.version {
            return Ok(ChangeDecision::Outdated(switched.state));
        }
        let record = AuditRecord::after(switched.trail.back(), order.clone());
        switched.trail.push_back(record);
        if switched.trail.len() > MOST_RECORDS {
            switched.trail.pop_front();
        }
        switched.state = switched.state.after(order);
        Ok(ChangeDecision::Recorded(switched.state))
    }

    async fn trail(&self, from: u64, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let switched = lock(&self.0);
        let records = switched.trail.iter().skip_while(|record| record.number < from);
        Ok(records.take(most).cloned().collect())
    }
}
