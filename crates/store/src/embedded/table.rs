//! Maps for what is looked up with every call and shown to nobody as it lies.

use foldhash::fast::FixedState;

/// Finds a key at once, and has no order. Whoever goes through one puts what he finds in order.
#[expect(
    clippy::disallowed_types,
    reason = "the hasher is fixed, and what is taken out of a table is put in order"
)]
pub(super) type Table<K, V> = std::collections::HashMap<K, V, FixedState>;
