//! State that a fleet shares, in Redis.
//!
//! **What it does.** Every operation is one script on one hash tag, so that it happens in one step wherever its keys lie.
//! Time is the server's: no node's clock decides anything. Every key that is written has a time after which it is gone.
//!
//! **When it acts.** On each call, with one round trip. A server that has forgotten its scripts gets them again within
//! the same call.
//!
//! **What it will not do.** It is no authority over money of the whole day: that is the ledger's, which is elsewhere. It
//! does not go on without the server: who asks is told that the store is away, and
//! [`SharedQuotas`](crate::SharedQuotas) knows what to do then. What keys mean and how long they live is in
//! `docs/storage.md`.

mod answers;
mod board;
mod claims;
mod key;
mod link;
mod packing;
mod probes;
mod quotas;
mod script;
mod sentinel;
mod sessions;
mod silence;

pub use answers::RedisAnswers;
pub use board::RedisBoard;
pub use claims::{RedisClaim, RedisClaims};
pub use link::{RedisLink, RedisOptions};
pub use probes::RedisProbes;
pub use quotas::{Placement, RedisQuotas, RedisReceipt};
pub use sessions::RedisSessions;
