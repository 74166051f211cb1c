//! Who is already at work on a request.
//!
//! A client that lost its connection sends the same request again. The first to claim it does the work; whoever comes
//! while that lasts is told so, whoever comes later is told that it is done, and nobody pays twice. The same key with
//! another request behind it is a mistake of the client and named as one.

use crate::lock;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as its caller named it: the caller, and the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// Whose request; another caller's name is another name.
    pub caller: u64,
    /// What the caller called it.
    pub name: Box<str>,
}

#[derive(Debug)]
struct Entry {
    fingerprint: u64,
    /// When it may be forgotten; `None` while somebody is at work on it.
    until: Option<Timestamp>,
}

#[derive(Debug)]
struct Claimed {
    keep: Duration,
    entries: BTreeMap<ClaimKey, Entry>,
    /// Finished entries in the order in which they may be forgotten.
    by_end: BTreeMap<(Timestamp, ClaimKey), ()>,
}

/// Claims in memory. Cloning it gives another handle to the same claims.
///
/// ```
/// use seawall_core::time::Timestamp;
/// use seawall_store::{ClaimDecision, ClaimKey, MemoryClaims};
/// use std::time::Duration;
///
/// let claims = MemoryClaims::new(Duration::from_secs(600));
/// let key = || ClaimKey { caller: 7, name: "order-1".into() };
/// let ClaimDecision::Yours(claim) = claims.claim(key(), 42, Timestamp::ZERO) else { panic!() };
/// assert!(matches!(claims.claim(key(), 42, Timestamp::ZERO), ClaimDecision::InProgress));
/// claim.finish(Timestamp::ZERO);
/// assert!(matches!(claims.claim(key(), 42, Timestamp::ZERO), ClaimDecision::Done));
/// ```
#[derive(Clone, Debug)]
pub struct MemoryClaims(Arc<Mutex<Claimed>>);

/// The answer to who wants to work on a request.
#[derive(Debug)]
pub enum ClaimDecision {
    /// Nobody else does: go on.
    Yours(Claim),
    /// Somebody does.
    InProgress,
    /// It has been done.
    Done,
    /// Another request has this name.
    OtherRequest,
}

/// The right to work on a request. Dropped unfinished, the request is free again: it was not done.
#[derive(Debug)]
#[must_use = "dropping a claim gives the request up"]
pub struct Claim {
    claims: MemoryClaims,
    key: Option<ClaimKey>,
}

impl MemoryClaims {
    /// Finished requests are remembered for this long.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        let claimed = Claimed { keep, entries: BTreeMap::new(), by_end: BTreeMap::new() };
        Self(Arc::new(Mutex::new(claimed)))
    }

    /// Claims a request whose content has this fingerprint.
    pub fn claim(&self, key: ClaimKey, fingerprint: u64, now: Timestamp) -> ClaimDecision {
        let mut claimed = lock(&self.0);
        claimed.forget(now);
        match claimed.entries.get(&key) {
            Some(entry) if entry.fingerprint != fingerprint => ClaimDecision::OtherRequest,
            Some(Entry { until: None, .. }) => ClaimDecision::InProgress,
            Some(Entry { until: Some(_), .. }) => ClaimDecision::Done,
            None => {
                claimed.entries.insert(key.clone(), Entry { fingerprint, until: None });
                ClaimDecision::Yours(Claim { claims: self.clone(), key: Some(key) })
            }
        }
    }

    /// How many requests are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0).entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Claimed {
    fn forget(&mut self, now: Timestamp) {
        while let Some(first) = self.by_end.first_entry() {
            if first.key().0 > now {
                return;
            }
            let ((_, key), ()) = first.remove_entry();
            self.entries.remove(&key);
        }
    }
}

impl Claim {
    /// The request has been done; it will not be done again while it is remembered.
    pub fn finish(mut self, now: Timestamp) {
        let Some(key) = self.key.take() else { return };
        let mut claimed = lock(&self.claims.0);
        let until = now + claimed.keep;
        if let Some(entry) = claimed.entries.get_mut(&key) {
            entry.until = Some(until);
            claimed.by_end.insert((until, key), ());
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            lock(&self.claims.0).entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Claim, ClaimDecision, ClaimKey, MemoryClaims};
    use seawall_core::time::Timestamp;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn key(caller: u64, name: &str) -> ClaimKey {
        ClaimKey { caller, name: name.into() }
    }

    fn claims() -> MemoryClaims {
        MemoryClaims::new(Duration::from_secs(600))
    }

    fn yours(decision: ClaimDecision) -> Claim {
        match decision {
            ClaimDecision::Yours(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_finished_request_is_remembered_for_its_time_and_then_forgotten() {
        let claims = claims();
        assert!(claims.is_empty());
        yours(claims.claim(key(1, "a"), 5, at(0))).finish(at(10));
        assert!(matches!(claims.claim(key(1, "a"), 5, at(609)), ClaimDecision::Done));
        let again = yours(claims.claim(key(1, "a"), 5, at(610)));
        assert_eq!(claims.len(), 1);
        drop(again);
        assert!(claims.is_empty());
    }

    #[test]
    fn a_request_that_was_given_up_is_free_again() {
        let claims = claims();
        let first = yours(claims.claim(key(1, "a"), 5, at(0)));
        assert!(matches!(claims.claim(key(1, "a"), 5, at(10_000)), ClaimDecision::InProgress));
        drop(first);
        yours(claims.claim(key(1, "a"), 5, at(10_000))).finish(at(10_000));
    }

    #[test]
    fn another_request_or_another_caller_is_told_apart() {
        let claims = claims();
        let _first = yours(claims.claim(key(1, "a"), 5, at(0)));
        assert!(matches!(claims.claim(key(1, "a"), 6, at(0)), ClaimDecision::OtherRequest));
        let _second = yours(claims.claim(key(2, "a"), 6, at(0)));
        assert_eq!(claims.len(), 2);
    }

    #[test]
    fn of_a_thousand_at_once_one_does_the_work() {
        let claims = claims();
        let workers = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..125 {
                        if let ClaimDecision::Yours(claim) = claims.claim(key(1, "a"), 5, at(0)) {
                            workers.fetch_add(1, Ordering::Relaxed);
                            claim.finish(at(0));
                        }
                    }
                });
            }
        });
        assert_eq!(workers.into_inner(), 1);
    }
}
