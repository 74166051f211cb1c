//! Where keys for signing come from.

use crate::headers::Secret;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{
    ProvideCredentials, Result as Provided, SharedCredentialsProvider, future,
};
use seawall_core::time::UtcTime;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Keys that end are renewed this long before their end.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);

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

/// Keys in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where there is one, `AWS_SESSION_TOKEN`.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentCredentials {
    read: fn(&str) -> Option<String>,
}

impl EnvironmentCredentials {
    /// Reads the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self { read: |name| std::env::var(name).ok() }
    }

    /// Reads another one.
    #[must_use]
    pub const fn read_by(read: fn(&str) -> Option<String>) -> Self {
        Self { read }
    }

    fn look(self) -> Provided {
        let look = |name: &str| (self.read)(name).filter(|value| !value.is_empty());
        let need = |name: &'static str| {
            look(name).ok_or_else(|| CredentialsError::not_loaded(format!("{name} is not set")))
        };
        let (id, secret) = (need("AWS_ACCESS_KEY_ID")?, need("AWS_SECRET_ACCESS_KEY")?);
        Ok(Credentials::new(id, secret, look("AWS_SESSION_TOKEN"), None, "environment"))
    }
}

impl ProvideCredentials for EnvironmentCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(self.look())
    }
}

/// The keys of a source, until they end.
pub(super) struct CredentialCache {
    source: SharedCredentialsProvider,
    known: Mutex<Option<Credentials>>,
}

impl CredentialCache {
    pub(super) const fn new(source: SharedCredentialsProvider) -> Self {
        Self { source, known: Mutex::new(None) }
    }

    /// What is known and will hold for a while.
    pub(super) fn present(&self, date: UtcTime) -> Option<Credentials> {
        self.holding_until(date + RENEW_BEFORE)
    }

    /// What is known and still holds, for when the source fails.
    pub(super) fn remaining(&self, date: UtcTime) -> Option<Credentials> {
        self.holding_until(date)
    }

    fn holding_until(&self, date: UtcTime) -> Option<Credentials> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let date = SystemTime::UNIX_EPOCH + Duration::from_nanos(date.as_nanos());
        let holds = |known: &&Credentials| known.expiry().is_none_or(|end| end > date);
        known.as_ref().filter(holds).cloned()
    }

    /// Asks the source; nothing if it has none.
    pub(super) async fn renew(&self) -> Option<Credentials> {
        let renewed = self.source.provide_credentials().await.ok()?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(renewed.clone());
        Some(renewed)
    }
}
