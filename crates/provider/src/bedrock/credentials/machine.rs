//! The metadata service of a machine (EC2), which gives out the keys of its role.
//!
//! Only in the way that begins with a session (the second version): the older one answers anybody who can make this
//! program fetch an address.

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

/// The keys of the machine that this program runs on.
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
