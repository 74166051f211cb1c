//! The second stage: who asks, by our own books.
//!
//! A caller is known by the hash of its key; the key itself is kept nowhere. What tier a caller has is read from
//! the directory and never from the request.

use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use seawall_core::vocabulary::Tier;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// A number for this caller, the same as long as the key is.
    pub id: u64,
    /// What it is entitled to.
    pub tier: Tier,
}

type KeyHash = [u8; 32];

/// The callers we know, by the hash of their key.
#[derive(Clone, Debug, Default)]
pub struct Directory(BTreeMap<KeyHash, Tier>);

/// A key that cannot be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It could be guessed.
    #[error("a key must have at least 16 characters")]
    TooShort,
    /// It is there already.
    #[error("the key is listed twice")]
    Repeated,
}

impl Directory {
    /// Takes in a key and keeps its hash.
    pub fn add(&mut self, key: &str, tier: Tier) -> Result<(), KeyError> {
        if key.len() < 16 {
            return Err(KeyError::TooShort);
        }
        self.add_hash(hash(key), tier)
    }

    /// Takes in a key that is known by its hash alone.
    pub fn add_hash(&mut self, hash: [u8; 32], tier: Tier) -> Result<(), KeyError> {
        match self.0.insert(hash, tier) {
            None => Ok(()),
            Some(_) => Err(KeyError::Repeated),
        }
    }

    fn find(&self, key: &str) -> Option<Caller> {
        // Nothing proves nothing, even if somebody has listed its hash.
        if key.is_empty() {
            return None;
        }
        let hash = hash(key);
        let tier = *self.0.get(&hash)?;
        let id = hash.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte));
        Some(Caller { id, tier })
    }
}

fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// A request whose caller is known.
pub(crate) struct IdentifiedRequest {
    pub(crate) request: ReceivedRequest,
    pub(crate) caller: Caller,
}

pub(crate) fn identify(request: ReceivedRequest) -> Result<IdentifiedRequest, Rejection> {
    let caller = request.api_key.as_deref().and_then(|key| request.rules.directory.find(key));
    let caller = caller.ok_or(Rejection::UnknownKey)?;
    Ok(IdentifiedRequest { request, caller })
}

#[cfg(test)]
mod tests {
    use super::{Directory, KeyError, Tier};

    #[test]
    fn a_key_is_found_by_itself_and_by_nothing_near_it() {
        let mut directory = Directory::default();
        directory.add("sk-0123456789abcdef", Tier::Prime).unwrap();
        directory.add("sk-fedcba9876543210", Tier::Guest).unwrap();
        let prime = directory.find("sk-0123456789abcdef").unwrap();
        assert_eq!(prime.tier, Tier::Prime);
        assert_ne!(prime.id, directory.find("sk-fedcba9876543210").unwrap().id);
        for wrong in ["", "sk-0123456789abcde", "sk-0123456789abcdef ", "SK-0123456789ABCDEF"] {
            assert_eq!(directory.find(wrong), None);
        }
        assert!(!format!("{directory:?}").contains("sk-"), "keys are kept nowhere");
    }

    #[test]
    fn nobody_is_known_by_an_empty_key() {
        let mut directory = Directory::default();
        directory.add_hash(super::hash(""), Tier::Prime).unwrap();
        directory.add_hash(super::hash("x"), Tier::Prime).unwrap();
        assert_eq!(directory.find(""), None);
        assert!(directory.find("x").is_some());
    }

    #[test]
    fn a_key_that_is_short_or_there_already_is_refused() {
        let mut directory = Directory::default();
        assert_eq!(directory.add("short", Tier::Prime), Err(KeyError::TooShort));
        assert_eq!(directory.add("0123456789abcdef", Tier::Prime), Ok(()));
        assert_eq!(directory.add("0123456789abcdef", Tier::Guest), Err(KeyError::Repeated));
    }
}
