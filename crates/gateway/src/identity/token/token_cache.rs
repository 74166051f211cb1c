//! Cache of verified tokens.
//!
//! Verifying a signature takes tens of microseconds, and a client sends the same token for minutes. A valid token is
//! therefore cached by its digest, for as long as the token and its key are valid.
//!
//! The cache is set-associative: the digest selects one of many small rows, each behind its own lock. A full row evicts
//! expired entries, or else its oldest one; the token is then verified again, and nothing worse. Only valid tokens are
//! cached, so that a client cannot fill the rows with invalid ones.

use super::issuer::TokenIssuer;
use super::key::VerificationKey;
use crate::identity::{Identity, IdentityKind};
use seawall_core::time::{Now, UtcTime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ROW_CAPACITY: usize = 16;

/// A verified token.
#[derive(Clone, Debug)]
pub(super) struct VerifiedToken {
    pub(super) hash: [u8; 32],
    /// The validity period of the token.
    pub(super) from: UtcTime,
    pub(super) until: UtcTime,
    pub(super) key: Arc<VerificationKey>,
    /// Its issuer, which settings may have removed since.
    pub(super) issuer: Arc<TokenIssuer>,
}

impl VerifiedToken {
    pub(super) fn identity(&self) -> Identity {
        Identity { hash: self.hash, kind: IdentityKind::Token, expires: Some(self.until) }
    }

    fn is_valid_at(&self, now: Now) -> bool {
        self.from <= now.utc && now.utc < self.until && self.key.is_valid_at(now.monotonic)
    }
}

/// Digests of tokens, oldest first.
type CacheRow = Vec<([u8; 32], VerifiedToken)>;

/// The cache.
#[derive(Debug)]
pub(super) struct TokenCache {
    rows: Box<[Mutex<CacheRow>]>,
}

impl TokenCache {
    /// A cache for this many tokens, in whole rows, and at least one row.
    pub(super) fn new(tokens: usize) -> Self {
        let rows = (tokens / ROW_CAPACITY).max(1);
        Self { rows: (0..rows).map(|_| Mutex::default()).collect() }
    }

    /// The identity of this token, if it is cached and still valid.
    pub(super) fn get(&self, digest: &[u8; 32], now: Now) -> Option<(Identity, Arc<TokenIssuer>)> {
        let mut row = self.row(digest);
        let index = row.iter().position(|(cached, _)| cached == digest)?;
        if row[index].1.is_valid_at(now) {
            let token = &row[index].1;
            return Some((token.identity(), Arc::clone(&token.issuer)));
        }
        row.remove(index);
        None
    }

    /// Caches a token that was just verified.
    pub(super) fn insert(&self, digest: [u8; 32], token: VerifiedToken, now: Now) {
        let mut row = self.row(&digest);
        row.retain(|(cached, _)| *cached != digest);
        if row.len() >= ROW_CAPACITY {
            let expired = row.iter().position(|(_, token)| !token.is_valid_at(now));
            row.remove(expired.unwrap_or(0));
        }
        row.push((digest, token));
    }

    fn row(&self, digest: &[u8; 32]) -> MutexGuard<'_, CacheRow> {
        // A digest is uniformly distributed, so its first bytes select a row as well as any hash.
        let start = digest.first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
        let index = usize::try_from(start % self.rows.len() as u64).unwrap_or(0);
        self.rows[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{ROW_CAPACITY, TokenCache, VerifiedToken};
    use crate::identity::hash::sha256;
    use crate::identity::token::IssuerOptions;
    use crate::identity::token::key::VerificationKey;
    use proptest::collection;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::{Now, Timestamp, UtcTime};
    use std::sync::Arc;

    fn at(moment: u64) -> Now {
        Now::new(Timestamp::from_nanos(moment), UtcTime::from_nanos(moment))
    }

    fn token(of: u8, until: u64, key: &Arc<VerificationKey>) -> VerifiedToken {
        let (from, until) = (UtcTime::from_nanos(10), UtcTime::from_nanos(until));
        let issuer = Arc::new(IssuerOptions::new("issuer", "audience").check().unwrap());
        VerifiedToken { hash: [of; 32], from, until, key: Arc::clone(key), issuer }
    }

    #[test]
    fn a_token_is_known_while_it_and_its_key_hold() {
        let (memory, key) = (TokenCache::new(100), Arc::new(VerificationKey::secret(b"k")));
        let digest = sha256(b"token");
        let keep = || memory.insert(digest, token(1, 20, &key), at(10));
        for (moment, is_known) in [(9, false), (10, true), (19, true), (20, false)] {
            keep();
            assert_eq!(memory.get(&digest, at(moment)).is_some(), is_known, "at {moment}");
        }
        assert!(memory.get(&digest, at(15)).is_none(), "what is over is forgotten");
        keep();
        key.expire_at(Timestamp::from_nanos(12));
        assert!(memory.get(&digest, at(11)).is_some());
        assert!(memory.get(&digest, at(12)).is_none());
        assert!(memory.get(&sha256(b"other"), at(11)).is_none());
    }

    #[test]
    fn a_full_row_gives_up_what_is_over_and_then_the_oldest() {
        let (memory, key) = (TokenCache::new(1), Arc::new(VerificationKey::secret(b"k")));
        let known = |of: u8, moment| memory.get(&[of; 32], at(moment)).is_some();
        for of in 0..16 {
            memory.insert([of; 32], token(of, if of == 7 { 15 } else { 99 }, &key), at(10));
        }
        assert_eq!(ROW_CAPACITY, 16);
        memory.insert([16; 32], token(16, 99, &key), at(15));
        assert!(known(0, 15) && !known(7, 14) && known(16, 15));
        memory.insert([17; 32], token(17, 99, &key), at(15));
        assert!(!known(0, 15) && known(1, 15) && known(17, 15));
        // An entry that is added again becomes the newest.
        memory.insert([1; 32], token(1, 99, &key), at(15));
        memory.insert([18; 32], token(18, 99, &key), at(15));
        assert!(known(1, 15) && !known(2, 15) && known(3, 15));
    }

    #[test]
    fn there_are_as_many_rows_as_tokens_need() {
        for (tokens, rows) in [(0, 1), (15, 1), (16, 1), (31, 1), (32, 2), (100_000, 6_250)] {
            assert_eq!(TokenCache::new(tokens).rows.len(), rows);
        }
    }

    proptest! {
        #[test]
        fn what_is_recalled_was_remembered_and_there_is_never_too_much(
            steps in collection::vec((0_u8..60, 11_u64..40), 1..200),
        ) {
            let (memory, key) = (TokenCache::new(32), Arc::new(VerificationKey::secret(b"k")));
            let mut model = std::collections::BTreeMap::new();
            for (moment, (of, until)) in (11..).zip(steps) {
                let digest = sha256(&[of]);
                let now = at(moment);
                if let Some((seen, _)) = memory.get(&digest, now) {
                    prop_assert_eq!(Some(&(seen.hash, seen.expires)), model.get(&of));
                    prop_assert!(seen.expires > Some(now.utc));
                }
                let kept = token(of, moment + until, &key);
                model.insert(of, (kept.hash, Some(kept.until)));
                memory.insert(digest, kept, now);
                prop_assert!(memory.get(&digest, now).is_some());
                let all: usize = memory.rows.iter().map(|row| row.lock().unwrap().len()).sum();
                prop_assert!(all <= 32);
            }
        }
    }
}
