//! State that a fleet shares, in Redis or Valkey.
//!
//! **What it does.** Every operation is one Lua script on one hash tag, so that it is atomic wherever its keys are.
//! Time is the server's: no node's clock decides anything. Every key is written with an expiry.
//!
//! **When it acts.** On each call, with one round trip. A server that has lost its script cache gets the script again
//! within the same call.
//!
//! **What it does not do.** It is not the authority over the daily budget of all callers: that is the ledger, which is
//! stored elsewhere. It does not work without the server: operations then fail with
//! [`StoreError::Unavailable`](crate::StoreError::Unavailable), and [`SharedQuotas`](crate::SharedQuotas) provides the fallback. The
//! keys and their expiry are documented in `docs/storage.md`.

mod answers;
mod board;
mod claims;
mod connection;
mod key;
#[cfg(feature = "embedded")]
mod open;
mod packing;
mod probes;
mod quotas;
mod script;
mod sentinel;
mod sessions;
mod silence;

pub use crate::quotas::Placement;
pub use answers::RedisAnswers;
pub use board::RedisBoard;
pub use claims::{RedisClaim, RedisClaims};
pub use connection::{RedisConnection, RedisOptions};
#[cfg(feature = "embedded")]
pub(crate) use open::{check, open};
pub use probes::RedisProbes;
pub use quotas::RedisQuotas;
pub use sessions::RedisSessions;
