//! The operator's switches in memory.

use crate::switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchState, Switches};
use crate::{StoreFuture, lock};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The most audit records that are kept, so that repeated refused orders cannot fill the memory.
const MAX_RECORDS: usize = 16_384;

/// Switches in the memory of one process, with the last records of the audit trail.
#[derive(Debug, Default)]
pub struct MemorySwitches(Mutex<SwitchHistory>);

#[derive(Debug, Default)]
struct SwitchHistory {
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
    fn read(&self) -> StoreFuture<'_, SwitchState> {
        StoreFuture::run(|| Ok(lock(&self.0).state))
    }

    fn apply<'a>(&'a self, order: &'a ChangeOrder, expected_version: u64) -> StoreFuture<'a, ChangeDecision> {
        StoreFuture::run(|| {
            let mut history = lock(&self.0);
            if !order.refused && expected_version != history.state.version {
                return Ok(ChangeDecision::Outdated(history.state));
            }
            let record = AuditRecord::after(history.trail.back(), order.clone());
            history.trail.push_back(record);
            if history.trail.len() > MAX_RECORDS {
                history.trail.pop_front();
            }
            history.state = history.state.after(order);
            Ok(ChangeDecision::Recorded(history.state))
        })
    }

    fn trail(&self, from: u64, max: usize) -> StoreFuture<'_, Vec<AuditRecord>> {
        StoreFuture::run(|| {
            let history = lock(&self.0);
            let records = history.trail.iter().skip_while(|record| record.number < from);
            Ok(records.take(max).cloned().collect())
        })
    }
}
