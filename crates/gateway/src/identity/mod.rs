//! Authentication of callers.
//!
//! [`extract_credential`] finds the one credential that a request carries. A verifier per kind of credential turns it into an
//! [`Identity`], or into a refusal that says little to the caller and more to the log. It runs once per request, before
//! anything is spent on it.
//!
//! [`Authenticator`] combines all verifiers according to the settings. Only the authenticator fetches issuers' keys and draws random
//! bytes. A verifier opens no socket, reads no clock and draws no random number: bytes, time and random bytes are
//! passed in.
//!
//! Nothing here decides what a caller is entitled to. An identity is a hash to look up in a server-side directory;
//! nothing in a request can name a tier.
//!
//! | module | credential |
//! | --- | --- |
//! | `api_key` | a key of ours, or one that the settings list by its hash |
//! | [`token`] | a JSON Web Token of an issuer that the settings name |
//! | [`signature`] | an AWS signature (version 4) under a key that we issued |
//! | `guest` | a cookie that we signed, for callers without any other credential |
//! | `address` | the client address, through trusted proxies |
//!
//! | module | what else |
//! | --- | --- |
//! | `authenticator` | builds all verifiers from settings, and authenticates requests |
//! | `key_source` | fetches the keys of issuers |
//! | `master` | the secret that others are derived from |
//! | `pseudonym` | pseudonyms of callers in logs |
//! | [`key_management`] | creates, lists and revokes keys |
//! | `offline_keys` | the same on a data directory that is not in use |
//!
//! Every credential is stored as a SHA-256 digest. That of an API key is the hash of its text, so that settings can
//! list it without containing it; the others hash a kind and a NUL before the name. No key contains a NUL, so no name
//! can be made to look like a key.

mod address;
mod api_key;
mod authenticator;
mod credential;
mod encoding;
mod guest;
mod hash;
pub mod key_management;
mod key_source;
mod master;
mod offline_keys;
mod pseudonym;
mod refusal;
pub mod signature;
pub mod token;

pub use address::{MonthSalt, address_key, client_address};
pub use api_key::{KeyRefusal, NewKey, create_key, hash_api_key, identify_key, parse_key_hash};
pub use authenticator::{
    AuthenticationDecision, Authenticator, AuthenticatorError, MissingKeys, PendingSignature, caller_options,
    key_contract,
};
pub use credential::{CredentialError, HttpRequestHead, RequestCredential, extract_credential};
pub use guest::{GUEST_COOKIE, GuestCookie, GuestOptions, GuestRefusal, Guests};
pub(crate) use hash::Sha256Stream;
pub use master::{MasterSecret, MasterSecretError};
pub use offline_keys::{OfflineKeyError, OfflineKeyStore};
pub use pseudonym::Pseudonyms;
pub use refusal::{AnonymousRefusal, AuthenticationRefusal};
pub use seawall_config::AddressRange;

use seawall_core::time::UtcTime;

/// The caller that a credential names. Tokens, signatures and cookies were verified; of an API key only the format was
/// checked, and the caller directory decides whether it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The hash of the credential: the key of the caller in the caller directory, and the only form of it that may be logged.
    pub hash: [u8; 32],
    /// The kind of the credential.
    pub kind: IdentityKind,
    /// When the credential expires, if it does.
    pub expires: Option<UtcTime>,
}

/// The kind of the credential that names a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKind {
    /// An API key.
    Key,
    /// A JSON Web Token.
    Token,
    /// A signature over the request.
    Signature,
    /// A guest's cookie.
    Guest,
}

impl IdentityKind {
    /// The label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
            Self::Signature => "signature",
            Self::Guest => "guest",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IdentityKind;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let all = [IdentityKind::Key, IdentityKind::Token, IdentityKind::Signature, IdentityKind::Guest];
        assert_eq!(all.map(IdentityKind::name), ["key", "token", "signature", "guest"]);
    }
}
