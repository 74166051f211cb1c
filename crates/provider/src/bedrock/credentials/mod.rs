//! Where keys for signing come from.
//!
//! [`CredentialOptions`] is the vendor's usual order of places: the environment, the files of a profile, a role taken on
//! with a web identity, the service beside a container, the service of the machine. Where settings name a role, the keys
//! found there are used to take it on. A place that has nothing to say is passed over; one that should have keys and
//! fails is the end of the search, for the next place's keys would be somebody else's.
//!
//! **When it acts.** Keys are asked for when a request needs them and the ones at hand end within five minutes; see
//! `cache.rs`. Files and tokens are read anew each time.
//!
//! **What it will not do.** It starts no programs (`credential_process`), knows no single sign-on, and takes keys of a
//! machine only in the way that needs a session there. The metadata addresses that no target may have are reached here
//! alone, by fixed addresses and no names.

mod cache;
mod chain;
mod container;
mod document;
mod environment;
mod key_server;
mod machine;
mod profile;
mod sts;
#[cfg(test)]
mod tests;

pub(super) use cache::CredentialCache;
pub use chain::CredentialOptions;
pub use environment::{Environment, EnvironmentCredentials};

use crate::headers::Secret;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};

/// Keys that settings give.
#[derive(Clone, Debug)]
pub struct StaticCredentials {
    access_key_id: String,
    secret: Secret,
    session: Option<Secret>,
}

impl StaticCredentials {
    /// A key by its id and its secret, and the session that it belongs to, if any.
    #[must_use]
    pub fn new(access_key_id: impl Into<String>, secret: Secret, session: Option<Secret>) -> Self {
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

/// A place that should have keys and fails. The words never hold a key.
fn failed(words: impl Into<String>) -> CredentialsError {
    CredentialsError::provider_error(words.into())
}

/// A place that has nothing to say.
fn absent(words: impl Into<String>) -> CredentialsError {
    CredentialsError::not_loaded(words.into())
}
