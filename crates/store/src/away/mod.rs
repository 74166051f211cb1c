//! What happens while the store that a fleet shares is away.
//!
//! **When it acts.** On every request, before and behind the shared store. An operation that takes too long or fails is
//! decided here instead, at once. After several of those the store is not asked any more until it is seen to be back.
//!
//! **How it decides without the store.** By a book of its own with this node's share of every limit, rounded up, and of
//! every caller's money of the day; never by the whole limit, unless the fleet is this one node. The book is kept while
//! the store is there, too, so that it does not begin empty.
//!
//! **On return.** What was admitted meanwhile is booked on the store, each report once however often it is sent, before
//! anybody asks it again. A store that comes back empty is not believed alone for one window: the share judges, too.
//!
//! **What it will not do.** It returns no error because the store is away. It does not correct downwards on the store what
//! is settled while that is away: it stays charged as reserved. It does not wait for anything but the store's answer, and
//! for that no longer than its limit.

mod comeback;
mod fleet_size;
mod pending;
mod report;
mod share;
mod shared;
#[cfg(test)]
mod tests;

pub use fleet_size::FleetSize;
pub use report::{Admitted, AwayReport, SharedStore};
pub use shared::{AwayCounts, AwayObserver, AwayOptions, SharedQuotas, SharedReceipt, Standing};
