//! The instance metadata service of EC2, which returns the credentials of the instance's role.
//!
//! Only version 2 (IMDSv2), which starts with a session token. Version 1 is open to server-side request forgery.

use super::document::keys_in_json;
use super::environment::Environment;
use super::key_server::{KeyServer, KeyServers};
use super::{absent, failed};
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;

const SOURCE: &str = "machine";
const USUAL: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The credentials of the instance that this process runs on.
pub(super) async fn keys_of_machine(environment: &Environment, servers: &KeyServers) -> Provided {
    let is_off = environment.get("AWS_EC2_METADATA_DISABLED");
    if is_off.is_some_and(|word| word.eq_ignore_ascii_case("true")) {
        return Err(absent("AWS_EC2_METADATA_DISABLED is true"));
    }
    let url = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let server = servers.beside(url.as_deref().unwrap_or(USUAL))?;
    let life = ("x-aws-ec2-metadata-token-ttl-seconds".to_owned(), "300".to_owned());
    let token = text(&server, "PUT", "/latest/api/token", life).await?;
    let session = || ("x-aws-ec2-metadata-token".to_owned(), token.clone());
    let roles = text(&server, "GET", ROLES, session()).await?;
    let role = roles.lines().next().unwrap_or_default().trim();
    if role.is_empty() {
        return Err(absent("this machine has no role"));
    }
    let keys = text(&server, "GET", &format!("{ROLES}{role}"), session()).await?;
    keys_in_json(keys.as_bytes(), SOURCE)
}

async fn text(
    server: &KeyServer,
    method: &'static str,
    path: &str,
    header: (String, String),
) -> Result<String, CredentialsError> {
    let path = server.url().path(path);
    let said = server.ask(method, &path, &[header], Bytes::new()).await?;
    match said.status {
        200 => Ok(String::from_utf8_lossy(&said.body).into_owned()),
        404 => Err(absent("this machine has no role")),
        status => Err(failed(format!("{SOURCE}: refused with status {status}"))),
    }
}
