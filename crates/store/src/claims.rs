//! Idempotency keys: which requests are in progress or already done.
//!
//! A client that lost its connection sends the same request again. The first one claims the key and does the work. A
//! duplicate that arrives meanwhile gets `InProgress`, a later one gets `Completed`, so that no request is paid for twice.
//! The same key with a different request is a mistake of the client and reported as such. The claim of a worker that
//! crashed expires after its time limit.

use crate::StoreError;
use seawall_core::time::Now;
use std::future::Future;
use std::time::Duration;

/// A request with the idempotency key that its caller chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRequest<'a> {
    /// The caller that sent the request. Keys of different callers are independent of each other.
    pub caller: u64,
    /// The idempotency key. Stores keep only a hash of it.
    pub key: &'a str,
    /// A hash of the request: the same key must mean the same request.
    pub fingerprint: u64,
    /// The claim expires after this time, because no worker can still be processing the request.
    pub timeout: Duration,
    /// How long the key is remembered after the request has ended.
    pub retention: Duration,
}

/// The outcome of an attempt to claim a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor released blocks retries until it expires"]
pub enum ClaimDecision<C> {
    /// The claim was granted: process the request.
    Granted(C),
    /// The request is being processed.
    InProgress,
    /// The request has been processed.
    Completed,
    /// The worker that held the claim ended before it could record the outcome.
    OutcomeUnknown,
    /// The key was used for a different request.
    KeyReused,
}

/// A store of idempotency keys.
pub trait Claims: Send + Sync {
    /// The right to process a request.
    type Claim: Send + 'static;

    /// Claims a request, or reports why that is not possible.
    fn claim(
        &self,
        request: &ClaimRequest<'_>,
        now: Now,
    ) -> impl Future<Output = Result<ClaimDecision<Self::Claim>, StoreError>> + Send;

    /// Marks the request as done; it will not be processed again while its key is remembered. A claim that was lost
    /// meanwhile changes nothing. A claim counts as lost from the moment at which it expires.
    fn finish(&self, claim: Self::Claim, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Marks the request as not done, which frees its key. A claim that was lost meanwhile changes nothing.
    fn release(&self, claim: Self::Claim, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;
}
