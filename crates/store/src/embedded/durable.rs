//! Maintenance of the embedded store.

use super::EmbeddedStore;
use crate::{DurableStore, StoreError};
use seawall_core::quota::QuotaGroup;

impl DurableStore for EmbeddedStore {
    fn set_groups(&self, groups: Vec<QuotaGroup>) {
        self.set_groups(groups);
    }

    fn write_error(&self) -> Option<StoreError> {
        self.write_error()
    }

    fn failed_checkpoints(&self) -> u64 {
        self.failed_checkpoints()
    }

    fn retry_failed(&self) {
        self.retry_failed();
    }
}
