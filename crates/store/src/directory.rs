//! The directory of known callers.
//!
//! This is the only source for what a caller is entitled to. A caller is found by the hash of its credential: an API
//! key, or a subject that an issuer vouches for. The key itself is never stored.

use crate::StoreFuture;
use crate::usage::KeyLabels;
use seawall_core::budget::PeriodCaps;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};

/// The hash of a caller's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialHash(pub [u8; 32]);

impl CallerRecord {
    /// Takes over what an update may change.
    pub(crate) fn apply(&mut self, update: &Self) {
        let Self { caller, created, revoked, .. } = *self;
        *self = Self { caller, created, revoked, ..update.clone() };
    }
}

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
    /// What was agreed for an API key.
    pub contract: KeyContract,
}

/// What an API key may be used for, by whom and how much. All keys of one caller have the same contract; only the expiry
/// may differ, while a key that was replaced is still accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyContract {
    /// The team and the tags, by which spending is reported.
    pub labels: KeyLabels,
    /// When the credential expires.
    pub expires: Option<UtcTime>,
    /// Budgets by calendar window.
    pub budgets: PeriodCaps,
    /// Rate limits in the notation of settings, such as `60/min`; sorted, so that equal lists are equal texts.
    pub limits: Vec<Box<str>>,
    /// Patterns of the models and routes that may be used; all if there are none.
    pub models: Vec<Box<str>>,
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

    /// Replaces the record of a credential, except for its caller, its creation and its revocation. Returns whether it was
    /// known.
    fn update<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, bool>;

    /// Finds the credentials of all callers with this name, in the order of the credentials. Revoked ones are returned, too.
    fn named<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Vec<(CredentialHash, CallerRecord)>>;

    /// Lists all callers in the order of their credentials, at most `max` per page, starting after this one.
    fn list(
        &self,
        after: Option<CredentialHash>,
        max: usize,
    ) -> StoreFuture<'_, Vec<(CredentialHash, CallerRecord)>>;
}
