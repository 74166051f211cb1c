//! Lua scripts that the server runs atomically.

use redis::Script;

/// A script, and the SHA-1 hash under which servers cache it.
#[derive(Debug)]
pub(super) struct StoreScript {
    pub(super) text: String,
    pub(super) hash: String,
}

impl StoreScript {
    pub(super) fn new(text: &str) -> Self {
        let hash = Script::new(text).get_hash().to_owned();
        Self { text: text.to_owned(), hash }
    }

    /// A script over the records of a partition; the shared code and the guard are inserted at their markers.
    pub(super) fn over_records(text: &str, guard: &str) -> Self {
        let text = text.replacen("--COMMON\n", include_str!("lua/common.lua"), 1);
        Self::new(&text.replacen("--GUARD\n", guard, 1))
    }

    /// A script that needs the current time.
    pub(super) fn timed(text: &str) -> Self {
        Self::new(&text.replacen("--TIME\n", include_str!("lua/time.lua"), 1))
    }
}
