//! The credential endpoint of a container (ECS, EKS Pod Identity), which returns the credentials of its role.
//!
//! Environment variables locate the endpoint. Without TLS it must be on this host or at one of its well-known
//! addresses: otherwise an attacker who controls DNS could obtain the authorization token.

use super::document::parse_json;
use super::endpoint::CredentialEndpoints;
use super::environment::Environment;
use super::{not_loaded, provider_error};
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use std::net::IpAddr;

const SOURCE: &str = "container";
const DEFAULT_ENDPOINT: &str = "http://169.254.170.2";
/// Addresses where the endpoint may be without TLS, besides loopback.
const ALLOWED_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// The credentials of the container that this process runs in.
pub(super) async fn container_credentials(
    environment: &Environment,
    servers: &CredentialEndpoints,
) -> Provided {
    let endpoint = ContainerEndpoint::from_environment(environment)?;
    let server = if endpoint.is_local {
        servers.local(&endpoint.server)?
    } else {
        servers.remote(&endpoint.server)?
    };
    let token = match environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => {
            let read = std::fs::read_to_string(&file);
            Some(
                read.map_err(|error| provider_error(format!("{SOURCE}: {file}: {error}")))?.trim().to_owned(),
            )
        }
        None => environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let headers: Vec<_> = token.map(|token| ("authorization".to_owned(), token)).into_iter().collect();
    let response = server.send("GET", &endpoint.path, &headers, Bytes::new()).await?;
    if response.status != 200 {
        return Err(provider_error(format!("{SOURCE}: the endpoint returned status {}", response.status)));
    }
    parse_json(&response.body, SOURCE)
}

/// The location of the endpoint.
#[derive(Debug, PartialEq, Eq)]
struct ContainerEndpoint {
    server: String,
    path: String,
    /// Whether it is on loopback or at an address that is blocked for targets.
    is_local: bool,
}

impl ContainerEndpoint {
    fn from_environment(environment: &Environment) -> Result<Self, CredentialsError> {
        let wrong = |problem: &str| Err(provider_error(format!("{SOURCE}: {problem}")));
        if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            if !path.starts_with('/') {
                return wrong("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash");
            }
            return Ok(Self { server: DEFAULT_ENDPOINT.to_owned(), path, is_local: true });
        }
        let Some(uri) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") else {
            return Err(not_loaded("no container credentials endpoint"));
        };
        let Some((scheme, rest)) = uri.split_once("://") else {
            return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI is not a valid URL");
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_local = is_local_host(host(authority));
        match scheme {
            "https" => {}
            "http" if is_local => {}
            "http" => {
                return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI must use https unless the host is local");
            }
            _ => return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI is not a valid URL"),
        }
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self { server: format!("{scheme}://{authority}"), path, is_local })
    }
}

fn host(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_local_host(host: &str) -> bool {
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || host == "localhost" || ALLOWED_HOSTS.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::{ContainerEndpoint, Environment};

    fn endpoint(relative: &'static str, full: &'static str) -> Result<(String, String, bool), String> {
        let environment = Environment::from_fn(move |name| match name {
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" => Some(relative.to_owned()),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(full.to_owned()),
            _ => None,
        });
        let endpoint =
            ContainerEndpoint::from_environment(&environment).map_err(|error| format!("{error:?}"))?;
        Ok((endpoint.server, endpoint.path, endpoint.is_local))
    }

    #[test]
    fn a_container_is_found_by_its_variables() {
        let found = |server: &str, path: &str, is_local| Ok((server.to_owned(), path.to_owned(), is_local));
        assert_eq!(
            endpoint("/v2/x?id=1", "http://elsewhere/"),
            found("http://169.254.170.2", "/v2/x?id=1", true)
        );
        for (uri, server, path, is_local) in [
            ("http://169.254.170.23/v1/c", "http://169.254.170.23", "/v1/c", true),
            ("http://[fd00:ec2::23]/v1/c", "http://[fd00:ec2::23]", "/v1/c", true),
            ("http://127.0.0.1:80", "http://127.0.0.1:80", "/", true),
            ("http://localhost:80/a?b", "http://localhost:80", "/a?b", true),
            ("https://keys.example.com/a", "https://keys.example.com", "/a", false),
        ] {
            assert_eq!(endpoint("", uri), found(server, path, is_local));
        }
    }

    #[test]
    fn a_token_is_sent_nowhere_else() {
        for (uri, problem) in [
            ("http://keys.example.com/a", "must use https unless the host is local"),
            ("http://169.254.169.254/a", "must use https unless the host is local"),
            ("http://localhost.example.com/a", "must use https unless the host is local"),
            ("ftp://127.0.0.1/a", "is not a valid URL"),
            ("/a", "is not a valid URL"),
        ] {
            let refusal = endpoint("", uri).unwrap_err();
            assert!(refusal.contains(problem), "{uri}: {refusal}");
        }
        assert!(endpoint("v2", "").unwrap_err().contains("must begin with a slash"));
        assert!(endpoint("", "").unwrap_err().contains("no container credentials endpoint"));
    }
}
