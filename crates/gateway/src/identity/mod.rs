//! Who asks, proven.
//!
//! [`proof_of`] finds the one proof that a request carries; a verifier per kind of proof turns it into an [`Identity`],
//! or into a refusal that says little to the caller and more to the log. It acts once per request, before anything is
//! spent on it.
//!
//! [`Gate`] is all of them together, as settings say. It alone fetches issuers' keys and draws random bytes; a verifier
//! opens no socket, reads no clock and draws no number: bytes, the moment and random bytes are handed in.
//!
//! None of it says what a caller is entitled to. An identity is a hash to ask a directory about, on the server's side;
//! nothing in a request can name a tier.
//!
//! | module | proof |
//! | --- | --- |
//! | `api_key` | a key of ours, or one that the settings list by its hash |
//! | [`token`] | a signed JSON Web Token of an issuer that the settings name |
//! | [`signature`] | an AWS signature (version 4) under a key that we issued |
//! | `guest` | a cookie that we signed, for who has nothing else |
//! | `address` | where a request came from, through the proxies that are trusted |
//!
//! | module | what else |
//! | --- | --- |
//! | `gate` | from settings to all verifiers, and from a request to who asks |
//! | `key_source` | fetches the keys of issuers |
//! | `master` | the one secret that others are derived from |
//! | [`issue`] | makes, lists and revokes keys |
//! | `desk` | the same in a folder that nobody else uses |
//!
//! Every credential is a SHA-256 digest. An API key's is that of its text, so that settings can list it without knowing it;
//! the others hash a kind and a NUL before the name. No key holds a NUL, so no name can be made to look like a key.

mod address;
mod api_key;
mod desk;
mod encoding;
mod gate;
mod guest;
mod hash;
pub mod issue;
mod key_source;
mod master;
mod proof;
mod refusal;
pub mod signature;
pub mod token;

pub use address::{MonthSalt, address_key, client_address};
pub use api_key::{KeyRefusal, NewKey, create_key, credential_of_key, identify_key, parse_key_hash};
pub use desk::{DeskError, KeyDesk};
pub use gate::{Gate, GateError, KeysWanted, Shown, SignedHead, caller_options};
pub use guest::{GUEST_COOKIE, GuestCookie, GuestOptions, GuestRefusal, Guests};
pub(crate) use hash::Sha256Stream;
pub use master::{MasterSecret, MasterSecretError};
pub use proof::{Proof, ProofError, RequestHead, proof_of};
pub use refusal::{NobodyRefusal, Refusal};
pub use seawall_config::AddressRange;

use seawall_core::time::UtcTime;

/// A caller whose proof holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What to ask the directory about. The only form in which a caller may be named in a log.
    pub credential: [u8; 32],
    /// What the proof was.
    pub origin: Origin,
    /// The moment from which the proof is worth nothing, where it has one.
    pub expires: Option<UtcTime>,
}

/// What kind of proof an identity rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An API key.
    Key,
    /// A signed token.
    Token,
    /// A signature over the request.
    Signature,
    /// A guest's cookie.
    Guest,
}

impl Origin {
    /// The name in logs and metrics.
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
    use super::Origin;

    #[test]
    fn each_origin_has_a_name_of_its_own() {
        let all = [Origin::Key, Origin::Token, Origin::Signature, Origin::Guest];
        assert_eq!(all.map(Origin::name), ["key", "token", "signature", "guest"]);
    }
}
