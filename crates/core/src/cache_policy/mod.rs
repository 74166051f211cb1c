//! Policy of the answer cache: scope, keys, freshness, storing and single flight.
//!
//! **When it acts.** Before a model is called: [`CacheKey`] gives the key to look up, [`CacheAges::decide`] whether a
//! cached answer may still be served, [`SingleFlightTable::join`] whether to call the model or to wait for a request that already
//! does. After a complete answer: [`CacheStoreRule::decide`] decides whether it is stored, and [`CacheKey::for_answer`]
//! under which key.
//!
//! **Who sees what.** An answer is public only if the question has the same answer for all callers, there is no earlier
//! turn, no account data went into the prompt, and neither the question nor the answer contains
//! [personal data](personal_data). All other answers are private to their caller, and keyed by the history as well.
//!
//! **What it does not do.** It stores nothing and hashes nothing: a key is plain bytes, and a store hashes them as it
//! likes. The detector of personal data is cheap and errs on the private side; [`personal_data`] lists what it misses.
//!
//! ```
//! use seawall_core::cache_policy::{CacheKey, KeyParts, Question};
//!
//! let parts = KeyParts { route: "chat", locale: "ja-JP", prompt_version: "7", catalogue_version: "2026-11-15" };
//! let faq = |text| Question { intent: "faq", is_context_free: true, text, history: "", uses_account: false };
//!
//! let shipping = CacheKey::of(&faq("ｼｯﾋﾟﾝｸﾞ はいつ？"), "ann", &parts).unwrap();
//! let same = CacheKey::of(&faq("シッピング　はいつ"), "bob", &parts).unwrap();
//! assert!(shipping.is_public() && shipping == same);
//!
//! let question = Question { intent: "order", is_context_free: false, ..faq("where is my order") };
//! let order = |caller| CacheKey::of(&question, caller, &parts).unwrap();
//! assert!(!order("ann").is_public() && order("ann") != order("bob"));
//! ```

mod age;
mod key;
mod names;
mod numbers;
mod personal;
mod scope;
mod single_flight;
mod storing;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod text;
mod waiters;

pub use age::{CacheAgeDecision, CacheAgeOptions, CacheAges, CacheSituation, CachedAnswer, Confidence};
pub use key::{CacheKey, KeyParts};
pub use personal::{PersonalData, personal_data};
pub use scope::{PrivateReason, Question, ScopeDecision};
pub use single_flight::{
    LeaderOutcome, ParticipantId, SingleFlightDecision, SingleFlightKey, SingleFlightOptions,
    SingleFlightTable, UnsharedReason, WaitTimeoutDecision, WaitersDecision,
};
pub use storing::{
    AnswerEnd, CacheStoreDecision, CacheStoreOptions, CacheStoreRefusal, CacheStoreRule, NewAnswer,
};
pub use text::normalise;
