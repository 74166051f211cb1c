//! Scripts that the server runs in one step.

use redis::Script;

/// A script, by the hash under which servers know it.
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

    /// A script over the records of a home: the common part and the guard are put where it says so.
    pub(super) fn over_records(text: &str, guard: &str) -> Self {
        let text = text.replacen("--COMMON\n", include_str!("lua/common.lua"), 1);
        Self::new(&text.replacen("--GUARD\n", guard, 1))
    }

    /// A script that asks what time it is.
    pub(super) fn timed(text: &str) -> Self {
        Self::new(&text.replacen("--TIME\n", include_str!("lua/time.lua"), 1))
    }
}
