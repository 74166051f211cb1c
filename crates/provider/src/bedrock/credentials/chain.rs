//! The default credential chain, and the role from the settings.

use super::container::container_credentials;
use super::endpoint::CredentialEndpoints;
use super::environment::{Environment, environment_credentials};
use super::instance::instance_credentials;
use super::profile::{ProfileCredentials, RoleSource, active_profile};
use super::sts::{AssumeRoleInput, SESSION_NAME, StsClient};
use super::{not_loaded, provider_error};
use crate::client::ClientRuntime;
use crate::connect::ClientTlsSettings;
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
    pub tls: Option<ClientTlsSettings>,
    /// The environment variables that locate credentials.
    pub environment: Environment,
}

impl CredentialOptions {
    /// The default chain. Nothing is requested before the first call.
    pub fn check(self, runtime: &ClientRuntime) -> Result<SharedCredentialsProvider, SettingError> {
        super::super::check_region(&self.region)?;
        if let Some(role) = &self.role
            && (!role.starts_with("arn:") || !role.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(SettingError::new("role_arn", format!("{role:?} is not the ARN of a role")));
        }
        if self.external_id.is_some() && self.role.is_none() {
            return Err(SettingError::new(
                "external_id",
                "requires role_arn: it is sent when the role is assumed",
            ));
        }
        let servers = CredentialEndpoints { runtime: runtime.clone(), tls: self.tls.clone() };
        Ok(SharedCredentialsProvider::new(Chain { options: self, servers }))
    }
}

struct Chain {
    options: CredentialOptions,
    servers: CredentialEndpoints,
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
        let credentials = self.load_first().await?;
        let Some(role) = &self.options.role else { return Ok(credentials) };
        let external_id = self.options.external_id.as_deref();
        self.sts()
            .assume(&AssumeRoleInput { arn: role, session: SESSION_NAME, external_id }, credentials)
            .await
    }

    /// The credentials of the first source that has any.
    async fn load_first(&self) -> Provided {
        let Self { options: CredentialOptions { environment, .. }, servers } = self;
        if let Some(found) = unless_not_loaded(environment_credentials(environment)) {
            return found;
        }
        let profile = match active_profile(environment) {
            Ok(profile) => self.load_profile(profile).await,
            Err(error) => Err(error),
        };
        if let Some(found) = unless_not_loaded(profile) {
            return found;
        }
        if let Some(found) = unless_not_loaded(self.load_web_identity().await) {
            return found;
        }
        if let Some(found) = unless_not_loaded(container_credentials(environment, servers).await) {
            return found;
        }
        instance_credentials(environment, servers).await
    }

    fn load_profile(&self, found: ProfileCredentials) -> Pin<Box<dyn Future<Output = Provided> + Send + '_>> {
        Box::pin(async move {
            let Self { options: CredentialOptions { environment, .. }, servers } = self;
            let (arn, session, external_id, source) = match found {
                ProfileCredentials::Static(credentials) => return Ok(credentials),
                ProfileCredentials::Role { arn, session, external_id, source } => {
                    (arn, session, external_id, source)
                }
            };
            let session = session.as_deref().unwrap_or(SESSION_NAME);
            let role = AssumeRoleInput { arn: &arn, session, external_id: external_id.as_deref() };
            let credentials = match source {
                RoleSource::Profile(found) => self.load_profile(*found).await?,
                RoleSource::Environment => environment_credentials(environment)?,
                RoleSource::Container => container_credentials(environment, servers).await?,
                RoleSource::InstanceMetadata => instance_credentials(environment, servers).await?,
                RoleSource::WebIdentity(file) => {
                    return self.sts().assume_with_token(&role, &read_token_file(&file)?).await;
                }
            };
            self.sts().assume(&role, credentials).await
        })
    }

    async fn load_web_identity(&self) -> Result<Credentials, CredentialsError> {
        let environment = &self.options.environment;
        let Some(file) = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") else {
            return Err(not_loaded("no web identity"));
        };
        let Some(arn) = environment.get("AWS_ROLE_ARN") else {
            return Err(provider_error("web identity: AWS_ROLE_ARN is not set"));
        };
        let session = environment.get("AWS_ROLE_SESSION_NAME");
        let session = session.as_deref().unwrap_or(SESSION_NAME);
        let role = AssumeRoleInput { arn: &arn, session, external_id: None };
        self.sts().assume_with_token(&role, &read_token_file(&file)?).await
    }

    fn sts(&self) -> StsClient<'_> {
        let CredentialOptions { region, environment, .. } = &self.options;
        StsClient { servers: &self.servers, region, environment }
    }
}

/// The result of a source; `None` if it has no credentials.
fn unless_not_loaded(provided: Provided) -> Option<Provided> {
    match provided {
        Err(CredentialsError::CredentialsNotLoaded(_)) => None,
        found => Some(found),
    }
}

fn read_token_file(file: &str) -> Result<String, CredentialsError> {
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| provider_error(format!("web identity: {file}: {error}")))?.trim().to_owned())
}
