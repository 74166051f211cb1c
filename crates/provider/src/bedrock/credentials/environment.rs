//! Credentials in environment variables.

use super::not_loaded;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, Result as Provided, future};
use std::fmt;
use std::sync::Arc;

/// Environment variables by name. Clones read the same source.
#[derive(Clone)]
pub struct Environment(Arc<ReadVariable>);

type ReadVariable = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn from_process() -> Self {
        Self::from_fn(|name| std::env::var(name).ok())
    }

    /// Variables from another source.
    #[must_use]
    pub fn from_fn(read: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The value of a variable; an empty one counts as unset.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Environment")
    }
}

/// Credentials in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, optionally, `AWS_SESSION_TOKEN`.
#[derive(Clone, Debug)]
pub struct EnvironmentCredentials(Environment);

impl EnvironmentCredentials {
    /// Reads the environment of this process.
    #[must_use]
    pub fn from_process() -> Self {
        Self(Environment::from_process())
    }

    /// Reads variables from another source.
    #[must_use]
    pub fn from_fn(read: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Environment::from_fn(read))
    }
}

pub(super) fn environment_credentials(environment: &Environment) -> Provided {
    let need =
        |name: &'static str| environment.get(name).ok_or_else(|| not_loaded(format!("{name} is not set")));
    let (id, secret) = (need("AWS_ACCESS_KEY_ID")?, need("AWS_SECRET_ACCESS_KEY")?);
    Ok(Credentials::new(id, secret, environment.get("AWS_SESSION_TOKEN"), None, "environment"))
}

impl ProvideCredentials for EnvironmentCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(environment_credentials(&self.0))
    }
}
