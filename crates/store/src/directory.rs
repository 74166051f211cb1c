//! The callers we know.
//!
//! What a caller is entitled to is read here and nowhere else. A caller is found by the hash of what it proves itself with:
//! a key, or an issuer's name for it. The key itself is kept nowhere.

use crate::StoreError;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use std::future::Future;

/// A hash of what a caller proves itself with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialHash(pub [u8; 32]);

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRecord {
    /// Its number.
    pub caller: u64,
    /// A name for people.
    pub name: Box<str>,
    /// What it is entitled to.
    pub tier: Tier,
    /// An operator's word on which models it may use at most.
    pub clamp: Option<Ceiling>,
    /// Since when it is known.
    pub created: UtcTime,
    /// Since when it may not ask any more.
    pub revoked: Option<UtcTime>,
}

/// What became of a new caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a caller that was there already was not changed"]
pub enum AddDecision {
    /// It is known from now on.
    Added,
    /// Its credential is another's, or its own from before. Nothing has changed.
    Known,
}

/// The callers we know, by their credentials.
pub trait Directory: Send + Sync {
    /// Who proves itself with this, revoked ones included.
    fn find(
        &self,
        credential: &CredentialHash,
    ) -> impl Future<Output = Result<Option<CallerRecord>, StoreError>> + Send;

    /// Takes in a caller.
    fn add(
        &self,
        credential: &CredentialHash,
        record: &CallerRecord,
    ) -> impl Future<Output = Result<AddDecision, StoreError>> + Send;

    /// This credential is good for nothing from now on. Whether it was known. The first time counts.
    fn revoke(
        &self,
        credential: &CredentialHash,
        at: UtcTime,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Changes what a caller is entitled to. Whether it was known.
    fn entitle(
        &self,
        credential: &CredentialHash,
        tier: Tier,
        clamp: Option<Ceiling>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// All callers in the order of their credentials, `most` at a time, after this one.
    fn list(
        &self,
        after: Option<CredentialHash>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(CredentialHash, CallerRecord)>, StoreError>> + Send;
}
