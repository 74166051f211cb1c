//! Hash maps for hot lookups whose order is never visible.

use foldhash::fast::FixedState;

/// An unordered map with fast lookup. Code that iterates over one must sort the result.
#[expect(clippy::disallowed_types, reason = "the hasher is fixed, and iteration results are sorted")]
pub(super) type FastMap<K, V> = std::collections::HashMap<K, V, FixedState>;
