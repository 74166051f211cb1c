//! Hash maps for hot lookups whose order is never visible.

use foldhash::fast::FixedState;

/// An unordered map with fast lookup. Code that iterates over one must sort the result.
#[expect(
    clippy::disallowed_types,
    reason = "the hasher is fixed, and what is taken out of a table is put in order"
)]
pub(super) type Table<K, V> = std::collections::HashMap<K, V, FixedState>;
