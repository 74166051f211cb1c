//! Who is already at work on a request.
//!
//! A client that lost its connection sends the same request again. The first to claim it does the work; whoever comes
//! while that lasts is told so, whoever comes later is told that it is done, and nobody pays twice. The same name with
//! another request behind it is a mistake of the client and named as one. A worker that died frees its claim when the
//! claim has lasted.

use crate::StoreError;
use seawall_core::time::Now;
use std::future::Future;
use std::time::Duration;

/// A request as its caller named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimAsk<'a> {
    /// Whose request; another caller's name is another name.
    pub caller: u64,
    /// What the caller called it. Stores never write it down as it is.
    pub name: &'a str,
    /// A hash of the request: the same name must mean the same request.
    pub fingerprint: u64,
    /// Nobody can still be at work on it after this.
    pub lasts: Duration,
    /// How long it is remembered after its end.
    pub keep: Duration,
}

/// The answer to who wants to work on a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor given up holds others up"]
pub enum ClaimDecision<C> {
    /// Nobody else does: go on.
    Yours(C),
    /// Somebody does.
    InProgress,
    /// It has been done.
    Done,
    /// Somebody was, and ended before it could say what became of it.
    OutcomeUnknown,
    /// Another request has this name.
    OtherRequest,
}

/// Claims to requests.
pub trait Claims: Send + Sync {
    /// The right to work on a request.
    type Claim: Send + 'static;

    /// Claims a request.
    fn claim(
        &self,
        ask: &ClaimAsk<'_>,
        now: Now,
    ) -> impl Future<Output = Result<ClaimDecision<Self::Claim>, StoreError>> + Send;

    /// It has been done; it will not be done again while it is remembered. A claim that was lost meanwhile changes
    /// nothing; it is lost from the moment on at which it has lasted.
    fn finish(&self, claim: Self::Claim, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// It was not done, and is free again. A claim that was lost meanwhile changes nothing.
    fn give_up(&self, claim: Self::Claim, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;
}
