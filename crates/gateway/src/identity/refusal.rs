//! Why a credential was refused.
//!
//! Each refusal has two texts. `Display` is for the caller: short, and identical wherever a difference would help an
//! attacker. [`logged`](Refusal::logged) is the exact cause, for the log. Neither contains anything from the request.

use super::api_key::KeyRefusal;
use super::guest::GuestRefusal;
use super::proof::ProofError;
use super::signature::SignatureRefusal;
use super::token::TokenRefusal;

/// The common message wherever a difference would help someone who guesses credentials.
pub(super) const NOT_VALID: &str = "the credentials are not valid";
/// Only the holder of a credential that was once valid learns that it has expired.
pub(super) const EXPIRED: &str = "the credentials have expired";
pub(super) const UNREADABLE: &str = "the credentials cannot be read";
pub(super) const ONE_PROOF: &str = "send one kind of credentials, and send it once";
/// Clients adjust their clock when they receive this.
pub(super) const CLOCK: &str = "the date of the request is too far from the server's";

/// Defines an enum of refusals: for each variant its label in the log and the message for the caller.
macro_rules! refusals {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $( $(#[$doc:meta])* $variant:ident = $logged:literal, $told:expr; )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $( $(#[$doc])* $variant, )+
        }

        impl $type {
            /// The exact cause, for the log.
            #[must_use]
            pub const fn logged(self) -> &'static str {
                match self {
                    $( Self::$variant => $logged, )+
                }
            }
        }

        impl std::fmt::Display for $type {
            /// The message for the caller.
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(match self {
                    $( Self::$variant => $told, )+
                })
            }
        }

        impl std::error::Error for $type {}
    };
}
pub(super) use refusals;

refusals! {
    /// Why a request without a credential was refused.
    pub enum NobodyRefusal {
        /// The settings allow no guests.
        NoGuests = "credentials_missing", "credentials are needed: send a key as x-api-key or authorization";
        /// The operating system returned no random bytes for a cookie.
        NoChance = "guest_no_chance", "no guest can be let in at the moment";
    }
}

/// Why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request does not carry exactly one readable credential.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The API key was refused.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
    /// The token was refused.
    #[error(transparent)]
    Token(#[from] TokenRefusal),
    /// The signature was refused.
    #[error(transparent)]
    Signature(#[from] SignatureRefusal),
    /// The guest cookie was refused.
    #[error(transparent)]
    Guest(#[from] GuestRefusal),
    /// There is no credential.
    #[error(transparent)]
    Nobody(#[from] NobodyRefusal),
}

impl Refusal {
    /// The exact cause, for the log.
    #[must_use]
    pub const fn logged(self) -> &'static str {
        match self {
            Self::Proof(refusal) => refusal.logged(),
            Self::Key(refusal) => refusal.logged(),
            Self::Token(refusal) => refusal.logged(),
            Self::Signature(refusal) => refusal.logged(),
            Self::Guest(refusal) => refusal.logged(),
            Self::Nobody(refusal) => refusal.logged(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPIRED, NOT_VALID, ONE_PROOF, Refusal};
    use crate::identity::signature::SignatureRefusal;
    use crate::identity::token::TokenRefusal;
    use crate::identity::{GuestRefusal, KeyRefusal, ProofError};

    #[test]
    fn the_caller_is_told_less_than_the_log() {
        let cases: [(Refusal, &str, &str); 6] = [
            (ProofError::TwoKinds.into(), ONE_PROOF, "proof_two_kinds"),
            (KeyRefusal::Shape.into(), NOT_VALID, "key_shape"),
            (TokenRefusal::KeyUnknown.into(), NOT_VALID, "token_key_unknown"),
            (TokenRefusal::Expired.into(), EXPIRED, "token_expired"),
            (SignatureRefusal::Wrong.into(), NOT_VALID, "signature_wrong"),
            (GuestRefusal::Wrong.into(), NOT_VALID, "guest_wrong"),
        ];
        for (refusal, told, logged) in cases {
            assert_eq!((refusal.to_string().as_str(), refusal.logged()), (told, logged));
        }
    }

    /// An attacker who tries keys, issuers and signatures must not learn which of them was nearly right.
    #[test]
    fn all_that_a_guesser_meets_sounds_alike() {
        use TokenRefusal as T;
        for refusal in
            [T::IssuerUnknown, T::KeyUnknown, T::SignatureWrong, T::AlgorithmNotAllowed, T::AudienceWrong]
        {
            assert_eq!(refusal.to_string(), NOT_VALID);
        }
        for refusal in [SignatureRefusal::KeyShape, SignatureRefusal::Wrong, SignatureRefusal::PayloadChanged]
        {
            assert_eq!(refusal.to_string(), NOT_VALID);
        }
    }
}
