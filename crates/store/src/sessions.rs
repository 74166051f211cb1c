//! Conversations: what was said last, and how many tokens it took.

use crate::StoreError;
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::time::{Now, UtcTime};
use std::future::Future;
use std::time::Duration;

/// A conversation to which nothing was added for this long is forgotten: its turns, its tokens and its requests.
pub const SESSION_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// So many of a conversation's last turns are kept, and so many of its last requests are known when they come again.
pub const MOST_TURNS: usize = 256;

/// A conversation as its caller named it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// Whose conversation; another caller's name is another conversation.
    pub caller: u64,
    /// What the caller called it. Stores never write it down as it is.
    pub name: Box<str>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// Who spoke.
    pub role: Role,
    /// What was said.
    pub text: Box<str>,
    /// Its tokens, as well as we know.
    pub tokens: u64,
    /// When.
    pub at: UtcTime,
}

/// The turns of conversations, and what they have used.
pub trait Sessions: Send + Sync {
    /// Adds what was said for one request, and the tokens it took, all or nothing. The same request again changes nothing,
    /// not even how long the conversation is remembered.
    fn append(
        &self,
        session: &SessionKey,
        request: u128,
        turns: &[StoredTurn],
        used: SessionUse,
        now: Now,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The last `most` turns that are kept, oldest first. Of a conversation that is unknown or forgotten, none.
    fn load(
        &self,
        session: &SessionKey,
        most: usize,
        now: Now,
    ) -> impl Future<Output = Result<Vec<StoredTurn>, StoreError>> + Send;

    /// What a conversation has used; nothing is held here.
    fn tokens(
        &self,
        session: &SessionKey,
        now: Now,
    ) -> impl Future<Output = Result<SessionTokens, StoreError>> + Send;
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// Of input.
    pub input: u64,
    /// Of output.
    pub output: u64,
}
