//! Sources of credentials for signing.
//!
//! [`CredentialOptions`] implements AWS's default chain: the environment, profile files, a role assumed with a web
//! identity, the container endpoint, the instance metadata service. If the settings name a role, it is assumed with the
//! credentials found. A source without credentials is skipped. A source that should have credentials but fails ends the
//! search, because the credentials of the next source would belong to another identity.
//!
//! **When it acts.** Credentials are requested when a call needs them and the cached ones expire within five minutes;
//! see `cache.rs`. Files and tokens are read again each time.
//!
//! **What it does not do.** It runs no programs (`credential_process`), does not support single sign-on, and uses only
//! IMDSv2 for instance credentials. The metadata addresses that are blocked for targets are reachable only from here,
//! by fixed addresses and never by name.

mod cache;
mod chain;
mod container;
mod discovery;
mod document;
mod endpoint;
mod environment;
mod instance;
mod profile;
mod sts;
#[cfg(test)]
mod tests;

pub(super) use cache::CredentialCache;
pub use chain::CredentialOptions;
pub use discovery::CredentialSource;
pub use environment::{Environment, EnvironmentCredentials};

use crate::headers::SecretString;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};

/// Credentials from the settings.
#[derive(Clone, Debug)]
pub struct StaticCredentials {
    access_key_id: String,
    secret: SecretString,
    session: Option<SecretString>,
}

impl StaticCredentials {
    /// An access key with its secret and, optionally, its session token.
    #[must_use]
    pub fn new(
        access_key_id: impl Into<String>,
        secret: SecretString,
        session: Option<SecretString>,
    ) -> Self {
        Self { access_key_id: access_key_id.into(), secret, session }
    }
}

impl ProvideCredentials for StaticCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let session = self.session.as_ref().map(|session| session.expose().to_owned());
        future::ProvideCredentials::ready(Ok(Credentials::new(
            &self.access_key_id,
            self.secret.expose(),
            session,
            None,
            "settings",
        )))
    }
}

/// The error of a source that should have credentials but fails. The message never contains a secret.
fn provider_error(message: impl Into<String>) -> CredentialsError {
    CredentialsError::provider_error(message.into())
}

/// The error of a source without credentials.
fn not_loaded(message: impl Into<String>) -> CredentialsError {
    CredentialsError::not_loaded(message.into())
}
