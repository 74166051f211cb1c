//! The instance metadata service of EC2, which returns the credentials of the instance's role.
//!
//! Only version 2 (IMDSv2), which starts with a session token. Version 1 is open to server-side request forgery.

use super::document::parse_json;
use super::endpoint::{CredentialEndpoint, CredentialEndpoints};
use super::environment::Environment;
use super::{not_loaded, provider_error};
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;

const SOURCE: &str = "instance metadata";
const DEFAULT_ENDPOINT: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The credentials of the instance that this process runs on.
pub(super) async fn instance_credentials(
    environment: &Environment,
    servers: &CredentialEndpoints,
) -> Provided {
    let is_off = environment.get("AWS_EC2_METADATA_DISABLED");
    if is_off.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(not_loaded("AWS_EC2_METADATA_DISABLED is true"));
    }
    let url = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let server = servers.local(url.as_deref().unwrap_or(DEFAULT_ENDPOINT))?;
    let token_ttl = ("x-aws-ec2-metadata-token-ttl-seconds".to_owned(), "300".to_owned());
    let token = fetch_text(&server, "PUT", "/latest/api/token", token_ttl).await?;
    let session = || ("x-aws-ec2-metadata-token".to_owned(), token.clone());
    let roles = fetch_text(&server, "GET", ROLES, session()).await?;
    let role = roles.lines().next().unwrap_or_default().trim();
    if role.is_empty() {
        return Err(not_loaded("this instance has no IAM role"));
    }
    let document = fetch_text(&server, "GET", &format!("{ROLES}{role}"), session()).await?;
    parse_json(document.as_bytes(), SOURCE)
}

async fn fetch_text(
    server: &CredentialEndpoint,
    method: &'static str,
    path: &str,
    header: (String, String),
) -> Result<String, CredentialsError> {
    let path = server.url().path(path);
    let response = server.send(method, &path, &[header], Bytes::new()).await?;
    match response.status {
        200 => Ok(String::from_utf8_lossy(&response.body).into_owned()),
        404 => Err(not_loaded("this instance has no IAM role")),
        status => Err(provider_error(format!("{SOURCE}: the endpoint returned status {status}"))),
    }
}
