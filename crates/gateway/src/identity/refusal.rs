//! Why a credential was rejected.
//!
//! Each refusal has two texts. `Display` is for the caller: short, and identical wherever a difference would help an
//! attacker. [`log_label`](AuthenticationRefusal::log_label) is the exact cause, for the log. Neither contains anything from the request.

use super::api_key::KeyRefusal;
use super::credential::CredentialError;
use super::guest::GuestRefusal;
use super::signature::SignatureRefusal;
use super::token::TokenRefusal;

/// The common message wherever a difference would help someone who guesses credentials.
pub(super) const INVALID_CREDENTIAL: &str = "the credential is invalid";
/// Only the holder of a credential that was once valid learns that it has expired.
pub(super) const EXPIRED_CREDENTIAL: &str = "the credential has expired";
pub(super) const MALFORMED_CREDENTIAL: &str = "the credential is malformed";
pub(super) const SEVERAL_CREDENTIALS: &str =
    "more than one credential: send exactly one, in x-api-key or in authorization";
/// Clients adjust their clock when they receive this.
pub(super) const CLOCK_SKEW: &str = "the request date differs from the server's clock by more than 5 minutes";

/// Defines an enum of refusals: for each variant its label in the log and the message for the caller.
macro_rules! refusals {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $( $(#[$doc:meta])* $variant:ident = $log_label:literal, $message:expr; )+
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
            pub const fn log_label(self) -> &'static str {
                match self {
                    $( Self::$variant => $log_label, )+
                }
            }
        }

        impl std::fmt::Display for $type {
            /// The message for the caller.
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(match self {
                    $( Self::$variant => $message, )+
                })
            }
        }

        impl std::error::Error for $type {}
    };
}
pub(super) use refusals;

refusals! {
    /// Why a request without a credential was rejected.
    pub enum AnonymousRefusal {
        /// The settings allow no guests.
        GuestsDisabled = "credential_missing", "authentication required: send an API key in x-api-key or authorization";
        /// The operating system returned no random bytes for a cookie.
        NoRandomness = "guest_no_randomness", "guest access is temporarily unavailable";
    }
}

/// Why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationRefusal {
    /// The request does not carry exactly one readable credential.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The API key was rejected.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
    /// The token was rejected.
    #[error(transparent)]
    Token(#[from] TokenRefusal),
    /// The signature was rejected.
    #[error(transparent)]
    Signature(#[from] SignatureRefusal),
    /// The guest cookie was rejected.
    #[error(transparent)]
    Guest(#[from] GuestRefusal),
    /// There is no credential.
    #[error(transparent)]
    Anonymous(#[from] AnonymousRefusal),
}

impl AuthenticationRefusal {
    /// The exact cause, for the log.
    #[must_use]
    pub const fn log_label(self) -> &'static str {
        match self {
            Self::Credential(refusal) => refusal.log_label(),
            Self::Key(refusal) => refusal.log_label(),
            Self::Token(refusal) => refusal.log_label(),
            Self::Signature(refusal) => refusal.log_label(),
            Self::Guest(refusal) => refusal.log_label(),
            Self::Anonymous(refusal) => refusal.log_label(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthenticationRefusal, EXPIRED_CREDENTIAL, INVALID_CREDENTIAL, SEVERAL_CREDENTIALS};
    use crate::identity::signature::SignatureRefusal;
    use crate::identity::token::TokenRefusal;
    use crate::identity::{CredentialError, GuestRefusal, KeyRefusal};

    #[test]
    fn the_log_has_more_detail_than_the_caller() {
        let cases: [(AuthenticationRefusal, &str, &str); 6] = [
            (CredentialError::Several.into(), SEVERAL_CREDENTIALS, "credential_several"),
            (KeyRefusal::Malformed.into(), INVALID_CREDENTIAL, "key_malformed"),
            (TokenRefusal::KeyUnknown.into(), INVALID_CREDENTIAL, "token_key_unknown"),
            (TokenRefusal::Expired.into(), EXPIRED_CREDENTIAL, "token_expired"),
            (SignatureRefusal::Mismatch.into(), INVALID_CREDENTIAL, "signature_mismatch"),
            (GuestRefusal::SignatureInvalid.into(), INVALID_CREDENTIAL, "guest_signature_invalid"),
        ];
        for (refusal, message, log_label) in cases {
            assert_eq!((refusal.to_string().as_str(), refusal.log_label()), (message, log_label));
        }
    }

    /// An attacker who tries keys, issuers and signatures must not learn which of them was nearly right.
    #[test]
    fn refusals_that_a_guesser_sees_are_identical() {
        use TokenRefusal as T;
        for refusal in [
            T::IssuerUnknown,
            T::KeyUnknown,
            T::SignatureInvalid,
            T::AlgorithmNotAllowed,
            T::AudienceMismatch,
        ] {
            assert_eq!(refusal.to_string(), INVALID_CREDENTIAL);
        }
        for refusal in
            [SignatureRefusal::KeyIdMalformed, SignatureRefusal::Mismatch, SignatureRefusal::PayloadMismatch]
        {
            assert_eq!(refusal.to_string(), INVALID_CREDENTIAL);
        }
    }
}
