//! The directory of known callers.
//!
//! This is the only source for what a caller is entitled to. A caller is found by the hash of its credential: an API
//! key, or a subject that an issuer vouches for. The key itself is never stored.

use crate::StoreFuture;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};

/// The hash of a caller's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialHash(pub [u8; 32]);

/// A caller as the directory stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRecord {
    /// The caller's number in quotas and in the ledger.
    pub caller: u64,
    /// A display name.
    pub name: Box<str>,
    /// The tier that the caller is entitled to.
    pub tier: Tier,
    /// The highest grade of model that an operator allows this caller, if restricted.
    pub ceiling: Option<Ceiling>,
    /// When the caller was added.
    pub created: UtcTime,
    /// When the credential was revoked, if it was.
    pub revoked: Option<UtcTime>,
}

/// The outcome of adding a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an existing caller was not changed"]
pub enum AddDecision {
    /// The caller was added.
    Added,
    /// The credential is already in the directory, for this or another caller. Nothing has changed.
    AlreadyExists,
}

/// The known callers, keyed by credential.
pub trait Directory: Send + Sync {
    /// Finds the caller with this credential. Revoked callers are returned, too.
    fn find<'a>(&'a self, credential: &'a CredentialHash) -> StoreFuture<'a, Option<CallerRecord>>;

    /// Adds a caller.
    fn add<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, AddDecision>;

    /// Revokes a credential. Returns whether it was known. When it is revoked twice, the first time stamp stays.
    fn revoke<'a>(&'a self, credential: &'a CredentialHash, at: UtcTime) -> StoreFuture<'a, bool>;

    /// Changes what a caller is entitled to. Returns whether it was known.
    fn entitle<'a>(
        &'a self,
        credential: &'a CredentialHash,
        tier: Tier,
        ceiling: Option<Ceiling>,
    ) -> StoreFuture<'a, bool>;

    /// Lists all callers in the order of their credentials, at most `max` per page, starting after this one.
    fn list(
        &self,
        after: Option<CredentialHash>,
        max: usize,
    ) -> StoreFuture<'_, Vec<(CredentialHash, CallerRecord)>>;
}
