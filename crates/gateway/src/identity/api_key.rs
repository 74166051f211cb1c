//! API keys: generated once, stored as a hash.
//!
//! A key of ours is `sw_<id>_<secret>`, with 80 random bits as its id and 256 as its secret. The plain text exists when
//! the key is created and at its owner; we store the SHA-256 of the whole text. A key from elsewhere is listed in the
//! settings by the same hash.
//!
//! **Why is a plain lookup by hash safe?** The lookup is not constant-time: it may take longer the more of a hash
//! matches. That reveals nothing useful. An attacker who wants to approach a stored hash must find texts by the
//! beginning of their hash, and a fully known hash does not lead back to 256 random bits. A listed key must therefore
//! be as random as one of ours; a dictionary word has no protection in any scheme. Slow hashes are for passwords, and
//! would only let callers waste our CPU time.
//!
//! This module does not decide whether a key is known; the caller directory does.

use super::encoding::{base32, decode_hex, is_base32};
use super::hash::sha256;
use super::refusal::{INVALID_CREDENTIAL, refusals};
use super::{Identity, IdentityKind};
use seawall_core::setting::SettingError;

const PREFIX: &str = "sw_";
/// The base32 lengths of 10 and 32 bytes.
const ID_LENGTH: usize = 16;
const SECRET_LENGTH: usize = 52;

refusals! {
    /// Why a key was rejected before it was looked up.
    pub enum KeyRefusal {
        /// It has the prefix of our keys, but not their format.
        Malformed = "key_malformed", INVALID_CREDENTIAL;
    }
}

/// A newly created key.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The whole key, to be shown once and never stored.
    pub plaintext: String,
    /// The hash that the caller directory stores.
    pub hash: [u8; 32],
    /// The id for people to refer to it. It is no secret.
    pub id: String,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Creates a key from these random bytes. They must come from the operating system: the generator that spreads retries
/// is predictable.
#[must_use]
pub fn create_key(random: &[u8; 42]) -> NewKey {
    let (name, secret) = random.split_at(10);
    let id = base32(name);
    let plaintext = format!("{PREFIX}{id}_{}", base32(secret));
    NewKey { hash: sha256(plaintext.as_bytes()), plaintext, id }
}

/// The identity of this key. Whether it is known is for the caller directory to decide.
pub fn identify_key(key: &str) -> Result<Identity, KeyRefusal> {
    if key.starts_with(PREFIX) && !has_our_format(key) {
        return Err(KeyRefusal::Malformed);
    }
    Ok(Identity { hash: hash_api_key(key), kind: IdentityKind::Key, expires: None })
}

/// The hash under which the caller directory stores a key.
#[must_use]
pub fn hash_api_key(key: &str) -> [u8; 32] {
    sha256(key.as_bytes())
}

/// Parses the hash of a key from settings: `sha256:` and 64 lower-case hexadecimal digits.
///
/// ```
/// use seawall_gateway::identity::{hash_api_key, parse_key_hash};
///
/// let listed = "sha256:2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";
/// assert_eq!(parse_key_hash(listed), Ok(hash_api_key("key")));
/// ```
pub fn parse_key_hash(text: &str) -> Result<[u8; 32], SettingError> {
    // The error does not repeat the text: it may be the key itself instead of its hash.
    text.strip_prefix("sha256:")
        .and_then(decode_hex)
        .ok_or_else(|| SettingError::new("key hash", "must be sha256: and 64 lower-case hexadecimal digits"))
}

fn has_our_format(key: &str) -> bool {
    let parts = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(id, secret)| {
        id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH && is_base32(id) && is_base32(secret)
    })
}

#[cfg(test)]
mod tests {
    use super::{KeyRefusal, create_key, hash_api_key, identify_key, parse_key_hash};
    use crate::identity::IdentityKind;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn a_new_key_names_itself_and_hides_its_secret() {
        let mut random = [0; 42];
        random[9] = 1;
        random[41] = 8;
        let key = create_key(&random);
        assert_eq!(key.id, "aaaaaaaaaaaaaaab");
        assert_eq!(key.plaintext, format!("sw_aaaaaaaaaaaaaaab_{}ea", "a".repeat(50)));
        assert_eq!(format!("{key:?}"), "NewKey { id: \"aaaaaaaaaaaaaaab\", .. }");
        assert_eq!(key.hash, hash_api_key(&key.plaintext));
    }

    #[test]
    fn a_key_from_elsewhere_is_known_by_its_hash() {
        let identity = identify_key("any opaque key, with a sw_ inside").unwrap();
        let listed = format!("sha256:{}", hex::encode(identity.hash));
        assert_eq!(parse_key_hash(&listed), Ok(identity.hash));
        assert_eq!((identity.kind, identity.expires), (IdentityKind::Key, None));
        for wrong in
            ["", "sha256:", &listed[7..], &listed.to_uppercase(), &format!("{listed}0"), "secret-key"]
        {
            let error = parse_key_hash(wrong).unwrap_err().to_string();
            assert_eq!(error, "key hash: must be sha256: and 64 lower-case hexadecimal digits");
        }
    }

    #[test]
    fn a_malformed_key_with_our_prefix_is_not_looked_up() {
        let (id, secret) = ("a".repeat(16), "b".repeat(52));
        assert!(identify_key(&format!("sw_{id}_{secret}")).is_ok());
        for wrong in [
            "sw_".to_owned(),
            format!("sw_{id}"),
            format!("sw_{id}_"),
            format!("sw_{id}_{secret}b"),
            format!("sw_{id}_{}", &secret[1..]),
            format!("sw_{id}a_{secret}"),
            format!("sw_{}_{secret}", &id[1..]),
            format!("sw_{id}_{}1", &secret[1..]),
            format!("sw_{}A_{secret}", &id[1..]),
            format!("sw_{id}_{}_", &secret[1..]),
        ] {
            assert_eq!(identify_key(&wrong), Err(KeyRefusal::Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_new_key_is_known_and_another_is_somebody_else(one in any::<[u8; 32]>(), ten in any::<[u8; 10]>(), bit in 0_usize..336) {
            let mut random = [0; 42];
            random[..10].copy_from_slice(&ten);
            random[10..].copy_from_slice(&one);
            let key = create_key(&random);
            prop_assert_eq!(identify_key(&key.plaintext).map(|identity| identity.hash), Ok(key.hash));
            random[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(create_key(&random).hash != key.hash);
        }

        #[test]
        fn a_key_with_one_changed_bit_is_refused_or_somebody_else(at in 0_usize..72, bit in 0_u8..7) {
            let key = create_key(&[0x5a; 42]);
            let mut changed = key.plaintext.clone().into_bytes();
            changed[at] ^= 1 << bit;
            let changed = String::from_utf8(changed).unwrap();
            prop_assert!(identify_key(&changed).map(|identity| identity.hash) != Ok(key.hash));
        }
    }
}
