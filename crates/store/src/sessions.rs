//! Conversations: their last turns, and how many tokens they have used.

use crate::StoreFuture;
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::time::{Now, UtcTime};
use std::time::Duration;

/// A conversation expires this long after its last addition, together with its turns, tokens and known requests.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 3_600);
/// How many of the last turns of a conversation are kept, and how many of its last requests are recognised as
/// duplicates.
pub const MAX_TURNS: usize = 256;

/// The key of a conversation, as its caller named it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// The owner of the conversation. Names of different callers are independent of each other.
    pub caller: u64,
    /// The name that the caller chose. Stores keep only a hash of it.
    pub name: Box<str>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// The speaker of the turn.
    pub role: Role,
    /// The text of the turn.
    pub text: Box<str>,
    /// The number of tokens, exact or estimated.
    pub tokens: u64,
    /// When the turn was added.
    pub at: UtcTime,
}

/// The turns of conversations, and their token usage.
pub trait Sessions: Send + Sync {
    /// Adds the turns of one request and its tokens, all or nothing. The same request again changes nothing, not even
    /// the expiry of the conversation.
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        request: u128,
        turns: &'a [StoredTurn],
        used: RequestTokens,
        now: Now,
    ) -> StoreFuture<'a, ()>;

    /// Returns the last `max` turns that are kept, oldest first. An unknown or expired conversation has none.
    fn load<'a>(&'a self, session: &'a SessionKey, max: usize, now: Now) -> StoreFuture<'a, Vec<StoredTurn>>;

    /// Returns the tokens that a conversation has used. This store keeps no token holds.
    fn tokens<'a>(&'a self, session: &'a SessionKey, now: Now) -> StoreFuture<'a, SessionTokens>;
}

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTokens {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}
