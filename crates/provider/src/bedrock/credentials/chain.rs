//! The default credential chain, and the role from the settings.

use super::container::keys_of_container;
use super::environment::{Environment, keys_in};
use super::key_server::KeyServers;
use super::machine::keys_of_machine;
use super::profile::{Found, With, chosen};
use super::sts::{Role, SESSION, TokenService};
use super::{absent, failed};
use crate::client::Surroundings;
use crate::way::TlsSettings;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{
    ProvideCredentials, Result as Provided, SharedCredentialsProvider, future,
};
use seawall_core::setting::SettingError;
use std::fmt;
use std::pin::Pin;

/// Where credentials come from.
#[derive(Clone)]
pub struct CredentialOptions {
    /// The region whose STS endpoint is used to assume roles.
    pub region: String,
    /// The role to assume with the credentials found, if any.
    pub role: Option<String>,
    /// The external ID that the role's trust policy requires.
    pub external_id: Option<String>,
    /// TLS trust; required to assume a role.
    pub tls: Option<TlsSettings>,
    /// The environment variables that locate credentials.
    pub environment: Environment,
}

impl CredentialOptions {
    /// The default chain. Nothing is requested before the first call.
    pub fn check(self, around: &Surroundings) -> Result<SharedCredentialsProvider, SettingError> {
        super::super::check_region(&self.region)?;
        if let Some(role) = &self.role
            && (!role.starts_with("arn:") || !role.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(SettingError::new("role", format!("{role:?} is no ARN of a role")));
        }
        if self.external_id.is_some() && self.role.is_none() {
            return Err(SettingError::new(
                "external_id",
                "is said when a role is taken on, and none is named",
            ));
        }
        let servers = KeyServers { around: around.clone(), tls: self.tls.clone() };
        Ok(SharedCredentialsProvider::new(Chain { options: self, servers }))
    }
}

struct Chain {
    options: CredentialOptions,
    servers: KeyServers,
}

impl fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Chain")
    }
}

impl ProvideCredentials for Chain {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

impl Chain {
    async fn provide(&self) -> Provided {
        let keys = self.first().await?;
        let Some(role) = &self.options.role else { return Ok(keys) };
        let external_id = self.options.external_id.as_deref();
        self.token_service().assume(&Role { arn: role, session: SESSION, external_id }, keys).await
    }

    /// The credentials of the first source that has any.
    async fn first(&self) -> Provided {
        let Self { options: CredentialOptions { environment, .. }, servers } = self;
        if let Some(ended) = said(keys_in(environment)) {
            return ended;
        }
        let of_profile = match chosen(environment) {
            Ok(found) => self.of_profile(found).await,
            Err(error) => Err(error),
        };
        if let Some(ended) = said(of_profile) {
            return ended;
        }
        if let Some(ended) = said(self.of_web_identity().await) {
            return ended;
        }
        if let Some(ended) = said(keys_of_container(environment, servers).await) {
            return ended;
        }
        keys_of_machine(environment, servers).await
    }

    fn of_profile(&self, found: Found) -> Pin<Box<dyn Future<Output = Provided> + Send + '_>> {
        Box::pin(async move {
            let Self { options: CredentialOptions { environment, .. }, servers } = self;
            let (arn, session, external_id, with) = match found {
                Found::Keys(keys) => return Ok(keys),
                Found::Role { arn, session, external_id, with } => (arn, session, external_id, with),
            };
            let session = session.as_deref().unwrap_or(SESSION);
            let role = Role { arn: &arn, session, external_id: external_id.as_deref() };
            let keys = match with {
                With::Profile(found) => self.of_profile(*found).await?,
                With::Environment => keys_in(environment)?,
                With::Container => keys_of_container(environment, servers).await?,
                With::Machine => keys_of_machine(environment, servers).await?,
                With::Token(file) => {
                    return self.token_service().assume_with_token(&role, &token(&file)?).await;
                }
            };
            self.token_service().assume(&role, keys).await
        })
    }

    async fn of_web_identity(&self) -> Result<Credentials, CredentialsError> {
        let environment = &self.options.environment;
        let Some(file) = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") else {
            return Err(absent("no web identity"));
        };
        let Some(arn) = environment.get("AWS_ROLE_ARN") else {
            return Err(failed("web identity: AWS_ROLE_ARN is not set"));
        };
        let session = environment.get("AWS_ROLE_SESSION_NAME");
        let session = session.as_deref().unwrap_or(SESSION);
        let role = Role { arn: &arn, session, external_id: None };
        self.token_service().assume_with_token(&role, &token(&file)?).await
    }

    fn token_service(&self) -> TokenService<'_> {
        let CredentialOptions { region, environment, .. } = &self.options;
        TokenService { servers: &self.servers, region, environment }
    }
}

/// The result of a source; `None` if it has no credentials.
fn said(provided: Provided) -> Option<Provided> {
    match provided {
        Err(CredentialsError::CredentialsNotLoaded(_)) => None,
        ended => Some(ended),
    }
}

fn token(file: &str) -> Result<String, CredentialsError> {
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| failed(format!("web identity: {file}: {error}")))?.trim().to_owned())
}
