//! The rules of keeping answers: who may see one, what it is kept under, how old it may be, what may replace it, and
//! who asks the model when many want to know the same.
//!
//! **When it acts.** Before a model is asked: a [`CacheKey`] says where an answer might lie, [`CacheAges::decide`]
//! whether it may still be served, [`Flights::ask`] whether to ask the model or to wait for somebody who does. After a
//! clean answer: [`StoreRule::decide`] says whether it is kept, and [`CacheKey::for_answer`] for whom.
//!
//! **Who sees what.** An answer is for everybody only if the question is of a kind that everybody asks (a frequent
//! question, a search, a product, an offer), nothing was said before it, nothing of the caller's account went into it,
//! and neither it nor the answer looks [personal](personal_data). Advice on what to read is not among the kinds: what
//! it was based on cannot be seen from its text. All else is kept for its caller alone, together with what was said
//! before.
//!
//! **What it will not do.** It stores nothing and hashes nothing: a key is plain bytes, and a store hashes them as it
//! likes. The detector of personal data is cheap and errs on the private side; [`personal_data`] says what it misses.
//!
//! ```
//! use seawall_core::cache_policy::{CacheKey, KeyParts, Question};
//! use seawall_core::vocabulary::Intent;
//!
//! let parts = KeyParts { route: "chat", locale: "ja-JP", prompt_version: "7", catalogue_version: "2026-11-15" };
//! let question = |text, intent| Question { intent, text, history: "", uses_account: false };
//!
//! let shipping = CacheKey::of(&question("ｼｯﾋﾟﾝｸﾞ はいつ？", Intent::Faq), "ann", &parts).unwrap();
//! let same = CacheKey::of(&question("シッピング　はいつ", Intent::Faq), "bob", &parts).unwrap();
//! assert!(shipping.is_public() && shipping == same);
//!
//! let order = |caller| CacheKey::of(&question("where is my order", Intent::Order), caller, &parts).unwrap();
//! assert!(!order("ann").is_public() && order("ann") != order("bob"));
//! ```

mod age;
mod flight;
mod key;
mod names;
mod numbers;
mod personal;
mod scope;
mod storing;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod text;
mod waiters;

pub use age::{CacheAgeDecision, CacheAgeOptions, CacheAges, CacheSituation, Confidence, KeptAnswer};
pub use flight::{
    AloneReason, Asker, FlightDecision, FlightKey, FlightOptions, Flights, LandingDecision, LeaderEnd,
    WaitDecision,
};
pub use key::{CacheKey, KeyParts};
pub use personal::{PersonalData, personal_data};
pub use scope::{PrivateReason, Question, ScopeDecision};
pub use storing::{AnswerEnd, NewAnswer, StoreDecision, StoreOptions, StoreRefusal, StoreRule};
pub use text::normalise;
