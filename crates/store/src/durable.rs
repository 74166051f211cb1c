//! The durable state of one node.

use crate::{Directory, Ledger, StoreError, Switches};
use seawall_core::quota::QuotaGroup;

/// The callers, ledger, switches and audit trail of one node on disk, and what their maintenance needs.
pub trait DurableStore: Directory + Ledger + Switches {
    /// Changes the limits by which counts are stored, if any are stored.
    fn set_groups(&self, groups: Vec<QuotaGroup>);

    /// Why state cannot be written, while that lasts. An error that [is transient](StoreError::is_transient) is retried by
    /// [`retry_failed`](Self::retry_failed); others stay until the store is opened again.
    fn write_error(&self) -> Option<StoreError>;

    /// The number of journal segments in a row that could not be moved into the database.
    fn failed_checkpoints(&self) -> u64;

    /// Retries what failed because of the disk. It does not block. Call it every few seconds.
    fn retry_failed(&self);
}
